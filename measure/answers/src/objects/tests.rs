//! Hand-made facts:
//!
//! ```text
//!   0x1000 .. 0x9000  buffer pool, seen 0..100
//!   0x2000 .. 0x4000  table t block 7 while state 1 is "a", seen 10..20; block 8 while it is "b", seen 30..40
//!   0x2018 .. 0x2020  line pointers of block 7, state "a", seen 10..20
//!   0x2000 .. 0x2010  memory context C of process 11, seen 10..20
//! ```

use super::*;
use crate::testing::{fork, sample};
use hardmeter_samples::model::{ByteCount, DataSource, Pid, StateId, Timestamp};
use hardmeter_samples::object_notes::{ObjectFact, ObjectNotes, ProcessRole, StateKey, TextId};
use std::sync::Arc;

const SERVER: Pid = Pid(10);
const BACKEND: Pid = Pid(11);

fn text(notes: &mut ObjectNotes, text: &str) -> TextId {
    notes.texts.push(text.to_string());
    TextId(notes.texts.len() as u32 - 1)
}

fn fact(notes: &mut ObjectNotes, pid: Option<Pid>, range: (u64, u64), seen: (u64, u64), names: [&str; 4]) {
    let [class, name, instance, part] = names.map(|name| text(notes, name));
    notes.facts.push(ObjectFact {
        pid,
        start: VirtualAddress(range.0),
        length: ByteCount(range.1 - range.0),
        seen: (Timestamp(seen.0), Timestamp(seen.1)),
        state: None,
        path: ObjectPath { class, name, instance, part },
        origin: VirtualAddress(range.0 & !0xfff),
    });
}

fn notes() -> ObjectNotes {
    let mut notes = ObjectNotes::new("a server");
    fact(&mut notes, None, (0x1000, 0x9000), (0, 100), ["shared memory", "", "", ""]);
    fact(&mut notes, None, (0x2000, 0x4000), (10, 20), ["table", "t", "block 7", ""]);
    fact(&mut notes, None, (0x2000, 0x4000), (30, 40), ["table", "t", "block 8", ""]);
    fact(&mut notes, None, (0x2018, 0x2020), (10, 20), ["table", "t", "block 7", "line pointers"]);
    for (number, bytes) in [(1, b"a"), (2, b"b"), (3, b"a")] {
        notes.facts[number].state = Some(StateKey { id: StateId(1), bytes: bytes.to_vec() });
    }
    fact(&mut notes, Some(BACKEND), (0x2000, 0x2010), (10, 20), ["memory context", "C", "", ""]);
    let role = text(&mut notes, "postmaster");
    notes.roles.push(ProcessRole { pid: SERVER, role });
    notes
}

/// The text of the object at an address, followed by "?" if it is not certain.
fn told(index: &mut ObjectIndex, pid: Pid, address: u64, time: u64, state: Option<&[u8]>) -> String {
    let states: Vec<_> = state.map(|bytes| (StateId(1), bytes)).into_iter().collect();
    let found = index.lookup(pid, VirtualAddress(address), Some(Timestamp(time)), &states);
    found.map_or("nothing".to_string(), |object| {
        index.describe(object.path) + if object.stable { "" } else { "?" }
    })
}

#[test]
fn the_state_of_the_sample_decides_whatever_the_time() {
    let mut index = ObjectIndex::new(Some(&notes()));
    assert_eq!(told(&mut index, SERVER, 0x201a, 99, Some(b"a")), "table t block 7 line pointers");
    assert_eq!(told(&mut index, SERVER, 0x201a, 15, Some(b"b")), "table t block 8");
    assert_eq!(told(&mut index, SERVER, 0x201a, 15, Some(b"c")), "shared memory", "a block that nobody saw");
}

#[test]
fn without_state_the_time_decides() {
    let mut index = ObjectIndex::new(Some(&notes()));
    assert_eq!(told(&mut index, SERVER, 0x3000, 20, None), "table t block 7");
    assert_eq!(told(&mut index, SERVER, 0x3000, 30, None), "table t block 8");
    assert_eq!(told(&mut index, SERVER, 0x3000, 24, None), "table t block 7?", "4 after, and 6 before");
    assert_eq!(told(&mut index, SERVER, 0x3000, 26, None), "table t block 8?");
    let object = index.lookup(SERVER, VirtualAddress(0x3000), None, &[]).unwrap();
    assert!(!object.stable, "a sample without a time");
    assert_eq!(told(&mut index, SERVER, 0x9000, 20, None), "nothing", "an end is exclusive");
    assert_eq!(told(&mut index, SERVER, 0x1000, 101, None), "shared memory?");
}

#[test]
fn a_name_from_another_time_yields_only_to_what_was_never_seen_with_it() {
    let mut notes = ObjectNotes::new("a server");
    fact(&mut notes, None, (0x1000, 0x9000), (0, 300), ["heap", "", "", ""]);
    fact(&mut notes, None, (0x2000, 0x2040), (5, 9), ["memory context", "A", "", ""]);
    let mut index = ObjectIndex::new(Some(&notes));
    assert_eq!(told(&mut index, SERVER, 0x2000, 150, None), "memory context A?", "the heap held it");
    fact(&mut notes, None, (0x1fe0, 0x2060), (100, 200), ["memory context", "B", "", ""]);
    let mut index = ObjectIndex::new(Some(&notes));
    assert_eq!(told(&mut index, SERVER, 0x2000, 150, None), "memory context B", "A was freed");
    assert_eq!(told(&mut index, SERVER, 0x2000, 7, None), "memory context A");
}

#[test]
fn two_names_at_one_time_are_not_sure() {
    let mut notes = ObjectNotes::new("a server");
    fact(&mut notes, None, (0x1000, 0x2000), (5, 9), ["table", "a", "", ""]);
    fact(&mut notes, None, (0x1000, 0x2000), (9, 12), ["table", "b", "", ""]);
    let mut index = ObjectIndex::new(Some(&notes));
    assert_eq!(told(&mut index, SERVER, 0x1000, 8, None), "table a");
    assert_eq!(told(&mut index, SERVER, 0x1000, 9, None), "table a?");
}

#[test]
fn shared_memory_is_the_servers_and_private_memory_its_process_own() {
    let mut index = ObjectIndex::new(Some(&notes()));
    assert_eq!(told(&mut index, BACKEND, 0x2008, 15, Some(b"a")), "memory context C", "its own");
    assert_eq!(told(&mut index, SERVER, 0x2008, 15, Some(b"a")), "table t block 7");
    assert_eq!(told(&mut index, Pid(99), 0x2008, 15, Some(b"a")), "nothing", "of another program");
    let mut index = ObjectIndex::new(Some(&notes()));
    index.observe(&fork(SERVER.0, 99));
    assert_eq!(told(&mut index, Pid(99), 0x2008, 15, Some(b"a")), "table t block 7", "a new backend");
    assert_eq!(index.role(SERVER).map(|role| &**role), Some("postmaster"));
    assert_eq!(index.role(Pid(99)), None);
}

#[test]
fn damaged_notes_name_nothing_wrong() {
    let mut damaged = notes();
    damaged.facts[0].path.class = TextId(4_000_000);
    damaged.facts[0].length = ByteCount(u64::MAX);
    damaged.facts[1].length = ByteCount(0);
    let mut index = ObjectIndex::new(Some(&damaged));
    assert_eq!(told(&mut index, SERVER, 0x8000, 15, None), "", "a name that does not exist");
    assert_eq!(told(&mut index, SERVER, 0x3000, 15, None), "table t block 8?");
}

/// One variable at 0x5000; stack and heap by name; all other memory is anonymous.
struct Map;

impl DataMap for Map {
    fn data(&mut self, _pid: Option<Pid>, address: VirtualAddress) -> DataArea {
        match address.0 {
            0x5000..0x5010 => DataArea::Variable {
                name: "Counter".into(),
                image: "/usr/bin/server".into(),
                offset: address.0 - 0x5000,
                size: 16,
                field: None,
            },
            0x5010..0x5020 => DataArea::Variable {
                name: "stats".into(),
                image: "/usr/bin/server".into(),
                offset: address.0 - 0x5010,
                size: 16,
                field: Some("counters[3].hits[0]".into()),
            },
            0x5020..0x5a20 => DataArea::Variable {
                name: "Table".into(),
                image: "/usr/bin/server".into(),
                offset: address.0 - 0x5020,
                size: 0xa00,
                field: None,
            },
            0x6000..0x7000 => DataArea::Heap,
            0x7000..0x8000 => DataArea::SharedMemory { name: "/dev/zero (deleted)".into() },
            _ => DataArea::Anonymous,
        }
    }

    fn allocation_site(&mut self, _pid: Option<Pid>, site: VirtualAddress) -> Arc<str> {
        format!("caller {site}").into()
    }

    fn operand(&mut self, _pid: Option<Pid>, ip: VirtualAddress) -> Option<OperandField> {
        (ip.0 == 0x1234).then(|| OperandField { owner: "struct node".into(), field: "next".into() })
    }

    fn code(&mut self, _pid: Option<Pid>, address: VirtualAddress) -> Arc<str> {
        format!("routine {address}").into()
    }
}

fn sampled(index: &mut ObjectIndex, address: u64, raw: Option<&[u8]>) -> (String, ObjectSource, bool) {
    let mut sample = sample(0, 10, 0x1000);
    sample.address = Some(VirtualAddress(address));
    sample.raw = raw;
    let object = index.of_sample(&sample, &mut Map).unwrap();
    (index.describe(object.path), object.source, index.is_specific(object.path))
}

#[test]
fn without_notes_symbols_and_mappings_answer() {
    let mut index = ObjectIndex::new(None);
    let variable = sampled(&mut index, 0x5008, None);
    assert_eq!(variable, ("global variable Counter server +0x8".into(), ObjectSource::Symbols, true));
    let field = sampled(&mut index, 0x5014, None).0;
    assert_eq!(field, "global variable stats server [3][0] field counters[].hits[]");
    let element = sampled(&mut index, 0x5030, None).0;
    assert_eq!(element, "global variable Table server +0x10", "of an array: the instance, not a part");
    assert_eq!(sampled(&mut index, 0x6000, None), ("heap".into(), ObjectSource::Mapping, false));
    let shared = sampled(&mut index, 0x7000, None);
    assert_eq!(shared, ("shared memory /dev/zero (deleted)".into(), ObjectSource::Mapping, false));
    assert_eq!(sampled(&mut index, 0x9000, None).0, "anonymous memory");
    let none = index.of_sample(&sample(0, 10, 0x1000), &mut Map);
    assert_eq!(none, None, "a sample without a data address");
}

#[test]
fn the_stack_pointer_tells_a_stack_that_has_no_name() {
    let values = [0xa000u64.to_ne_bytes()];
    let mut sample = sample(0, 10, 0x1000);
    sample.registers = Some(hardmeter_samples::model::Registers { abi: 2, mask: 1 << 7, values: &values });
    let mut index = ObjectIndex::new(None);
    let mut class = |address| {
        sample.address = Some(VirtualAddress(address));
        let object = index.of_sample(&sample, &mut Map).unwrap();
        index.text(object.path.class).to_string()
    };
    assert_eq!(class(0xa000 - 128), "stack", "the red zone");
    assert_eq!(class(0xa000 - 129), "anonymous memory");
    assert_eq!(class(0xa000 + (8 << 20) - 1), "stack");
    assert_eq!(class(0xa000 + (8 << 20)), "anonymous memory");
    assert_eq!(class(0x6000), "heap", "a mapping with a name is what it says");
}

#[test]
fn the_stack_pointer_is_that_of_the_recorded_machine() {
    // x7 and sp of AArch64: 7 is the stack pointer of x86-64.
    let values = [0x20_0000u64.to_ne_bytes(), 0xa000u64.to_ne_bytes()];
    let mut sample = sample(0, 10, 0x1000);
    sample.registers =
        Some(hardmeter_samples::model::Registers { abi: 2, mask: 1 << 7 | 1 << 31, values: &values });
    sample.address = Some(VirtualAddress(0xa010));
    let class = |machine| {
        let mut index = ObjectIndex::new(None).of_machine(machine);
        let object = index.of_sample(&sample, &mut Map).unwrap();
        index.text(object.path.class).to_string()
    };
    assert_eq!(class(Some("aarch64")), "stack");
    assert_eq!(class(Some("x86_64")), "anonymous memory");
    assert_eq!(class(Some("riscv64")), "anonymous memory", "its registers are not known");
}

#[test]
fn above_a_stack_pointer_into_gos_arenas_lies_its_heap_as_well() {
    let values = [0xc0_0000_a000u64.to_ne_bytes()];
    let mut sample = sample(0, 10, 0x1000);
    sample.registers = Some(hardmeter_samples::model::Registers { abi: 2, mask: 1 << 7, values: &values });
    sample.address = Some(VirtualAddress(0xc0_0000_a100));
    let mut index = ObjectIndex::new(None);
    let object = index.of_sample(&sample, &mut Map).unwrap();
    assert_eq!(index.describe(object.path), "anonymous memory");
}

#[test]
fn a_heap_block_is_named_by_its_allocation_unless_the_notes_know_more() {
    // 20 bytes of detail, then section 4: a block of 64 bytes at 0x6000, allocated from 0x401000.
    let mut raw = b"HMs1\x08\0\0\0\0\0\0\0".to_vec();
    raw.extend(15u64.to_le_bytes());
    raw.extend([4, 0, 24, 0, 0, 0, 0, 0]);
    for word in [0x6000u64, 64, 0x401000] {
        raw.extend(word.to_le_bytes());
    }
    let mut index = ObjectIndex::new(None);
    let block = sampled(&mut index, 0x6010, Some(&raw));
    assert_eq!(block, ("heap block caller 0x401000 64 bytes +0x10".into(), ObjectSource::Allocation, true));
    let mut known = notes();
    fact(&mut known, Some(SERVER), (0x6000, 0x6040), (0, 100), ["memory context", "M", "", ""]);
    let mut index = ObjectIndex::new(Some(&known));
    let context = sampled(&mut index, 0x6010, Some(&raw));
    assert_eq!(context, ("memory context M".into(), ObjectSource::Notes, true));
    fact(&mut known, Some(SERVER), (0x6040, 0x6080), (0, 100), ["heap", "", "", ""]);
    let mut index = ObjectIndex::new(Some(&known));
    assert_eq!(sampled(&mut index, 0x6050, Some(&raw)).1, ObjectSource::Allocation, "more than \"heap\"");
    assert_eq!(sampled(&mut index, 0x6050, None).1, ObjectSource::Notes, "nobody knows more");
}

#[test]
fn a_fetched_instruction_is_code() {
    let mut sample = sample(0, 10, 0x1000);
    sample.address = Some(VirtualAddress(0x1040));
    sample.data_source = Some(DataSource(0x10)); // PERF_MEM_OP_EXEC
    let mut index = ObjectIndex::new(None);
    let object = index.of_sample(&sample, &mut Map).unwrap();
    assert_eq!(index.describe(object.path), "code routine 0x1040");
}

#[test]
fn where_only_the_kind_of_memory_is_known_the_instruction_tells_the_type() {
    let mut index = ObjectIndex::new(None);
    let mut told = |address| {
        let mut sample = sample(0, 10, 0x1234);
        sample.address = Some(VirtualAddress(address));
        let object = index.of_sample(&sample, &mut Map).unwrap();
        (index.describe(object.path), object.source)
    };
    assert_eq!(told(0x6000), ("object in heap struct node next".into(), ObjectSource::Symbols));
    assert_eq!(told(0x5008).0, "global variable Counter server +0x8", "a variable has its own name");
}
