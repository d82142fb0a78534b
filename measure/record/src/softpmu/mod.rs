//! The software PMU's driver: creates the shared segment, builds the command that starts a program under the tool,
//! and drains the records. The PMU itself is the Valgrind tool in `measure/simulate/`.
//!
//! ```text
//!   SoftwarePmu::prepare ── segment ──┬── valgrind --tool=softpmu postgres ...   (command())
//!                                     │        └── forked backends, same segment
//!   drain() <── ring of perf records ─┘
//! ```

mod program;
mod reuse;
mod segment;
mod this_machine;

pub use this_machine::this_machine;

use crate::rings::RingError;
use hardmeter_samples::machine::{LatencyMethod, Machine, MachineError};
use hardmeter_samples::model::{MemoryEvent, Period, Register, StateRule};
use hardmeter_samples::perf_data::abi::{attr_flag, read_format, sample_type, PerfEventAttr};
use hardmeter_samples::perf_data::EventAttributes;
use hardmeter_samples::sidecar::{HiddenLatency, LatencyKind, PageWalks, ReuseHistogram, Statement};
use program::{check_program, find_in_path};
use segment::{Config, CoreConfig, Segment};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The configuration of a simulation.
#[derive(Clone, Debug)]
pub struct SimulationConfig {
    /// The machine.
    pub machine: Machine,
    /// Events to sample, each with its period; empty: only count.
    pub events: Vec<(MemoryEvent, Period)>,
    /// Frames of call chain per sample; 0: none. Each sample then costs an unwinding of the stack.
    pub callchain_depth: u32,
    /// Record causes: classify misses, measure reuse distances, and simulate huge pages in parallel.
    pub causes: bool,
    /// Replace the programs' `malloc`, to record the heap block of each access and where it was allocated.
    pub heap: bool,
    /// Simulate one cache line in this number (a power of two up to 64); 1: all. Counts are scaled.
    pub set_sampling: u32,
    /// Simulate branch prediction even when no branch event is sampled.
    pub branches: bool,
    /// Begin to simulate at once, rather than at [`SoftwarePmu::start_measuring`].
    pub measure_from_start: bool,
    /// How often the threads of a process take turns.
    pub interleave: Interleave,
}

/// How the threads of a simulated process share the one processor that Valgrind gives them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Interleave {
    /// In turns of a microsecond of simulated time, and shorter ones where they use the same cache lines.
    #[default]
    Fine,
    /// In Valgrind's own turns of 100,000 blocks of code: faster, but contended lines seldom move.
    Coarse,
}

impl SimulationConfig {
    /// Every line of `machine`, counted from the start, nothing sampled.
    pub fn counting(machine: Machine) -> Self {
        SimulationConfig {
            machine,
            events: Vec::new(),
            callchain_depth: 0,
            causes: false,
            heap: false,
            set_sampling: 1,
            branches: false,
            measure_from_start: true,
            interleave: Interleave::Fine,
        }
    }
}

/// Errors of the software PMU.
#[derive(Debug, thiserror::Error)]
pub enum SoftPmuError {
    /// Valgrind is not installed.
    #[error(
        "valgrind is not installed, and the software PMU runs on it\n  remedy: apt-get install valgrind"
    )]
    NoValgrind,
    /// Our tool is not built or not installed.
    #[error(
        "the software PMU's tool was not found (looked in {})\n  remedy: `make build` in the source tree, or set HARDMETER_SOFTPMU to the folder that holds softpmu-amd64-linux",
        searched.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    NoTool {
        /// The searched folders.
        searched: Vec<PathBuf>,
    },
    /// The processor is not one that the tool is built for.
    #[error("the software PMU runs x86-64 programs only, and this machine is {0}\n  remedy: --source timer")]
    Architecture(&'static str),
    /// The segment cannot be created.
    #[error("cannot make the shared segment {path}: {source}\n  remedy: free space in /dev/shm, or mount it larger")]
    Segment {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Unknown machine model.
    #[error("there is no machine model {name:?}\n  remedy: --machine this, a TOML file, or one of: {}", Machine::builtin_names().collect::<Vec<_>>().join(", "))]
    UnknownMachine {
        /// The requested name.
        name: String,
    },
    /// The machine model is wrong.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The machine model cannot be read.
    #[error("cannot read the machine model {path}: {source}\n  remedy: check the path and its rights, or name a model with --machine")]
    MachineFile {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The running machine does not report its caches.
    #[error("cannot read this machine's caches: {0}\n  remedy: name a model with --machine")]
    ThisMachine(String),
    /// The program cannot be simulated.
    #[error("{program} cannot run under the software PMU: {reason}")]
    Program {
        /// The program.
        program: String,
        /// The reason and the remedy.
        reason: String,
    },
}

/// Finds a machine model: `this`, a built-in name, or a TOML file's path.
///
/// # Errors
///
/// [`SoftPmuError`] if no model has that name, or the file does not describe a machine.
pub fn find_machine(name: &str) -> Result<Machine, SoftPmuError> {
    if name == "this" {
        return this_machine();
    }
    if let Some(machine) = Machine::builtin(name) {
        return Ok(machine);
    }
    let path = Path::new(name);
    if path.extension() != Some(OsStr::new("toml")) && !path.exists() {
        return Err(SoftPmuError::UnknownMachine { name: name.to_string() });
    }
    let text = std::fs::read_to_string(path)
        .map_err(|source| SoftPmuError::MachineFile { path: path.to_path_buf(), source })?;
    Ok(Machine::parse(name, &text)?)
}

/// Counts of a simulation, over all cores and processes.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedCounts {
    /// Number of occurrences of each event; scaled up if only some sets were simulated. Branch mispredictions only
    /// if they were simulated.
    pub events: BTreeMap<MemoryEvent, u64>,
    /// Simulated cycles, summed over cores.
    pub cycles: hardmeter_samples::model::Cycles,
    /// Number of process switches on all cores.
    pub switches: u64,
    /// Processes that ran.
    pub processes: u32,
}

/// A prepared software PMU: programs started by [`SoftwarePmu::command`] run on it.
pub struct SoftwarePmu {
    config: SimulationConfig,
    segment: Segment,
    valgrind: PathBuf,
    tool_folder: PathBuf,
}

/// Virtual size of the segment's sparse heap. Page frames, the last level and its shadow fit into the first part,
/// first-touch bits and private caches of a core into the second.
const HEAP_SIZE: usize = 512 << 20;
const HEAP_SIZE_PER_CORE: usize = 160 << 20;
/// For several cores: 16 bytes for each of 2^28 lines record its owners.
const DIRECTORY_SIZE: usize = 5 << 30;

impl SoftwarePmu {
    /// Checks the requirements and makes the segment.
    ///
    /// # Errors
    ///
    /// [`SoftPmuError`] if the architecture is not supported, Valgrind or the tool is missing, or the segment
    /// cannot be made.
    pub fn prepare(config: SimulationConfig) -> Result<SoftwarePmu, SoftPmuError> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(SoftPmuError::Architecture(std::env::consts::ARCH));
        }
        let valgrind = find_in_path("valgrind").ok_or(SoftPmuError::NoValgrind)?;
        let tool_folder = find_tool()?;
        SoftwarePmu::make(config, valgrind, tool_folder)
    }

    /// Makes the segment for a follower of running processes, which needs no Valgrind: [`SoftwarePmu::command`] has
    /// nothing to run programs with.
    ///
    /// # Errors
    ///
    /// [`SoftPmuError`] if the segment cannot be made.
    pub fn for_followers(config: SimulationConfig) -> Result<SoftwarePmu, SoftPmuError> {
        SoftwarePmu::make(config, PathBuf::new(), PathBuf::new())
    }

    fn make(
        config: SimulationConfig,
        valgrind: PathBuf,
        tool_folder: PathBuf,
    ) -> Result<SoftwarePmu, SoftPmuError> {
        let machine = &config.machine;
        let mut raw = Config::new(
            [Some(machine.l1i), Some(machine.l1d), machine.l2, machine.l3],
            [machine.itlb, machine.dtlb, machine.stlb],
        );
        raw.cores = machine.cores;
        raw.clock_mhz = machine.clock_mhz;
        raw.milli_cpi = (machine.base_cpi * 1000.0).round() as u32;
        raw.memory_latency = machine.memory_latency;
        raw.walk_latency = machine.page_walk_latency;
        raw.set_sampling = config.set_sampling;
        raw.callchain_depth = config.callchain_depth;
        if config.causes {
            raw.flags |= segment::FLAG_CAUSES | segment::FLAG_REUSE | segment::FLAG_HUGE_PAGES;
        }
        if machine.tlb_flush_on_switch {
            raw.flags |= segment::FLAG_TLB_FLUSH_SWITCH;
        }
        if config.interleave == Interleave::Fine && machine.cores > 1 {
            raw.flags |= segment::FLAG_INTERLEAVE;
        }
        raw.transfer_latency = machine.transfer_latency.unwrap_or(0);
        for (event, period) in &config.events {
            raw.period[*event as usize] = period.0;
        }
        // If only some lines are simulated, overlap is unknown.
        if let Some(core) = machine.core.as_ref().filter(|_| config.set_sampling <= 1) {
            raw.core = CoreConfig::new(core);
        }
        raw.branch_predictor = u32::from(config.simulates_branches());
        let directory = if machine.cores > 1 { DIRECTORY_SIZE } else { 0 };
        let heap = HEAP_SIZE + HEAP_SIZE_PER_CORE * machine.cores as usize + directory;
        let segment = Segment::create(raw, heap)?;
        segment.set_measuring(config.measure_from_start);
        Ok(SoftwarePmu { config, segment, valgrind, tool_folder })
    }

    /// The command that runs `argv` on this PMU. Environment and folder are those of the caller.
    ///
    /// # Errors
    /// When the program is known not to run: a 32-bit program, or one that is not there.
    pub fn command(&self, argv: &[OsString]) -> Result<Command, SoftPmuError> {
        let program = argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        check_program(&program).map_err(|reason| SoftPmuError::Program { program, reason })?;
        Ok(self.wrapper(self.tool_folder.clone())(argv.to_vec()))
    }

    /// Prefixes a program's command with the PMU's, for callers that start programs themselves; `tool_folder`
    /// is [`SoftwarePmu::tool_folder`] or a copy that the program's user can read.
    pub fn wrapper(&self, tool_folder: PathBuf) -> Box<dyn Fn(Vec<OsString>) -> Command> {
        let valgrind = self.valgrind.clone();
        let tool = if self.config.heap { "--tool=softpmuheap" } else { "--tool=softpmu" };
        let mut segment = OsString::from("--segment=");
        segment.push(self.segment.path());
        Box::new(move |argv| {
            let mut command = Command::new(&valgrind);
            command
                .env("VALGRIND_LIB", &tool_folder)
                .args([tool, "-q", "--trace-children=yes", "--vgdb=no", "--run-libc-freeres=no"])
                .args(["--sigill-diagnostics=no", "--read-inline-info=no"])
                .arg(&segment)
                .arg("--")
                .args(argv);
            command
        })
    }

    /// The folder of the tool and Valgrind's files.
    pub fn tool_folder(&self) -> &Path {
        &self.tool_folder
    }

    /// Allows programs of another user to run on this PMU (a server that runs as `postgres`).
    ///
    /// # Errors
    ///
    /// [`SoftPmuError`] if the segment's owner cannot be changed.
    pub fn give_to(&self, user: u32, group: u32) -> Result<(), SoftPmuError> {
        self.segment.give_to(user, group)
    }

    /// The segment's descriptor.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.segment.descriptor()
    }

    /// Removes the segment's name; processes with its descriptor keep the segment.
    pub(crate) fn forget_name(&self) {
        self.segment.forget_name();
    }

    /// Has the state of the profiled programs read at each sample from now on.
    pub fn set_state_rules(&mut self, rules: &[StateRule]) {
        self.segment.set_state_rules(rules);
    }

    /// The statements that samples name.
    pub fn statements(&self) -> Vec<Statement> {
        self.segment.statements()
    }

    /// Reuse distances; `None` if they were not measured.
    pub fn reuse(&self) -> Option<ReuseHistogram> {
        let (cold, buckets) = self.segment.reuse(self.config.machine.cores as usize)?;
        Some(reuse::histogram(cold, &buckets))
    }

    /// Page walks, and their number with huge pages; `None` if they were not simulated.
    pub fn page_walks(&self) -> Option<PageWalks> {
        let totals = self.segment.totals();
        // The first page of all costs a walk. With only some lines simulated, pages are missed.
        (totals.walks_all_huge > 0 && !self.samples_sets()).then(|| PageWalks {
            small: match self.config.machine.stlb {
                Some(_) => totals.events[MemoryEvent::StlbMiss as usize],
                // First-level TLB misses need a walk.
                None => {
                    totals.events[MemoryEvent::DtlbMiss as usize]
                        + totals.events[MemoryEvent::ItlbMiss as usize]
                }
            },
            all_huge: totals.walks_all_huge,
            shared_huge: totals.walks_shared_huge,
        })
    }

    /// Starts the simulation: before, programs run at Valgrind's base speed and nothing is counted.
    pub fn start_measuring(&self) {
        self.segment.set_measuring(true);
    }

    /// Stops simulating.
    pub fn stop_measuring(&self) {
        self.segment.set_measuring(false);
    }

    /// Passes all records written since the last call to `sink`, header included; returns their bytes.
    ///
    /// # Errors
    ///
    /// The error of `sink`, or [`RingError`] if the ring holds a broken record.
    pub fn drain<E: From<RingError>>(
        &mut self,
        sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        self.segment.drain(sink)
    }

    /// The counts so far.
    pub fn counts(&self) -> SimulatedCounts {
        let totals = self.segment.totals();
        let sampling = u64::from(self.config.set_sampling);
        let events = MemoryEvent::ALL
            .into_iter()
            .filter(|event| *event != MemoryEvent::BranchesMispredicted || self.config.simulates_branches())
            .map(|event| {
                (event, totals.events[event as usize] * if follows_lines(event) { sampling } else { 1 })
            })
            .collect();
        SimulatedCounts {
            events,
            cycles: totals.cycles,
            switches: totals.switches,
            processes: totals.processes,
        }
    }

    /// The meaning of the samples' latencies.
    pub fn latency_kind(&self) -> LatencyKind {
        match self.config.machine.core {
            Some(_) if !self.samples_sets() => LatencyKind::Exposed,
            _ => LatencyKind::Whole,
        }
    }

    /// Hidden and exposed latency; `None` if every miss costs its whole latency.
    pub fn hidden_latency(&self) -> Option<HiddenLatency> {
        (self.latency_kind() == LatencyKind::Exposed).then(|| {
            let totals = self.segment.totals();
            HiddenLatency {
                exposed: totals.exposed_cycles,
                prefetched: totals.prefetched,
                prefetched_late: totals.prefetched_late,
                dependent: totals.dependent,
            }
        })
    }

    /// One cache line in this number is simulated; 1: all.
    pub fn one_line_in(&self) -> u32 {
        self.config.set_sampling.max(1)
    }

    /// Whether only some cache lines are simulated.
    pub fn samples_sets(&self) -> bool {
        self.config.set_sampling > 1
    }

    /// The machine that is simulated.
    pub fn machine(&self) -> &Machine {
        &self.config.machine
    }

    /// The attributes under which a capture lists the sampled events.
    pub fn attributes(&self) -> Vec<EventAttributes> {
        self.config
            .events
            .iter()
            .map(|(event, period)| attributes_of(*event, *period, &self.config))
            .collect()
    }

    /// Warnings for readers of a simulated capture.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            format!("simulated on {}: {}", self.config.machine.name, self.config.machine.title),
            "kernel mode and speculation are not simulated; replacement is true LRU".into(),
            "one thread of a process runs at a time, and AVX-512 code paths are not taken (Valgrind)".into(),
            match self.latency_kind() {
                LatencyKind::Exposed => {
                    "latencies are exposed: the part that the modelled core could not hide by prefetching and overlap; misses are counted without prefetching"
                        .into()
                }
                LatencyKind::Whole => "latencies are whole: no prefetching, no overlap of misses".into(),
            },
            "the sample's time is simulated time".into(),
        ];
        notes.extend(self.config.machine.notes.iter().cloned());
        let machine = &self.config.machine;
        if let (Some(cycles), Some(LatencyMethod::Estimated), 2..) =
            (machine.transfer_latency, machine.transfer_method, machine.cores)
        {
            notes.push(format!(
                "the {cycles} cycles in which a line comes from another core are an estimate; `hardmeter latency \
                 --write-machine` measures this machine's"
            ));
        }
        if self.config.machine.cores == 1 {
            notes.push(
                "one core is simulated: no other core takes lines from it, so there are no coherence misses (--cores)"
                    .into(),
            );
        }
        if self.config.interleave == Interleave::Coarse && self.config.machine.cores > 1 {
            notes.push(
                "threads took turns of 100,000 blocks of code (--interleave coarse): few of the misses on contended lines were recorded"
                    .into(),
            );
        }
        if self.config.heap {
            notes.push(
                "malloc is Valgrind's (--heap): blocks have other addresses than with the C library".into(),
            );
        }
        if self.config.set_sampling > 1 {
            notes.push(format!(
                "1 cache line in {} was simulated and counts are scaled; TLB figures are too low",
                self.config.set_sampling
            ));
        }
        if self.segment.totals().frames_exhausted {
            notes.push("more than 16 GiB were touched: some pages share simulated frames".into());
        }
        notes
    }
}

impl SimulationConfig {
    fn simulates_branches(&self) -> bool {
        self.branches || self.events.iter().any(|(event, _)| *event == MemoryEvent::BranchesMispredicted)
    }
}

/// Whether an event occurs only on simulated cache lines; events of the code itself do not.
pub(crate) fn follows_lines(event: MemoryEvent) -> bool {
    !matches!(
        event,
        MemoryEvent::Loads
            | MemoryEvent::Stores
            | MemoryEvent::Instructions
            | MemoryEvent::BranchesMispredicted
    )
}

/// The layout written by `measure/simulate/tool/records.c`, as an attribute.
fn attributes_of(event: MemoryEvent, period: Period, config: &SimulationConfig) -> EventAttributes {
    // PERF_TYPE_RAW with Hardmeter's own numbers: no hardware event has the same meaning, and EVENT_DESC has the
    // name.
    const PERF_TYPE_RAW: u32 = 4;
    let mut attr = PerfEventAttr::new(PERF_TYPE_RAW, 0x4d48_0000 + event as u64);
    let lines = if follows_lines(event) { u64::from(config.set_sampling) } else { 1 };
    attr.sample_period = period.0 * lines;
    attr.sample_type = sample_type::PLACE
        | sample_type::RAW
        | sample_type::WEIGHT_STRUCT
        | sample_type::DATA_SRC
        | sample_type::REGS_INTR
        | sample_type::PHYS_ADDR;
    if config.callchain_depth > 0 {
        attr.sample_type |= sample_type::CALLCHAIN;
    }
    attr.read_format = read_format::ID;
    attr.flags = attr_flag::INHERIT
        | attr_flag::EXCLUDE_KERNEL
        | attr_flag::EXCLUDE_HV
        | attr_flag::MMAP
        | attr_flag::MMAP2
        | attr_flag::MMAP_DATA
        | attr_flag::COMM
        | attr_flag::COMM_EXEC
        | attr_flag::TASK
        | attr_flag::SAMPLE_ID_ALL
        | 3 << attr_flag::PRECISE_IP_SHIFT;
    attr.sample_regs_intr = Register::general_mask();
    EventAttributes { name: event.name().to_string(), attr, ids: vec![event as u64 + 1] }
}

/// The folder for `VALGRIND_LIB`: from the environment, beside the installed program, or in the source tree.
fn find_tool() -> Result<PathBuf, SoftPmuError> {
    let searched = tool_folders();
    searched
        .iter()
        .find(|folder| folder.join("softpmu-amd64-linux").is_file())
        .cloned()
        .ok_or(SoftPmuError::NoTool { searched })
}

/// Where the tool may be.
pub(crate) fn tool_folders() -> Vec<PathBuf> {
    let mut searched = Vec::new();
    // SAFETY: no preconditions.
    let own_rights = unsafe { libc::getuid() == libc::geteuid() }; // else the environment is another user's
    if let Some(folder) = std::env::var_os("HARDMETER_SOFTPMU").filter(|_| own_rights) {
        searched.push(PathBuf::from(folder));
    } else if let Ok(own) = std::env::current_exe() {
        for ancestor in own.ancestors().skip(1).take(4) {
            searched.push(ancestor.join("libexec/hardmeter/valgrind"));
            searched.push(ancestor.join("build/softpmu/valgrind"));
        }
    }
    searched
}
