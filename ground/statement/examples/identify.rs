//! Prints the id and the normalised text of each statement given, or of each line of standard input.
//!
//! ```text
//! cargo run -p hardmeter-statement --example identify -- "SELECT * FROM t WHERE a = 5"
//! ```

use hardmeter_statement::{normalise, Dialect, StatementId};
use std::io::BufRead;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        std::io::stdin().lock().lines().try_for_each(|line| line.map(|line| print(&line)))
    } else {
        arguments.iter().for_each(|text| print(text));
        Ok(())
    }
}

fn print(text: &str) {
    let plain = normalise(Dialect::Postgres, text.as_bytes());
    println!("{} {}", StatementId::of_normalised(&plain), String::from_utf8_lossy(&plain));
}
