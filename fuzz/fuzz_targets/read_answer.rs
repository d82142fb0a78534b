//! Any bytes as the answers of a PostgreSQL server, in pieces of any size.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hardmeter_tpcc::wire::fuzz::read_pieces(bytes));
