//! A comparison as one sentence for each event.

use super::{signed_interval, signed_percent, CompareReport};
use crate::event_words::event_noun;
use crate::number::grouped;
use hardmeter_answers::{ComparedEvent, ComparedRow, Per};
use hardmeter_evidence::Interval;

/// A function with at least this share of the difference has nearly all of it.
const NEARLY_ALL: f64 = 0.8;
/// A function with at least this share has most of the difference.
const MOST: f64 = 0.5;
/// A function with less than this share is not named.
const LITTLE: f64 = 0.1;
/// Above this share, other functions have the opposite difference.
const MORE_THAN_ALL: f64 = 1.2;
/// The total counts as different below this probability.
const SIGNIFICANT: f64 = 0.05;
/// Number of functions named if none has most of the difference.
const NAMED: usize = 3;

impl CompareReport {
    /// One sentence for each event that differs, the costliest event first.
    pub fn sentences(&self) -> Vec<String> {
        self.events.iter().map(|event| self.sentence(event)).collect()
    }

    fn sentence(&self, event: &ComparedEvent) -> String {
        let noun = event_name(event);
        if self.per == Per::Share {
            return share_sentence(event, &noun);
        }
        let per = self.per.words();
        let Some(change) = event.total.change else { return format!("{noun} {per}: not known") };
        if !change.value.is_finite() {
            return format!("{noun} {per} where there were none: {}", rate(event, event.total.rates[1]));
        }
        if change.p > SIGNIFICANT {
            let mut text = format!(
                "no significant difference in {noun} {per}: {} % ({})",
                signed_percent(change.value),
                signed_interval(change.interval)
            );
            if let Some(first) = event.functions.rows.iter().find(|row| row.different) {
                let verb = if event.functions.different == 1 { "differs" } else { "differ" };
                text.push_str(&format!(
                    "; but {} of {} functions {verb}, most {} ({})",
                    event.functions.different,
                    grouped(event.functions.judged as u64),
                    name(first),
                    change_words(first)
                ));
            }
            return text;
        }
        let (amount, word, interval) = directed(change.value, change.interval);
        let subject = if event.time {
            format!("{word_of_time} {noun}", word_of_time = less(word))
        } else {
            format!("{word} {noun}")
        };
        format!("{amount} % {subject} {per} ({interval}){}", place(event))
    }
}

fn less(word: &str) -> &str {
    if word == "fewer" {
        "less"
    } else {
        word
    }
}

/// The event's name in the plural.
pub(super) fn event_name(event: &ComparedEvent) -> String {
    event_noun(Some(event.kind), event.name.split(':').next().unwrap_or_default())
}

/// A rate with its unit: time in samples of time.
pub(super) fn rate(event: &ComparedEvent, rate: f64) -> String {
    match event.time {
        true => format!("{} us", crate::workload::amount(rate / 1e3)),
        false if rate == 0.0 => "0".into(),
        false => crate::workload::amount(rate),
    }
}

/// `12`, `fewer`, `11.1..12.8`: a change without its sign.
fn directed(value: f64, interval: Interval) -> (String, &'static str, String) {
    let (word, low, high) = match value < 0.0 {
        true => ("fewer", -interval.high, -interval.low),
        false => ("more", interval.low, interval.high),
    };
    let percent = value.abs() * 100.0;
    let amount = if percent >= 9.95 { format!("{percent:.0}") } else { format!("{percent:.1}") };
    (amount, word, format!("{:.1}..{:.1}", low * 100.0, high * 100.0))
}

fn name(row: &ComparedRow) -> String {
    crate::layout::printable(
        row.names.first().and_then(|name| name.as_deref()).unwrap_or("code that is not known"),
    )
}

fn change_words(row: &ComparedRow) -> String {
    match row.change {
        Some(change) if change.value.is_finite() => format!("{} %", signed_percent(change.value)),
        _ => "new".into(),
    }
}

/// Names the functions with the difference: those that differ significantly themselves, in the same
/// direction.
fn place(event: &ComparedEvent) -> String {
    let all = event.total.difference();
    let shares: Vec<(&ComparedRow, f64)> = event
        .functions
        .rows
        .iter()
        .filter(|row| row.different)
        .map(|row| (row, row.difference() / all))
        .filter(|(_, share)| *share > 0.0)
        .collect();
    match shares.as_slice() {
        [] => ", in no function alone".into(),
        [(row, share), ..] if *share > MORE_THAN_ALL => {
            format!(
                ", more than the total in {}: other functions differ in the opposite direction",
                name(row)
            )
        }
        [(row, share), ..] if *share >= NEARLY_ALL => format!(", nearly all in {}", name(row)),
        [(row, share), ..] if *share >= MOST => {
            format!(", most of it in {} ({:.0} %)", name(row), share * 100.0)
        }
        [(_, share), ..] if *share < LITTLE => {
            format!(", spread over {} functions", grouped(shares.len() as u64))
        }
        several => {
            let share = |(row, share): &(&ComparedRow, f64), of: &str| {
                format!("{:.0} %{of} in {}", share * 100.0, name(row))
            };
            let rest = several.iter().take(NAMED).skip(1).map(|one| share(one, ""));
            let named: Vec<String> = std::iter::once(share(&several[0], " of it")).chain(rest).collect();
            format!(", {}", named.join(", "))
        }
    }
}

/// Shares have no total: name the row whose share differs most.
fn share_sentence(event: &ComparedEvent, noun: &str) -> String {
    match event.functions.rows.iter().find(|row| row.different) {
        None => format!("no function's share of the {noun} differs significantly"),
        Some(row) => {
            let interval =
                row.change.map_or(String::new(), |change| format!(", {}", signed_interval(change.interval)));
            format!(
                "of 1,000 {noun}, {} are in {} instead of {} ({}{interval}); {} of {} functions have another share",
                rate(event, row.rates[1]),
                name(row),
                rate(event, row.rates[0]),
                change_words(row),
                event.functions.different,
                grouped(event.functions.judged as u64)
            )
        }
    }
}
