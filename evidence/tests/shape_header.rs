//! ccopt's table equals the one that this crate computes.

#[test]
fn the_header_in_ccopt_is_current() {
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../plan/src/shape_boundaries.h");
    let found = std::fs::read_to_string(header).unwrap();
    let command = "cargo run -p hardmeter-evidence --example shape_boundaries > plan/src/shape_boundaries.h";
    assert_eq!(found, hardmeter_evidence::boundaries::shape_header(), "run {command}");
}
