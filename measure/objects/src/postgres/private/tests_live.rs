//! A walk of a running backend, compared with the server's own `pg_backend_memory_contexts`.

use super::contexts::{ContextLayout, Names, Tree};
use super::*;
use hardmeter_servers::{Cluster, Engine, Programs, ProgramsWanted, ServerFolder, StartOptions};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// Contexts of the query itself: they differ a moment later.
const OF_THE_QUERY: [&str; 14] = [
    "MessageContext",
    "PortalContext",
    "ExecutorState",
    "ExprContext",
    "SRF multi-call context",
    "Table function arguments",
    "SRF per-call context",
    "printtup",
    "TupleSort main",
    "TupleSort sort",
    "Caller tuples",
    "tuplestore",
    "tuplestore tuples",
    "pg_get_backend_memory_contexts",
];

#[test]
fn contexts_and_their_sizes_are_those_that_the_server_tells() {
    // HARDMETER_TEST_POSTGRES=/path/to/bin selects another server than the distribution's.
    let folder = std::env::var_os("HARDMETER_TEST_POSTGRES").map(Into::into);
    let wanted = ProgramsWanted { folder, ..ProgramsWanted::default() };
    let programs = match Programs::find(Engine::Postgres, &wanted) {
        Ok(programs) => programs,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    let temporary = tempfile::tempdir().expect("a folder");
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    let folder = ServerFolder::new(temporary.path().join("server"));
    let mut cluster = Cluster::create(&folder, &programs, &|_| {}).expect("made");
    cluster.start(&StartOptions::default(), &|_| {}).expect("started");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| compare(&cluster)));
    let _ = cluster.stop(&|_| {});
    if let Err(fault) = result {
        std::panic::resume_unwind(fault);
    }
}

fn compare(cluster: &Cluster) {
    let (told, done) = (temporary_file("told"), temporary_file("done"));
    let remove = || [&told, &done].map(fs::remove_file);
    let _ = remove();
    // Twice: the first run fills the caches for the second.
    let view = "select name, coalesce(ident, ''), total_bytes from pg_backend_memory_contexts";
    let script = format!(
        "{view};\n\\o {}\nselect pg_backend_pid();\n{view};\n\\o\n\\! touch {}\nselect pg_sleep(600);\n",
        told.display(),
        done.display()
    );
    let words = ["psql", "-X", "-q", "-A", "-t", "-d", "postgres"].map(Into::into).to_vec();
    let mut command = cluster.command(words);
    command.envs(cluster.environment()).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("psql comes with the server");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), script.as_bytes()).expect("sent");
    // psql writes the file piece by piece, and its end when `\o` closes it.
    wait_until("the whole view", || done.exists());
    let text = fs::read_to_string(&told).expect("written");
    let _ = remove();
    let mut lines = text.lines();
    let pid = Pid(lines.next().expect("a line").parse().expect("a number"));
    let event = format!("select wait_event from pg_stat_activity where pid = {pid}");
    wait_until("the sleep", || cluster.query(&event).expect("an answer") == "PgSleep");
    let mut expected: BTreeMap<(String, String), u64> = BTreeMap::new();
    // A statement's text may have line breaks; the test's has none.
    for line in lines {
        let words: Vec<&str> = line.split('|').collect();
        let [name, ident, bytes] = words[..] else { panic!("{line}") };
        *expected.entry((name.into(), ident.into())).or_default() += bytes.parse::<u64>().expect("a number");
    }
    let memory = ProcessMemory::open(pid).expect("it runs");
    let mappings = memory.mappings().expect("maps");
    let program = Program::find(&memory, &mappings, "PostgreSQL", &["TopMemoryContext"]).expect("found");
    let major = cluster.query("show server_version_num").expect("a number");
    let layout = Layout::of(major.trim().parse::<u32>().expect("a number") / 10000).expect("known");
    let contexts = ContextLayout::of(&layout).expect("whole");
    let top = memory.pointer(program.address("TopMemoryContext").expect("exported")).expect("read");
    let began = Instant::now();
    let tree = Tree::walk(&memory, &contexts, top, &mut Names::new());
    println!("{} contexts, {} blocks in {:?}", tree.contexts.len(), tree.blocks.len(), began.elapsed());
    let _ = child.kill();
    let _ = child.wait();
    assert!(!tree.is_partial);

    let mut found: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut walked_bytes = 0;
    for (number, context) in tree.contexts.iter().enumerate() {
        // The blocks add up to the context's own count; its structure precedes the first one.
        let blocks: u64 = tree
            .blocks
            .iter()
            .filter(|block| block.context == number)
            .map(|block| block.end.0 - block.start.0)
            .sum();
        let own = contexts.size(context.kind) as u64;
        assert_eq!(blocks + own, context.allocated, "{}", context.path);
        walked_bytes += blocks + own;
        *found.entry((context.name.to_string(), context.ident.to_string())).or_default() += context.allocated;
    }
    let is_stable = |name: &str| !OF_THE_QUERY.contains(&name);
    let same = expected.iter().filter(|((name, _), _)| is_stable(name));
    let mut compared = 0;
    for (key, bytes) in same {
        assert_eq!(found.get(key), Some(bytes), "{key:?}; {:?}", found.keys().collect::<Vec<_>>());
        compared += 1;
    }
    println!("{compared} of {} kinds of contexts compared, {walked_bytes} bytes walked", expected.len());
    assert!(compared > 30, "{compared}");
    assert!(expected.contains_key(&("CacheMemoryContext".into(), String::new())));
    let more: Vec<_> = found.keys().filter(|key| is_stable(&key.0) && !expected.contains_key(*key)).collect();
    assert!(more.is_empty(), "{more:?} are not told by the server");
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(300), "{what} never came");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// psql of the server's account writes it.
fn temporary_file(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("hardmeter-{name}-{}", std::process::id()))
}
