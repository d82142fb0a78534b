//! Any bytes at all, read as a capture in both orders: no panic, no endless loop, no unbounded memory.
#![no_main]

use hardmeter_samples::model::Record;
use hardmeter_samples::perf_data::{CaptureReader, RecordOrder};
use libfuzzer_sys::fuzz_target;
use std::hint::black_box;
use std::ops::ControlFlow;

fuzz_target!(|bytes: &[u8]| {
    let Ok(reader) = CaptureReader::from_bytes(bytes.to_vec()) else { return };
    black_box((reader.header(), reader.events()));
    let mut counts = Vec::new();
    for order in [RecordOrder::File, RecordOrder::Time] {
        let mut samples = 0u64;
        let summary = reader
            .for_each(order, &mut |record| {
                if let Record::Sample(sample) = &record {
                    samples += 1;
                    for frame in sample.callchain.frames(sample.mode) {
                        black_box(frame);
                    }
                    for registers in [&sample.registers, &sample.user_registers].into_iter().flatten() {
                        (0..64).for_each(|index| {
                            black_box(registers.get_index(index));
                        });
                    }
                    if let Some(source) = sample.data_source {
                        black_box((source.operation(), source.level(), source.snoop(), source.tlb()));
                    }
                    black_box(sample.simulated());
                }
                black_box(&record);
                ControlFlow::Continue(())
            })
            .expect("memory does not fail to be read");
        assert_eq!(samples, summary.total_samples());
        black_box(summary.warnings());
        counts.push(samples);
    }
    assert_eq!(counts[0], counts[1], "both orders hand out the same samples");
});
