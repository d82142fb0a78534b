//! Sorts whose rows do not fit the sort buffer, so that runs are merged from files.
//!
//! Rule: five merge passes a second or more. A sort with a few runs that fit the processor's caches can be faster than one
//! large sort, so that no gain is predicted: only a trial shows it.

use crate::look::shares::ratio;
use crate::mariadb::rules::set_global;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Takes};

pub(super) const REMEDY: Remedy = Remedy {
    id: "sort-buffer",
    title: "try a larger sort buffer",
    audience: Audience::Operator,
    documentation: "https://mariadb.com/kb/en/server-system-variables/#sort_buffer_size",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let passes = maria.count("sort_merge_passes");
    let rate = ratio(passes, look.seconds);
    let size = maria.number("sort_buffer_size");
    if rate < 5.0 || size > 64e6 {
        return None;
    }
    let advice = Advice {
        finding: format!(
            "{rate:.0} times a second sorts merge runs from files; the buffer has {:.1} MB",
            size / 1e6
        ),
        evidence: vec![
            Evidence::new("merge passes a second", rate, "1/s", passes as u64),
            Evidence::new("rows sorted a second", ratio(maria.count("sort_rows"), look.seconds), "1/s", 1),
        ],
        prediction: Prediction::unknown(
            "runs are not written and merged",
            "a sort in one run misses the caches more: a trial shows it",
        ),
        risk: "each sort of each connection takes that much memory".into(),
        ..Advice::default()
    };
    Some(advice.with_changes(vec![set_global(
        look,
        "sort_buffer_size",
        &format!("{:.0}", size * 8.0),
        Takes::NewSessions,
    )]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn merges_are_tried_and_not_promised() {
        let of = |passes: f64, size: &str| {
            examine(&look(&[("sort_merge_passes", passes)], &[("sort_buffer_size", size)]))
        };
        let advice = of(500.0, "2097152").unwrap();
        assert_eq!(
            (advice.prediction.gain, advice.apply[0].as_str()),
            (None, "SET GLOBAL sort_buffer_size = 16777216;")
        );
        assert_eq!((of(20.0, "2097152"), of(500.0, "90000000")), (None, None));
    }
}
