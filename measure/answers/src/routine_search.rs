//! Finds the sampled routine that a user names.

use crate::annotate::PlaceCounts;
use crate::error::AnswersError;
use crate::remark::Remark;
use crate::symbols::SymbolNames;
use hardmeter_evidence::number::counted;
use hardmeter_symbols::{ImageAddress, ImageId, RoutineId};
use rustc_hash::FxHashMap;
use std::convert::Infallible;
use std::ops::Range;
use std::str::FromStr;

/// A routine, as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutineWanted {
    /// By its name, as `report` prints it.
    Name(String),
    /// By an address inside it, in the image's own numbering, as `report` prints it.
    Address(ImageAddress),
}

impl FromStr for RoutineWanted {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let digits = text.strip_prefix("0x");
        Ok(match digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            Some(address) => RoutineWanted::Address(ImageAddress(address)),
            None => RoutineWanted::Name(text.trim_matches(['[', ']']).to_string()),
        })
    }
}

/// The routine found.
pub(crate) struct FoundRoutine {
    pub(crate) image: ImageId,
    pub(crate) name: String,
    pub(crate) range: Range<ImageAddress>,
    /// A warning if other routines match, too.
    pub(crate) remark: Option<Remark>,
}

/// Maximum number of similar names in an error.
const SUGGESTIONS: usize = 5;

pub(crate) fn find_routine(
    wanted: &RoutineWanted,
    names: &mut SymbolNames,
    counts: &PlaceCounts,
) -> Result<FoundRoutine, AnswersError> {
    let mut samples: FxHashMap<RoutineId, u64> = FxHashMap::default();
    for count in counts.iter() {
        if let Some(resolved) = names.resolved(count.place) {
            *samples.entry(resolved.routine).or_default() += count.samples;
        }
    }
    let mut ranked: Vec<(RoutineId, u64)> = samples.into_iter().collect();
    ranked.sort_by_key(|(routine, samples)| (std::cmp::Reverse(*samples), *routine));
    let symbolizer = names.symbolizer();
    let matching: Vec<(RoutineId, u64)> = ranked
        .iter()
        .copied()
        .filter(|(id, _)| {
            let routine = symbolizer.routine(*id);
            match wanted {
                _ if routine.size == 0 => false,
                RoutineWanted::Name(name) => {
                    routine.name == *name || routine.linkage_name.as_deref() == Some(name)
                }
                RoutineWanted::Address(address) => {
                    address.0.checked_sub(routine.start.0).is_some_and(|offset| offset < routine.size)
                }
            }
        })
        .collect();
    let Some((id, _)) = matching.first() else {
        let all = ranked.iter().map(|(id, _)| symbolizer.routine(*id)).filter(|routine| routine.size > 0);
        let close: Vec<String> = match wanted {
            RoutineWanted::Name(part) => {
                let part = part.to_lowercase();
                all.filter(|routine| routine.name.to_lowercase().contains(&part))
                    .map(|routine| routine.name.clone())
                    .take(SUGGESTIONS)
                    .collect()
            }
            RoutineWanted::Address(_) => Vec::new(),
        };
        let wanted = match wanted {
            RoutineWanted::Name(name) => format!("routine \"{name}\""),
            RoutineWanted::Address(address) => format!("the routine at {address}"),
        };
        return Err(AnswersError::NoSuchRoutine {
            wanted,
            remedy: match close.is_empty() {
                true => {
                    "hardmeter report --by routine --all lists the routines that were sampled".to_string()
                }
                false => format!("did you mean: {}?", close.join(", ")),
            },
        });
    };
    let routine = symbolizer.routine(*id);
    let end = ImageAddress(routine.start.0.saturating_add(routine.size));
    let range = routine.start..end;
    let (name, image) = (routine.name.clone(), routine.image);
    let remark = (matching.len() > 1).then(|| Remark::Limit {
        text: format!(
            "{} of this name or address were sampled; shown is the one with the most samples",
            counted(matching.len() as u64, "routine")
        ),
    });
    let image = image.ok_or_else(|| AnswersError::NoSuchRoutine {
        wanted: format!("code of \"{name}\""),
        remedy: String::new(),
    })?;
    Ok(FoundRoutine { image, name, range, remark })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_or_an_address() {
        let parse = |text: &str| text.parse::<RoutineWanted>().unwrap();
        assert_eq!(parse("0x3b2b67"), RoutineWanted::Address(ImageAddress(0x3b2b67)));
        assert_eq!(parse("LWLockRelease"), RoutineWanted::Name("LWLockRelease".into()));
        let nameless = "[static function 2 before XLogFlush]";
        assert_eq!(parse(nameless), RoutineWanted::Name("static function 2 before XLogFlush".into()));
    }
}
