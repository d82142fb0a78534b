//! A running PostgreSQL, read from outside and queried from inside: both must agree.
//!
//! `pg_buffercache` is installed here as the reference; the crate itself never connects.

mod common;

use common::Throwaway;
use hardmeter_objects::process_memory::ProcessMemory;
use hardmeter_objects::program::Program;
use hardmeter_objects::{attach, Access, ServerObjects};
use hardmeter_samples::model::{Pid, StateRule, Timestamp, VirtualAddress};
use hardmeter_samples::object_notes::{ObjectFact, ObjectNotes};
use std::collections::{BTreeSet, HashMap};

/// A server with a table.
fn start() -> Option<Throwaway> {
    let server = Throwaway::start()?;
    server.ask(
        "CREATE TABLE account(id int PRIMARY KEY, note text, balance bigint);
         INSERT INTO account SELECT i, repeat('x', i % 50), i * 1000000007::bigint FROM generate_series(1, 5000) i",
    );
    server.ask("VACUUM ANALYZE account");
    server.ask("CHECKPOINT");
    Some(server)
}

fn access(pid: Pid, address: u64) -> Access {
    let time = Timestamp(0);
    Access { pid, address: VirtualAddress(address), time, stack_pointer: None, states: Vec::new() }
}

/// First block, number of buffers.
fn buffers(objects: &dyn ServerObjects) -> (u64, u64) {
    let found = objects.state_rules().into_iter().find_map(|rule| match rule {
        StateRule::Entry { region, size, stride, .. } if stride.0 == 8192 => {
            Some((region.0, size.0 / stride.0))
        }
        _ => None,
    });
    found.expect("a rule for blocks")
}

fn path(notes: &ObjectNotes, fact: &ObjectFact) -> [String; 4] {
    let path = fact.path;
    [path.class, path.name, path.instance, path.part].map(|id| notes.text(id).to_string())
}

fn tag_of(fact: &ObjectFact) -> Vec<u32> {
    let state = fact.state.as_ref().expect("a fact about a block has its tag");
    state.bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four"))).collect()
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.trim().parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}

#[test]
fn every_buffer_is_what_pg_buffercache_says_and_its_relation_has_the_right_name() {
    let Some(server) = start() else { return };
    server.ask("CREATE EXTENSION pg_buffercache");
    // The first time, the query itself reads blocks.
    let sql = "SELECT bufferid, reltablespace, reldatabase, relfilenode, relforknumber, relblocknumber
               FROM pg_buffercache WHERE relfilenode IS NOT NULL";
    server.ask(sql);
    let names = "SELECT pg_relation_filenode(c.oid), nspname || '.' || relname
                 FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
                 WHERE pg_relation_filenode(c.oid) IS NOT NULL AND relkind <> 't'";
    let names: HashMap<u32, String> =
        server.rows(names).into_iter().map(|row| (number(&row[0]), row[1].clone())).collect();
    let database: u32 = number(&server.ask("SELECT oid FROM pg_database WHERE datname = 'postgres'"));

    let mut objects = attach(server.pid).expect("attached");
    assert!(objects.describe().starts_with("PostgreSQL 1"), "{}", objects.describe());
    let (blocks, count) = buffers(objects.as_ref());
    let judged: BTreeSet<Vec<u32>> =
        server.rows(sql).iter().map(|row| row.iter().map(|text| number(text)).collect()).collect();
    objects.see(&(0..count).map(|buffer| access(server.pid, blocks + buffer * 8192 + 8)).collect::<Vec<_>>());
    let notes = objects.finish(Timestamp(u64::MAX));

    let mut found = BTreeSet::new();
    let mut right = 0;
    for fact in &notes.facts {
        let [class, name, instance, part] = path(&notes, fact);
        if class == "buffer" {
            assert_eq!(name, "empty");
            continue;
        }
        let buffer = ((fact.origin.0 - blocks) / 8192) as u32;
        let tag = tag_of(fact);
        let fork = ["main", "fsm", "vm", "init"][tag[3] as usize];
        let place = format!("{fork} block {}", tag[4]);
        assert_eq!(instance.split(',').next(), Some(place.as_str()));
        assert!(["page header", "new page"].contains(&part.as_str()), "{class} {name} {instance}: {part}");
        if tag[1] == database || tag[1] == 0 {
            if let Some(known) = names.get(&tag[2]) {
                assert_eq!(&name, known, "{tag:?}");
                right += 1;
            }
        }
        found.insert(std::iter::once(buffer + 1).chain(tag).collect::<Vec<u32>>());
    }
    assert_eq!(found, judged);
    assert!(found.len() > 200 && right > 100, "{} buffers, {right} names", found.len());
    println!(
        "{} buffers as pg_buffercache has them, {right} of them with names that SQL confirms",
        found.len()
    );
    assert!(notes.facts.iter().any(|fact| path(&notes, fact)[1] == "public.account_pkey"));
    let kinds: Vec<_> =
        notes.pages.iter().map(|page| (notes.text(page.relation), notes.text(page.kind))).collect();
    assert!(
        kinds.contains(&("public.account", "table"))
            && kinds.contains(&("public.account_pkey", "btree index"))
    );
    let roles: BTreeSet<&str> = notes.roles.iter().map(|role| notes.text(role.role)).collect();
    assert!(roles.is_superset(&BTreeSet::from([
        "postmaster",
        "checkpointer",
        "walwriter",
        "background writer"
    ])));
}

#[test]
fn columns_keys_and_line_pointers_are_where_the_values_are() {
    let Some(server) = start() else { return };
    let mut objects = attach(server.pid).expect("attached");
    let (blocks, count) = buffers(objects.as_ref());
    objects.see(&(0..count).map(|buffer| access(server.pid, blocks + buffer * 8192)).collect::<Vec<_>>());
    let notes = objects.finish(Timestamp(u64::MAX));
    let own =
        |fact: &&ObjectFact| path(&notes, fact)[1].starts_with("public.account") && tag_of(fact)[3] == 0;
    let wanted: Vec<u64> = notes.facts.iter().filter(own).map(|fact| fact.origin.0).collect();
    assert!(wanted.len() > 20, "{}", wanted.len());
    // Every byte of every buffer with a block of the table or its key.
    let mut objects = attach(server.pid).expect("attached again");
    for block in wanted {
        objects.see(&(0..8192).map(|byte| access(server.pid, block + byte)).collect::<Vec<_>>());
    }
    let notes = objects.finish(Timestamp(u64::MAX));

    let memory = ProcessMemory::open(server.pid).expect("it runs");
    let (mut ids, mut balances, mut keys, mut note_bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut parts: HashMap<String, u64> = HashMap::new();
    let mut bytes = 0;
    for fact in &notes.facts {
        let [class, name, instance, part] = path(&notes, fact);
        let level = instance.split_once(", ").map_or("", |(_, level)| level);
        match (class.as_str(), name.as_str(), part.as_str()) {
            ("table", "public.account", "column id") => ids.push(memory.u32(fact.start).expect("mapped")),
            ("table", "public.account", "column balance") => {
                balances.push(memory.u64(fact.start).expect("mapped"))
            }
            ("table", "public.account", "column note") => note_bytes += fact.length.0,
            ("index", "public.account_pkey", "key id") if level == "leaf" => {
                keys.push(memory.u32(fact.start).expect("mapped"));
            }
            _ => {}
        }
        let part = if level.is_empty() { part } else { format!("{level}: {part}") };
        *parts.entry(part).or_default() += fact.length.0;
        bytes += fact.length.0;
    }
    ids.sort_unstable();
    balances.sort_unstable();
    keys.sort_unstable();
    assert_eq!(ids, (1..=5000).collect::<Vec<u32>>());
    assert_eq!(balances, (1..=5000).map(|i| i * 1_000_000_007).collect::<Vec<u64>>());
    assert_eq!(keys, (1..=5000).collect::<Vec<u32>>());
    // The notes are shorter than 127 bytes: one byte of header each.
    assert_eq!(note_bytes, number::<u64>(&server.ask("SELECT sum(length(note) + 1) FROM account")));
    for part in [
        "root: downlink",
        "root: key id",
        "leaf: high key",
        "leaf: heap TID",
        "meta: meta data",
        "tuple header",
    ] {
        assert!(parts.contains_key(part), "{part}: {parts:?}");
    }
    assert_eq!(bytes % 8192, 0, "parts cover pages without gap or overlap: {parts:?}");
}

#[test]
fn locks_and_areas_have_the_servers_own_names() {
    let Some(server) = start() else { return };
    let memory = ProcessMemory::open(server.pid).expect("it runs");
    let mappings = memory.mappings().expect("maps");
    let program =
        Program::find(&memory, &mappings, "PostgreSQL server", &["MainLWLockArray"]).expect("found");
    let locks = memory.pointer(program.address("MainLWLockArray").expect("exported")).expect("mapped").0;
    let blocks = memory.pointer(program.address("BufferBlocks").expect("exported")).expect("mapped");
    let segment = mappings.at(blocks).expect("mapped").start.0;

    let areas = server.rows(
        "SELECT name, off + size - 1, off FROM pg_shmem_allocations
         WHERE off IS NOT NULL AND name IS NOT NULL AND name <> '<anonymous>'
         AND name NOT IN ('Buffer Blocks', 'Buffer Descriptors')",
    );
    let starts: Vec<u64> = areas.iter().map(|row| segment + number::<u64>(&row[2])).collect();
    // After the pages of the log there may be a remainder; well before the end there is none.
    let inside = |row: &Vec<String>| number::<u64>(&row[1]) - if row[0] == "XLOG Ctl" { 16_384 } else { 0 };
    let areas: Vec<(String, u64)> = areas.iter().map(|row| (row[0].clone(), segment + inside(row))).collect();
    assert!(areas.len() > 40);

    let mut objects = attach(server.pid).expect("attached");
    // The beginnings first: a fact about the whole of an area must not hide the object at its end.
    objects.see(&[access(server.pid, segment + 1024)]);
    objects.see(&starts.iter().map(|at| access(server.pid, *at)).collect::<Vec<_>>());
    let lock = |index: u64| access(server.pid, locks + index * 128 + 4);
    objects.see(&(0..60).chain([100, 200]).map(lock).collect::<Vec<_>>());
    objects.see(&areas.iter().map(|(_, at)| access(server.pid, *at)).collect::<Vec<_>>());
    server.ask("DELETE FROM account WHERE id = 1");
    server.ask("SELECT count(*) FROM account WHERE id = 2");
    server.ask("UPDATE account SET note = '' WHERE id = 2");
    let counted = objects.counted();
    let grown = |name: &str| counted.figures.iter().find(|(known, _)| known == name).expect("a counter").1;
    // Two wrote, one only read.
    assert_eq!(grown("writing transactions"), 2);
    assert_eq!((grown("rows deleted"), grown("rows updated"), grown("rows inserted")), (1, 1, 0));
    let notes = objects.finish(Timestamp(u64::MAX));

    let program_bytes = std::fs::read(&program.path).expect("the server's program");
    // A linker may merge one text with the end of another.
    let strings: Vec<&[u8]> = program_bytes.split(|byte| *byte == 0).filter(|text| text.len() < 64).collect();
    let mut names = HashMap::new();
    let mut inside: HashMap<u64, (u64, String, String)> = HashMap::new();
    for fact in &notes.facts {
        let [class, name, instance, part] = path(&notes, fact);
        if class == "lightweight lock" && name != "unused" && (locks..locks + 26_624).contains(&fact.start.0)
        {
            assert!(
                strings.iter().any(|text| text.ends_with(name.as_bytes())),
                "the server has no lock {name}"
            );
            assert_eq!(part, "field state");
            names.insert((fact.origin.0 - locks) / 128, (name.clone(), instance));
        }
        for (_, at) in
            areas.iter().filter(|(_, at)| *at >= fact.start.0 && *at - fact.start.0 < fact.length.0)
        {
            let known = inside.entry(*at).or_insert((fact.length.0, class.clone(), name.clone()));
            if fact.length.0 < known.0 {
                *known = (fact.length.0, class.clone(), name.clone());
            }
        }
    }
    assert_eq!(names[&4].0, "ProcArray");
    assert_eq!(names[&3].0, "XidGen");
    assert_eq!(names[&100].0, "BufferMapping");
    for (name, at) in &areas {
        let (_, class, found) = inside.get(at).unwrap_or_else(|| panic!("nothing at the end of {name}"));
        let right = match class.as_str() {
            // Objects inside an area are identified more exactly.
            "shared memory area" if name == "XLOG Ctl" => false,
            "WAL" => name == "XLOG Ctl",
            "buffer condition variable" => name == "Buffer IO Condition Variables",
            "process header" => name == "Proc Header",
            "process array" => name == "PGPROC structures",
            _ => found == name,
        };
        assert!(right, "the end of {name} is said to be {class} {found}");
    }
}

/// A fact's names for the block at an address, and whether it depends on that tag.
fn told(notes: &ObjectNotes, address: u64) -> Vec<([String; 4], Vec<u32>)> {
    let about =
        notes.facts.iter().filter(|fact| fact.start.0 <= address && address - fact.start.0 < fact.length.0);
    about.map(|fact| (path(notes, fact), tag_of(fact))).collect()
}

#[test]
fn a_table_that_is_new_gets_its_name_and_a_sample_its_own_tag() {
    let Some(server) = start() else { return };
    server.ask("CREATE DATABASE bank");
    let mut objects = attach(server.pid).expect("attached");
    let (blocks, count) = buffers(objects.as_ref());
    objects.see(&[access(server.pid, blocks)]);
    server.ask("CREATE TABLE late(id int); INSERT INTO late SELECT generate_series(1, 300); CHECKPOINT");
    let file: u32 = number(&server.ask("SELECT pg_relation_filenode('late')"));
    let all: Vec<Access> = (0..count).map(|buffer| access(server.pid, blocks + buffer * 8192 + 8)).collect();
    objects.see(&all);
    // The catalog is read again, but not at once.
    for second in 1..8 {
        std::thread::sleep(std::time::Duration::from_millis(300));
        objects.look_again(Timestamp(second));
    }
    // A sample that was taken when the first buffer had block 77 of that table.
    let database: u32 = number(&server.ask("SELECT oid FROM pg_database WHERE datname = 'postgres'"));
    let tag: Vec<u8> = [1663, database, file, 0, 77].iter().flat_map(|word| word.to_le_bytes()).collect();
    let rule = objects.state_rules().into_iter().find_map(|rule| match rule {
        StateRule::Entry { id, stride, .. } if stride.0 == 8192 => Some(id),
        _ => None,
    });
    let states = vec![(rule.expect("a rule for blocks"), tag)];
    objects.see(&[Access { states, ..access(server.pid, blocks + 100) }]);
    let notes = objects.finish(Timestamp(u64::MAX));
    let late: Vec<_> =
        notes.facts.iter().filter(|fact| fact.state.is_some() && tag_of(fact)[2] == file).collect();
    assert!(late.len() > 2, "{}", late.len());
    for fact in late {
        let [class, name, ..] = path(&notes, fact);
        assert_eq!(
            (class.as_str(), name.as_str()),
            ("table", "postgres.public.late"),
            "there are two databases"
        );
    }
    let past = told(&notes, blocks + 100);
    assert!(
        past.iter().any(|(path, tag)| path[2] == "main block 77" && path[3].is_empty() && tag[4] == 77),
        "{past:?}"
    );
}

#[test]
fn a_version_that_is_unknown_or_a_lie_is_refused_and_an_end_is_told() {
    let Some(mut server) = start() else { return };
    let file = server.folder().path().join("data/PG_VERSION");
    let right = std::fs::read_to_string(&file).expect("readable");
    let refusal = |version: &str| {
        std::fs::write(&file, version).expect("our own server");
        let error = attach(server.pid).err().expect("refused");
        std::fs::write(&file, &right).expect("our own server");
        error.to_string()
    };
    let unknown = refusal("14\n");
    assert!(unknown.contains("PostgreSQL 14 is not supported, only 15, 16, 17, 18"), "{unknown}");
    let lie = if right.trim() == "16" { "17" } else { "16" };
    let lied = refusal(lie);
    assert!(lied.contains(&format!("its program says that it is {}", right.trim())), "{lied}");

    let mut objects = attach(server.pid).expect("attached");
    let (blocks, _) = buffers(objects.as_ref());
    objects.see(&[access(server.pid, blocks + 8)]);
    server.cluster.stop(&|_| {}).expect("stopped");
    objects.look_again(Timestamp(1));
    objects.see(&[access(server.pid, blocks + 16)]);
    let notes = objects.finish(Timestamp(2));
    assert!(notes.remarks.iter().any(|remark| remark.starts_with("the server ended")), "{:?}", notes.remarks);
    assert_eq!(told(&notes, blocks + 8).len(), 1, "what was found stays");
}

#[test]
fn what_is_no_server_is_refused_with_the_reason() {
    let error = attach(Pid(std::process::id() as i32)).err().expect("this is not a server");
    assert!(error.to_string().contains("is not a PostgreSQL or MariaDB server"), "{error}");
    let error = attach(Pid(i32::MAX)).err().expect("there is no such process");
    assert!(error.to_string().contains("has ended"), "{error}");
}
