//! Any bytes at all, decoded as a trace of Arm SPE: no panic, no endless loop, and cut into pieces anywhere it is the
//! same trace.
#![no_main]

use hardmeter_samples::arm_spe::packet::LONGEST;
use hardmeter_samples::arm_spe::record::decode;
use hardmeter_samples::arm_spe::{Midr, Window};
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
    let (mut records, mut window) = (Vec::new(), Window::default());
    for piece in trace.chunks(size) {
        window.rest().extend_from_slice(piece);
        while let Some(record) = window.next_record() {
            records.push(record);
        }
        assert!(window.rest().len() < LONGEST);
    }
    assert_eq!(window.finish(), losses);
    assert_eq!(records, whole);
});
