//! Any bytes as the private memory of a PostgreSQL backend: no panic, no endless walk, no unbounded memory.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hardmeter_objects::fuzzing::walk_contexts(bytes));
