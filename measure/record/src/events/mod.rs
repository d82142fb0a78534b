//! The syntax of events on the command line: `l1d-miss:u`, `l2-miss/period=1000/`, `cpu/event=0xd1/ppp`.
//!
//! ```text
//! event[,event...]        event = name [/ term[,term...] /] [: or nothing] [modifiers]
//! terms of every event:   period=N  freq=N  ldlat=N  precise=0..3      modifiers: u k p pp ppp P
//! other terms make `name` a PMU of sysfs:  cpu/event=0xd1,umask=0x8/u
//! ```

pub mod catalogue;
pub mod memory;
pub mod processor;

use crate::pmu::attributes::{Modes, Rate};
use crate::pmu::sysfs::number;
use hardmeter_samples::model::Period;

/// One event as requested by the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventRequest {
    /// The name without terms and modifiers; for `PMU/terms/`, the PMU.
    pub name: String,
    /// The terms for the PMU, when there are any.
    pub terms: Option<String>,
    /// `period=` or `freq=`.
    pub rate: Option<Rate>,
    /// `:u`, `:k` or `:uk`.
    pub modes: Option<Modes>,
    /// `p` to `ppp`.
    pub precise: Option<u8>,
    /// `ldlat=`: only loads of at least this many cycles.
    pub load_latency: Option<u16>,
}

impl EventRequest {
    /// The event under its plain name.
    pub fn named(name: &str) -> EventRequest {
        EventRequest { name: name.to_string(), ..EventRequest::default() }
    }

    /// The name in the file: the requested one, with the modes that were granted.
    pub fn recorded_name(&self, modes: Modes) -> String {
        match &self.terms {
            Some(terms) => format!("{}/{terms}/{}", self.name, modes.suffix().trim_start_matches(':')),
            None => format!("{}{}", self.name, modes.suffix()),
        }
    }
}

/// Syntax errors in a list of events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventSyntaxError {
    /// Nothing between two commas, or before a slash.
    #[error("an event has no name in {0:?}")]
    NoName(String),
    /// A slash without its partner.
    #[error("a '/' is not closed in {0:?}")]
    OpenSlash(String),
    /// `period=` and the like with no usable value.
    #[error("{term}={value:?}: {wanted}")]
    Value {
        /// The term.
        term: &'static str,
        /// The rejected text.
        value: String,
        /// The expected form.
        wanted: &'static str,
    },
    /// Unknown modifiers after an event.
    #[error("{0:?} are no modifiers: u, k, p, pp, ppp")]
    Modifiers(String),
}

/// Reads a list of events.
///
/// # Errors
///
/// [`EventSyntaxError`] if the list is empty or malformed.
pub fn parse_events(text: &str) -> Result<Vec<EventRequest>, EventSyntaxError> {
    let mut requests = Vec::new();
    let mut start = 0;
    let mut inside = false;
    for (at, letter) in text.char_indices().chain([(text.len(), ',')]) {
        match letter {
            '/' if !text[start..at].starts_with("mem:") => inside = !inside,
            ',' if at == text.len() && inside => return Err(EventSyntaxError::OpenSlash(text.to_string())),
            ',' if !inside => {
                requests.push(parse_event(text[start..at].trim(), text)?);
                start = at + 1;
            }
            _ => {}
        }
    }
    Ok(requests)
}

fn parse_event(event: &str, whole: &str) -> Result<EventRequest, EventSyntaxError> {
    // A breakpoint's own colons and slashes (mem:ADDRESS/LENGTH:rw) end where modifiers begin with 'u' or 'k'.
    let slash = if event.starts_with("mem:") { None } else { event.find('/') };
    let mut request = EventRequest::default();
    let (name, modifiers) = match slash {
        Some(open) => {
            let close = event.rfind('/').unwrap_or(open);
            if close == open {
                return Err(EventSyntaxError::OpenSlash(event.to_string()));
            }
            parse_terms(&event[open + 1..close], &mut request)?;
            (&event[..open], event[close + 1..].trim_start_matches(':'))
        }
        // The last colon starts modifiers if only modifiers follow; libpfm4's names contain colons.
        None => match event.rsplit_once(':') {
            Some((name, tail)) if is_modifiers(tail) => (name, tail),
            _ => (event, ""),
        },
    };
    if name.is_empty() {
        return Err(EventSyntaxError::NoName(whole.to_string()));
    }
    if !modifiers.is_empty() {
        if !is_modifiers(modifiers) {
            return Err(EventSyntaxError::Modifiers(modifiers.to_string()));
        }
        apply_modifiers(modifiers, &mut request);
    }
    request.name = name.to_string();
    Ok(request)
}

fn parse_terms(terms: &str, request: &mut EventRequest) -> Result<(), EventSyntaxError> {
    let mut foreign = Vec::new();
    for term in terms.split(',').map(str::trim).filter(|term| !term.is_empty()) {
        let (name, value) = term.split_once('=').unwrap_or((term, ""));
        let positive = |term: &'static str| {
            number(value).filter(|value| *value > 0).ok_or(EventSyntaxError::Value {
                term,
                value: value.to_string(),
                wanted: "a number above zero is needed",
            })
        };
        match name {
            "period" => request.rate = Some(Rate::Period(Period(positive("period")?))),
            "freq" => request.rate = Some(Rate::Frequency(positive("freq")?)),
            "precise" => {
                let precise = number(value).filter(|value| *value <= 3).ok_or(EventSyntaxError::Value {
                    term: "precise",
                    value: value.to_string(),
                    wanted: "0 to 3 is needed",
                })?;
                request.precise = Some(precise as u8);
            }
            "ldlat" => {
                let cycles = number(value).and_then(|value| u16::try_from(value).ok());
                request.load_latency = Some(cycles.ok_or(EventSyntaxError::Value {
                    term: "ldlat",
                    value: value.to_string(),
                    wanted: "a number of cycles up to 65535 is needed",
                })?);
            }
            _ => foreign.push(term),
        }
    }
    if !foreign.is_empty() {
        // The PMU's ldlat applies, in whichever configuration word it is.
        if let Some(cycles) = request.load_latency {
            let spelled = format!("ldlat={cycles}");
            foreign.push(&spelled);
            request.terms = Some(foreign.join(","));
        } else {
            request.terms = Some(foreign.join(","));
        }
    }
    Ok(())
}

fn is_modifiers(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| matches!(letter, 'u' | 'k' | 'p' | 'P'))
}

fn apply_modifiers(modifiers: &str, request: &mut EventRequest) {
    let (user, kernel) = (modifiers.contains('u'), modifiers.contains('k'));
    if user || kernel {
        request.modes = Some(Modes { user, kernel });
    }
    let precise = modifiers.matches('p').count().min(3) as u8;
    if modifiers.contains('P') {
        request.precise = Some(3);
    } else if precise > 0 {
        request.precise = Some(precise);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> EventRequest {
        let mut events = parse_events(text).expect("an event");
        assert_eq!(events.len(), 1, "{text}");
        events.remove(0)
    }

    #[test]
    fn names_terms_and_modifiers_are_taken_apart() {
        assert_eq!(one("l1d-miss"), EventRequest::named("l1d-miss"));
        let event = one("l1d-miss/period=1000/u");
        assert_eq!(event.name, "l1d-miss");
        assert_eq!(event.rate, Some(Rate::Period(Period(1000))));
        assert_eq!(event.modes, Some(Modes::USER));
        assert_eq!(event.terms, None);
        assert_eq!(
            one("l1d-miss:u"),
            EventRequest { modes: Some(Modes::USER), ..EventRequest::named("l1d-miss") }
        );
        assert_eq!(one("l1d-miss/freq=99/:uk").modes, Some(Modes::BOTH));
        assert_eq!(one("cycles:ppp").precise, Some(3));
    }

    #[test]
    fn foreign_terms_are_for_the_pmu() {
        let event = one("cpu/mem-loads,ldlat=30,period=7/P");
        assert_eq!((event.name.as_str(), event.terms.as_deref()), ("cpu", Some("mem-loads,ldlat=30")));
        assert_eq!((event.rate, event.precise), (Some(Rate::Period(Period(7))), Some(3)));
        assert_eq!(event.recorded_name(Modes::USER), "cpu/mem-loads,ldlat=30/u");
    }

    #[test]
    fn commas_inside_slashes_do_not_part_events_and_colons_of_names_stay() {
        let events =
            parse_events("cpu/event=0xd1,umask=8/,MEM_LOAD_RETIRED:L2_MISS:u,stores").expect("three");
        let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["cpu", "MEM_LOAD_RETIRED:L2_MISS", "stores"]);
        assert_eq!(events[1].modes, Some(Modes::USER));
        assert_eq!(one("mem:0x1000/8:w:u").name, "mem:0x1000/8:w");
        assert_eq!(one("mem:0x1000/8:w").name, "mem:0x1000/8:w");
    }

    #[test]
    fn mistakes_are_named() {
        assert!(matches!(parse_events(""), Err(EventSyntaxError::NoName(_))));
        assert!(matches!(parse_events("loads,,stores"), Err(EventSyntaxError::NoName(_))));
        assert!(matches!(parse_events("l1d-miss/period=5"), Err(EventSyntaxError::OpenSlash(_))));
        assert!(matches!(
            parse_events("l1d-miss/period=0/"),
            Err(EventSyntaxError::Value { term: "period", .. })
        ));
        assert!(matches!(parse_events("l1d-miss/precise=4/"), Err(EventSyntaxError::Value { .. })));
        assert!(matches!(parse_events("loads/period=1/z"), Err(EventSyntaxError::Modifiers(_))));
    }
}
