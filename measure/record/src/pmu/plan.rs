//! The sampling plan, fixed before events are opened.

use super::attributes::{Modes, Rate};
use super::encoding::Encoding;
use crate::cgroup::Cgroup;
use crate::events::EventRequest;
use hardmeter_samples::model::{EventSource, Pid, Tid};

/// The threads and CPUs to open events for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attachment {
    /// A process that waits to execute a command, and its name after that; counting begins at its exec.
    Exec(Pid, String),
    /// Running threads.
    Threads(Vec<(Pid, Tid)>),
    /// Every CPU.
    System,
}

/// An event to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedEvent {
    /// The user's request.
    pub request: EventRequest,
    /// Encodings, best first.
    pub candidates: Vec<Encoding>,
    /// The sampling rate.
    pub rate: Rate,
    /// The modes to count.
    pub modes: Modes,
}

/// The sampling plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplingPlan {
    /// The target.
    pub attachment: Attachment,
    /// The events.
    pub events: Vec<PlannedEvent>,
    /// Record call chains.
    pub callchains: bool,
    /// The events start later than the command.
    pub delayed: bool,
    /// The source, as shown to the user.
    pub kind: EventSource,
    /// The cgroup that the threads are of: processes that enter it later belong to the target, too.
    pub cgroup: Option<Cgroup>,
    /// Wake the reader at each sample: for readers of the sampled process's memory.
    pub wake_at_each_sample: bool,
}
