//! An open capture: its header, side files and records.

use crate::column::SortBy;
use crate::error::AnswersError;
use crate::filter::Filter;
use crate::grading::AddressSampler;
use crate::heading::Heading;
use crate::objects::ObjectIndex;
use crate::pass::{Located, Pass};
use crate::quality::AddressCheck;
use crate::ranking::Ranking;
use crate::remark::Remark;
use crate::statements::Statements;
use crate::symbols::SymbolNames;
use crate::totals::NamedShare;
use crate::workload::Workload;
use hardmeter_evidence::number::counted;
use hardmeter_samples::machine::{CacheGeometry, Machine, MachineError, LINE_SIZE};
use hardmeter_samples::model::{
    EventDescription, EventIndex, EventSource, Record, Sample, StatementProbe, Timestamp,
};
use hardmeter_samples::object_notes::ObjectNotes;
use hardmeter_samples::perf_data::{CacheDescription, CaptureReader, ReadSummary, RecordOrder};
use hardmeter_samples::sidecar::{LatencyKind, Sidecar, SidecarError};
use hardmeter_symbols::{BuildId, Problem, ProblemKind, Symbolizer, SymbolizerOptions};
use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A capture file, open.
pub struct Capture {
    reader: CaptureReader,
    path: PathBuf,
    /// The side file on objects; read at the first request.
    objects: OnceCell<Result<Option<ObjectNotes>, SidecarError>>,
}

/// The results of a walk over all records.
pub struct Walk {
    /// Totals, process names, names of code.
    pub pass: Pass<SymbolNames>,
    /// Bytes read, skipped and damaged.
    pub summary: ReadSummary,
    /// Data addresses computed once more, on samples drawn at random; `None` without code, addresses or registers.
    pub addresses: Option<AddressCheck>,
}

/// Which samples a walk passes to its visitor, and how its progress is reported.
pub struct WalkOptions<'a> {
    /// Samples that do not pass are skipped.
    pub filter: Filter,
    /// Where to look for names; `None` if names of code are not needed.
    pub symbols: Option<SymbolizerOptions>,
    /// Called now and then with the number of samples so far.
    pub progress: &'a dyn Fn(u64),
}

/// A sample and its surroundings, handed to a visitor; an error ends the walk.
pub type Visitor<'v, E = AnswersError> =
    dyn FnMut(&mut Pass<SymbolNames>, &Sample<'_>, Located) -> Result<ControlFlow<()>, E> + 'v;

/// Number of samples between two checks of the clock.
const PROGRESS_STEP: u64 = 1 << 16;

impl Capture {
    /// Opens a capture.
    ///
    /// # Errors
    /// If it cannot be read, or is not a capture.
    pub fn open(path: &Path) -> Result<Capture, AnswersError> {
        let reader = CaptureReader::open(path)?;
        Ok(Capture { reader, path: path.to_path_buf(), objects: OnceCell::new() })
    }

    /// The JSON side file, if there is a readable one.
    pub fn sidecar(&self) -> Option<&Sidecar> {
        self.reader.sidecar()
    }

    /// The side file on the server's objects, if there is a readable one. It is read at the first call.
    pub fn object_notes(&self) -> Option<&ObjectNotes> {
        self.load_objects().as_ref().ok()?.as_ref()
    }

    /// Why the side file on objects cannot be used; `None` if it can, or was not read.
    pub fn object_notes_problem(&self) -> Option<&SidecarError> {
        self.objects.get()?.as_ref().err()
    }

    fn load_objects(&self) -> &Result<Option<ObjectNotes>, SidecarError> {
        self.objects.get_or_init(|| ObjectNotes::load(&self.path))
    }

    /// Its events.
    pub fn events(&self) -> &[EventDescription] {
        self.reader.events()
    }

    /// Their names, in the order of their index.
    pub fn event_names(&self) -> Vec<Arc<str>> {
        self.events().iter().map(|event| event.name.as_str().into()).collect()
    }

    /// The index of the event with this name, which may lack its modifiers: `cycles` finds `cycles:u`.
    ///
    /// # Errors
    /// If no event, or more than one, has that name.
    pub fn find_event(&self, name: &str) -> Result<EventIndex, AnswersError> {
        let events = self.events();
        let position = |wanted: &dyn Fn(&str) -> bool| {
            let mut found = events.iter().enumerate().filter(|(_, event)| wanted(&event.name));
            found.next().filter(|_| found.next().is_none()).map(|(index, _)| EventIndex(index))
        };
        let exact = events.iter().position(|event| event.name == name).map(EventIndex);
        exact
            .or_else(|| position(&|known| known.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'))))
            .ok_or_else(|| AnswersError::NoSuchEvent {
                name: name.to_string(),
                known: self.event_names().join(", "),
            })
    }

    /// The source of the samples: from the side file, or inferred from the events if there is none.
    pub fn source(&self) -> EventSource {
        const SOFTWARE: u32 = 1;
        const CLOCKS: [u64; 2] = [0, 1];
        if let Some(notes) = self.reader.sidecar() {
            return notes.source;
        }
        let is_clock =
            |event: &EventDescription| event.attr_type == SOFTWARE && CLOCKS.contains(&event.attr_config);
        if !self.events().is_empty() && self.events().iter().all(is_clock) {
            EventSource::Timer
        } else {
            EventSource::Imported
        }
    }

    /// The simulated machine; `None` if the capture was not simulated, or its side file names no valid machine.
    pub fn machine(&self) -> Option<Machine> {
        self.told_machine()?.ok()
    }

    /// The meaning of the samples' latencies; `None` if the capture was not simulated or its version did not
    /// record it.
    pub fn latency_kind(&self) -> Option<LatencyKind> {
        self.reader.sidecar()?.latency
    }

    /// The default order of its views: by exposed latency if that is known, else by count.
    pub(crate) fn ranks_by(&self) -> SortBy {
        match self.latency_kind() {
            // Stall samples beside ghosts are of time already, and have no latency.
            Some(LatencyKind::Exposed) if !self.has_stalls() => SortBy::TotalLatency,
            _ => SortBy::Count,
        }
    }

    /// Whether time was sampled at loads.
    fn has_stalls(&self) -> bool {
        self.reader.sidecar().is_some_and(|notes| notes.stall.is_some())
    }

    /// The order of rows in views without a choice of order.
    pub fn ranking(&self) -> Ranking {
        match self.ranks_by() {
            SortBy::TotalLatency => Ranking::Stall,
            _ => Ranking::Count,
        }
    }

    /// The side file's machine, or the reason why it cannot be used.
    fn told_machine(&self) -> Option<Result<Machine, MachineError>> {
        let told = self.reader.sidecar()?.machine.as_ref()?;
        Some(Machine::from_json("the machine in the side file of the capture", told))
    }

    /// Whether an event exists only to carry other records (perf's "dummy", the marks of statements).
    pub fn is_carrier(&self, event: EventIndex) -> bool {
        const SOFTWARE_DUMMY: (u32, u64) = (1, 9);
        self.events().get(event.0).is_some_and(|event| {
            (event.attr_type, event.attr_config) == SOFTWARE_DUMMY
                || StatementProbe::of_event(&event.name).is_some()
        })
    }

    /// Size of a cache line of the recorded machine in bytes; 64 if unknown.
    pub fn line_size(&self) -> u32 {
        let caches = &self.reader.header().caches;
        let told =
            caches.iter().find(|cache| cache.level == 1 && cache.kind == "Data").map(|l1| l1.line_size);
        told.filter(|size| size.is_power_of_two()).unwrap_or(64)
    }

    /// The caches of the recorded machine, where the recorder wrote them into the header.
    pub fn caches(&self) -> &[CacheDescription] {
        &self.reader.header().caches
    }

    /// When the recording began, from the side file.
    pub fn started(&self) -> Option<std::time::SystemTime> {
        self.reader.sidecar()?.wall_start
    }

    /// The name of the recorded machine, and the release of its kernel.
    pub fn host(&self) -> (Option<&str>, Option<&str>) {
        let header = self.reader.header();
        (header.hostname.as_deref(), header.os_release.as_deref())
    }

    /// The time of the first sample of the file; `None` without samples, or if they have no time.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn first_sample_time(&self) -> Result<Option<Timestamp>, AnswersError> {
        let mut first = None;
        self.reader.for_each(RecordOrder::File, &mut |record| match record {
            Record::Sample(sample) => {
                first = sample.time;
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })?;
        Ok(first)
    }

    /// The command line that recorded it; empty if unknown.
    pub fn command_line(&self) -> &[String] {
        &self.reader.header().command_line
    }

    /// The server's own counts during the recording.
    pub fn workload(&self) -> Workload {
        Workload::of(self)
    }

    /// The conditions of the recording, after a walk over it.
    pub fn heading(&self, walk: &Walk) -> Heading {
        let (header, notes) = (self.reader.header(), self.reader.sidecar());
        let mut machine: Vec<String> = header.cpu_description.iter().cloned().collect();
        machine.extend(header.cpus_online.map(|cpus| counted(u64::from(cpus), "processor")));
        machine.extend(header.hostname.clone());
        machine.extend(header.os_release.as_ref().map(|release| format!("kernel {release}")));
        let mut heading = Heading {
            file: self.path.display().to_string(),
            source: self.source(),
            recorder: header.recorder_version.clone(),
            machine: (!machine.is_empty()).then(|| machine.join(", ")),
            geometry: self.geometry(),
            command: (!header.command_line.is_empty()).then(|| header.command_line.join(" ")),
            duration_ns: None,
            instructions: notes.and_then(|notes| notes.instructions),
            simulated_cycles: notes.and_then(|notes| notes.simulated_cycles),
            processes: 0,
            threads: 0,
            user_samples: 0,
            kernel_samples: 0,
            lost_samples: 0,
            lost_records: 0,
            throttled: 0,
            addresses: walk.addresses.clone(),
            stall: notes.and_then(|notes| notes.stall.clone()),
            ghosts: None,
            times: notes.map(|notes| notes.times.clone()).unwrap_or_default(),
            undecoded_traces: walk.summary.undecoded_traces(),
            events: Vec::new(),
            limits: notes.map(|notes| notes.notes.clone()).unwrap_or_default(),
        };
        heading.set_totals(self.events(), walk.pass.totals());
        if let Some(notes) = notes {
            // The recorder may have counted losses that left no record in the file.
            heading.lost_samples = heading.lost_samples.max(notes.lost);
            heading.throttled = heading.throttled.max(notes.throttled);
            for event in &mut heading.events {
                event.counted = notes.counts.get(&event.name).copied();
            }
        }
        heading.set_ghosts(notes.and_then(|notes| notes.ghosts.clone()));
        if self.source() == EventSource::Timer {
            heading.limits.push(
                "a timer samples where time goes; it records no cache misses, data addresses or latencies"
                    .to_string(),
            );
        }
        if self.source() == EventSource::Live && heading.stall.is_some() {
            heading.limits.push(
                "stall is time right behind a load: a miss, or only the latency of a hit; samples of time cannot \
                 distinguish the two, nor the cause of a miss"
                    .to_string(),
            );
        }
        if header.unfinished {
            heading.limits.push("the recorder was killed before it finished the file".to_string());
        }
        heading.limits.extend(self.reader.sidecar_problem().map(|problem| problem.to_string()));
        if let Some(Err(problem)) = self.told_machine() {
            let problem = problem.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
            heading.limits.push(format!("its caches are not known: {problem}"));
        }
        heading.limits.extend(self.object_notes_problem().map(|problem| problem.to_string()));
        heading
    }

    fn geometry(&self) -> Option<String> {
        if let Some(machine) = self.machine() {
            return Some(simulated_geometry(&machine));
        }
        let mut caches: Vec<String> = Vec::new();
        for cache in &self.reader.header().caches {
            let kind = match cache.kind.as_str() {
                "Data" => "d",
                "Instruction" => "i",
                _ => "",
            };
            let text = format!(
                "L{}{kind} {} {}-way, {} B lines",
                cache.level, cache.size, cache.ways, cache.line_size
            );
            // Each core has its own caches; show each geometry once.
            if !caches.contains(&text) {
                caches.push(text);
            }
        }
        (!caches.is_empty()).then(|| caches.join("; "))
    }

    /// Walks over all records in order of time and passes every sample that the filter admits to `visit`.
    ///
    /// # Errors
    /// If the file cannot be read, or with the error of `visit`.
    pub fn walk<E: From<AnswersError>>(
        &self,
        options: WalkOptions<'_>,
        visit: &mut Visitor<'_, E>,
    ) -> Result<Walk, E> {
        self.walk_by(ObjectIndex::new(None), options, visit)
    }

    /// As [`walk`](Capture::walk), and names data by the side file on objects ([`Pass::object`]).
    ///
    /// # Errors
    /// As [`walk`](Capture::walk).
    pub fn walk_with_objects<E: From<AnswersError>>(
        &self,
        options: WalkOptions<'_>,
        visit: &mut Visitor<'_, E>,
    ) -> Result<Walk, E> {
        self.walk_by(ObjectIndex::new(self.object_notes()), options, visit)
    }

    fn walk_by<E: From<AnswersError>>(
        &self,
        objects: ObjectIndex,
        options: WalkOptions<'_>,
        visit: &mut Visitor<'_, E>,
    ) -> Result<Walk, E> {
        let with_places = options.symbols.is_some();
        let mut symbolizer = Symbolizer::new(options.symbols.unwrap_or_default());
        let builds = self.reader.header().build_ids.iter();
        symbolizer
            .expect_builds(builds.filter_map(|build| Some((build.path.clone(), BuildId::new(&build.id)?))));
        let statements = Statements::new(self.sidecar().map_or(&[], |notes| &notes.statements));
        let mut pass = Pass::new(SymbolNames::new(symbolizer), options.filter)
            .with_objects(objects.of_machine(self.reader.header().architecture.as_deref()))
            .with_statements(statements);
        if !with_places {
            pass = pass.without_places();
        }
        let mut failure = None;
        let mut samples = 0u64;
        let mut addresses = AddressSampler::new();
        let summary = self.reader.for_each(RecordOrder::Time, &mut |record| {
            let Some(located) = pass.see(&record) else { return ControlFlow::Continue(()) };
            let Record::Sample(sample) = &record else { return ControlFlow::Continue(()) };
            samples += 1;
            if samples.is_multiple_of(PROGRESS_STEP) {
                (options.progress)(samples);
            }
            addresses.see(sample, located);
            visit(&mut pass, sample, located).unwrap_or_else(|error| {
                failure = Some(error);
                ControlFlow::Break(())
            })
        });
        let summary = summary.map_err(AnswersError::from)?;
        match failure {
            Some(error) => Err(error),
            None => {
                let addresses = addresses.check(pass.map());
                Ok(Walk { pass, summary, addresses })
            }
        }
    }
}

impl Walk {
    /// One sentence for each part of the file that could not be read; empty if the file is complete. Samples
    /// lost during the recording are not included.
    pub fn unread(&self) -> Vec<String> {
        let skipped = self.summary.skipped.iter().filter(|(reason, _)| reason.is_damage());
        let mut texts: Vec<String> =
            skipped.map(|(reason, bytes)| format!("{bytes} bytes were not read: {reason}")).collect();
        if self.summary.unparsable > 0 {
            texts.push(format!("{} records were not understood", self.summary.unparsable));
        }
        texts
    }

    /// Warnings for every view of this capture.
    pub fn remarks(&mut self, names: Option<NamedShare>) -> Vec<Remark> {
        let mut remarks = Remark::of_totals(self.pass.totals());
        remarks.extend(names.map(Remark::of_names).unwrap_or_default());
        let kernel_seen = self.pass.totals().kernel_samples > 0;
        let problems = self.pass.map().problems();
        // Kernel names are missed only where the kernel was sampled.
        let missed = problems.filter(|problem| problem.kind != ProblemKind::KernelNames || kernel_seen);
        remarks.extend(names_missing(missed));
        remarks
    }
}

/// One warning for all files with the same fault.
pub(crate) fn names_missing<'p>(problems: impl Iterator<Item = &'p Problem>) -> Vec<Remark> {
    let mut remarks: Vec<Remark> = Vec::new();
    for problem in problems {
        let alike = remarks.iter_mut().find_map(|remark| match remark {
            Remark::Names { subjects, cause, remedy }
                if *cause == problem.cause && *remedy == problem.remedy =>
            {
                Some(subjects)
            }
            _ => None,
        });
        match alike {
            Some(subjects) => subjects.push(problem.subject.clone()),
            None => remarks.push(Remark::Names {
                subjects: vec![problem.subject.clone()],
                cause: problem.cause.clone(),
                remedy: problem.remedy.clone(),
            }),
        }
    }
    remarks
}

fn simulated_geometry(machine: &Machine) -> String {
    let kib = |cache: &CacheGeometry| format!("{} KB {}-way", cache.size >> 10, cache.ways);
    let mut text = format!("{}: L1d {}, L1i {}", machine.name, kib(&machine.l1d), kib(&machine.l1i));
    for (name, cache) in [("L2", &machine.l2), ("L3", &machine.l3)] {
        if let Some(cache) = cache {
            text.push_str(&format!(", {name} {}", kib(cache)));
        }
    }
    let cores = counted(u64::from(machine.cores), "core");
    text.push_str(&format!(", {LINE_SIZE} B lines, {cores}"));
    text
}
