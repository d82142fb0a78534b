//! Any bytes at all, decoded as a trace of Arm SPE: no panic, no endless loop, and cut into pieces anywhere it is the
//! same trace.
#![no_main]

use hardmeter_samples::arm_spe::packet::LONGEST;
use hardmeter_samples::arm_spe::record::{decode, Step};
use hardmeter_samples::arm_spe::{Decoder, Midr};
use libfuzzer_sys::fuzz_target;
use std::hint::black_box;

fuzz_target!(|bytes: &[u8]| {
    // The first byte is the size of the pieces.
    let Some((size, trace)) = bytes.split_first() else { return };
    let size = usize::from(*size).max(LONGEST);
    let mut whole = Vec::new();
    let losses = decode(trace, &mut |record| whole.push(*record));
    assert!(losses.bytes <= trace.len() as u64);
    for record in &whole {
        assert!(record.instruction.is_some());
        black_box((
            record.mode(),
            record.data_source_word(Midr(0x413f_d0c1)),
            record.data_source_word(Midr(0)),
        ));
    }
    let mut decoder = Decoder::default();
    let (mut records, mut window, mut at) = (Vec::new(), Vec::new(), 0u64);
    for piece in trace.chunks(size) {
        window.extend_from_slice(piece);
        loop {
            let (taken, ended) = match decoder.step(&window, at) {
                Step::Record(record, taken) => {
                    records.push(record);
                    (taken, false)
                }
                Step::Rest(taken) => (taken, true),
            };
            window.drain(..taken);
            at += taken as u64;
            if ended {
                break;
            }
        }
        assert!(window.len() < LONGEST);
    }
    assert_eq!(decoder.finish(window.len()), losses);
    assert_eq!(records, whole);
});
