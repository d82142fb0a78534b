//! What to sample, decided before anything is opened.

use super::attributes::{Modes, Rate};
use super::encoding::Encoding;
use crate::events::EventRequest;
use hardmeter_samples::model::{EventSource, Pid, Tid};

/// Where events are opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attachment {
    /// A process that waits to execute a command; counting begins with it.
    Exec(Pid),
    /// Running threads.
    Threads(Vec<(Pid, Tid)>),
    /// Every CPU.
    System,
}

/// An event to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedEvent {
    /// As the user asked for it.
    pub request: EventRequest,
    /// Ways to measure it, best first.
    pub candidates: Vec<Encoding>,
    /// How often to sample.
    pub rate: Rate,
    /// Which modes to look at.
    pub modes: Modes,
}

/// What to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplingPlan {
    /// The target.
    pub attachment: Attachment,
    /// Which events.
    pub events: Vec<PlannedEvent>,
    /// Record call chains.
    pub callchains: bool,
    /// The events start later than the command.
    pub delayed: bool,
    /// What the events are to the user.
    pub kind: EventSource,
    /// Wake who waits at each sample: for readers of the sampled process.
    pub wake_at_each_sample: bool,
}
