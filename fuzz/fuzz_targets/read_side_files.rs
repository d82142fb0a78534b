//! Any bytes as the files beside a capture, as a machine description, as a trace of sections and as the analyzer's state.
#![no_main]

use hardmeter_samples::machine::Machine;
use hardmeter_samples::object_notes::ObjectNotes;
use hardmeter_samples::sidecar::Sidecar;
use hardmeter_split::trace::Reader;
use libfuzzer_sys::fuzz_target;
use std::hint::black_box;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let capture = hardmeter_fuzz::folder().join("capture");
    let put = |path: &Path| std::fs::write(path, bytes).expect("written");
    match first % 4 {
        0 => {
            put(&Sidecar::path_for(&capture));
            black_box(Sidecar::load(&capture).is_ok());
        }
        1 => {
            put(&ObjectNotes::path_for(&capture));
            black_box(ObjectNotes::load(&capture).is_ok());
        }
        2 => {
            let text = String::from_utf8_lossy(bytes);
            black_box(Machine::parse("fuzz", &text).is_ok());
            black_box(hardmeter_split::simulate::machine::parse(&text).is_ok());
        }
        _ => {
            if let Ok(reader) = Reader::new(bytes) {
                black_box(reader.count());
            }
        }
    }
});
