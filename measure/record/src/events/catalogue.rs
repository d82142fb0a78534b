//! The events by the question that they answer, with what this machine can do for each.

use super::memory::{self, Candidate};
use crate::pmu::attributes::{Concession, Modes, Rate};
use crate::pmu::encoding::{Encoding, Resolver};
use crate::session::{default_rate, probe_encoding};
use crate::softpmu::{SimulationConfig, SoftwarePmu};
use hardmeter_samples::machine::Machine;
use hardmeter_samples::model::MemoryEvent;
use serde::Serialize;

/// One event, one question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CatalogueEntry {
    /// The name to give to `-e`.
    pub event: &'static str,
    /// The question that it answers.
    pub question: &'static str,
    /// How this machine's hardware measures it, if it does.
    pub hardware: Option<HardwareAnswer>,
    /// The reason why the hardware does not support it.
    pub refusal: Option<String>,
    /// Whether the software PMU does it.
    pub simulated: bool,
    /// The default sampling rate.
    pub default_rate: Rate,
}

/// The hardware's encoding of an event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HardwareAnswer {
    /// The processor's name of the event.
    pub name: &'static str,
    /// Whether samples carry a data address.
    pub data_address: bool,
    /// The precision that was granted, 0 to 3.
    pub precise_ip: u8,
    /// The accesses that it does not count.
    pub caveat: &'static str,
    /// Concessions because of missing rights.
    pub concessions: Vec<Concession>,
}

/// Every memory event, tried on this machine.
pub fn this_machine() -> Vec<CatalogueEntry> {
    let resolver = Resolver::this_machine();
    let simulated = software_pmu().is_ok();
    MemoryEvent::ALL.into_iter().map(|event| entry(event, &resolver, simulated)).collect()
}

/// Tries to prepare the software PMU.
///
/// # Errors
///
/// [`SoftPmuError`](crate::softpmu::SoftPmuError) with what is missing: Valgrind, the tool, space in /dev/shm.
pub fn software_pmu() -> Result<(), crate::softpmu::SoftPmuError> {
    let machine = Machine::builtin_names().next().and_then(Machine::builtin);
    let machine = machine.expect("there are built-in machines");
    SoftwarePmu::prepare(SimulationConfig::counting(machine)).map(drop)
}

fn entry(event: MemoryEvent, resolver: &Resolver, simulated: bool) -> CatalogueEntry {
    let candidates = memory::candidates(event, resolver.processor.architecture, &resolver.devices);
    let encoding = candidates.first().map(|candidate| candidate.encoding.clone()).unwrap_or_default();
    let (hardware, refusal) = match try_hardware(event, &candidates) {
        Ok(answer) => (Some(answer), None),
        Err(reason) => (None, Some(reason)),
    };
    CatalogueEntry {
        event: event.name(),
        question: event.question(),
        hardware,
        refusal,
        simulated,
        default_rate: default_rate(event.name(), &encoding),
    }
}

fn try_hardware(event: MemoryEvent, candidates: &[Candidate]) -> Result<HardwareAnswer, String> {
    let mut refusal = None;
    for candidate in candidates {
        let encoding: &Encoding = &candidate.encoding;
        let rate = default_rate(event.name(), encoding);
        if encoding.aux {
            // A trace can only be opened with its own buffers: check only that the device exists.
            return Ok(HardwareAnswer {
                name: candidate.name,
                data_address: true,
                precise_ip: 3,
                caveat: candidate.caveat,
                concessions: Vec::new(),
            });
        }
        match probe_encoding(event.name(), encoding, Some(rate), Modes::BOTH) {
            Ok(opened) => {
                return Ok(HardwareAnswer {
                    name: candidate.name,
                    data_address: encoding.data_address
                        && (opened.attr.precise_ip() > 0 || encoding.no_mode_bits),
                    precise_ip: opened.attr.precise_ip(),
                    caveat: candidate.caveat,
                    concessions: opened.concessions,
                })
            }
            Err(error) => refusal = refusal.or(Some(error.reason)),
        }
    }
    Err(refusal.unwrap_or_else(|| "this processor has no event for it".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_a_question_and_either_an_answer_or_a_reason() {
        let catalogue = this_machine();
        assert_eq!(catalogue.len(), MemoryEvent::ALL.len());
        for entry in catalogue {
            assert!(entry.question.ends_with('?'));
            assert!(entry.hardware.is_some() != entry.refusal.is_some(), "{entry:?}");
        }
    }
}
