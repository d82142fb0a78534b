//! Objects at addresses, on a real PostgreSQL: compared with the server's own report of its buffers, without
//! changing it.
//!
//! Runs as root (the server then runs as `postgres`) and as an ordinary user.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{have, run, stdout, succeeded, wait_until};
use hardmeter_answers::{AnswersError, Capture, Filter, ObjectSource, WalkOptions};
use hardmeter_symbols::SymbolizerOptions;
use server::ObservedServer;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The server's own report: buffer, relation, block; main forks only. Every database has its own pg_statistic with
/// the same number: for catalogue tables, the buffers of all databases are listed.
const BUFFERS: &str = "SELECT 'buffer', b.bufferid, n.nspname || '.' || c.relname, b.relblocknumber \
    FROM pg_buffercache b JOIN pg_class c ON b.relfilenode = pg_relation_filenode(c.oid) \
    JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE b.relforknumber = 0 AND (n.nspname = 'pg_catalog' \
    OR b.reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database()))";

/// The `N` of an instance "main block N, leaf".
fn main_block(instance: &str) -> Option<u64> {
    let rest = instance.strip_prefix("main block ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// One recording at a time: addresses must be resolved while their memory is unchanged.
static ALONE: Mutex<()> = Mutex::new(());

/// A sampled page by Hardmeter's account: relation, block, address of the page.
type Page = (String, u64, u64);

/// The pages of stable samples with their number of samples, and the user-mode data samples: specific, all.
fn pages(capture: &Path) -> (BTreeMap<Page, u64>, u64, u64) {
    let capture = Capture::open(capture).unwrap();
    let (mut pages, mut specific, mut all) = (BTreeMap::new(), 0, 0);
    let symbols = Some(SymbolizerOptions::default());
    let options = WalkOptions { filter: Filter::default(), symbols, progress: &|_| {} };
    capture
        .walk_with_objects::<AnswersError>(options, &mut |pass, sample, _| {
            let Some(object) = pass.object(sample) else { return Ok(ControlFlow::Continue(())) };
            let index = pass.objects();
            let class = index.text(object.path.class).to_string();
            if class != "code" {
                all += 1;
                specific += u64::from(index.is_specific(object.path));
            }
            let block = main_block(index.text(object.path.instance));
            let is_page = matches!(&*class, "table" | "index") && object.source == ObjectSource::Notes;
            if let Some(block) = block.filter(|_| is_page && object.stable) {
                let page = (index.text(object.path.name).to_string(), block, object.origin.0);
                *pages.entry(page).or_default() += 1;
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    (pages, specific, all)
}

/// Buffers are contiguous pages. If the server has relation R block B in buffer N, and Hardmeter has the page of R
/// block B at address A, then A - (N - 1) * 8192 is the address of buffer 1: it must be the same for every sample.
#[test]
fn every_sampled_buffer_is_the_block_that_the_server_says() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(server) = ObservedServer::new(10) else { return };
    server.cluster().query("CREATE EXTENSION pg_buffercache").unwrap();
    let shell = format!("pgbench -n -c 10 -t 100 >/dev/null 2>&1 && psql -XAt -F '|' -c \"{BUFFERS}\"");
    let output = succeeded(run(&mut server.recorder("server.data", &shell)));
    let mut buffers: BTreeMap<(String, u64), Vec<u64>> = BTreeMap::new();
    for line in stdout(&output).lines().filter(|line| line.starts_with("buffer|")) {
        let cells: Vec<&str> = line.split('|').collect();
        let block = (cells[2].to_string(), cells[3].parse().unwrap());
        buffers.entry(block).or_default().push(cells[1].parse().unwrap());
    }
    let (pages, specific, all) = pages(&server.path("server.data"));
    let first_buffer = |(_, _, origin): &Page, buffer: &u64| origin - (buffer - 1) * 8192;
    let of = |page: &Page| buffers.get(&(page.0.clone(), page.1)).map(Vec::as_slice).unwrap_or_default();
    let own = pages.keys().filter(|page| page.0.starts_with("public."));
    let begins: BTreeSet<u64> =
        own.flat_map(|page| of(page).iter().map(|buffer| first_buffer(page, buffer))).collect();
    assert_eq!(begins.len(), 1, "where buffer 1 begins, by the pages of pgbench's tables: {begins:#x?}");
    let (mut checked, mut unknown) = (0, 0);
    for (page, samples) in &pages {
        match of(page) {
            // No longer in the buffers: a truncated table.
            [] => unknown += samples,
            told => {
                let right = told.iter().any(|buffer| begins.contains(&first_buffer(page, buffer)));
                assert!(right, "{page:#x?} is in none of the buffers {told:?}");
                checked += samples;
            }
        }
    }
    eprintln!("{checked} samples on {} pages checked; {unknown} no longer in buffers", pages.len());
    assert!(checked >= 200, "only {checked} samples lie on pages of the database");
    assert!(unknown * 20 <= checked, "{unknown} of {checked} samples on pages that the server does not know");
    eprintln!("{specific} of {all} samples of data are specific");
    assert!(specific * 100 >= all * 90, "{specific} of {all} samples are more specific than their memory");
}

/// hardmeter's first thread: the one that executes it first.
fn first_thread(folder: &Path) -> Option<u32> {
    let executes = |entry: &fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        text.lines().next().is_some_and(|line| line.contains("execve(") && line.contains("/hardmeter\""))
    };
    let entry = fs::read_dir(folder).ok()?.flatten().find(executes)?;
    entry.file_name().to_str()?.strip_prefix("trace.")?.parse().ok()
}

/// The system calls of hardmeter's own threads, of the files that `strace -ff` wrote.
fn own_calls(folder: &Path, first: u32) -> Vec<String> {
    let (mut threads, mut calls) = (vec![first], Vec::new());
    let mut seen = BTreeSet::new();
    while let Some(thread) = threads.pop() {
        if !seen.insert(thread) {
            continue;
        }
        let Ok(text) = fs::read_to_string(folder.join(format!("trace.{thread}"))) else { continue };
        for line in text.lines() {
            if line.contains("CLONE_THREAD") {
                threads.extend(line.rsplit_once(" = ").and_then(|(_, tid)| tid.trim().parse::<u32>().ok()));
            }
            calls.push(line.to_string());
        }
    }
    calls
}

#[test]
fn the_server_is_only_read() {
    if !have(&["strace"]) {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(server) = ObservedServer::new(1) else { return };
    let folder = server.path("traces");
    fs::create_dir(&folder).unwrap();
    let calls =
        "trace=execve,clone,clone3,open,openat,creat,ptrace,process_vm_readv,process_vm_writev,pwrite64,truncate";
    let mut strace = Command::new("strace");
    strace.current_dir(server.path("")).args(["-ff", "-s", "300", "-e", calls, "-o"]);
    strace.arg(folder.join("trace")).arg(env!("CARGO_BIN_EXE_hardmeter"));
    strace.args(server.arguments("server.data", "pgbench -n -c 2 -t 10 >/dev/null 2>&1; true"));
    let mut child = strace.stdout(std::process::Stdio::null()).spawn().unwrap();
    // strace would wait for the server, which continues: hardmeter's end is enough, and strace detaches from the
    // rest.
    let mut first = None;
    wait_until("the recording", || {
        first = first.or_else(|| first_thread(&folder));
        first.is_some_and(|first| {
            let trace = fs::read_to_string(folder.join(format!("trace.{first}"))).unwrap_or_default();
            trace.contains("+++ exited with 0 +++")
        })
    });
    // SAFETY: a child of this test.
    unsafe { libc::kill(child.id() as i32, libc::SIGKILL) };
    child.wait().unwrap();
    let first = first.unwrap();
    let calls = own_calls(&folder, first);
    let read = calls.iter().filter(|call| call.contains("process_vm_readv(")).count();
    assert!(read > 0, "its memory was read, or this shows nothing");
    let data = server.folder().path().join("data").display().to_string();
    for call in &calls {
        assert!(!call.contains("ptrace("), "{call}");
        assert!(!call.contains("process_vm_writev("), "{call}");
        let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "creat(", "truncate("];
        let writing = writes.iter().any(|flag| call.contains(flag));
        let of_server = call.contains(&data) || (call.contains("\"/proc/") && call.contains("/mem\""));
        assert!(!(writing && of_server), "opened for writing: {call}");
    }
}
