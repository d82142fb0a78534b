//! A segment of placement with arbitrary contents, which the application truncates while it is read.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    hardmeter_split::segment::fuzz::read_patched(hardmeter_fuzz::folder(), bytes);
});
