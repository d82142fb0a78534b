//! Loads and addresses that the stall finder computes for AArch64 code, compared with the executed ones: each
//! instruction of a program, and the registers before it, were printed by qemu; the addresses are those that
//! binutils' text gives with these registers. No machine of this architecture was sampled.
//!
//! `arm64/walk.c` is a program of our own, whose recording is in the repository (`arm64/record.py` made it).
//! `HARDMETER_ARM64_STEPS` names a recording of another program.

use hardmeter_samples::model::{
    Architecture, CpuMode, FileOffset, Landing, Mmap, Pid, Record, Registers, Tid, Timestamp, VirtualAddress,
};
use hardmeter_samples::perf_data::abi::{attr_flag, misc, record_type, sample_type, PerfEventAttr};
use hardmeter_samples::perf_data::{
    CaptureHeader, CaptureReader, CaptureWriter, EventAttributes, RecordBuilder, RecordOrder,
};
use hardmeter_symbols::{NoAddress, StallFinder, StalledLoad};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

const PID: Pid = Pid(100);
const ARM: Architecture = Architecture::Aarch64;

/// What an instruction loads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    NoLoad,
    Address(u64),
    Several,
}

/// The state before an instruction.
struct Step {
    pc: u64,
    truth: Truth,
    /// x0 to x30, the stack pointer, the program counter: the layout of a sample.
    registers: Vec<[u8; 8]>,
}

struct Recording {
    mappings: Vec<Mmap>,
    steps: Vec<Step>,
}

/// Reads the lines of a recording; `program` replaces its path.
fn read(text: &str, program: Option<&Path>) -> Recording {
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("a hexadecimal number");
    let (mut mappings, mut steps, mut state) = (Vec::new(), Vec::new(), [0u64; 33]);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        if let ["map", start, length, offset, path] = fields[..] {
            let path = program.map_or(path, |program| program.to_str().expect("a plain path"));
            mappings.push(mapping(hex(start), hex(length), hex(offset), path));
            continue;
        }
        for change in &fields[2..] {
            let (register, value) = change.split_once('=').expect("register and value");
            state[register.parse::<usize>().expect("a number")] = hex(value);
        }
        state[32] = hex(fields[0]);
        let truth = match fields[1] {
            "-" => Truth::NoLoad,
            "?" => Truth::Several,
            address => Truth::Address(hex(address)),
        };
        let registers = state.iter().map(|value| value.to_ne_bytes()).collect();
        steps.push(Step { pc: state[32], truth, registers });
    }
    Recording { mappings, steps }
}

fn mapping(start: u64, length: u64, offset: u64, path: &str) -> Mmap {
    Mmap {
        pid: PID,
        tid: Tid(PID.0),
        mode: CpuMode::User,
        start: VirtualAddress(start),
        length,
        offset: FileOffset(offset),
        executable: true,
        protection: Some(5),
        flags: Some(2),
        build_id: None,
        path: path.to_string(),
        time: Some(Timestamp(1)),
    }
}

/// Numbers of steps.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    /// That executed a load.
    loads: u64,
    /// Whose load was found behind it.
    found: u64,
    /// Of these, with the address, which is then the right one.
    addressed: u64,
    /// Of these, whose base register the load itself, or what ran before, overwrote.
    overwritten: u64,
    /// Behind an instruction that is not a load, where one was named that had not run.
    invented: u64,
}

fn count(recording: &Recording, finder: &mut StallFinder) -> Counts {
    let mut counts = Counts::default();
    for pair in recording.steps.windows(2) {
        let (ran, now) = (&pair[0], &pair[1]);
        let registers = Registers { abi: 2, mask: ARM.general_mask(), values: &now.registers };
        let answer = finder.find(PID, VirtualAddress(now.pc), &registers, Landing::Behind);
        counts.loads += u64::from(ran.truth != Truth::NoLoad);
        let Ok(Some(load)) = answer else { continue };
        if load.instruction.0 != ran.pc {
            counts.invented += 1;
            continue;
        }
        assert_ne!(ran.truth, Truth::NoLoad, "{:#x} is not a load", ran.pc);
        counts.found += 1;
        match load.address {
            Ok(address) => {
                // The top byte of a pointer is not part of the address.
                let said = Truth::Address(address.0);
                let truth = match ran.truth {
                    Truth::Address(address) => Truth::Address(address & (u64::MAX >> 8)),
                    other => other,
                };
                assert_eq!(said, truth, "the load at {:#x}", ran.pc);
                counts.addressed += 1;
            }
            Err(NoAddress::Overwritten) => counts.overwritten += 1,
            Err(NoAddress::Several) => assert_eq!(ran.truth, Truth::Several, "at {:#x}", ran.pc),
            Err(NoAddress::Segment) => panic!("no segments at {:#x}", ran.pc),
        }
    }
    counts
}

fn finder(recording: &Recording) -> StallFinder {
    let mut finder = StallFinder::of(Some(ARM));
    recording.mappings.iter().for_each(|mapping| finder.observe(&Record::Mmap(mapping.clone())));
    finder
}

/// The program whose recording is in the repository.
fn walk() -> (tempfile::NamedTempFile, Recording) {
    let digits: String = include_str!("arm64/walk.hex").split_whitespace().collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
    let program: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), program).expect("written");
    let recording = read(include_str!("arm64/steps.txt"), Some(file.path()));
    (file, recording)
}

#[test]
fn loads_and_addresses_are_those_that_ran() {
    let (_program, recording) = walk();
    let counts = count(&recording, &mut finder(&recording));
    eprintln!("{} steps: {counts:?}", recording.steps.len());
    assert_eq!(counts, Counts { loads: 57, found: 57, addressed: 40, overwritten: 17, invented: 0 });
}

/// The loads without an address, by hand from the listing of the program, and how often each ran.
#[test]
fn the_loads_without_address_are_those_that_overwrite_it() {
    let (_program, recording) = walk();
    let mut finder = finder(&recording);
    let mut without: BTreeMap<u64, u32> = BTreeMap::new();
    for step in &recording.steps {
        let registers = Registers { abi: 2, mask: ARM.general_mask(), values: &step.registers };
        let load = finder.find(PID, VirtualAddress(step.pc), &registers, Landing::Behind);
        if let Ok(Some(StalledLoad { instruction, address: Err(NoAddress::Overwritten) })) = load {
            *without.entry(instruction.0).or_default() += 1;
        }
    }
    let expected = [
        (0x400130, 8), // ldp x2, x1, [x1]: the list of eight nodes
        (0x40015c, 6), // ldrsw x2, [x4, x2, lsl #2]: the index, itself loaded
        (0x4001d4, 1), // ld4 {v0.8b-v3.8b}, [x0], x1: a step in a register is not undone
        (0x400268, 1), // ldr x1, [x1, #16]
        (0x4002d0, 1), // ldr x0, [x0, #8]
    ];
    assert_eq!(without.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn code_of_another_machine_is_not_searched() {
    let (_program, recording) = walk();
    let mut x86 = StallFinder::of(Some(Architecture::X86_64));
    recording.mappings.iter().for_each(|mapping| x86.observe(&Record::Mmap(mapping.clone())));
    assert_eq!(count(&recording, &mut x86).found, 0);
}

/// A capture as the recorder's clock writes it on such a machine is read on any machine.
#[test]
fn a_capture_of_such_a_machine_is_read_anywhere() {
    let (_program, recording) = walk();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("arm64.data");
    write(&path, &recording);

    let reader = CaptureReader::open(&path).expect("opened");
    let machine = reader.header().architecture.as_deref().and_then(Architecture::of_header);
    assert_eq!(machine, Some(ARM));
    let mut finder = StallFinder::of(machine);
    let (mut samples, mut loads) = (Vec::new(), Vec::new());
    reader
        .for_each(RecordOrder::File, &mut |record| {
            finder.observe(&record);
            if let Record::Sample(sample) = record {
                let registers = sample.user_registers.expect("registers");
                let (ip, pc) =
                    (sample.ip.expect("an address"), registers.get_index(ARM.instruction_pointer()));
                assert_eq!(Some(ip.0), pc);
                samples.push((ip.0, registers.get_index(ARM.stack_pointer()).expect("recorded")));
                loads.push(finder.find(sample.pid.expect("a process"), ip, &registers, Landing::Behind));
            }
            ControlFlow::Continue(())
        })
        .expect("read");
    let written: Vec<(u64, u64)> =
        recording.steps.iter().map(|step| (step.pc, u64::from_ne_bytes(step.registers[31]))).collect();
    assert_eq!(samples, written);
    // The same loads as from the steps themselves.
    let mut direct = self::finder(&recording);
    let expected = recording.steps.iter().map(|step| {
        let registers = Registers { abi: 2, mask: ARM.general_mask(), values: &step.registers };
        direct.find(PID, VirtualAddress(step.pc), &registers, Landing::Behind)
    });
    assert_eq!(loads, expected.collect::<Vec<_>>());
    assert!(loads.iter().filter(|load| matches!(load, Ok(Some(_)))).count() > 50);
}

/// The program's steps as samples of the clock.
fn write(path: &Path, recording: &Recording) {
    let mut attr = PerfEventAttr::new(1, 0);
    attr.sample_period = 1;
    attr.sample_type = sample_type::IDENTIFIER
        | sample_type::IP
        | sample_type::TID
        | sample_type::TIME
        | sample_type::CPU
        | sample_type::REGS_USER;
    attr.sample_regs_user = ARM.general_mask();
    attr.flags = attr_flag::SAMPLE_ID_ALL | attr_flag::MMAP | attr_flag::MMAP2;
    let events = vec![EventAttributes { name: "cpu-clock".into(), attr, ids: vec![1] }];
    let header = CaptureHeader { architecture: Some("aarch64".into()), ..CaptureHeader::default() };
    let mut writer = CaptureWriter::create(path, &events, &header).expect("created");
    for mapping in &recording.mappings {
        writer.append_mmap(mapping).expect("written");
    }
    for (number, step) in recording.steps.iter().enumerate() {
        let mut record = RecordBuilder::new(record_type::SAMPLE, misc::USER)
            .u64(1)
            .u64(step.pc)
            .u32(PID.0 as u32)
            .u32(PID.0 as u32)
            .u64(10 + number as u64)
            .u64(0)
            .u64(2);
        for value in &step.registers {
            record = record.bytes(value);
        }
        writer.append(&record.finish()).expect("written");
    }
    writer.finish().expect("finished");
}

#[test]
fn steps_of_another_program() {
    let Ok(path) = std::env::var("HARDMETER_ARM64_STEPS") else {
        println!("skipped: HARDMETER_ARM64_STEPS names no recording of arm64/record.py");
        return;
    };
    let recording = read(&std::fs::read_to_string(&path).expect("a recording"), None);
    let counts = count(&recording, &mut finder(&recording));
    eprintln!("{path}: {} steps: {counts:?}", recording.steps.len());
    assert!(counts.found * 100 >= counts.loads * 85, "{counts:?}");
    assert!(counts.addressed * 100 >= counts.found * 80, "{counts:?}");
    assert!(counts.invented * 100 <= counts.found * 10, "{counts:?}");
}
