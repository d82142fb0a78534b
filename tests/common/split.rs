//! Segments of applications, for tests of server modules: their measurements, and an analyzer with scripted
//! decisions.

// Each test file uses its part.
#![allow(dead_code)]

use super::common::{tests_folder, wait_until};
use hardmeter_split::model::{Actuation, AppId, CodeId, CpuId, CpuSet, KindRef};
use hardmeter_split::segment::{monotonic_ns, Application, Decision};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The output of `make build-place` for servers; `None`, with a message, if it is missing.
pub fn built(object: &str) -> Option<PathBuf> {
    let default = || tests_folder().join("../build/place");
    let path = std::env::var_os("HARDMETER_PLACEMENT").map_or_else(default, PathBuf::from).join(object);
    match path.canonicalize() {
        Ok(path) => Some(path),
        Err(_) => {
            eprintln!("skipped: {} is not there; make build-place builds it", path.display());
            None
        }
    }
}

/// The installed version of PostgreSQL (the newest of several), and its extension from `make build-place`; `None`,
/// with a message, if one of them is missing.
pub fn built_for_postgres() -> Option<(String, PathBuf)> {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let numbers = installed.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let Some(newest) = numbers.max() else {
        eprintln!("skipped: no PostgreSQL in /usr/lib/postgresql");
        return None;
    };
    Some((newest.to_string(), built(&format!("postgres/{newest}/split.so"))?))
}

/// A folder that servers of any account may write into.
pub fn segment_folder(below: &Path) -> PathBuf {
    let folder = below.join("segments");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

/// Opens an application's segment, as soon as it exists.
pub fn application(folder: &Path, app: AppId) -> Application {
    let path = folder.join(format!("app-{app}.segment"));
    wait_until("the segment", || path.exists());
    Application::open(&path, app).unwrap_or_else(|refusal| panic!("{}: {refusal}", path.display()))
}

/// A kind, over all processors.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    pub code: CodeId,
    pub count: u64,
    pub note: String,
    pub related: Option<KindRef>,
}

/// All executed kinds, by label.
pub fn kinds(application: &mut Application) -> BTreeMap<String, Kind> {
    let snapshot = application.snapshot().unwrap().snapshot;
    let of = |kind: &hardmeter_split::model::KindSnapshot| {
        let count = kind.records.iter().map(|(_, record)| record.count).sum();
        let (code, note, related) = (kind.code, kind.note.clone(), kind.related);
        (kind.label.clone(), Kind { code, count, note, related })
    };
    snapshot.kinds.iter().map(of).filter(|(_, kind)| kind.count > 0).collect()
}

/// Number of executions of statements with this label.
pub fn count(application: &mut Application, label: &str) -> u64 {
    kinds(application).get(label).map_or(0, |kind| kind.count)
}

/// An analyzer with a heartbeat and one decision until it is dropped.
pub struct Analyzer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Analyzer {
    /// These kinds run on these processors, in this way, in class queues numbered by the processor.
    pub fn new(folder: &Path, app: AppId, actuation: Actuation, kinds: &[(CodeId, u32)]) -> Analyzer {
        let decision = |&(code, cpu): &(CodeId, u32)| {
            let cpus = CpuSet([CpuId(cpu)].into());
            (code, Decision { actuation, cpus, queue: cpu, ..Decision::default() })
        };
        Analyzer::deciding(folder, app, &kinds.iter().map(decision).collect::<Vec<_>>())
    }

    /// Threads that work on these kinds have these time slices, in microseconds.
    pub fn with_slices(folder: &Path, app: AppId, kinds: &[(CodeId, u32)]) -> Analyzer {
        let decision = |&(code, slice_us): &(CodeId, u32)| {
            (code, Decision { actuation: Actuation::Time, slice_us, ..Decision::default() })
        };
        Analyzer::deciding(folder, app, &kinds.iter().map(decision).collect::<Vec<_>>())
    }

    /// This number of requests of these kinds runs at once.
    pub fn with_places(folder: &Path, app: AppId, places: u32, kinds: &[CodeId]) -> Analyzer {
        let decision = |&code: &CodeId| {
            (code, Decision { actuation: Actuation::Time, admit: true, ..Decision::default() })
        };
        let decisions: Vec<_> = kinds.iter().map(decision).collect();
        Analyzer::limiting(folder, app, places, &decisions)
    }

    fn deciding(folder: &Path, app: AppId, decisions: &[(CodeId, Decision)]) -> Analyzer {
        Analyzer::limiting(folder, app, 0, decisions)
    }

    fn limiting(folder: &Path, app: AppId, places: u32, decisions: &[(CodeId, Decision)]) -> Analyzer {
        let mut application = application(folder, app);
        application.take_over(0, 0);
        for (code, decision) in decisions {
            application.decide(*code, decision);
        }
        application.admit(places);
        application.beat(ahead());
        application.place(true, 1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                application.beat(ahead());
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Analyzer { stop, thread: Some(thread) }
    }

    /// As if it was killed: it stops its heartbeat, without reverting its decisions.
    pub fn die(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A sign of life from 0.4 s ahead, which servers accept: so a machine that is busy for a second does not end
/// placement.
fn ahead() -> u64 {
    monotonic_ns() + 400_000_000
}

impl Drop for Analyzer {
    fn drop(&mut self) {
        self.end();
    }
}

/// A thread's time slice in nanoseconds from the kernel; 0: none (before Linux 6.12), or no such thread.
pub fn time_slice(thread: i32) -> u64 {
    let mut attributes = [0_u64; 6]; // struct sched_attr in its first size; the fourth word is sched_runtime
    let address = attributes.as_mut_ptr();
    // SAFETY: the kernel writes at most the 48 bytes that are named, and they live.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, address, 48, 0) };
    if done == 0 {
        attributes[3]
    } else {
        0
    }
}

/// The processors that this process may use.
pub fn processors() -> Vec<u32> {
    listed(&fs::read_to_string("/proc/self/status").unwrap())
}

/// Threads of a process that may use fewer processors than this process: `(thread, processors)`.
pub fn narrowed(process: i32) -> Vec<(i32, Vec<u32>)> {
    let all = processors();
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| {
            let allowed = listed(&fs::read_to_string(task.path().join("status")).ok()?);
            (allowed.len() < all.len())
                .then(|| (task.file_name().to_string_lossy().parse().unwrap(), allowed))
        })
        .collect()
}

fn listed(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    line.split(',')
        .flat_map(|span| {
            let (first, last) = span.split_once('-').unwrap_or((span, span));
            first.parse::<u32>().unwrap()..=last.parse::<u32>().unwrap()
        })
        .collect()
}
