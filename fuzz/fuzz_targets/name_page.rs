//! Any bytes as a page of PostgreSQL or InnoDB: each offset lies in the part that is named for it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hardmeter_objects::fuzzing::name_page(bytes));
