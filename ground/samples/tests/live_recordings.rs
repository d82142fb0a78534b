//! Recordings that perf makes on the spot, with fields and forms that no fixture has, against perf's own decoder.

mod common;

use common::{each_sample, perf, perf_lines};
use hardmeter_samples::model::{PageSize, Register, Registers};
use hardmeter_samples::perf_data::{CaptureForm, CaptureReader, RecordOrder};
use std::path::{Path, PathBuf};

/// A few dozen milliseconds of work.
const LOOP: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"];

/// Records the loop with the timer; `None` (with a message) if perf cannot.
fn record(folder: &Path, options: &[&str]) -> Option<PathBuf> {
    let path = folder.join("theirs.data");
    let file = path.to_str().expect("a plain path");
    let arguments = [&["record", "-c", "1000000", "-o", file], options, &["--"], &LOOP].concat();
    let output = perf(&arguments)?;
    if !output.status.success() {
        println!("skipped: perf record: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(path)
}

/// The timer, with call chains and data addresses.
const TIMER: [&str; 4] = ["-e", "cpu-clock", "-g", "-d"];

/// Compares process, time, period, event and instruction of every sample with `perf script`.
fn compare(path: &Path) {
    let file = path.to_str().expect("a plain path");
    let Some(theirs) =
        perf_lines(&["script", "-i", file, "--ns", "-G", "-F", "pid,tid,time,period,event,ip"])
    else {
        return;
    };
    let reader = CaptureReader::open(path).expect("opens");
    let mut ours = Vec::new();
    let summary = each_sample(&reader, RecordOrder::Time, |sample| {
        let time = sample.time.expect("time").0;
        ours.push(format!(
            "{}/{} {}.{:09}: {} {}: {:x}",
            sample.pid.expect("pid"),
            sample.tid.expect("tid"),
            time / 1_000_000_000,
            time % 1_000_000_000,
            sample.period,
            reader.events()[sample.event.0].name,
            sample.ip.expect("ip").0,
        ));
        assert!(!sample.callchain.is_empty(), "recorded with -g");
    });
    let theirs: Vec<String> =
        theirs.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(ours.len() > 5, "the loop takes longer than five samples");
    assert_eq!(ours, theirs);
    assert!(summary.is_complete(), "{summary:?}");
    assert!(summary.unknown_records.is_empty() && summary.out_of_order == 0, "{summary:?}");
    assert_eq!(reader.header().architecture.as_deref(), Some(std::env::consts::ARCH));
}

#[test]
fn a_live_recording_is_read_as_perf_reads_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(path) = record(folder.path(), &TIMER) else { return };
    compare(&path);
}

/// A group of which only the leader is sampled: each sample reads all members, and perf returns one for each that
/// counted.
#[test]
fn members_of_a_group_are_samples_of_their_own_as_in_perf() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("group.data");
    let file = path.to_str().expect("a plain path");
    let events = "{cpu-clock,page-faults,context-switches}:S";
    let arguments = [&["record", "-c", "1000000", "-e", events, "-o", file, "--"], &LOOP[..]].concat();
    let Some(output) = perf(&arguments) else { return };
    if !output.status.success() {
        println!("skipped: perf record: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let Some(theirs) = perf_lines(&["script", "-i", file, "--ns", "-F", "tid,time,period,event,ip"]) else {
        return;
    };
    let reader = CaptureReader::open(&path).expect("opens");
    let mut ours = Vec::new();
    let summary = each_sample(&reader, RecordOrder::Time, |sample| {
        let time = sample.time.expect("time").0;
        ours.push(format!(
            "{} {}.{:09}: {} {}: {:x}",
            sample.tid.expect("tid"),
            time / 1_000_000_000,
            time % 1_000_000_000,
            sample.period,
            reader.events()[sample.event.0].name,
            sample.ip.expect("ip").0,
        ));
    });
    let theirs: Vec<String> =
        theirs.iter().map(|line| line.split_whitespace().take(5).collect::<Vec<_>>().join(" ")).collect();
    assert!(theirs.iter().any(|line| line.contains("page-faults")), "the loop faults: {theirs:?}");
    assert_eq!(ours, theirs);
    assert_eq!(summary.total_samples(), theirs.len() as u64);
}

#[test]
fn a_compressed_live_recording_is_read_as_perf_reads_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(path) = record(folder.path(), &[&TIMER[..], &["-z"]].concat()) else { return };
    let report =
        perf(&["report", "-i", path.to_str().expect("plain"), "--header-only"]).expect("perf ran before");
    let header = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(header.contains("# compressed : Zstd"), "perf did compress: {header}");
    compare(&path);
}

#[test]
fn a_piped_live_recording_is_read_as_perf_reads_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let piped = folder.path().join("pipe.data");
    let script = format!(
        "perf record -e cpu-clock -c 1000000 -g -d -o - -- {} {} '{}' | cat > {}",
        LOOP[0],
        LOOP[1],
        LOOP[2],
        piped.display()
    );
    if perf(&["--version"]).is_none() {
        return;
    }
    let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("sh runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reader = CaptureReader::open(&piped).expect("opens");
    assert_eq!(reader.header().form, CaptureForm::Pipe);
    compare(&piped);
}

/// `perf script`'s text of registers: `ABI:2 AX:0x1 SP:0x2 IP:0x3`.
fn registers(registers: Option<Registers<'_>>, names: &[(&str, Register)]) -> String {
    let registers = registers.expect("recorded");
    let values = names
        .iter()
        .map(|(name, register)| format!("{name}:{:#x}", registers.get(*register).expect("asked for")));
    std::iter::once(format!("ABI:{}", registers.abi)).chain(values).collect::<Vec<_>>().join(" ")
}

/// perf's names of page sizes.
fn page(size: Option<PageSize>) -> String {
    match size.map(|size| size.0) {
        None => "N/A".to_string(),
        Some(size) if size >= 1 << 20 => format!("{}M", size >> 20),
        Some(size) => format!("{}K", size >> 10),
    }
}

/// CGROUP, both page sizes, both register sets, weight and data source in one sample: only a decoder in the
/// kernel's order of fields reads it correctly.
#[test]
fn registers_page_sizes_and_control_groups_equal_perfs() {
    let folder = tempfile::tempdir().expect("a folder");
    let options =
        "-e cpu-clock:u -d -W --intr-regs=ax,bx,sp,ip --user-regs=ax,sp,ip --phys-data --code-page-size \
                   --data-page-size --all-cgroups --sample-cpu";
    let Some(path) = record(folder.path(), &options.split_whitespace().collect::<Vec<_>>()) else { return };
    let file = path.to_str().expect("a plain path");
    let fields = "ip,iregs,uregs,code_page_size,data_page_size";
    let Some(theirs) = perf_lines(&["script", "-i", file, "-F", fields]) else { return };
    let reader = CaptureReader::open(&path).expect("opens");
    let mut ours = Vec::new();
    let summary = each_sample(&reader, RecordOrder::Time, |sample| {
        use Register::{Rax, Rbx, Rip, Rsp};
        ours.push(format!(
            "{:x} {} {} {} {}",
            sample.ip.expect("ip").0,
            registers(sample.registers, &[("AX", Rax), ("BX", Rbx), ("SP", Rsp), ("IP", Rip)]),
            registers(sample.user_registers, &[("AX", Rax), ("SP", Rsp), ("IP", Rip)]),
            page(sample.data_page_size),
            page(sample.code_page_size),
        ));
        assert!(sample.cgroup.is_some_and(|group| group > 0));
        assert!(sample.cpu.is_some() && sample.weight.is_some() && sample.data_source.is_some());
    });
    let theirs: Vec<String> =
        theirs.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(ours.len() > 5);
    assert_eq!(ours, theirs);
    assert!(summary.is_complete() && summary.unknown_records.is_empty(), "{summary:?}");
}

/// Leader sampling: each sample has the counters of the whole group. perf's dump writes one line per value: `.....
/// id 000000000000011d, value 00000000000fa2d2, lost 0`.
#[test]
fn counters_of_a_group_equal_perfs() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["-e", "{cpu-clock,page-faults,context-switches}:S"];
    let Some(path) = record(folder.path(), &options) else { return };
    let file = path.to_str().expect("a plain path");
    let Some(lines) = perf_lines(&["script", "-i", file, "-D"]) else { return };
    let theirs: Vec<&str> =
        lines.iter().filter(|line| line.starts_with("..... id ")).map(String::as_str).collect();
    let reader = CaptureReader::open(&path).expect("opens");
    let mut ours = Vec::new();
    each_sample(&reader, RecordOrder::Time, |sample| {
        assert_eq!(sample.read.len(), 3);
        // The leader counts in each record; a member's sample comes from the same record.
        if sample.event.0 > 0 {
            return;
        }
        ours.extend(sample.read.iter().map(|read| {
            let lost = read.lost.map_or(String::new(), |lost| format!(", lost {lost}"));
            format!("..... id {:016x}, value {:016x}{lost}", read.id.expect("id"), read.value)
        }));
    });
    assert!(ours.len() > 15);
    assert_eq!(ours, theirs);
}

/// User registers and a copy of the stack: perf's dump writes `... ustack: size 1024, offset 0x120`, where the size
/// is the valid part.
#[test]
fn stack_copies_equal_perfs() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["-e", "cpu-clock", "--call-graph", "dwarf,1024"];
    let Some(path) = record(folder.path(), &options) else { return };
    let file = path.to_str().expect("a plain path");
    let Some(lines) = perf_lines(&["script", "-i", file, "-D"]) else { return };
    let size = |line: &String| line.strip_prefix("... ustack: size ")?.split(',').next()?.parse().ok();
    let theirs: Vec<usize> = lines.iter().filter_map(size).collect();
    let reader = CaptureReader::open(&path).expect("opens");
    let mut ours = Vec::new();
    each_sample(&reader, RecordOrder::Time, |sample| ours.extend(sample.user_stack.map(<[u8]>::len)));
    assert!(ours.len() > 5);
    assert_eq!(ours, theirs);
}
