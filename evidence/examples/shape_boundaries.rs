//! Prints the table by which ccopt leaves a shape to core:
//! `cargo run -p hardmeter-evidence --example shape_boundaries > plan/src/shape_boundaries.h`.

fn main() {
    print!("{}", hardmeter_evidence::boundaries::shape_header());
}
