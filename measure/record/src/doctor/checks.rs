//! The checks. Each takes its input as text or numbers, so that it can be tested on any machine.

use super::{Check, Diagnosis, SourceVerdict, State};
use crate::events::catalogue::software_pmu;
use crate::events::memory;
use crate::events::processor::Processor;
use crate::ghosts;
use crate::live::{calibrate, Budget};
use crate::pmu::attributes::{Concession, Modes, Rate};
use crate::pmu::encoding::{Encoding, Resolver};
use crate::pmu::pfm::{Pfm, PfmError};
use crate::pmu::sysfs::{is_core_pmu, Device};
use crate::privileges::{has_capability, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE};
use crate::session::probe_encoding;
use crate::usdt;
use hardmeter_samples::model::{Landing, MemoryEvent, Period};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Runs all checks.
pub fn examine() -> Diagnosis {
    let resolver = Resolver::this_machine();
    let privileged = has_capability(CAP_PERFMON) || has_capability(CAP_SYS_ADMIN);
    let text = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_string());
    let sources = vec![hardware(&resolver), live(), simulated(), timer()];
    let servers = postgres_programs();
    let checks = vec![
        pmu(&resolver.devices, &resolver.processor),
        paranoid(text("/proc/sys/kernel/perf_event_paranoid").as_deref(), privileged),
        capability(privileged),
        locked_memory(text("/proc/sys/kernel/perf_event_mlock_kb").as_deref(), privileged),
        kernel_addresses(text("/proc/sys/kernel/kptr_restrict").as_deref(), kernel_symbols_visible()),
        tracing(text("/proc/sys/kernel/yama/ptrace_scope").as_deref(), has_capability(CAP_SYS_PTRACE)),
        libpfm(),
        software_pmu_check(),
        ghosts_check(),
        perf(),
        debug_symbols(&servers),
        statements(&servers),
    ];
    Diagnosis { processor: resolver.processor, sources, checks }
}

/// A check that found what it looked for.
fn fine(name: &'static str, evidence: impl Into<String>) -> Check {
    Check { name, state: State::Ok, evidence: evidence.into(), remedy: String::new() }
}

fn flawed(name: &'static str, state: State, evidence: impl Into<String>, remedy: impl Into<String>) -> Check {
    Check { name, state, evidence: evidence.into(), remedy: remedy.into() }
}

fn pmu(devices: &BTreeMap<String, Device>, processor: &Processor) -> Check {
    const NAME: &str = "PMU";
    let cores: Vec<&str> = devices.keys().map(String::as_str).filter(|name| is_core_pmu(name)).collect();
    match (cores.is_empty(), processor.virtual_machine) {
        (false, _) => fine(NAME, format!("{} in /sys/bus/event_source/devices", cores.join(", "))),
        (true, true) => flawed(
            NAME,
            State::Missing,
            "none in /sys/bus/event_source/devices: this is a virtual machine whose host does not share its PMU",
            "on the host: virsh edit, <cpu mode='host-passthrough'/> and <pmu state='on'/> (QEMU: -cpu host,pmu=on); \
             in a cloud, take a metal instance; or use --source simulated",
        ),
        (true, false) => flawed(
            NAME,
            State::Missing,
            "none in /sys/bus/event_source/devices: the kernel has no driver for this processor's PMU",
            "a newer kernel; or use --source simulated",
        ),
    }
}

fn paranoid(level: Option<&str>, privileged: bool) -> Check {
    const NAME: &str = "perf_event_paranoid";
    let Some(level) = level.and_then(|level| level.parse::<i32>().ok()) else {
        return flawed(
            NAME,
            State::Missing,
            "the file is not there: the kernel was built without perf events, or a container hides them",
            "run outside the container",
        );
    };
    if privileged {
        return fine(NAME, format!("{level}, which does not bind a user with CAP_PERFMON"));
    }
    let lower = |to: i32| format!("sudo sysctl kernel.perf_event_paranoid={to}");
    match level {
        ..=-1 => fine(NAME, format!("{level}: everything is allowed")),
        0 => fine(NAME, "0: all processes and CPUs may be profiled"),
        1 => flawed(
            NAME,
            State::Warn,
            "1: own processes and the kernel, but not the whole system (-a)",
            lower(0),
        ),
        2 => flawed(
            NAME,
            State::Warn,
            "2: own processes only, without the kernel, physical addresses or the whole system",
            lower(1),
        ),
        _ => flawed(NAME, State::Missing, format!("{level}: nothing may be profiled"), lower(1)),
    }
}

fn capability(privileged: bool) -> Check {
    const NAME: &str = "CAP_PERFMON";
    match privileged {
        true => fine(NAME, "held"),
        false => flawed(
            NAME,
            State::Warn,
            "not held: perf_event_paranoid decides what may be profiled",
            "sudo setcap cap_perfmon,cap_sys_ptrace=ep $(command -v hardmeter), or run with sudo",
        ),
    }
}

fn locked_memory(kilobytes: Option<&str>, privileged: bool) -> Check {
    const NAME: &str = "locked memory";
    // The recorder's ring: 512 KiB and its first page, on every CPU.
    const WANTED: u64 = 516;
    match kilobytes.and_then(|text| text.parse::<u64>().ok()) {
        _ if privileged => fine(NAME, "no limit for a user with CAP_PERFMON"),
        Some(limit) if limit >= WANTED => fine(NAME, format!("perf_event_mlock_kb is {limit} per CPU")),
        Some(limit) => flawed(
            NAME,
            State::Warn,
            format!("perf_event_mlock_kb is {limit} per CPU: rings will be smaller, and more samples lost"),
            format!("sudo sysctl kernel.perf_event_mlock_kb={WANTED}"),
        ),
        None => flawed(NAME, State::Warn, "perf_event_mlock_kb cannot be read", ""),
    }
}

fn kernel_symbols_visible() -> bool {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    symbols.lines().take(100).any(|line| !line.starts_with("0000000000000000"))
}

fn kernel_addresses(restrict: Option<&str>, visible: bool) -> Check {
    const NAME: &str = "kernel symbols";
    match visible {
        true => fine(NAME, "/proc/kallsyms shows addresses"),
        false => flawed(
            NAME,
            State::Warn,
            format!(
                "/proc/kallsyms hides addresses (kptr_restrict {}): kernel samples stay without names",
                restrict.unwrap_or("unknown")
            ),
            "sudo sysctl kernel.kptr_restrict=0",
        ),
    }
}

fn tracing(scope: Option<&str>, capable: bool) -> Check {
    const NAME: &str = "reading other processes";
    match (capable, scope) {
        (true, _) => fine(NAME, "CAP_SYS_PTRACE is held: the memory of any server can be read"),
        (false, None | Some("0")) => fine(NAME, "processes of the same user"),
        (false, Some(scope)) => flawed(
            NAME,
            State::Warn,
            format!(
                "ptrace_scope is {scope}: the memory of a server that hardmeter did not start cannot be read"
            ),
            "run with sudo, or: sudo sysctl kernel.yama.ptrace_scope=0",
        ),
    }
}

fn libpfm() -> Check {
    const NAME: &str = "libpfm4";
    match Pfm::load() {
        Ok(_) => fine(NAME, format!("{} loads: the processor's own event names are understood", Pfm::SONAME)),
        Err(PfmError::Missing(reason)) => flawed(
            NAME,
            State::Warn,
            format!("{reason}: names such as MEM_LOAD_RETIRED:L2_MISS are not understood"),
            "sudo apt-get install libpfm4",
        ),
        Err(error) => {
            flawed(NAME, State::Warn, error.to_string(), "sudo apt-get install --reinstall libpfm4")
        }
    }
}

/// The first line of a program's version output.
fn version(program: &str, argument: &str) -> Option<String> {
    let output = std::process::Command::new(program).arg(argument).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(|| text.lines().next().unwrap_or_default().to_string())
}

fn software_pmu_check() -> Check {
    const NAME: &str = "valgrind and the software PMU";
    match software_pmu() {
        Ok(()) => fine(
            NAME,
            format!("{}, and hardmeter's tool for it", version("valgrind", "--version").unwrap_or_default()),
        ),
        Err(error) => {
            let (evidence, remedy) = split_remedy(&error.to_string());
            flawed(NAME, State::Missing, evidence, remedy)
        }
    }
}

/// Whether running processes can be followed: a test program is.
fn ghosts_check() -> Check {
    const NAME: &str = "ghosts (record --ghosts)";
    match ghosts::self_test() {
        Ok(evidence) => fine(NAME, evidence),
        Err(error) => flawed(NAME, State::Warn, error.to_string(), error.remedy()),
    }
}

/// The software PMU's errors carry their remedy in a second line.
fn split_remedy(message: &str) -> (String, String) {
    let (evidence, remedy) = message.split_once("\n  remedy: ").unwrap_or((message, ""));
    (evidence.to_string(), remedy.to_string())
}

fn perf() -> Check {
    const NAME: &str = "perf";
    match version("perf", "--version") {
        Some(version) => fine(NAME, format!("{version}, which also reads hardmeter's captures")),
        None => flawed(
            NAME,
            State::Warn,
            "not installed; hardmeter does not need it, but it reads hardmeter's captures",
            "sudo apt-get install linux-perf",
        ),
    }
}

/// Every postgres program in the usual places and in PATH.
fn postgres_programs() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for version in std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        found.push(version.path().join("bin/postgres"));
    }
    for folder in std::env::var_os("PATH").iter().flat_map(std::env::split_paths) {
        found.push(folder.join("postgres"));
    }
    found.retain(|path| path.is_file());
    found.sort();
    found.dedup();
    found
}

/// Whether `record --statements` would have probes to set, and may set them.
fn statements(programs: &[PathBuf]) -> Check {
    const NAME: &str = "statements (USDT)";
    let mut flaw = None;
    for program in programs {
        match usdt::check(program) {
            Ok(evidence) => return fine(NAME, evidence),
            Err(error) => flaw = flaw.or(Some(error)),
        }
    }
    match flaw {
        Some(error) => flawed(NAME, State::Warn, error.to_string(), error.remedy()),
        None => flawed(NAME, State::Warn, "no postgres found", "sudo apt-get install postgresql"),
    }
}

fn debug_symbols(programs: &[PathBuf]) -> Check {
    const NAME: &str = "debug symbols of postgres";
    if programs.is_empty() {
        return flawed(NAME, State::Warn, "no postgres found", "sudo apt-get install postgresql");
    }
    let without: Vec<&Path> =
        programs.iter().map(PathBuf::as_path).filter(|path| !has_debug_symbols(path)).collect();
    let list =
        |paths: &[&Path]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    match without.is_empty() {
        true => fine(NAME, list(&programs.iter().map(PathBuf::as_path).collect::<Vec<_>>())),
        false => flawed(
            NAME,
            State::Warn,
            format!("none for {}: routines are named, source lines and types are not", list(&without)),
            "sudo apt-get install postgresql-15-dbgsym (from debian-debug), or \
             `hardmeter server build postgres --debug`",
        ),
    }
}

/// Whether a program has DWARF in itself or in a file of its build id.
fn has_debug_symbols(program: &Path) -> bool {
    if let Some(id) = crate::pmu::build_id::of_file(program) {
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let file = format!("/usr/lib/debug/.build-id/{}/{}.debug", &hex[..2], &hex[2..]);
        if Path::new(&file).exists() {
            return true;
        }
    }
    // Section names are at the end of the file, next to the section table: read all of it (10 MB for postgres).
    let contents = std::fs::read(program).unwrap_or_default();
    let name = b"\0.debug_info\0";
    contents.windows(name.len()).any(|window| window == name)
}

fn hardware(resolver: &Resolver) -> SourceVerdict {
    const SOURCE: &str = "hardware";
    let mut working = Vec::new();
    let mut refusal = None;
    for event in [MemoryEvent::L1dMiss, MemoryEvent::L2Miss, MemoryEvent::L3Miss] {
        let candidates = memory::candidates(event, resolver.processor.architecture, &resolver.devices);
        for candidate in candidates.iter().filter(|candidate| !candidate.encoding.aux) {
            let rate = crate::session::default_rate(event.name(), &candidate.encoding);
            match probe_encoding(event.name(), &candidate.encoding, Some(rate), Modes::BOTH) {
                Ok(opened) => {
                    let address = candidate.encoding.data_address
                        && (opened.attr.precise_ip() > 0 || candidate.encoding.no_mode_bits);
                    let limits = opened.concessions.iter().map(Concession::to_string).collect::<Vec<_>>();
                    working.push((event.name(), candidate.name, address, limits));
                    break;
                }
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
    }
    let any_address = working.iter().any(|(_, _, address, _)| *address);
    if working.is_empty() {
        let (evidence, remedy) = match refusal {
            // The check of the PMU has the remedy for its absence.
            Some(error) => (
                format!("opening {}: {}", error.event, error.reason),
                match pmu(&resolver.devices, &resolver.processor) {
                    check if check.state == State::Ok => error.remedy,
                    check => check.remedy,
                },
            ),
            None => (
                "this processor offers no memory event that hardmeter can record".into(),
                "use --source simulated".into(),
            ),
        };
        return SourceVerdict { source: SOURCE, works: false, evidence, remedy };
    }
    let mut limits: Vec<String> = working.iter().flat_map(|(_, _, _, limits)| limits.clone()).collect();
    limits.sort();
    limits.dedup();
    let names: Vec<String> = working.iter().map(|(event, name, _, _)| format!("{event} by {name}")).collect();
    let address = if any_address { "with data addresses" } else { "without data addresses" };
    let mut evidence = format!("opened {} {address}", names.join(", "));
    if !limits.is_empty() {
        evidence = format!("{evidence}; {}", limits.join("; "));
    }
    let remedy =
        if limits.is_empty() { "" } else { "sudo sysctl kernel.perf_event_paranoid=1, or run with sudo" };
    SourceVerdict { source: SOURCE, works: true, evidence, remedy: remedy.to_string() }
}

fn live() -> SourceVerdict {
    const SOURCE: &str = "live";
    match calibrate(false) {
        Ok(found) => SourceVerdict {
            source: SOURCE,
            works: true,
            evidence: format!(
                "{:.1} % of the self-test's samples are {} the load that was waited for; a sample costs {:.1} us, so \
                 one is taken every {:.2} ms of CPU time",
                found.share() * 100.0,
                if found.landing == Landing::At { "at" } else { "right behind" },
                found.sample_cost_ns as f64 / 1e3,
                Budget::ONCE.period(found.sample_cost_ns) as f64 / 1e6
            ),
            remedy: String::new(),
        },
        Err(error) => SourceVerdict {
            source: SOURCE,
            works: false,
            evidence: error.to_string(),
            remedy: error.remedy(),
        },
    }
}

fn simulated() -> SourceVerdict {
    match software_pmu() {
        Ok(()) => SourceVerdict {
            source: "simulated",
            works: true,
            evidence: "a software PMU was prepared; commands and servers started by hardmeter can run on it"
                .into(),
            remedy: String::new(),
        },
        Err(error) => {
            let (evidence, remedy) = split_remedy(&error.to_string());
            SourceVerdict { source: "simulated", works: false, evidence, remedy }
        }
    }
}

fn timer() -> SourceVerdict {
    let clock = Encoding { event_type: 1, config: 0, ..Encoding::default() };
    match probe_encoding("cpu-clock", &clock, Some(Rate::Period(Period(1_000_000))), Modes::BOTH) {
        Ok(opened) => {
            let limits: Vec<String> = opened.concessions.iter().map(Concession::to_string).collect();
            let evidence = match limits.is_empty() {
                true => "opened cpu-clock, user and kernel".to_string(),
                false => format!("opened cpu-clock; {}", limits.join("; ")),
            };
            let remedy = if limits.is_empty() { "" } else { "sudo sysctl kernel.perf_event_paranoid=1" };
            SourceVerdict { source: "timer", works: true, evidence, remedy: remedy.to_string() }
        }
        Err(error) => {
            SourceVerdict { source: "timer", works: false, evidence: error.reason, remedy: error.remedy }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paranoid_levels_mean_what_the_kernel_documents() {
        assert_eq!(paranoid(Some("-1"), false).state, State::Ok);
        assert_eq!(paranoid(Some("0"), false).state, State::Ok);
        assert_eq!(paranoid(Some("1"), false).state, State::Warn);
        assert_eq!(paranoid(Some("2"), false).remedy, "sudo sysctl kernel.perf_event_paranoid=1");
        assert_eq!(paranoid(Some("4"), false).state, State::Missing); // Debian's own level
        assert_eq!(paranoid(Some("4"), true).state, State::Ok);
        assert_eq!(paranoid(None, true).state, State::Missing);
    }

    #[test]
    fn a_virtual_machine_without_a_pmu_is_told_about_its_host() {
        let machine = |flags: &str| Processor::parse(&format!("flags : {flags}\n"));
        let check = pmu(&BTreeMap::new(), &machine("fpu hypervisor"));
        assert_eq!(check.state, State::Missing);
        assert!(check.remedy.contains("host"));
        assert!(!pmu(&BTreeMap::new(), &machine("fpu")).evidence.contains("virtual"));
        let devices = BTreeMap::from([("cpu".to_string(), Device::default())]);
        assert_eq!(pmu(&devices, &machine("fpu hypervisor")).state, State::Ok);
    }

    #[test]
    fn limits_that_bind_have_a_command_that_mends_them() {
        assert_eq!(locked_memory(Some("516"), false).state, State::Ok);
        assert_eq!(locked_memory(Some("100"), false).remedy, "sudo sysctl kernel.perf_event_mlock_kb=516");
        assert_eq!(kernel_addresses(Some("1"), false).remedy, "sudo sysctl kernel.kptr_restrict=0");
        assert_eq!(tracing(Some("1"), false).state, State::Warn);
        assert_eq!(tracing(Some("1"), true).state, State::Ok);
        assert_eq!(tracing(None, false).state, State::Ok);
    }

    #[test]
    fn whatever_is_not_fine_says_what_to_do() {
        let diagnosis = examine();
        for check in &diagnosis.checks {
            assert!(!check.evidence.is_empty(), "{check:?}");
            assert_eq!(check.state == State::Ok, check.remedy.is_empty(), "{check:?}");
        }
        assert_eq!(diagnosis.sources.len(), 4);
        for verdict in &diagnosis.sources {
            assert!(verdict.works || !verdict.remedy.is_empty(), "{verdict:?}");
        }
    }
}
