//! Damaged captures: any bytes give an error, or a partial result that reports what is missing.

mod common;
#[path = "common/seeds.rs"]
mod seeds;

use common::each_sample;
use hardmeter_samples::model::Record;
use hardmeter_samples::perf_data::{
    CaptureReader, ReadError, ReadSummary, RecordOrder, SkipReason, TraceKind,
};
use std::ops::ControlFlow;

/// Reads everything in both orders.
fn read_all(bytes: &[u8]) -> Result<ReadSummary, ReadError> {
    let reader = CaptureReader::from_bytes(bytes.to_vec())?;
    let mut summary = ReadSummary::default();
    let mut totals = Vec::new();
    for order in [RecordOrder::File, RecordOrder::Time] {
        let mut samples = 0;
        summary = reader.for_each(order, &mut |record| {
            if let Record::Sample(sample) = &record {
                samples += 1;
                let frames = sample.callchain.frames(sample.mode).count();
                let registers = sample.registers.map_or(0, |registers| registers.values.len());
                std::hint::black_box((frames, registers, sample.simulated()));
            }
            ControlFlow::Continue(())
        })?;
        assert_eq!(samples, summary.total_samples(), "the summary counts what was handed out");
        totals.push((summary.records, summary.unparsable, summary.skipped.clone()));
    }
    // If a damaged counter runs backwards, the number of its samples depends on the order.
    assert_eq!(totals[0], totals[1], "order changes what is read");
    Ok(summary)
}

#[test]
fn whole_seeds_are_read_whole() {
    for (name, bytes) in seeds::all() {
        let summary = read_all(&bytes).expect(name);
        assert_eq!(summary.samples, [2, 2], "{name}: {summary:?}");
        assert_eq!(summary.total_samples(), seeds::SAMPLES);
        assert_eq!(summary.unparsable, 0, "{name}: {summary:?}");
        assert_eq!(summary.lost_samples, 1, "{name}: {summary:?}");
        let trace = summary.skipped.get(&SkipReason::UndecodedTrace(TraceKind(0))).map_or(0, |bytes| bytes.0);
        assert_eq!(trace, if name == "pipe" { 16 } else { 0 }, "{name}");
        assert_eq!(summary.skipped.len(), usize::from(name == "pipe"), "{name}: {summary:?}");
        let reader = CaptureReader::from_bytes(bytes).expect(name);
        let names: Vec<&str> = reader.events().iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["l1d-miss", "l2-miss"], "{name}");
        if name == "file" || name == "pipe" {
            assert_eq!(reader.header().hostname.as_deref(), Some("host"), "{name}");
        }
    }
}

/// Truncated at every length: never more samples than before, never reported as complete.
#[test]
fn every_length_of_every_seed() {
    for (name, bytes) in seeds::all() {
        let mut most = 0;
        for length in 0..bytes.len() {
            let Ok(summary) = read_all(&bytes[..length]) else { continue };
            assert!(summary.total_samples() >= most, "{name} cut to {length}: longer files give no less");
            most = summary.total_samples();
        }
        // The last byte is a feature's or a payload's, or it ends the last compressed block.
        let expected = if name.starts_with("compressed") { 1..=seeds::SAMPLES } else { 4..=4 };
        assert!(expected.contains(&most), "{name}: {most} samples");
    }
}

#[test]
fn a_cut_file_says_what_is_missing() {
    let (_, bytes) = seeds::all().pop().expect("the file form");
    let reader = CaptureReader::from_bytes(bytes.clone()).expect("whole");
    let data = reader.data_length().0;
    // 40 bytes of the data are missing, and with them all features.
    let start = u64::from_le_bytes(bytes[40..48].try_into().expect("eight bytes"));
    let cut = &bytes[..(start + data - 40) as usize];
    let summary = read_all(cut).expect("partial");
    assert_eq!(summary.skipped[&SkipReason::MissingData].0, 40);
    assert_eq!(summary.total_samples(), 4, "only the end is gone");
    assert!(!summary.is_complete());
    assert!(summary.warnings().iter().any(|warning| warning.starts_with("40 bytes")), "{summary:?}");
}

/// Every bit of every byte, one at a time: 8 times the length of each seed.
#[test]
fn every_single_bit_flip() {
    for (_, bytes) in seeds::all() {
        let mut mutated = bytes.clone();
        for position in 0..bytes.len() {
            for bit in 0..8 {
                mutated[position] ^= 1 << bit;
                let _ = read_all(&mutated);
                mutated[position] ^= 1 << bit;
            }
        }
    }
}

/// 100,000 inputs with several damages each, the same in every run: a replacement of the fuzzer for machines
/// without a nightly compiler.
#[test]
fn a_hundred_thousand_mutations() {
    let seeds = seeds::all();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |limit: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) as usize) % limit.max(1)
    };
    // Lengths, counts and offsets break more than random bytes do.
    let interesting =
        [0u64, 1, 7, 8, 9, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 63, u64::MAX];
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..100_000 {
        let mut bytes = seeds[random(seeds.len())].1.clone();
        for _ in 0..=random(4) {
            let position = random(bytes.len());
            match random(5) {
                0 => bytes[position] = random(256) as u8,
                1 => {
                    let word = interesting[random(interesting.len())].to_le_bytes();
                    let position = position / 8 * 8;
                    let end = (position + [2, 4, 8][random(3)]).min(bytes.len());
                    bytes[position..end].copy_from_slice(&word[..end - position]);
                }
                2 => bytes.truncate(position.max(1)),
                3 => {
                    let end = (position + random(64)).min(bytes.len());
                    let copy = bytes[position..end].to_vec();
                    let target = random(bytes.len());
                    bytes.splice(target..target, copy);
                }
                _ => {
                    let end = (position + random(64)).min(bytes.len());
                    bytes.drain(position..end);
                    bytes.extend_from_slice(&[0]);
                }
            }
        }
        match read_all(&bytes) {
            Ok(_) => opened += 1,
            Err(_) => refused += 1,
        }
    }
    // Both results must occur: a reader that refused everything would test nothing.
    assert!(opened > 20_000 && refused > 1_000, "{opened} opened, {refused} refused");
}

#[test]
fn foreign_files_are_named_for_what_they_are() {
    let mut swapped = b"2ELIFREP".to_vec();
    swapped.extend([0; 200]);
    assert!(matches!(read_all(&swapped), Err(ReadError::ForeignByteOrder { .. })));
    assert!(matches!(read_all(b""), Err(ReadError::Empty { .. })));
    assert!(matches!(read_all(b"#!/bin/sh\n"), Err(ReadError::NotACapture { .. })));
    assert!(matches!(
        read_all(&[b"PERFFILE".as_slice(), &[0; 96]].concat()),
        Err(ReadError::Version1 { .. })
    ));
    assert!(matches!(read_all(b"PERFILE2"), Err(ReadError::DamagedHeader { .. })));
    let folder = tempfile::tempdir().expect("a folder");
    assert!(matches!(CaptureReader::open(folder.path()), Err(ReadError::Directory { .. })));
    let missing = CaptureReader::open(folder.path().join("no.data")).err().expect("no such file");
    assert!(
        missing.to_string().contains("no.data") && missing.to_string().contains("No such file"),
        "{missing}"
    );
}

/// Ids shared by all events would be copied once per event: 64 KiB could allocate gigabytes.
#[test]
fn overlapping_id_sections_are_refused() {
    let (_, mut bytes) = seeds::all().pop().expect("the file form");
    let length = bytes.len() as u64;
    let attrs = u64::from_le_bytes(bytes[24..32].try_into().expect("eight bytes")) as usize;
    for entry in 0..2 {
        let section = attrs + entry * 144 + 128;
        bytes[section..section + 8].copy_from_slice(&0u64.to_le_bytes());
        bytes[section + 8..section + 16].copy_from_slice(&(length / 8 * 8).to_le_bytes());
    }
    let error = read_all(&bytes).expect_err("refused");
    assert!(error.to_string().contains("overlap"), "{error}");
}

/// The fuzzer's seeds are these; `HARDMETER_WRITE_SEEDS=1 cargo test` updates them.
#[test]
fn the_fuzzers_seeds_are_current() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/read_capture");
    for (name, bytes) in seeds::all() {
        let path = folder.join(name);
        if std::env::var_os("HARDMETER_WRITE_SEEDS").is_some() {
            std::fs::create_dir_all(&folder).expect("the folder");
            std::fs::write(&path, &bytes).expect("written");
        }
        assert_eq!(
            std::fs::read(&path).expect("run with HARDMETER_WRITE_SEEDS=1"),
            bytes,
            "{name} is outdated"
        );
    }
}

/// If a receiver stops, the summary reports it.
#[test]
fn stopping_early_is_not_the_end_of_the_file() {
    let (_, bytes) = seeds::all().pop().expect("the file form");
    let reader = CaptureReader::from_bytes(bytes).expect("whole");
    let summary = reader.for_each(RecordOrder::File, &mut |_| ControlFlow::Break(())).expect("readable");
    assert!(summary.stopped && !summary.is_complete());
    let again = each_sample(&reader, RecordOrder::File, |_| {});
    assert_eq!(again.total_samples(), seeds::SAMPLES, "a second pass begins again");
}

/// A pipe cannot be read at an offset: it is copied first, and can then be read repeatedly.
#[test]
fn a_named_pipe_is_read_like_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in seeds::all() {
        let pipe = folder.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
        assert!(made.success());
        let target = pipe.clone();
        let writer = std::thread::spawn(move || std::fs::write(target, bytes).expect("written"));
        let reader = CaptureReader::open(&pipe).expect("opens");
        writer.join().expect("the writer ends");
        for order in [RecordOrder::File, RecordOrder::Time] {
            assert_eq!(each_sample(&reader, order, |_| {}).total_samples(), seeds::SAMPLES, "{name}");
        }
    }
}
