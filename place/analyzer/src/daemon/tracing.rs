//! The rings of sections: their order, used by the scores and written to a file on request.

use crate::model::{AppId, KindProfile, KindRef, Workload};
use crate::segment::{Application, TraceCursor, TraceEntry};
use crate::trace::{Header, Kind, Section, Writer};
use hardmeter_samples::model::Cycles;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Result};
use std::path::Path;

/// Without a trace file, one section in this many leaves an entry, which is enough for the scores and fills a ring
/// slowly.
pub(super) const SOME: u32 = 16;
/// Every section leaves an entry, provided that the rings are read in time.
pub(super) const ALL: u32 = 1;

/// Rings, read so far.
#[derive(Debug, Default)]
pub(super) struct Rings {
    cursors: BTreeMap<AppId, TraceCursor>,
}

impl Rings {
    /// The entries written into an application's rings since the last call.
    pub fn read(&mut self, application: &Application, now_ns: u64) -> Vec<Section> {
        let app = application.app();
        let (known, cursor) = match self.cursors.get_mut(&app) {
            Some(cursor) => (true, cursor),
            None => (false, self.cursors.entry(app).or_default()),
        };
        let entries = application.traces(cursor);
        // The entries of the first round may be of any age.
        if !known {
            return Vec::new();
        }
        let now = Moment { ns: now_ns, cycles: cycles_now(), per_second: application.cycles_per_second() };
        entries.iter().map(|entry| section(app, entry, &now)).collect()
    }

    /// Removes an application that has ended.
    pub fn forget(&mut self, app: AppId) {
        self.cursors.remove(&app);
    }
}

/// The same moment on two clocks.
struct Moment {
    ns: u64,
    cycles: u64,
    per_second: u64,
}

fn section(app: AppId, entry: &TraceEntry, now: &Moment) -> Section {
    let ago = now.cycles.saturating_sub(entry.ended_tsc) as f64 / now.per_second as f64 * 1e9;
    Section {
        ended_ns: now.ns.saturating_sub(ago as u64),
        cpu: entry.cpu,
        kind: KindRef { app, code: entry.code },
        previous: entry.previous,
        elapsed: entry.elapsed,
        own: (entry.own != Cycles(0)).then_some(entry.own),
        displaced: entry.displaced.map(|thousandths| f64::from(thousandths) / 1000.0),
        preempted: entry.preempted,
        migrated: entry.migrated,
        placed: entry.placed,
        nested: entry.nested,
    }
}

#[cfg(target_arch = "x86_64")]
fn cycles_now() -> u64 {
    // SAFETY: every x86-64 has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The counter that libsplit uses as time stamp counter on this machine.
#[cfg(target_arch = "aarch64")]
fn cycles_now() -> u64 {
    let counter: u64;
    // SAFETY: user space may read this register, and reading it changes nothing.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) counter) };
    counter
}

/// A trace as a file.
pub(super) struct Tracing {
    /// Set at the first section, whose application reports the speed of the counter.
    file: Option<File>,
    writer: Option<Writer<BufWriter<File>>>,
    known: BTreeMap<KindRef, Kind>,
    pub sections: u64,
}

impl Tracing {
    /// Starts a file.
    pub fn create(path: &Path) -> Result<Tracing> {
        Ok(Tracing { file: Some(File::create(path)?), writer: None, known: BTreeMap::new(), sections: 0 })
    }

    /// Writes kinds with new data, then sections.
    pub fn write(&mut self, workload: &Workload, sections: &[Section]) -> Result<()> {
        if let Some(file) = self.file.take_if(|_| workload.cycles_per_second != 0) {
            let header = Header::new(workload.cycles_per_second, "recorded by hardmeter split analyze");
            self.writer = Some(Writer::new(BufWriter::new(file), &header)?);
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        for profile in &workload.kinds {
            let kind = kind_of(profile, workload);
            if self.known.get(&profile.kind) != Some(&kind) {
                writer.kind(&kind)?;
                self.known.insert(profile.kind, kind);
            }
        }
        // A kind that appeared after the workload was made is written with its sections in the next round.
        for section in sections.iter().filter(|section| self.known.contains_key(&section.kind)) {
            writer.section(section)?;
            self.sections += 1;
        }
        Ok(())
    }

    /// Flushes the file.
    pub fn finish(self) -> Result<()> {
        self.writer.map_or(Ok(()), |writer| writer.finish().map(drop))
    }
}

fn kind_of(profile: &KindProfile, workload: &Workload) -> Kind {
    let application = workload.apps.iter().find(|(app, _, _)| *app == profile.kind.app);
    // Rounded to two digits, so that a line is written only when something changed.
    let rounded = |value: f64| {
        let scale = 10_f64.powf(value.abs().max(1e-9).log10().floor() - 1.0);
        (value / scale).round() * scale
    };
    Kind {
        kind: profile.kind,
        label: profile.label.clone(),
        application: application.map(|(_, name, _)| name.clone()).unwrap_or_default(),
        class: profile.class,
        warm_cycles: profile.cycles.map(|cycles| rounded(cycles.mean)),
        footprint_kb: profile.footprint_kb.map(|footprint| rounded(footprint.mean)),
        slowdown: profile.slowdown.map(|slowdown| rounded(slowdown.mean)),
    }
}
