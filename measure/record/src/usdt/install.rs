//! From processes to events that can be opened: the executables, their probes, and which of the kernel's two
//! interfaces to use.

use super::argument::Place;
use super::note;
use super::servers::{self, Mark};
use super::tracefs::{ProbeGroup, Tracefs};
use super::tracing_data;
use crate::pmu::attributes::{self, Common, Modes, Rate};
use crate::pmu::encoding::Encoding;
use crate::privileges::{has_capability, CAP_PERFMON, CAP_SYS_ADMIN};
use hardmeter_samples::model::{Period, Pid, StatementProbe};
use hardmeter_samples::perf_data::abi::{sample_type, PerfEventAttr};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The reason why statements cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum UsdtError {
    /// No server process runs yet.
    #[error("statements need a running server, and none is given")]
    NoServer,
    /// No executable of the target has such probes.
    #[error("{programs} has no probes that report statements")]
    NoProbes {
        /// The executables, by their processes.
        programs: String,
    },
    /// The kernel does not allow this user to set probes.
    #[error("no right to set probes: {reason}")]
    NotAllowed {
        /// The attempt and its error.
        reason: String,
    },
    /// The kernel refused one.
    #[error("the kernel refuses the probe {name} of {program}: {source}")]
    Refused {
        /// The probe.
        name: &'static str,
        /// The executable.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl UsdtError {
    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            UsdtError::NoServer => "name the server with --server or -p, or take -a for all that run",
            UsdtError::NoProbes { .. } => {
                "take a PostgreSQL built with --enable-dtrace, as Debian's and the PGDG's are, or --source simulated, \
                 which needs no probes; or leave --statements out"
            }
            UsdtError::NotAllowed { .. } => {
                "run it with sudo (tracefs mounted: sudo mount -t tracefs nodev /sys/kernel/tracing), \
                 or leave --statements out"
            }
            UsdtError::Refused { .. } => {
                "see /sys/kernel/tracing/error_log for the kernel's reason, or leave --statements out"
            }
        }
    }
}

/// An event of a statement probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeEvent {
    /// Its name in the capture.
    pub name: String,
    /// Its encoding for the kernel.
    pub encoding: Encoding,
    /// The fields of its samples that contain the text.
    fields: Fields,
}

/// The way a sample contains the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fields {
    /// The text itself, in the raw field.
    Text,
    /// The register with its address, if it is needed to distinguish a begin from an end.
    Register { mask: u64 },
}

impl ProbeEvent {
    /// Its attribute: every execution of the probe is a sample.
    pub fn attribute(&self, common: &Common) -> PerfEventAttr {
        let common = Common { callchains: false, ..*common };
        let mut attr = attributes::sampling(&self.encoding, Rate::Period(Period(1)), Modes::BOTH, &common);
        match self.fields {
            Fields::Text => attr.sample_type |= sample_type::RAW,
            Fields::Register { mask: 0 } => {}
            Fields::Register { mask } => {
                attr.sample_type |= sample_type::REGS_USER;
                attr.sample_regs_user = mask;
            }
        }
        attr
    }
}

/// The probes of a recording, known to the kernel. To be dropped after the events opened for them.
#[derive(Debug)]
pub struct StatementProbes {
    events: Vec<ProbeEvent>,
    notes: Vec<String>,
    tracing_data: Option<Vec<u8>>,
    /// Referenced by the attributes of the uprobe PMU.
    _paths: Vec<CString>,
    /// Removes the names on drop.
    group: Option<ProbeGroup>,
}

/// An executable with marks, and a path by which the kernel finds it in any mount namespace of the server.
struct Program {
    path: PathBuf,
    marks: Vec<Mark>,
}

/// `perf_event_attr.type` of tracepoints.
const TRACEPOINT: u32 = 2;
/// The PMU of uprobes without names.
const UPROBE_PMU: &str = "/sys/bus/event_source/devices/uprobe/type";

impl StatementProbes {
    /// Finds the probes in the executables of these processes and registers them in the kernel.
    ///
    /// # Errors
    ///
    /// [`UsdtError`] if the executables have no probes, or the kernel does not allow them.
    pub fn install(processes: &[Pid]) -> Result<StatementProbes, UsdtError> {
        let refused = match Tracefs::find() {
            Some(tracefs) => match tracefs.may_write() {
                Ok(()) => return Self::by_tracefs(&tracefs, &programs(processes, false)?),
                Err(error) => format!("{} ({error})", tracefs.path("uprobe_events").display()),
            },
            None => "tracefs is not mounted, or this kernel has no uprobes".to_string(),
        };
        let device =
            std::fs::read_to_string(UPROBE_PMU).ok().and_then(|text| text.trim().parse::<u32>().ok());
        match device.filter(|_| has_capability(CAP_PERFMON) || has_capability(CAP_SYS_ADMIN)) {
            Some(device) => Self::by_pmu(device, &programs(processes, true)?, &refused),
            None => Err(UsdtError::NotAllowed { reason: refused }),
        }
    }

    fn by_tracefs(tracefs: &Tracefs, programs: &[Program]) -> Result<StatementProbes, UsdtError> {
        let refused = |name: &'static str, program: &Program, source: io::Error| UsdtError::Refused {
            name,
            program: program.path.display().to_string(),
            source,
        };
        let general = |source: io::Error| refused("group", &programs[0], source);
        let _ = tracefs.sweep(); // remaining names are harmless
        let mut group = tracefs.group().map_err(general)?;
        let mut events = Vec::new();
        for program in programs {
            for mark in &program.marks {
                let defined = group
                    .define(&program.path, mark)
                    .map_err(|source| refused(mark.probe.event_name(), program, source))?;
                events.push(ProbeEvent {
                    name: defined.name,
                    encoding: Encoding { event_type: TRACEPOINT, config: defined.id, ..Encoding::default() },
                    fields: Fields::Text,
                });
            }
        }
        let tracing_data = tracing_data::of_group(tracefs, group.name(), group.events()).map_err(general)?;
        let notes =
            vec!["statements: the capture holds their texts as the clients sent them, constants included; \
                          the kernel passes on none longer than 4 KiB"
                .to_string()];
        Ok(StatementProbes {
            events,
            notes,
            tracing_data: Some(tracing_data),
            _paths: Vec::new(),
            group: Some(group),
        })
    }

    /// The interface without names: the kernel reads no text, and the recorder would read it too late.
    fn by_pmu(device: u32, programs: &[Program], refused: &str) -> Result<StatementProbes, UsdtError> {
        let own = std::process::id();
        let mut paths = Vec::new();
        let mut events: Vec<ProbeEvent> = Vec::new();
        for program in programs {
            let path = CString::new(program.path.as_os_str().as_encoded_bytes()).expect("a path of /proc");
            for mark in &program.marks {
                let event = mark.probe.event_name();
                let before =
                    events.iter().filter(|known| StatementProbe::of_event(&known.name) == Some(mark.probe));
                let suffix = match before.count() {
                    0 => String::new(),
                    before => format!("_{}", before + 1),
                };
                let needed = (mark.probe == StatementProbe::Status).then_some(mark.text).flatten();
                let mask = match needed.map(|text| text.place) {
                    Some(Place::Register(register)) => 1 << register as u64,
                    _ => 0,
                };
                events.push(ProbeEvent {
                    name: format!("{}{own}:{event}{suffix}", StatementProbe::GROUP_PREFIX),
                    encoding: pmu_encoding(device, mark, &path),
                    fields: Fields::Register { mask },
                });
            }
            paths.push(path);
        }
        let notes = vec![format!(
            "statements: only their beginnings and ends are recorded, without texts: {refused} \
             (sudo mount -t tracefs nodev /sys/kernel/tracing)"
        )];
        Ok(StatementProbes { events, notes, tracing_data: None, _paths: paths, group: None })
    }

    /// Whether the events may be opened for processes whose children inherit them. On the uprobe PMU that would be
    /// harmful: the kernel checks whether the *forking process* has the right to set probes, and a server without
    /// it can no longer fork (observed with Linux 6.18: "could not fork new process for connection: Permission
    /// denied").
    pub fn may_be_inherited(&self) -> bool {
        self.group.is_some()
    }

    /// The events to open.
    pub fn events(&self) -> &[ProbeEvent] {
        &self.events
    }

    /// Warnings for readers of the capture.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The data that perf needs to read the capture.
    pub fn tracing_data(&self) -> Option<&[u8]> {
        self.tracing_data.as_deref()
    }
}

/// The attribute words of a probe on the uprobe PMU (`/sys/bus/event_source/devices/uprobe/format`, and
/// `uprobe_path`, `probe_offset` in `linux/perf_event.h`).
fn pmu_encoding(device: u32, mark: &Mark, path: &CString) -> Encoding {
    Encoding {
        event_type: device,
        config: mark.semaphore.map_or(0, |semaphore| semaphore.0 << 32),
        config1: path.as_ptr() as u64,
        config2: mark.location.0,
        ..Encoding::default()
    }
}

/// The executables of processes that have marks, without duplicates. `register`: only texts whose address is in a
/// register can be used.
fn programs(processes: &[Pid], register: bool) -> Result<Vec<Program>, UsdtError> {
    let mut seen = BTreeMap::new();
    for pid in processes {
        let path = PathBuf::from(format!("/proc/{pid}/exe"));
        let Ok(file) = std::fs::metadata(&path) else { continue }; // ended, or a kernel thread
        seen.entry((file.dev(), file.ino())).or_insert(path);
    }
    if seen.is_empty() {
        return Err(UsdtError::NoServer);
    }
    let mut programs = Vec::new();
    for path in seen.values() {
        let marks = servers::statement_marks(&note::probes_of(path).unwrap_or_default(), register);
        if !marks.is_empty() {
            programs.push(Program { path: path.clone(), marks });
        }
    }
    if programs.is_empty() {
        let mut names: Vec<String> = seen
            .values()
            .map(|path| std::fs::read_link(path).unwrap_or_else(|_| path.clone()).display().to_string())
            .collect();
        let more = names.len().saturating_sub(3);
        names.truncate(3);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        return Err(UsdtError::NoProbes { programs: format!("{}{more}", names.join(", ")) });
    }
    Ok(programs)
}

/// Checks whether statements of a server with this executable could be recorded; returns the doctor's verdict in
/// words.
///
/// # Errors
///
/// [`UsdtError`] if the executable has no probes, or the kernel does not allow them.
pub fn check(executable: &std::path::Path) -> Result<String, UsdtError> {
    let probes = note::probes_of(executable).unwrap_or_default();
    let marks = servers::statement_marks(&probes, false);
    if marks.is_empty() {
        return Err(UsdtError::NoProbes { programs: executable.display().to_string() });
    }
    let tracefs = Tracefs::find().ok_or_else(|| UsdtError::NotAllowed {
        reason: "tracefs is not mounted, or this kernel has no uprobes".to_string(),
    })?;
    let list = tracefs.path("uprobe_events");
    tracefs
        .may_write()
        .map_err(|error| UsdtError::NotAllowed { reason: format!("{} ({error})", list.display()) })?;
    Ok(format!("{} has {} probes, and {} may be written", executable.display(), probes.len(), list.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmu::attributes::KernelFeatures;
    use crate::usdt::argument::Argument;
    use hardmeter_samples::model::FileOffset;
    use hardmeter_samples::perf_data::abi::attr_flag;

    fn common() -> Common {
        Common {
            callchains: true,
            inherit: true,
            enable_on_exec: false,
            wakeup_watermark: Some(4096),
            kernel: KernelFeatures::ALL,
        }
    }

    #[test]
    fn a_tracepoints_samples_have_the_raw_field_the_common_ones_and_nothing_else() {
        let event = ProbeEvent {
            name: "hardmeter_7:statement".into(),
            encoding: Encoding { event_type: TRACEPOINT, config: 2326, ..Encoding::default() },
            fields: Fields::Text,
        };
        let attr = event.attribute(&common());
        use sample_type::*;
        assert_eq!((attr.event_type, attr.config, attr.sample_period), (2, 2326, 1));
        assert_eq!(attr.sample_type, IP | TID | TIME | CPU | PERIOD | IDENTIFIER | RAW);
        assert!(
            attr.has(attr_flag::INHERIT) && attr.has(attr_flag::USE_CLOCKID) && !attr.has(attr_flag::FREQ)
        );
    }

    #[test]
    fn the_uprobe_pmu_is_told_path_place_switch_and_register() {
        let mark = Mark {
            probe: StatementProbe::Status,
            location: FileOffset(0x488a47),
            semaphore: Some(FileOffset(0x88595a)),
            text: Argument::parse("8@%rsi"),
        };
        let program = Program { path: "/proc/2872/exe".into(), marks: vec![mark, mark] };
        let probes =
            StatementProbes::by_pmu(8, &[program], "no tracefs").expect("nothing is asked of the kernel");
        let event = &probes.events()[0];
        assert_eq!(StatementProbe::of_event(&event.name), Some(StatementProbe::Status));
        assert!(probes.events()[1].name.ends_with(":statement_2"));
        let attr = event.attribute(&common());
        assert_eq!((attr.event_type, attr.config, attr.config2), (8, 0x88595a << 32, 0x488a47));
        // SAFETY: the text is kept as long as `probes`.
        let path = unsafe { std::ffi::CStr::from_ptr(attr.config1 as *const _) };
        assert_eq!(path.to_bytes(), b"/proc/2872/exe");
        assert_eq!(attr.sample_regs_user, 1 << 4); // PERF_REG_X86_SI
        assert_ne!(attr.sample_type & sample_type::REGS_USER, 0);
        assert!(probes.notes()[0].contains("without texts: no tracefs"));
    }

    #[test]
    fn a_program_without_probes_is_named() {
        let own = Pid(std::process::id() as i32);
        match programs(&[own], false) {
            Err(UsdtError::NoProbes { programs }) => assert!(programs.contains("hardmeter"), "{programs}"),
            other => panic!("{:?}", other.map(|programs| programs.len())),
        }
        assert!(matches!(programs(&[Pid(i32::MAX)], false), Err(UsdtError::NoServer)));
    }
}
