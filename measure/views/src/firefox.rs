//! The Firefox Profiler's processed profile format (profiler.firefox.com, also as a local page).
//!
//! The Profiler supports one kind of sample per thread, so every process of the capture becomes one process per
//! event: "postgres (l1d-miss)", "postgres (l2-miss)".

use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, ProcessHandle, Profile, ReferenceTimestamp,
    SamplingInterval, StackHandle, ThreadHandle, Timestamp,
};
use hardmeter_answers::{CodeMap, Located, Pass, StackId, Stacks};
use hardmeter_samples::model::{EventIndex, Pid, Sample, Tid};
use rustc_hash::FxHashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Collects samples for the Firefox Profiler.
pub struct FirefoxProfile {
    profile: Profile,
    events: Vec<Arc<str>>,
    processes: FxHashMap<(Pid, EventIndex), ProcessHandle>,
    threads: FxHashMap<(Pid, Tid, EventIndex), ThreadHandle>,
    /// Stacks per thread, as the Profiler stores them.
    stacks: FxHashMap<(ThreadHandle, StackId), StackHandle>,
}

impl FirefoxProfile {
    /// An empty profile of a capture with these events.
    pub fn new(product: &str, events: Vec<Arc<str>>, start: SystemTime) -> Self {
        let since_epoch = start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let reference = ReferenceTimestamp::from_duration_since_unix_epoch(since_epoch);
        let mut profile = Profile::new(product, reference, SamplingInterval::from_millis(1));
        profile.set_symbolicated(true);
        FirefoxProfile {
            profile,
            events,
            processes: FxHashMap::default(),
            threads: FxHashMap::default(),
            stacks: FxHashMap::default(),
        }
    }

    /// Adds a sample whose call path is `stack` of `stacks`.
    pub fn add<M: CodeMap>(
        &mut self,
        sample: &Sample<'_>,
        located: Located,
        stack: StackId,
        stacks: &Stacks,
        pass: &mut Pass<M>,
    ) {
        let time = Timestamp::from_nanos_since_reference(sample.time.unwrap_or_default().0);
        let thread = self.thread(sample, located, time, pass);
        let stack = self.stack(thread, stack, stacks, pass);
        self.profile.add_sample(thread, time, stack, CpuDelta::ZERO, 1);
    }

    fn thread<M: CodeMap>(
        &mut self,
        sample: &Sample<'_>,
        located: Located,
        time: Timestamp,
        pass: &Pass<M>,
    ) -> ThreadHandle {
        let (pid, tid) = (sample.pid.unwrap_or_default(), sample.tid.unwrap_or_default());
        if let Some(thread) = self.threads.get(&(pid, tid, sample.event)) {
            return *thread;
        }
        let name = located.process.map_or("unknown".into(), |id| pass.process_name(id));
        let process_name = pass.name_of(pid).unwrap_or_else(|| name.clone());
        let event = self.events.get(sample.event.0).cloned().unwrap_or_default();
        let profile = &mut self.profile;
        let process = *self
            .processes
            .entry((pid, sample.event))
            .or_insert_with(|| profile.add_process(&format!("{process_name} ({event})"), pid.0 as u32, time));
        let thread = profile.add_thread(process, tid.0 as u32, time, pid.0 == tid.0);
        profile.set_thread_name(thread, &name);
        self.threads.insert((pid, tid, sample.event), thread);
        thread
    }

    fn stack<M: CodeMap>(
        &mut self,
        thread: ThreadHandle,
        stack: StackId,
        stacks: &Stacks,
        pass: &mut Pass<M>,
    ) -> Option<StackHandle> {
        // Walk out to the first path that the thread already has, then add the rest on the way back in.
        let mut missing = Vec::new();
        let mut at = stack;
        let mut parent = None;
        while at != StackId::ROOT {
            parent = self.stacks.get(&(thread, at)).copied();
            if parent.is_some() {
                break;
            }
            let (caller, place) = stacks.split(at);
            missing.push((at, place));
            at = caller;
        }
        for (id, place) in missing.into_iter().rev() {
            let name = pass.map().routine(place).to_string();
            let frame = FrameInfo {
                frame: Frame::Label(self.profile.intern_string(&name)),
                category_pair: CategoryHandle::OTHER.into(),
                flags: FrameFlags::empty(),
            };
            let frame = self.profile.intern_frame(thread, frame);
            let handle = self.profile.intern_stack(thread, parent, frame);
            self.stacks.insert((thread, id), handle);
            parent = Some(handle);
        }
        parent
    }

    /// Writes the profile.
    ///
    /// # Errors
    ///
    /// The error of `writer`.
    pub fn write(&self, writer: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(writer, &self.profile).map_err(io::Error::from)
    }
}
