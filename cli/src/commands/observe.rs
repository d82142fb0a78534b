//! Introduces the recorder to whoever knows the objects of the profiled server: neither knows the other.
//!
//! ```text
//!   capture: Attach, SampleObserver  <── this file ──>  objects: attach, ServerObjects
//! ```

use hardmeter_capture::session::{Attach, Attached, Observations, ObservedAccess, SampleObserver};
use hardmeter_objects::program::ProgramError;
use hardmeter_objects::{Access, AttachError, ServerObjects};
use hardmeter_samples::model::{StateRule, Timestamp};

/// What a recording calls to have its server looked into.
pub(super) fn attach() -> Attach {
    Box::new(|pid| match hardmeter_objects::attach(pid) {
        Ok(objects) => Attached::Observer(Box::new(Observer { before: objects.counters(), objects })),
        Err(AttachError::Program(ProgramError::NotThis { .. })) => Attached::NotAServer,
        // A server that starts has not gone into its data folder at first, nor laid out its memory.
        Err(
            error @ (AttachError::NotReady { .. }
            | AttachError::Version { .. }
            | AttachError::SelfTest { .. }),
        ) => Attached::NotReady(error.to_string()),
        Err(error) => Attached::Refused(error.to_string()),
    })
}

/// A server's objects as an observer of samples.
struct Observer {
    objects: Box<dyn ServerObjects>,
    /// What the server had counted when the recording began.
    before: Vec<(String, u64)>,
}

impl SampleObserver for Observer {
    fn state_rules(&self) -> Vec<StateRule> {
        self.objects.state_rules()
    }

    fn see(&mut self, accesses: &[ObservedAccess]) {
        let accesses: Vec<Access> = accesses
            .iter()
            .map(|access| Access {
                pid: access.pid,
                address: access.address,
                time: access.time,
                stack_pointer: access.stack_pointer,
                states: access.states.clone(),
            })
            .collect();
        self.objects.see(&accesses);
    }

    fn tick(&mut self, now: Timestamp) {
        self.objects.look_again(now);
    }

    fn finish(self: Box<Self>, now: Timestamp) -> Observations {
        let workload = increase(&self.before, &self.objects.counters());
        let notes = self.objects.finish(now);
        Observations { remarks: notes.remarks.clone(), notes: Some(notes), workload }
    }
}

/// By how much each counter grew. One that was read once only, because the server ended or began anew, says nothing.
fn increase(before: &[(String, u64)], after: &[(String, u64)]) -> Vec<(String, f64)> {
    let grown = |(name, count): &(String, u64)| {
        let (_, first) = before.iter().find(|(known, _)| known == name)?;
        Some((name.clone(), count.checked_sub(*first)? as f64))
    };
    after.iter().filter_map(grown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_told_by_their_increase() {
        let counters = |list: &[(&str, u64)]| -> Vec<(String, u64)> {
            list.iter().map(|(name, count)| (name.to_string(), *count)).collect()
        };
        let before = counters(&[("transactions", 7), ("rows", 9), ("gone", 1)]);
        let after = counters(&[("rows", 4), ("transactions", 20), ("new", 3)]);
        assert_eq!(increase(&before, &after), [("transactions".to_string(), 13.0)]);
        assert_eq!(increase(&before, &[]), []);
    }
}
