//! Compares two counts without captures, such as tables of a paper or the output of another tool.

use super::{signed_interval, signed_percent};
use crate::layout::{wrap, Column, Style, TextTable};
use crate::number::{grouped, percent};
use hardmeter_answers::Share;
use hardmeter_evidence::envelope::envelope;
use hardmeter_evidence::{Change, Counted};
use serde_json::{json, Value};

/// Events counted in one run each, optionally with the total of all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountsReport {
    /// The events counted before and after.
    pub counts: [u64; 2],
    /// All events; `counts` is a part of them.
    pub totals: Option<[u64; 2]>,
}

/// One line: the name of the figure, before, after, and the change.
type Line = (&'static str, String, String, Change);

impl CountsReport {
    fn lines(&self) -> Vec<Line> {
        let of_counts = |[a, b]: [u64; 2]| Change::of(&[Counted::each(a, 1.0)], &[Counted::each(b, 1.0)]);
        let pair = |[a, b]: [u64; 2]| (grouped(a), grouped(b));
        let mut lines = Vec::new();
        let mut add = |name, (a, b), change: Option<Change>| {
            lines.extend(change.map(|change| (name, a, b, change)));
        };
        add("these", pair(self.counts), of_counts(self.counts));
        let Some(totals) = self.totals else { return lines };
        add("all", pair(totals), of_counts(totals));
        let rest = [totals[0] - self.counts[0], totals[1] - self.counts[1]];
        add("the others", pair(rest), of_counts(rest));
        let [a, b] = [0, 1].map(|side| Share { count: self.counts[side], total: totals[side] });
        add("share of these", (percent(a), percent(b)), Change::of_shares(a, b));
        lines
    }

    /// The changes with their intervals.
    pub fn text(&self, style: Style) -> String {
        let lines = self.lines();
        let Some((_, _, _, first)) = lines.first() else { return String::new() };
        let mut text = match first.value.is_finite() {
            true => format!("{} % ({})\n\n", signed_percent(first.value), signed_interval(first.interval)),
            false => "new\n\n".to_string(),
        };
        let mut table = TextTable::new([
            Column::left(""),
            Column::right("A"),
            Column::right("B"),
            Column::right("change"),
            Column::right("95 %"),
        ]);
        for (name, a, b, change) in lines {
            let (value, interval) = (signed_percent(change.value), signed_interval(change.interval));
            let unit = if change.value.is_finite() { " %" } else { "" };
            table.plain([name.to_string(), a, b, value + unit, interval]);
        }
        text.push_str(&table.render(style, 2));
        let conditions = "two runs are described, and judged by their counts alone: the intervals hold if both did the same \
                          work, and do not contain what differs from run to run";
        text + &wrap(conditions, style, 0) + "\n"
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let line = |(name, _, _, change): &Line| json!({ "of": name, "value": change.value, "interval_95": change.interval, "p": change.p });
        let changes: Vec<Value> = self.lines().iter().map(line).collect();
        envelope(
            "compare-counts",
            1,
            json!({ "counts": self.counts, "totals": self.totals, "changes": changes }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables 7 and 8 of the paper of 2003: samples in the spin lock's routine, out of all samples.
    #[test]
    fn the_papers_tables_7_and_8() {
        let report = CountsReport { counts: [58_173, 50_540], totals: Some([280_759, 265_927]) };
        let text = report.text(Style::default());
        assert_eq!(text.lines().next(), Some("-13.1 % (-14.2..-12.1)"), "{text}");
        for line in [
            "  these            58,173   50,540  -13.1 %  -14.2..-12.1",
            "  all             280,759  265,927   -5.3 %    -5.8..-4.8",
            "  the others      222,586  215,387   -3.2 %    -3.8..-2.7",
            "  share of these  20.72 %  19.01 %   -8.3 %    -9.2..-7.3",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let json = report.json();
        assert_eq!(json["format"], "hardmeter-compare-counts");
        assert!((json["changes"][0]["value"].as_f64().unwrap() + 0.1312).abs() < 1e-4);
    }

    #[test]
    fn counts_without_totals_and_from_nothing() {
        let report = CountsReport { counts: [0, 10], totals: None };
        assert!(report.text(Style::default()).starts_with("new\n"), "{}", report.text(Style::default()));
        assert_eq!(report.json()["changes"][0]["value"], Value::Null);
    }
}
