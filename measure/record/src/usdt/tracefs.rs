//! Registers probes in the kernel through tracefs, and removes them.
//!
//! ```text
//! uprobe_events:  p:hardmeter_4711/statement /proc/2872/exe:0x488a47(0x88595a) address=%si:u64 text=+0(%si):string
//!                   group, with our own number   file   where     its switch     the layout that `samples` reads
//! ```
//!
//! A name alone has no effect on a process: the breakpoint is set when an event of this name is opened for a
//! process, and removed when it is closed, which the kernel also does for a killed recorder. The names of a killed
//! recorder remain; the next one removes them ([`Tracefs::sweep`]). The kernel refuses to remove a name in use.
//!
//! The file is kept open for the removal: the descriptor stays writable after the recorder has given up root.

use super::servers::Mark;
use hardmeter_samples::model::{Pid, StatementProbe};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The kernel's tracing files.
#[derive(Debug, Clone)]
pub struct Tracefs {
    folder: PathBuf,
}

/// The number of this process's next group.
static GROUPS: AtomicU32 = AtomicU32::new(1);

/// The mount points of tracefs, the second before Linux 4.1.
const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

impl Tracefs {
    /// The mounted tracefs, if this kernel has uprobes; also if this user may not enter it.
    pub fn find() -> Option<Tracefs> {
        let is_there = |folder: &PathBuf| match std::fs::metadata(folder.join("uprobe_events")) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
        };
        FOLDERS.iter().map(PathBuf::from).find(is_there).map(|folder| Tracefs { folder })
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Opens the list of probes for changes.
    fn writer(&self) -> io::Result<File> {
        OpenOptions::new().append(true).open(self.path("uprobe_events"))
    }

    /// Checks whether this user may define probes.
    ///
    /// # Errors
    ///
    /// The system's error if tracefs may not be written.
    pub fn may_write(&self) -> io::Result<()> {
        self.writer().map(drop)
    }

    /// Removes the probes of recorders that do not run any more.
    ///
    /// # Errors
    ///
    /// The system's error if tracefs may not be read or written.
    pub fn sweep(&self) -> io::Result<()> {
        let list = std::fs::read_to_string(self.path("uprobe_events"))?;
        // A group with our process id that exists before we define any is left from an earlier recorder with that id.
        let ours = Pid(std::process::id() as i32);
        let named = GROUPS.load(Ordering::Relaxed) > 1;
        let left = leftovers(
            &list,
            |recorder| if recorder == ours { !named } else { !crate::target::runs(recorder) },
        );
        if left.is_empty() {
            return Ok(());
        }
        let mut writer = self.writer()?;
        for name in left {
            let _ = writer.write_all(format!("-:{name}\n").as_bytes()); // in use, or already gone
        }
        Ok(())
    }

    /// Begins a group of probes of this recorder.
    ///
    /// # Errors
    ///
    /// The system's error if tracefs may not be written.
    pub fn group(&self) -> io::Result<ProbeGroup> {
        let own = std::process::id();
        let name = match GROUPS.fetch_add(1, Ordering::Relaxed) {
            1 => format!("{}{own}", StatementProbe::GROUP_PREFIX),
            more => format!("{}{own}_{more}", StatementProbe::GROUP_PREFIX),
        };
        Ok(ProbeGroup { writer: self.writer()?, tracefs: self.clone(), name, defined: Vec::new() })
    }
}

/// The names in a list of probes, `group/event`, whose recorder `has_died`.
fn leftovers(list: &str, has_died: impl Fn(Pid) -> bool) -> Vec<String> {
    list.lines()
        .filter_map(|line| {
            let name = line.strip_prefix("p:")?.split(' ').next()?;
            let number = name.strip_prefix(StatementProbe::GROUP_PREFIX)?.split(['/', '_']).next()?;
            has_died(Pid(number.parse().ok()?)).then(|| name.to_string())
        })
        .collect()
}

/// The probes of one recording. Removed on drop; the events opened for them must be closed before.
#[derive(Debug)]
pub struct ProbeGroup {
    writer: File,
    tracefs: Tracefs,
    name: String,
    defined: Vec<String>,
}

/// A probe that has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defined {
    /// `group:event`, in perf's form.
    pub name: String,
    /// The tracepoint's number: `perf_event_attr.config`.
    pub id: u64,
}

impl ProbeGroup {
    /// Defines a probe of an executable.
    ///
    /// # Errors
    ///
    /// The system's error if the kernel refuses the probe; one of kind `InvalidData` if it describes the event
    /// unexpectedly.
    pub fn define(&mut self, executable: &Path, mark: &Mark) -> io::Result<Defined> {
        let known = |event: &str| {
            self.defined
                .iter()
                .filter(|name| {
                    name.strip_prefix(event).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
                })
                .count()
        };
        let event = match known(mark.probe.event_name()) {
            0 => mark.probe.event_name().to_string(),
            more => format!("{}_{}", mark.probe.event_name(), more + 1),
        };
        let definition = definition(&self.name, &event, executable, mark);
        self.writer.write_all(definition.as_bytes())?;
        self.defined.push(event.clone());
        let folder = self.tracefs.path("events").join(&self.name).join(&event);
        let format = std::fs::read_to_string(folder.join("format"))?;
        if mark.text.is_some() && !layout_is_known(&format) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "this kernel lays out a probe's record in a way that hardmeter does not know",
            ));
        }
        let id = std::fs::read_to_string(folder.join("id"))?;
        let id = id.trim().parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no event id"))?;
        Ok(Defined { name: format!("{}:{event}", self.name), id })
    }

    /// The group's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The events named so far.
    pub fn events(&self) -> &[String] {
        &self.defined
    }
}

impl Drop for ProbeGroup {
    fn drop(&mut self) {
        for event in &self.defined {
            let command = format!("-:{}/{event}\n", self.name);
            // Events closed just before may still be in use: their copies in child processes are removed one by
            // one.
            for _ in 0..50 {
                match self.writer.write_all(command.as_bytes()) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    _ => break, // removed, or left for the next recorder to sweep
                }
            }
        }
    }
}

/// The line that names a probe to the kernel.
fn definition(group: &str, event: &str, executable: &Path, mark: &Mark) -> String {
    let mut line = format!("p:{group}/{event} {}:{:#x}", executable.display(), mark.location.0);
    if let Some(semaphore) = mark.semaphore {
        line.push_str(&format!("({:#x})", semaphore.0));
    }
    if let Some(text) = mark.text {
        let pointer = text.fetch();
        line.push_str(&format!(" address={pointer}:u64 text=+0({pointer}):string"));
    }
    line.push('\n');
    line
}

/// Whether the kernel's description of a record has the layout that the reader of captures assumes.
fn layout_is_known(format: &str) -> bool {
    let stands = |field: &str, at: usize| {
        format.lines().any(|line| {
            let line = line.trim();
            line.starts_with(&format!("field:{field};")) && line.contains(&format!("offset:{at};"))
        })
    };
    stands("u64 address", StatementProbe::ADDRESS_AT)
        && stands("__data_loc char[] text", StatementProbe::TEXT_AT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usdt::argument::Argument;
    use hardmeter_samples::model::FileOffset;

    /// Linux 6.18's, for the probe of `a_probe_is_named_as_the_kernel_documents_it`.
    const FORMAT: &str = "name: statement\nID: 2326\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:u64 address;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] text;\toffset:24;\tsize:4;\tsigned:1;\n";

    fn mark(text: &str) -> Mark {
        Mark {
            probe: StatementProbe::Status,
            location: FileOffset(0x488a47),
            semaphore: Some(FileOffset(0x88595a)),
            text: Argument::parse(text),
        }
    }

    #[test]
    fn a_probe_is_named_as_the_kernel_documents_it() {
        let line = definition("hardmeter_7", "statement", Path::new("/proc/2872/exe"), &mark("8@%rsi"));
        assert_eq!(
            line,
            "p:hardmeter_7/statement /proc/2872/exe:0x488a47(0x88595a) address=%si:u64 text=+0(%si):string\n"
        );
        let stack = definition("hardmeter_7", "query_start", Path::new("/x"), &mark("8@-144(%rbp)"));
        assert!(stack.ends_with(" address=-144(%bp):u64 text=+0(-144(%bp)):string\n"), "{stack}");
        let bare = Mark { semaphore: None, text: None, ..mark("8@%rsi") };
        assert_eq!(
            definition("hardmeter_7", "query_done", Path::new("/x"), &bare),
            "p:hardmeter_7/query_done /x:0x488a47\n"
        );
    }

    #[test]
    fn only_the_dead_are_swept_and_others_probes_are_not_touched() {
        let list = "p:hardmeter_7/statement /proc/1/exe:0x1 address=%si:u64\n\
                    p:hardmeter_8_2/query_start /proc/1/exe:0x1\n\
                    p:hardmeter_9/statement /proc/1/exe:0x1\n\
                    p:probe_postgres/x /bin/x:0x1\np:hardmeter_/x /bin/x:0x1\nr:hardmeter_7/x /bin/x:0x1\n";
        let dead = |pid: Pid| pid.0 != 9;
        assert_eq!(leftovers(list, dead), ["hardmeter_7/statement", "hardmeter_8_2/query_start"]);
    }

    #[test]
    fn a_layout_is_checked_and_not_assumed() {
        assert!(layout_is_known(FORMAT));
        assert!(!layout_is_known(&FORMAT.replace("offset:24", "offset:20")));
        assert!(!layout_is_known(&FORMAT.replace("u64 address", "u64 place")));
        assert!(!layout_is_known(""));
    }
}
