//! Sampling by the kernel: the events of a target, one ring per CPU.

use super::attributes::{self, Common, Concession, Modes, Rate};
use super::encoding::Encoding;
use super::filter::RecordFilter;
use super::latecomers::{each_record, Latecomers};
use super::members::{Members, ProbeMembers};
use super::open::{self, OpenError};
use super::places::{open_everywhere, CpuRing, OpenEvent, Rings, WAKEUP_WATERMARK};
use super::plan::{Attachment, PlannedEvent, SamplingPlan};
use super::synthesize::Synthesizer;
use super::syscall::{self, Place, Reading};
use super::sysfs;
use crate::cgroup::Cgroup;
use crate::events::memory::only_by_spe;
use crate::events::EventRequest;
use crate::rings::RingWatch;
use crate::source::{DrainError, EventCount, RecordSink, RecordSource};
use crate::usdt::StatementProbes;
use hardmeter_samples::model::{EventSource, Pid, StatementProbe};
use hardmeter_samples::perf_data::abi::{attr_flag, record_type};
use hardmeter_samples::perf_data::{EventAttributes, RecordEncoder};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A running recording by the kernel.
pub struct KernelSource {
    events: Vec<OpenEvent>,
    rings: Vec<CpuRing>,
    filters: HashMap<u64, RecordFilter>,
    attachment: Attachment,
    /// The folder of the cgroup that the events are bound to, and the cgroup.
    cgroup: Option<File>,
    bound_to: Option<Cgroup>,
    kind: EventSource,
    members: Option<Members>,
    enabled_by_exec: bool,
    notes: Vec<String>,
    preamble: Vec<u8>,
    latecomers: Option<Latecomers>,
    /// If the probes fire for all processes: the processes whose marks are kept.
    probe_members: Option<ProbeMembers>,
    /// Dummy events, see [`KernelSource::open_statements`].
    anchors: Vec<OwnedFd>,
    /// Dropped last: the kernel removes no probe whose event is open.
    statements: Option<StatementProbes>,
}

impl KernelSource {
    /// Opens all events, stopped.
    ///
    /// The timer is opened on all CPUs where that is allowed, and other processes' records are dropped (see
    /// [`Members`]); a live recording requires this.
    ///
    /// # Errors
    ///
    /// [`OpenError`] with the event and the kernel's reason.
    pub fn open(plan: &SamplingPlan, statements: Option<StatementProbes>) -> Result<KernelSource, OpenError> {
        let mut source = KernelSource::open_best(plan, statements.as_ref())?;
        source.statements = statements;
        Ok(source)
    }

    fn open_best(
        plan: &SamplingPlan,
        statements: Option<&StatementProbes>,
    ) -> Result<KernelSource, OpenError> {
        let roots: BTreeSet<Pid> = match &plan.attachment {
            Attachment::Exec(pid, _) => BTreeSet::from([*pid]),
            Attachment::Threads(threads) => threads.iter().map(|(pid, _)| *pid).collect(),
            Attachment::System => BTreeSet::new(),
        };
        if let (EventSource::Hardware, Some(cgroup)) = (plan.kind, &plan.cgroup) {
            return KernelSource::open_cgroup(plan, cgroup, statements);
        }
        if matches!(plan.kind, EventSource::Timer | EventSource::Live) && !roots.is_empty() {
            let everywhere = SamplingPlan { attachment: Attachment::System, ..plan.clone() };
            match KernelSource::open_at(&everywhere, Some(&plan.attachment), statements) {
                Ok(mut source) => {
                    source.members = Some(Members::of(roots, plan.cgroup.clone()));
                    source.attachment = plan.attachment.clone();
                    return Ok(source);
                }
                Err(error) if plan.kind == EventSource::Live => return Err(error),
                Err(_) => {}
            }
        }
        KernelSource::open_at(plan, None, statements)
    }

    /// Events of a cgroup, which the kernel switches on while one of its processes runs. Where it cannot, events of its
    /// threads and of what they start.
    ///
    /// The timer is not opened so: it would be programmed at each switch between the cgroup and others (see [`Members`]).
    fn open_cgroup(
        plan: &SamplingPlan,
        cgroup: &Cgroup,
        statements: Option<&StatementProbes>,
    ) -> Result<KernelSource, OpenError> {
        let everywhere = SamplingPlan { attachment: Attachment::System, ..plan.clone() };
        let refusal = match KernelSource::open_at(&everywhere, Some(&plan.attachment), statements) {
            Ok(mut source) => {
                source.attachment = plan.attachment.clone();
                return Ok(source);
            }
            Err(error) => error,
        };
        let mut source = KernelSource::open_at(plan, None, statements)?;
        source.notes.push(format!(
            "the kernel binds no events to {} ({}): processes that enter it without being started in it are not seen",
            cgroup.folder().display(),
            refusal.reason
        ));
        Ok(source)
    }

    /// Opens a plan unchanged. `chosen`: the processes to keep, if not all.
    fn open_at(
        plan: &SamplingPlan,
        chosen: Option<&Attachment>,
        statements: Option<&StatementProbes>,
    ) -> Result<KernelSource, OpenError> {
        open::raise_file_limit();
        let kernel = open::kernel_features();
        let enabled_by_exec = matches!(plan.attachment, Attachment::Exec(..)) && !plan.delayed;
        let common = Common {
            callchains: plan.callchains,
            inherit: plan.attachment != Attachment::System,
            enable_on_exec: enabled_by_exec,
            wakeup_watermark: (!plan.wake_at_each_sample).then_some(WAKEUP_WATERMARK as u32),
            kernel,
        };
        // Only events of all CPUs can be bound to a cgroup.
        let bound = plan
            .cgroup
            .as_ref()
            .filter(|_| plan.attachment == Attachment::System && plan.kind == EventSource::Hardware);
        let folder =
            bound.map(|cgroup| File::open(cgroup.folder())).transpose().map_err(|error| OpenError {
                event: "of a cgroup".to_string(),
                reason: format!("its folder cannot be opened: {error}"),
                remedy: "run it as root".to_string(),
                errno: error.raw_os_error().unwrap_or(libc::EIO),
            })?;
        let mut source = KernelSource {
            cgroup: folder,
            bound_to: bound.cloned(),
            events: Vec::new(),
            rings: Vec::new(),
            filters: HashMap::new(),
            attachment: plan.attachment.clone(),
            kind: plan.kind,
            members: None,
            enabled_by_exec,
            notes: Vec::new(),
            preamble: Vec::new(),
            latecomers: None,
            probe_members: None,
            anchors: Vec::new(),
            statements: None,
        };
        let mut rings = Rings::new(statements.is_some());
        let data = plan.kind == EventSource::Live
            || plan.events.iter().any(|event| event.candidates.iter().any(|encoding| encoding.data_address));
        for (index, planned) in plan.events.iter().enumerate() {
            // One event records mappings and processes; with a delay a separate one does, which runs from the
            // start.
            let tracking = (index == 0 && !plan.delayed).then_some(data);
            source.open_event(planned, &common, tracking, &mut rings)?;
        }
        if plan.delayed {
            source.open_tracker(&common, data, &mut rings)?;
        }
        if let Some(statements) = statements {
            source.open_statements(statements, &common, chosen.unwrap_or(&plan.attachment), &mut rings)?;
        }
        source.rings = rings.into_rings();
        source.synthesize(data, chosen.unwrap_or(&plan.attachment));
        Ok(source)
    }

    fn places(&self, attachment: &Attachment, cpus: Option<&[u32]>) -> Vec<Place> {
        let whole = *attachment == Attachment::System;
        let cgroup = self.cgroup.as_ref().filter(|_| whole).map(AsRawFd::as_raw_fd);
        let online = sysfs::online_cpus();
        let threads: Vec<Option<i32>> = match attachment {
            Attachment::Exec(pid, _) => vec![Some(pid.0)],
            Attachment::Threads(threads) => threads.iter().map(|(_, tid)| Some(tid.0)).collect(),
            Attachment::System => vec![None],
        };
        let cpus: Vec<u32> =
            online.into_iter().filter(|cpu| cpus.is_none_or(|offered| offered.contains(cpu))).collect();
        threads
            .into_iter()
            .flat_map(|thread| cpus.iter().map(move |cpu| Place { thread, cpu: Some(*cpu), cgroup }))
            .collect()
    }

    fn open_event(
        &mut self,
        planned: &PlannedEvent,
        common: &Common,
        tracking: Option<bool>,
        rings: &mut Rings,
    ) -> Result<(), OpenError> {
        let mut refusal = None;
        for encoding in planned.candidates.iter().filter(|encoding| !encoding.aux) {
            let mut attr = attributes::sampling(encoding, planned.rate, planned.modes, common);
            if self.kind == EventSource::Live {
                attributes::record_user_registers(&mut attr);
            }
            if matches!(self.kind, EventSource::Timer | EventSource::Live) {
                // For a whole system, leave out the idle task.
                attr.flags |= attr_flag::EXCLUDE_IDLE;
            }
            if let Some(data) = tracking {
                attributes::track(&mut attr, data, common.kernel);
            }
            match open_everywhere(
                planned,
                &attr,
                self.places(&self.attachment, encoding.cpus.as_deref()),
                rings,
            ) {
                Ok(event) => {
                    if let Some(wanted) = encoding
                        .filter
                        .or(encoding.no_mode_bits.then_some(super::filter::SampleFilter::Everything))
                    {
                        if let Some(filter) = RecordFilter::new(wanted, planned.modes, &event.attr) {
                            self.filters.extend(event.ids.iter().map(|id| (*id, filter)));
                        }
                    }
                    self.events.push(event);
                    return Ok(());
                }
                // Report the refusal of the best encoding: it names what the user lacks.
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        Err(refusal.unwrap_or_else(|| only_by_spe(&planned.request)))
    }

    /// The event that records only processes and mappings, from the start.
    fn open_tracker(&mut self, common: &Common, data: bool, rings: &mut Rings) -> Result<(), OpenError> {
        let encoding = Encoding { event_type: 1, config: 9, ..Encoding::default() };
        let planned = PlannedEvent {
            request: EventRequest::named("dummy"),
            candidates: vec![encoding.clone()],
            rate: Rate::Period(hardmeter_samples::model::Period(1)),
            modes: Modes::USER,
        };
        let immediately = Common {
            enable_on_exec: matches!(self.attachment, Attachment::Exec(..)),
            callchains: false,
            ..*common
        };
        let mut attr = attributes::sampling(&encoding, planned.rate, planned.modes, &immediately);
        attributes::track(&mut attr, data, common.kernel);
        let event = open_everywhere(&planned, &attr, self.places(&self.attachment, None), rings)?;
        if !immediately.enable_on_exec {
            for descriptor in &event.descriptors {
                let _ = syscall::enable(descriptor.as_fd()); // an ended thread needs no event
            }
        }
        self.events.push(event);
        Ok(())
    }

    /// The events of a server's probes. Only for the target's own processes, even if other events sample the whole
    /// system: no other process reaches the probes' breakpoints.
    fn open_statements(
        &mut self,
        statements: &StatementProbes,
        common: &Common,
        attachment: &Attachment,
        rings: &mut Rings,
    ) -> Result<(), OpenError> {
        let everywhere = *attachment == Attachment::System || !statements.may_be_inherited();
        let common = Common { inherit: !everywhere, ..*common };
        let places = if everywhere { &Attachment::System } else { attachment };
        let first = self.events.len();
        for probe in statements.events() {
            let planned = PlannedEvent {
                request: EventRequest::named(&probe.name),
                candidates: Vec::new(),
                rate: Rate::Period(hardmeter_samples::model::Period(1)),
                modes: Modes::BOTH,
            };
            let attr = probe.attribute(&common);
            let event = open_everywhere(&planned, &attr, self.places(places, None), rings)?;
            self.events.push(event);
        }
        let Attachment::Threads(threads) = attachment else { return Ok(()) };
        if everywhere {
            let ids = self.events[first..].iter().flat_map(|event| event.ids.iter().copied()).collect();
            self.probe_members = Some(ProbeMembers::new(ids, threads.iter().map(|(pid, _)| *pid)));
            return Ok(());
        }
        // If the events of a process and its child are equal, the kernel does not switch them but lets the
        // processes exchange them. The breakpoint stays with the process that an event was created for, so the exit
        // of one process removes another's (observed with Linux 6.18: backends stop reporting when a sibling ends).
        // An event that children do not inherit makes them unequal, and the kernel switches.
        let dummy = Encoding { event_type: 1, config: 9, ..Encoding::default() };
        let alone = Common { inherit: false, enable_on_exec: false, ..common };
        let attr = attributes::counting(&dummy, Modes::USER, &alone);
        for (_, tid) in threads {
            let place = Place { thread: Some(tid.0), cpu: None, cgroup: None };
            match syscall::open(&attr, place) {
                Ok(anchor) => self.anchors.push(anchor),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {} // has ended
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or(libc::EIO);
                    return Err(OpenError::explain("dummy", &attr, place, errno));
                }
            }
        }
        Ok(())
    }

    fn synthesize(&mut self, data: bool, attachment: &Attachment) {
        let encoder = RecordEncoder::new(&self.attributes()[0]);
        let mut synthesizer = Synthesizer::new(encoder, data);
        synthesizer.kernel();
        let processes: BTreeSet<Pid> = match attachment {
            Attachment::Exec(pid, name) => {
                // The kernel reports name and mappings at the exec, but samples of the exec come before that.
                synthesizer.name(*pid, name);
                BTreeSet::new()
            }
            Attachment::Threads(threads) => threads.iter().map(|(pid, _)| *pid).collect(),
            Attachment::System => crate::target::all_processes().into_iter().collect(),
        };
        processes.iter().for_each(|pid| synthesizer.process(*pid));
        if matches!(attachment, Attachment::Threads(_)) {
            self.latecomers = Some(Latecomers::new(encoder, data, processes));
        }
        let made = synthesizer.finish();
        if made.unreadable > 0 {
            self.notes.push(format!(
                "the mappings of some processes ({}) may not be read: their samples stay without names (CAP_SYS_PTRACE)",
                made.unreadable
            ));
        }
        let kernel_sampled = self.events.iter().any(|event| !event.attr.has(attr_flag::EXCLUDE_KERNEL));
        if made.kernel_hidden && kernel_sampled {
            self.notes.push("the kernel hides its addresses: kernel samples stay without names (sudo sysctl kernel.kptr_restrict=0)".into());
        }
        self.preamble = made.records;
    }

    fn report_latecomers(&mut self, sink: &mut RecordSink<'_>) -> Result<usize, DrainError> {
        let records = self.latecomers.as_mut().map(Latecomers::take_records).unwrap_or_default();
        each_record(&records).try_for_each(sink)?;
        Ok(records.len())
    }

    /// The known processes of the target that have not ended; empty for a whole system.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        self.members.iter().flat_map(Members::processes).collect()
    }

    /// A second view of each CPU's ring, by the CPU, for the first event.
    ///
    /// # Errors
    /// The system's error if a ring cannot be mapped once more.
    pub(crate) fn watches(&self) -> std::io::Result<Vec<(u32, RingWatch)>> {
        let event = &self.events[0];
        let mut watches = Vec::new();
        for (descriptor, place) in event.descriptors.iter().zip(&event.places) {
            let ring = self.rings.iter().find(|ring| ring.writers.contains(&descriptor.as_raw_fd()));
            if let (Some(ring), Some(cpu)) = (ring, place.cpu) {
                watches.push((cpu, RingWatch::new(descriptor.as_fd(), &ring.ring)?));
            }
        }
        Ok(watches)
    }

    /// The concessions by event.
    pub fn concessions(&self) -> impl Iterator<Item = (&str, Concession)> {
        self.events
            .iter()
            .flat_map(|event| event.concessions.iter().map(|concession| (event.name.as_str(), *concession)))
    }
}

impl RecordSource for KernelSource {
    fn kind(&self) -> EventSource {
        self.kind
    }

    fn attributes(&self) -> Vec<EventAttributes> {
        self.events
            .iter()
            .map(|event| EventAttributes {
                name: event.name.clone(),
                attr: event.attr,
                ids: event.ids.clone(),
            })
            .collect()
    }

    fn preamble(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.preamble)
    }

    fn wakeups(&self) -> Vec<RawFd> {
        self.rings.iter().filter_map(|ring| ring.writers.get(ring.current).copied()).collect()
    }

    fn hung_up(&mut self, descriptor: RawFd) {
        for ring in &mut self.rings {
            if ring.writers.get(ring.current) == Some(&descriptor) {
                ring.current += 1;
            }
        }
    }

    fn interval(&self) -> Duration {
        // For bytes below the watermark: a slow target's samples reach the file within this time.
        Duration::from_secs(1)
    }

    fn drain(&mut self, sink: &mut RecordSink<'_>) -> Result<usize, DrainError> {
        let mut bytes = 0;
        // Before the samples of this round, which need the names.
        bytes += self.report_latecomers(sink)?;
        let (filters, members, probe_members) = (&self.filters, &mut self.members, &mut self.probe_members);
        let mut accept = |record: &[u8]| match (&mut *members, &mut *probe_members) {
            (Some(members), _) => members.accept(record),
            (None, Some(probe_members)) => probe_members.accept(record),
            (None, None) => Some(true),
        };
        let mut undecided: Vec<Vec<u8>> = Vec::new();
        for ring in &mut self.rings {
            bytes += ring.ring.drain(|record| match accept(record) {
                Some(true) if filters.is_empty() || wanted(record, filters) => sink(record),
                Some(_) => Ok(()),
                None => {
                    undecided.push(record.to_vec());
                    Ok(())
                }
            })?;
        }
        // All rings have been read, and with them the forks.
        for record in undecided.iter().filter(|record| accept(record) == Some(true)) {
            if filters.is_empty() || wanted(record, filters) {
                sink(record)?;
            }
        }
        if let (Some(members), Some(latecomers)) = (&mut self.members, &mut self.latecomers) {
            members.list_again();
            latecomers.found(members.take_found());
        }
        bytes += self.report_latecomers(sink)?;
        Ok(bytes)
    }

    fn start(&mut self) -> Result<(), DrainError> {
        if self.enabled_by_exec {
            return Ok(());
        }
        for descriptor in self.events.iter().flat_map(|event| &event.descriptors) {
            syscall::enable(descriptor.as_fd())
                .map_err(|error| DrainError::Source(format!("an event cannot be started: {error}")))?;
        }
        // The kernel reports no fork to an event that does not run yet.
        if let (Some(latecomers), Attachment::Threads(threads)) = (&mut self.latecomers, &self.attachment) {
            latecomers.found(crate::target::families(threads.iter().map(|(pid, _)| *pid)));
        }
        Ok(())
    }

    fn begin_capture(&mut self) {
        if let Some(members) = &mut self.members {
            members.forget_ended();
        }
        if let Some(latecomers) = &mut self.latecomers {
            latecomers.forget_ended();
        }
    }

    fn stop(&mut self) {
        for descriptor in self.events.iter().flat_map(|event| &event.descriptors) {
            let _ = syscall::disable(descriptor.as_fd()); // fails only if it is stopped already
        }
    }

    fn is_finished(&self) -> bool {
        // A command that we started is waited for separately.
        if matches!(self.attachment, Attachment::Exec(..)) {
            return false;
        }
        if let (Some(cgroup), Some(folder)) = (&self.bound_to, &self.cgroup) {
            return !cgroup.is_still(folder);
        }
        match &self.members {
            Some(members) => members.have_ended(),
            None => self.rings.iter().all(|ring| ring.current >= ring.writers.len()),
        }
    }

    fn counts(&self) -> Vec<EventCount> {
        if self.members.is_some() {
            return Vec::new(); // the counters covered the whole system
        }
        self.events
            .iter()
            .filter(|event| StatementProbe::of_event(&event.name).is_none())
            .map(|event| {
                let readings = event
                    .descriptors
                    .iter()
                    .map(|descriptor| syscall::read(descriptor.as_fd()).unwrap_or_default());
                EventCount { name: event.name.clone(), reading: total(event.places.iter().zip(readings)) }
            })
            .collect()
    }

    fn notes(&self) -> Vec<String> {
        let concessions = self.concessions().map(|(event, concession)| format!("{event}: {concession}"));
        let shared = self.counts().into_iter().filter_map(|count| {
            // Below a hundredth the difference is the time of switching itself.
            (count.reading.running_share() < 0.99).then(|| {
                format!(
                    "{}: had a counter {:.0} % of the time, as events took turns; its total is scaled, its samples are not",
                    count.name,
                    count.reading.running_share() * 100.0
                )
            })
        });
        let statements = self.statements.iter().flat_map(|statements| statements.notes().iter().cloned());
        concessions.chain(shared).chain(self.notes.iter().cloned()).chain(statements).collect()
    }
}

/// Sums readings.
///
/// A thread's event on CPU 0 is `enabled` while the thread runs on CPU 1: its copies on all CPUs share the enabled
/// time, and only their running times add up.
fn total<'a>(readings: impl Iterator<Item = (&'a Place, Reading)>) -> Reading {
    let mut total = Reading::default();
    let mut wanted: HashMap<i32, u64> = HashMap::new();
    for (place, reading) in readings {
        match place.thread {
            Some(thread) => {
                let enabled = wanted.entry(thread).or_default();
                *enabled = reading.enabled.max(*enabled);
                total += Reading { enabled: 0, ..reading };
            }
            None => total += reading,
        }
    }
    total.enabled += wanted.values().sum::<u64>();
    total
}

/// Whether a record passes its event's filter; other records always pass.
fn wanted(record: &[u8], filters: &HashMap<u64, RecordFilter>) -> bool {
    let kind = u32::from_ne_bytes([record[0], record[1], record[2], record[3]]);
    if kind != record_type::SAMPLE {
        return true;
    }
    // PERF_SAMPLE_IDENTIFIER is the first word of each of the recorder's samples.
    let id = record.get(8..16).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
    id.and_then(|id| filters.get(&id)).is_none_or(|filter| filter.accepts(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_a_thread_wanted_is_counted_once_for_all_cpus() {
        let place = |thread, cpu| Place { thread, cpu: Some(cpu), cgroup: None };
        let reading = |value, enabled, running| Reading { value, enabled, running };
        // One thread, 60 ns on CPU 0 and 40 ns on CPU 1: it always had its counter.
        let places = [place(Some(7), 0), place(Some(7), 1)];
        let sum = total(places.iter().zip([reading(6, 100, 60), reading(4, 100, 40)]));
        assert_eq!(sum, reading(10, 100, 100));
        assert_eq!(sum.scaled(), Some(10));
        // Two CPUs of a whole system are enabled independently.
        let places = [place(None, 0), place(None, 1)];
        assert_eq!(
            total(places.iter().zip([reading(6, 100, 50), reading(4, 100, 50)])),
            reading(10, 200, 100)
        );
    }
}
