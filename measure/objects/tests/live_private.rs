//! Private memory of a running PostgreSQL, read from outside. The references: the server's own view
//! `pg_backend_memory_contexts`, its exported variables, and magic numbers that the test searches itself.

mod common;

use common::{wait_until, Throwaway};
use hardmeter_objects::postgres::layout::Layout;
use hardmeter_objects::process_memory::ProcessMemory;
use hardmeter_objects::program::Program;
use hardmeter_objects::{attach, Access};
use hardmeter_samples::model::{Pid, Timestamp, VirtualAddress};
use hardmeter_samples::object_notes::{ObjectFact, ObjectNotes};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A session of psql that stays open.
fn session(server: &Throwaway) -> Session {
    let words = ["psql", "-X", "-q", "-A", "-t", "-d", "postgres"].map(Into::into).to_vec();
    let mut command = server.cluster.command(words);
    command.envs(server.cluster.environment());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql comes with the server");
    let input = child.stdin.take().expect("piped");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    Session { child, input, output }
}

struct Session {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn send(&mut self, sql: &str) {
        writeln!(self.input, "{sql}").expect("sent");
    }

    /// The rows of a query.
    fn query(&mut self, sql: &str) -> Vec<String> {
        self.send(sql);
        self.send("select 'the end';");
        let mut rows = Vec::new();
        loop {
            let mut row = String::new();
            assert_ne!(self.output.read_line(&mut row).expect("read"), 0, "psql ended");
            let row = row.trim_end().to_owned();
            if row == "the end" {
                return rows;
            }
            rows.push(row);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn access(pid: Pid, address: VirtualAddress) -> Access {
    Access { pid, address, time: Timestamp(0), stack_pointer: None, states: Vec::new() }
}

/// The shortest fact of a process that contains an address, as text: class/name/instance/part.
fn told(notes: &ObjectNotes, pid: Pid, address: VirtualAddress) -> String {
    let holds = |fact: &&ObjectFact| {
        fact.pid == Some(pid) && fact.start <= address && address.0 - fact.start.0 < fact.length.0
    };
    let Some(fact) = notes.facts.iter().filter(holds).min_by_key(|fact| fact.length) else {
        return "nothing".into();
    };
    let path = [fact.path.class, fact.path.name, fact.path.instance, fact.path.part];
    path.map(|text| notes.text(text)).join(" | ")
}

#[test]
fn contexts_cache_entries_and_plan_nodes_of_a_backend() {
    let Some(server) = Throwaway::start() else { return };
    let mut session = session(&server);
    let pid = Pid(session.query("select pg_backend_pid();")[0].parse().expect("a number"));
    // Fills the relation and catalog caches with these; a plan runs during the check.
    session.query("create table hardmeter_probe (a int primary key); select count(*) from hardmeter_probe;");
    session.query(
        "select count(*) from pg_class c join pg_proc p on p.oid = c.oid where c.relname = 'pg_proc';",
    );
    session.send("select pg_sleep(600), relname from pg_class where relname = 'pg_type';");

    let memory = ProcessMemory::open(pid).expect("it runs");
    let mappings = memory.mappings().expect("maps");
    let program = Program::find(&memory, &mappings, "PostgreSQL", &["TopMemoryContext"]).expect("found");
    let version = server.ask("show server_version_num");
    let major = version.trim().parse::<u32>().expect("a number") / 10000;
    let Some(layout) = Layout::of(major) else {
        println!("skipped: no table of PostgreSQL {major}");
        return;
    };
    let pointer = |name: &str| memory.pointer(program.address(name).expect(name)).expect("read");
    let offset = |structure: &str, field: &str| layout.offset(structure, field).expect("known");
    let event = format!("select wait_event from pg_stat_activity where pid = {pid}");
    wait_until("the sleep", || server.ask(&event) == "PgSleep");

    // Searches for the magic number of catalog cache entries in all memory that malloc may have.
    let mut entries = Vec::new();
    for mapping in mappings.iter().filter(|map| map.writable && !map.shared && map.file().is_none()) {
        let mut bytes = vec![0; mapping.length().0 as usize];
        let got = memory.read_part(mapping.start, &mut bytes);
        for (number, word) in bytes[..got].chunks_exact(8).enumerate() {
            if word[..4] != 0x5726_1502u32.to_le_bytes() {
                continue;
            }
            let entry = VirtualAddress(mapping.start.0 + number as u64 * 8);
            let name = || {
                let cache = memory.pointer(VirtualAddress(entry.0 + offset("CatCTup", "my_cache"))).ok()?;
                let name = memory.pointer(VirtualAddress(cache.0 + offset("CatCache", "cc_relname"))).ok()?;
                memory.text(name, 64).ok()
            };
            if let Some(name) = name().filter(|name| name.starts_with("pg_")) {
                entries.push((entry, name));
            }
        }
    }
    assert!(entries.len() > 20, "{entries:?}");

    let mut server = attach(pid).expect("attached");
    let contexts = ["TopMemoryContext", "CacheMemoryContext", "MessageContext", "ErrorContext"];
    let mut accesses: Vec<Access> = contexts.iter().map(|name| access(pid, pointer(name))).collect();
    accesses.extend(entries.iter().map(|(entry, _)| access(pid, *entry)));
    // pg_sleep was called by the executor, in the memory in which one row is computed.
    let current = pointer("CurrentMemoryContext");
    accesses.push(access(pid, current));
    // The query's state: the parent of that context. The state of the scan is in one of its chunks.
    let parent = VirtualAddress(current.0 + offset("MemoryContextData", "parent"));
    let state = memory.pointer(parent).expect("read");
    let name_of = |context: VirtualAddress| {
        let name =
            memory.pointer(VirtualAddress(context.0 + offset("MemoryContextData", "name"))).expect("read");
        memory.text(name, 64).expect("read")
    };
    assert_eq!((name_of(current).as_str(), name_of(state).as_str()), ("ExprContext", "ExecutorState"));
    accesses.push(access(pid, state));
    let in_state: Vec<VirtualAddress> =
        (256..8192).step_by(8).map(|at| VirtualAddress(state.0 + at)).collect();
    accesses.extend(in_state.iter().map(|address| access(pid, *address)));
    server.see(&accesses);
    let notes = server.finish(Timestamp(u64::MAX / 2));

    for name in contexts {
        let told = told(&notes, pid, pointer(name));
        let path =
            if name == "TopMemoryContext" { name.to_owned() } else { format!("TopMemoryContext/{name}") };
        assert_eq!(told, format!("memory context | {path} |  | context header"));
    }
    let mut right = 0;
    for (entry, name) in &entries {
        let told = told(&notes, pid, *entry);
        // A chunk that was freed may still contain the number.
        if told.starts_with(&format!("catalog cache | {name} | ")) {
            right += 1;
        } else {
            assert!(
                told.ends_with("free chunk") || told.ends_with("free space"),
                "{entry}: {told} instead of {name}"
            );
        }
    }
    println!("{right} of {} numbers of cache entries are entries, the others freed memory", entries.len());
    assert!(right * 10 >= entries.len() * 9, "{right} of {}", entries.len());
    for catalog in ["pg_class", "pg_proc", "pg_type"] {
        assert!(entries.iter().any(|(_, name)| name == catalog), "{catalog}");
    }

    let state_told = told(&notes, pid, state);
    assert!(
        state_told
            .starts_with("memory context | TopMemoryContext/TopPortalContext/PortalContext/ExecutorState |"),
        "{state_told}"
    );
    let current_told = told(&notes, pid, current);
    assert!(current_told.contains("/ExecutorState/ExprContext | "), "{current_told}");
    let nodes: Vec<String> = in_state.iter().map(|address| told(&notes, pid, *address)).collect();
    // The planner finds the row of pg_type's name by the index.
    let scans: Vec<&String> = nodes.iter().filter(|told| told.starts_with("plan node | ")).collect();
    println!("in ExecutorState: {:?}", scans.first());
    assert!(scans.iter().any(|told| told.contains("Scan | node 0")), "{nodes:?}");
}
