//! Comparisons as text: the answer first.

use super::blocks::BlockComparison;
use super::contest::{Answer, Measure, Row};
use super::differ::Difference;
use super::runs::RunComparison;
use crate::report::number;
use crate::report::summary::mode_in_words;
use crate::report::text::one_line;
use crate::report::DISCLAIMER;
use hardmeter_evidence::number::counted;
use hardmeter_evidence::table::{Column, Style, TextTable};
use hardmeter_evidence::{Interval, Verdict};
use std::fmt::Write as _;

/// The number of pairs below which no verdict is possible.
const FEWEST_PAIRS: u32 = 7;

impl Answer {
    /// The verdict in a sentence, with the measure that decides and measures that contradict it. `units`: what
    /// pairs are made of.
    pub(super) fn in_words(&self, units: &str) -> String {
        let pairs = format!("{} pairs of {units}", self.pairs);
        let minimum = self.minimum_effect * 100.0;
        let (evidence, opposite): (fn(&Row) -> f64, _) = match self.verdict {
            Verdict::Better => (|row| row.better, Verdict::Worse),
            Verdict::Worse => (|row| row.worse, Verdict::Better),
            Verdict::Same => {
                return format!("same: B differs from A by less than {minimum} % in every measure, {pairs}\n")
            }
            Verdict::Undecided => return self.why_undecided(&pairs),
        };
        let strongest = self.rows.iter().max_by(|one, two| evidence(one).total_cmp(&evidence(two)));
        let mut text = format!("B is {}", self.verdict);
        if let Some(row) = strongest {
            let _ = write!(text, ": {} {}", row.measure.name(), row.change_in_words());
        }
        let _ = writeln!(text, "; {pairs}");
        for row in self.rows.iter().filter(|row| row.side() == opposite) {
            let (name, change) = (row.measure.name(), row.change_in_words());
            let _ = writeln!(text, "but {opposite} by another measure: {name} {change}");
        }
        text
    }

    fn why_undecided(&self, pairs: &str) -> String {
        match self.pairs < FEWEST_PAIRS {
            true => format!("undecided: {pairs}, and a verdict needs {FEWEST_PAIRS} or more\n"),
            false => format!("undecided: {pairs} do not decide\n"),
        }
    }

    /// The table of the measures.
    pub(super) fn table(&self) -> String {
        let (left, right) = (Column::left, Column::right);
        let columns =
            [left("median"), right("A"), right("B"), right("B to A"), right("95 %"), right("pairs")];
        let mut table = TextTable::new(columns);
        for row in &self.rows {
            let value = |value: Option<f64>| match (value, row.measure) {
                (None, _) => "-".to_owned(),
                (Some(value), Measure::Response) => number::seconds(value),
                (Some(value), _) => number::number(value),
            };
            let change = row.change.or_else(|| Some(row.b? / row.a? - 1.0));
            table.plain([
                row.measure.name().to_owned(),
                value(row.a),
                value(row.b),
                change.map_or_else(|| "-".into(), percent),
                row.interval.map_or_else(|| "-".into(), interval),
                if row.pairs > 0 { row.pairs.to_string() } else { "-".into() },
            ]);
        }
        table.text()
    }
}

impl Row {
    fn change_in_words(&self) -> String {
        let change = self.change.map_or_else(|| "-".into(), percent);
        match self.interval {
            Some(range) => format!("{change} (95 %: {})", interval(range)),
            None => change,
        }
    }
}

/// A relative change in percent with its sign.
fn percent(change: f64) -> String {
    format!("{}{:.1} %", if change < 0.0 { "-" } else { "+" }, change.abs() * 100.0)
}

fn interval(interval: Interval) -> String {
    format!("{} .. {}", percent(interval.low), percent(interval.high))
}

impl BlockComparison {
    /// The comparison as text; `a` and `b` are what the sides are.
    pub fn in_words(&self, a: &str, b: &str) -> String {
        let BlockComparison { answer, pace, order, .. } = self;
        let mut text = String::new();
        if self.interrupted {
            text += "interrupted; so far ";
        }
        text += &answer.in_words(&format!("blocks of {}", number::duration(pace.block_seconds)));
        if answer.verdict == Verdict::Undecided && !self.interrupted {
            let (blocks, seconds) = (pace.most_blocks.max(FEWEST_PAIRS * 2) * 2, pace.block_seconds * 2.0);
            let _ = writeln!(
                text,
                "  more or longer blocks may decide it: --blocks {blocks} --seconds {seconds}"
            );
        }
        let _ = writeln!(text, "{DISCLAIMER}");
        let _ = writeln!(text, "A: {}\nB: {}", one_line(a), one_line(b));
        let _ = writeln!(
            text,
            "{}, {}; {}; {} before each block do not count",
            counted(u64::from(order.warehouses), "warehouse"),
            mode_in_words(order.mode),
            counted(u64::from(order.connections), "connection"),
            number::duration(pace.warm_up_seconds)
        );
        if self.failed != [0, 0] {
            let [a, b] = self.failed.map(number::count);
            let _ = writeln!(text, "warning: transactions given up: {a} of A, {b} of B");
        }
        let _ = write!(text, "\n{}", answer.table());
        let _ = writeln!(
            text,
            "\nlevel {} % for all measures and all pairs together; a change below {} % does not matter",
            number::number(answer.level * 100.0),
            number::number(answer.minimum_effect * 100.0)
        );
        text
    }
}

impl RunComparison {
    /// The comparison as text.
    pub fn in_words(&self) -> String {
        let mut text = match &self.no_verdict {
            Some(reason) => format!(
                "no verdict: {reason}\n  for a verdict: seven runs a side that took turns (A B B A ...): \
                 hardmeter tpcc compare --a A*.json --b B*.json\n"
            ),
            None => self.answer.in_words("runs"),
        };
        let _ = writeln!(text, "{DISCLAIMER}");
        for (name, files) in ["A", "B"].iter().zip(&self.files) {
            let _ = writeln!(text, "{name}: {}", one_line(&files.join(", ")));
        }
        for reason in &self.incomparable {
            let _ = writeln!(text, "NOT COMPARABLE, {}", one_line(reason));
        }
        for remark in &self.remarks {
            let _ = writeln!(text, "warning: {}", one_line(remark));
        }
        let _ = write!(text, "\n{}", self.answer.table());
        let (left, right) = (Column::left, Column::right);
        let mut table = TextTable::new([left("response times"), right("A"), right("B"), right("B to A")]);
        for response in &self.responses {
            let (a, b) = (response.a_seconds, response.b_seconds);
            let change = percent(b / a - 1.0);
            table.plain([response.name.clone(), number::seconds(a), number::seconds(b), change]);
        }
        let _ = write!(text, "\n{}\n", table.text());
        text + &differences_in_words(&self.differences)
    }
}

fn differences_in_words(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "Order and environment are the same.\n".into();
    }
    let mut table = TextTable::new(["what", "A", "", "B"].map(Column::left)).untitled();
    for Difference { what, a, b } in differences {
        table.plain([one_line(what), one_line(a), "->".to_string(), one_line(b)]);
    }
    format!("Order and environment differ:\n{}", table.render(Style::default(), 2))
}
