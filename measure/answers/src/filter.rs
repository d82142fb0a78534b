//! The selection of samples for an answer.

use hardmeter_samples::model::{CpuMode, Cycles, EventIndex, Pid, Sample};

/// User code, kernel code, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModeFilter {
    /// Both.
    #[default]
    Any,
    /// Samples in user mode only.
    User,
    /// Samples in kernel mode only.
    Kernel,
}

impl ModeFilter {
    fn admits(self, mode: CpuMode) -> bool {
        match self {
            ModeFilter::Any => true,
            ModeFilter::User => matches!(mode, CpuMode::User | CpuMode::GuestUser),
            ModeFilter::Kernel => {
                matches!(mode, CpuMode::Kernel | CpuMode::GuestKernel | CpuMode::Hypervisor)
            }
        }
    }
}

/// Which samples an answer includes; the default admits all. Empty lists admit everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only these events.
    pub events: Vec<EventIndex>,
    /// Only this mode.
    pub mode: ModeFilter,
    /// Only these processes.
    pub pids: Vec<Pid>,
    /// Only processes or threads of these names.
    pub processes: Vec<String>,
    /// Minimum latency; samples without a latency are dropped if it is set.
    pub min_latency: Option<Cycles>,
}

impl Filter {
    /// The filter as text; `None` if all samples pass. Events are left out: the tables name them.
    pub fn text(&self) -> Option<String> {
        let mut parts = Vec::new();
        match self.mode {
            ModeFilter::Any => {}
            ModeFilter::User => parts.push("user mode".to_string()),
            ModeFilter::Kernel => parts.push("kernel mode".to_string()),
        }
        if !self.pids.is_empty() {
            let pids: Vec<String> = self.pids.iter().map(|pid| pid.0.to_string()).collect();
            parts.push(format!("processes {}", pids.join(", ")));
        }
        if !self.processes.is_empty() {
            parts.push(format!("processes named {}", self.processes.join(", ")));
        }
        parts.extend(self.min_latency.map(|least| format!("latency of at least {} cycles", least.0)));
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Whether a sample passes all conditions except process names, which [`crate::Pass`] checks.
    pub(crate) fn admits(&self, sample: &Sample<'_>) -> bool {
        (self.events.is_empty() || self.events.contains(&sample.event))
            && self.mode.admits(sample.mode)
            && (self.pids.is_empty() || sample.pid.is_some_and(|pid| self.pids.contains(&pid)))
            && self
                .min_latency
                .is_none_or(|least| sample.weight.is_some_and(|weight| weight.latency >= least))
    }
}
