//! The answer in sentences, which come first.

use super::explain::how;
use super::heat::ranges;
use super::wording::{bytes, place_text};
use super::WhyReport;
use crate::layout::printable;
use crate::number::{counted, grouped, percent, percent_interval};
use hardmeter_answers::why::{CacheLevel, Cause, CauseAnswer, EventAnswer, EventKind, How};
use hardmeter_answers::Share;

/// A cause below this share is in the table only.
const LEAST_SHARE: f64 = 0.05;
/// With fewer followed lines no prediction is printed.
const LEAST_LINES: u64 = 100;
/// With a smaller share of conflicts, a size has one figure.
const LEAST_CONFLICTS: f64 = 0.01;
/// A statement is cut to this many characters.
const STATEMENT_LENGTH: usize = 72;

/// One sentence for each important cause of each event, and for page walks, sizes and huge pages.
pub(super) fn of(report: &WhyReport) -> Vec<String> {
    let mut sentences = Vec::new();
    for answer in &report.events {
        let important = answer.causes.iter().filter(|cause| cause.share.fraction() >= LEAST_SHARE);
        sentences.extend(important.map(|cause| of_cause(report, answer, cause)));
        sentences.extend(of_translation(report, answer));
    }
    sentences.extend(of_sizes(report));
    sentences.extend(of_huge_pages(report));
    sentences
}

pub(super) fn of_cause(report: &WhyReport, answer: &EventAnswer, cause: &CauseAnswer) -> String {
    let mut text = format!(
        "{} (n = {} of {}, 95 %: {}) of {}: {}, {}",
        percent(cause.share),
        grouped(cause.share.count),
        grouped(cause.share.total),
        percent_interval(cause.share),
        printable(report.event_name(answer)),
        cause.cause.name(),
        how(answer.how, cause)
    );
    let of = |count| percent(Share { count, total: cause.share.count });
    if let Some(place) = cause.places.first() {
        text.push_str(&format!("; {} in {}", of(place.count), place_text(place)));
    }
    if let Some(start) = super::pattern::cold_start_sentence(cause) {
        text.push_str(&format!("; {start}"));
    }
    if let Some(pattern) = super::pattern::sentence(cause) {
        text.push_str(&format!("; {pattern}"));
    }
    if let Some(object) = cause.objects.first() {
        text.push_str(&format!("; {} on {}", of(object.count), printable(&object.name)));
    }
    if let Some((statement, count)) = cause.statements.first() {
        text.push_str(&format!("; {} in `{}`", of(*count), cut(&report.statement(*statement))));
    }
    // Sets that stand out indicate conflicts; other misses are in these sets as well.
    let standing = cause.in_standing_sets.filter(|share| share.fraction() >= LEAST_SHARE);
    let standing = standing.filter(|_| cause.cause == Cause::Conflict);
    if let (Some(share), Ok(map)) = (standing, &answer.sets) {
        let sets = ranges(map.standing_out.iter().map(|set| set.set));
        text.push_str(&format!(
            "; {} in sets that stand out of {}: {sets}",
            percent(share),
            map.counts.len()
        ));
    }
    text
}

/// The page walks beside an event's misses, or its own translations.
fn of_translation(report: &WhyReport, answer: &EventAnswer) -> Option<String> {
    let name = printable(report.event_name(answer));
    if answer.kind == EventKind::TlbMiss {
        let place = answer.places.first()?;
        let share = Share { count: place.count, total: answer.misses };
        let pages = answer.pages.map_or_else(String::new, |pages| {
            format!(
                "on {}, which {} of 2 MB would hold",
                counted(pages.pages, "distinct page"),
                counted(pages.huge_pages, "page")
            )
        });
        return Some(format!(
            "{name} (n = {}): translations {pages}; {} in {}",
            grouped(answer.misses),
            percent(share),
            place_text(place)
        ));
    }
    let walked = answer.walked;
    (answer.how != How::None && walked.fraction() >= LEAST_SHARE).then(|| {
        format!(
            "{} (n = {} of {}) of {name} walked the page table as well (data source)",
            percent(walked),
            grouped(walked.count),
            grouped(walked.total)
        )
    })
}

/// The effect of twice the size, or of the first size that saves a tenth.
pub(super) fn of_sizes(report: &WhyReport) -> Option<String> {
    let curve = report.reuse.as_ref().filter(|curve| curve.lines_followed >= LEAST_LINES)?;
    let larger = || curve.sizes.iter().filter(|effect| effect.size > curve.now);
    let effect =
        larger().find(|effect| effect.change.is_some_and(|change| change <= -0.1)).or(larger().next())?;
    let conflicts = conflicts_of_l2(report);
    let mut text = format!(
        "with an L2 of {} instead of {}: misses {}, predicted from {} whose reuse was followed (one in {})",
        bytes(effect.size),
        bytes(curve.now),
        with_conflicts(effect.change?, conflicts),
        counted(curve.lines_followed, "line"),
        curve.one_line_in
    );
    if let Some(share) = conflicts.filter(matters) {
        text.push_str(&format!(
            "; the first figure if the larger cache ends all conflicts, which are {} of l2-miss (n = {}), the second if it \
             ends none: a recording with --machine of that size tells",
            percent(share),
            grouped(share.total)
        ));
    }
    Some(text)
}

/// The conflicts among the misses of L2, where the software PMU recorded causes.
pub(super) fn conflicts_of_l2(report: &WhyReport) -> Option<Share> {
    let second = EventKind::Miss(CacheLevel::L2);
    let answer = report.events.iter().find(|answer| answer.kind == second && answer.how == How::Exact)?;
    let conflicts = answer.causes.iter().find(|cause| cause.cause == Cause::Conflict);
    Some(Share { count: conflicts.map_or(0, |cause| cause.share.count), total: answer.misses })
}

/// Whether conflicts change a prediction by more than its last digit.
pub(super) fn matters(conflicts: &Share) -> bool {
    conflicts.fraction() >= LEAST_CONFLICTS
}

/// The change of all misses with a larger cache, if the curve predicts this change for the misses other than
/// conflicts: a range from no conflicts to all of them.
pub(super) fn with_conflicts(of_curve: f64, conflicts: Option<Share>) -> String {
    let Some(share) = conflicts.filter(matters) else { return change(of_curve) };
    let rest = (1.0 - share.fraction()) * (1.0 + of_curve);
    format!("{} to {}", change(rest - 1.0), change(rest + share.fraction() - 1.0))
}

pub(super) fn of_huge_pages(report: &WhyReport) -> Option<String> {
    let walks = report.page_walks?;
    let effect = |left: u64| change(left as f64 / walks.small as f64 - 1.0);
    Some(format!(
        "page walks (n = {}) with huge pages for shared memory: {}; for all memory: {}; exact (simulated)",
        grouped(walks.small),
        effect(walks.shared_huge),
        effect(walks.all_huge)
    ))
}

/// `-38 %`, `+12 %`.
pub(super) fn change(fraction: f64) -> String {
    match fraction * 100.0 {
        none if none.abs() < 0.05 => "no change".into(),
        percent => format!("{percent:+.1} %"),
    }
}

/// A statement, cut.
pub(super) fn cut(statement: &str) -> String {
    let mut characters = statement.chars();
    let kept: String = characters.by_ref().take(STATEMENT_LENGTH).collect();
    match characters.next() {
        Some(_) => kept + "…",
        None => kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 77.8 % conflicts, and a curve of -0.5 %: the other 22.2 % become 22.089 %.
    #[test]
    fn a_prediction_that_ignores_conflicts_has_two_ends() {
        let conflicts = |count| Some(Share { count, total: 1000 });
        assert_eq!(with_conflicts(-0.005, conflicts(778)), "-77.9 % to -0.1 %");
        assert_eq!(with_conflicts(-0.5, conflicts(200)), "-60.0 % to -40.0 %");
        assert_eq!(with_conflicts(-0.5, conflicts(9)), "-50.0 %");
        assert_eq!(with_conflicts(-0.5, None), "-50.0 %", "not known");
    }
}
