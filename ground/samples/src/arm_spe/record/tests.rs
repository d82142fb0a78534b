use super::*;
use crate::arm_spe::packet::LONGEST;

/// A load of Neoverse N1, packet by packet, with the layout of the manual.
fn load() -> Vec<u8> {
    let packets: [&[u8]; 11] = [
        // Instruction 0x0000_aaaa_bbbb_1234 at EL0, non-secure: bit 63.
        &[0xb0, 0x34, 0x12, 0xbb, 0xbb, 0xaa, 0xaa, 0x00, 0x80],
        &[0x99, 0x05, 0x00],                                     // issue latency 5
        &[0x98, 0x2c, 0x01],                                     // total latency 300
        &[0xb2, 0x40, 0x10, 0x00, 0xf8, 0xff, 0xff, 0x00, 0x5a], // data 0xffff_f800_1040, tag 0x5a
        &[0x9a, 0x07, 0x00],                                     // translation latency 7
        &[0xb3, 0x40, 0x50, 0x34, 0x12, 0x00, 0x00, 0x00, 0x80], // physical 0x1234_5040, non-secure
        &[0x65, 0x39, 0x30, 0x00, 0x00],                         // CONTEXTIDR_EL2 = 12345
        &[0x49, 0x00],                                           // a load to a general register
        &[0x52, 0x1e, 0x03], // retired, L1D access and refill, TLB access, LLC access and miss
        &[0x43, 0x0e],       // served by DRAM
        &[0x71, 0x00, 0xca, 0x9a, 0x3b, 0x00, 0x00, 0x00, 0x00], // 1,000,000,000 ticks
    ];
    packets.concat()
}

fn all(trace: &[u8]) -> (Vec<Record>, Losses) {
    let mut records = Vec::new();
    let losses = decode(trace, &mut |record| records.push(*record));
    (records, losses)
}

#[test]
fn a_load_has_everything_that_its_packets_say() {
    let (records, losses) = all(&load());
    assert_eq!(losses, Losses::default());
    let expected = Record {
        instruction: Some(VirtualAddress(0xaaaa_bbbb_1234)),
        level: Some(ExceptionLevel { level: 0, non_secure: true }),
        branch_target: None,
        last_target: None,
        data_address: Some(VirtualAddress(0xffff_f800_1040)),
        tag: 0x5a,
        physical_address: Some(PhysicalAddress(0x1234_5040)),
        events: Events(0x31e),
        operation: Some(Operation::Memory {
            store: false,
            atomic: false,
            exclusive: false,
            ordered: false,
            registers: RegisterFile::General,
        }),
        total_latency: Some(300),
        issue_latency: Some(5),
        translation_latency: Some(7),
        context: Some(12345),
        data_source: Some(0x0e),
        timestamp: Some(1_000_000_000),
    };
    assert_eq!(records, [expected]);
    assert_eq!(records[0].mode(), CpuMode::User);
    assert!(records[0].events.has(Events::LAST_LEVEL_MISS) && !records[0].events.has(Events::TLB_WALK));
}

#[test]
fn kernel_addresses_get_their_upper_byte_back() {
    // Instruction 0xffff_8000_0810_0040 at EL2 (a kernel with VHE): bytes 0 to 6, then NS and EL in the top byte.
    let mut trace = vec![0xb0, 0x40, 0x00, 0x10, 0x08, 0x00, 0x80, 0xff, 0xc0];
    trace.extend([0xb2, 0x00, 0x10, 0x00, 0x0a, 0x00, 0x80, 0xff, 0x00]); // data, no tag
    trace.extend([0xb1, 0x80, 0x00, 0x10, 0x08, 0x00, 0x80, 0xff, 0xc0]); // branch target
    trace.extend([0x4a, 0x01, 0x42, 0x82, 0x01]); // conditional branch, retired and mispredicted, end
    let (records, _) = all(&trace);
    let record = records[0];
    assert_eq!(record.instruction, Some(VirtualAddress(0xffff_8000_0810_0040)));
    assert_eq!(record.data_address, Some(VirtualAddress(0xffff_8000_0a00_1000)));
    assert_eq!(record.branch_target, Some(VirtualAddress(0xffff_8000_0810_0080)));
    assert_eq!(record.level, Some(ExceptionLevel { level: 2, non_secure: true }));
    assert_eq!(record.mode(), CpuMode::Kernel);
    assert_eq!(record.operation, Some(Operation::Branch { conditional: true, indirect: false }));
    assert!(record.events.has(Events::MISPREDICTED));
    assert_eq!(record.timestamp, None);
}

#[test]
fn modes_are_those_of_the_exception_levels() {
    for (top, byte_6, mode) in [
        (0x80, 0x00, CpuMode::User),
        (0xa0, 0xff, CpuMode::Kernel),
        (0xc0, 0xff, CpuMode::Kernel),
        (0xc0, 0x00, CpuMode::Hypervisor),
        (0xe0, 0x00, CpuMode::Unknown),
    ] {
        let (records, _) = all(&[0xb0, 0, 0, 0, 0, 0, 0, byte_6, top, 0x01]);
        assert_eq!(records[0].mode(), mode, "{top:#x}");
    }
}

#[test]
fn loads_stores_and_atomics_by_the_bits_of_their_class() {
    use RegisterFile::{General, Memory, Simd, Sve, System, Tags, Unknown};
    let cases = [
        // detail, store, atomic, exclusive, ordered, registers
        (0x00, false, false, false, false, General),
        (0x01, true, false, false, false, General),
        (0x04, false, false, false, false, Simd),
        (0x05, true, false, false, false, Simd),
        (0x06, false, true, false, false, General), // bit 1 extended, bit 2 AT
        (0x0a, false, false, true, false, General), // load-exclusive
        (0x1b, true, false, true, true, General),   // store-release exclusive
        (0x12, false, false, false, true, General), // load-acquire
        (0x10, false, false, false, false, Unknown),
        (0x14, false, false, false, false, Tags),
        (0x20, false, false, false, false, Memory),
        (0x25, true, false, false, false, Memory),
        (0x31, true, false, false, false, System),
        (0x28, false, false, false, false, Sve), // EVL 128: bits 6 to 4 are 2
    ];
    for (detail, store, atomic, exclusive, ordered, registers) in cases {
        let expected = Operation::Memory { store, atomic, exclusive, ordered, registers };
        assert_eq!(Operation::new(1, detail), expected, "{detail:#04x}");
    }
    assert_eq!(Operation::new(0, 0x00), Operation::Other { sve: false, conditional: false });
    assert_eq!(Operation::new(0, 0x01), Operation::Other { sve: false, conditional: true });
    assert_eq!(Operation::new(0, 0x0c), Operation::Other { sve: true, conditional: true });
    assert_eq!(Operation::new(2, 0x02), Operation::Branch { conditional: false, indirect: true });
    assert_eq!(Operation::new(3, 0x02), Operation::Reserved { detail: 2 });
}

/// Decodes a trace in pieces of a given size, as a sliding window does.
fn in_pieces(trace: &[u8], size: usize) -> (Vec<Record>, Losses) {
    let (mut records, mut window) = (Vec::new(), Window::default());
    for piece in trace.chunks(size) {
        window.rest().extend_from_slice(piece);
        records.extend(std::iter::from_fn(|| window.next_record()));
        assert!(window.rest().len() < LONGEST, "{size}");
    }
    (records, window.finish())
}

/// Cut into pieces anywhere, the trace is the same.
#[test]
fn pieces_make_the_same_records_as_the_whole() {
    let trace = [load(), vec![0; 3], load(), vec![0x23, 0x00], vec![0xee; 30], load()].concat();
    let whole = all(&trace);
    assert_eq!(whole.0.len(), 2, "the third stands behind damage, without an end before it");
    for size in LONGEST..trace.len() {
        assert_eq!(in_pieces(&trace, size), whole, "{size}");
    }
}

/// The assertions of the fuzz target `decode_arm_spe` on 20,000 damaged traces, the same in every run.
#[test]
fn twenty_thousand_damaged_traces() {
    let good = [load(), load(), load()].concat();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |limit: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) as usize) % limit
    };
    let (mut untouched, mut kept) = (0, 0);
    for _ in 0..20_000 {
        let mut trace = good.clone();
        for _ in 0..=random(4) {
            let position = random(trace.len());
            match random(4) {
                0 => trace.truncate(position.max(1)),
                1 => trace[position] = [0x00, 0x01, 0x23, 0x71, 0xb0, 0xff][random(6)],
                2 => trace[position] = random(256) as u8,
                _ => {
                    trace.remove(position);
                    trace.push(0);
                }
            }
        }
        let whole = all(&trace);
        assert!(whole.1.bytes <= trace.len() as u64);
        assert!(whole.0.iter().all(|record| record.instruction.is_some()));
        assert_eq!(in_pieces(&trace, LONGEST + random(30)), whole);
        untouched += u64::from(whole.0.len() == 3);
        kept += u64::from(!whole.0.is_empty());
    }
    assert!(kept > 10_000 && untouched < 10_000, "{kept} kept something, {untouched} everything");
}

#[test]
fn alignment_skips_what_lies_between() {
    // At offset 5 of the buffer the next multiple of 16 is 11 bytes further; those bytes are ignored.
    let mut trace = vec![0; 5];
    trace.extend([0x23, 0x00]);
    trace.extend([0xff; 9]);
    trace.extend(load());
    let (records, losses) = all(&trace);
    assert_eq!((records.len(), losses), (1, Losses::default()));
}

#[test]
fn damage_costs_the_record_it_is_in_and_no_other() {
    let good = load();
    let mut damaged = load();
    damaged[24] = 0xff; // the header of the translation latency
    let (records, losses) = all(&[good.clone(), damaged.clone(), good.clone()].concat());
    assert_eq!(records.len(), 2);
    assert_eq!(records[0], records[1]);
    // The two bytes after the bad header are its payload, 7 and 0: one reserved, one padding.
    assert_eq!(losses, Losses { bytes: damaged.len() as u64 - 1, places: 1 });
    // A truncated record is not completed.
    let (records, losses) = all(&good[..good.len() - 1]);
    assert_eq!(records, []);
    assert_eq!(losses, Losses { bytes: good.len() as u64 - 1, places: 1 });
    // A record whose end was overwritten does not swallow the next one.
    let mut endless = load();
    endless[48] = 0xb7; // the header of the timestamp: now an address of index 7
    let (records, losses) = all(&[endless.clone(), good.clone()].concat());
    assert_eq!((records.len(), losses), (1, Losses { bytes: endless.len() as u64, places: 1 }));
    // An end without a beginning.
    let (records, losses) = all(&[0x42, 0x02, 0x01]);
    assert_eq!((records.len(), losses), (0, Losses { bytes: 3, places: 1 }));
}

/// Every single byte of a record replaced by every value: no panic, all bytes are accounted for, and a later record
/// is decoded.
#[test]
fn every_byte_may_be_anything() {
    let good = load();
    for position in 0..good.len() {
        for value in 0..=u8::MAX {
            let mut trace = good.clone();
            trace[position] = value;
            for _ in 0..3 {
                trace.extend_from_slice(&good);
            }
            let (records, losses) = all(&trace);
            assert!((2..=5).contains(&records.len()), "{position} {value:#x}: {}", records.len());
            assert!(losses.bytes <= trace.len() as u64);
            assert_eq!(records.last().and_then(|record| record.timestamp), Some(1_000_000_000));
        }
    }
}
