//! `hardmeter tpch run`.

use super::arguments::{argument, Queries, TPCH};
use super::{cancelled_by_signals, remark, Bar, Results};
use crate::commands::place::Place;
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_evidence::table::{Column, TextTable};
use hardmeter_evidence::{Median, Verdict};
use hardmeter_session::Session;
use hardmeter_tpch::load::Data;
use hardmeter_tpch::parameters::Source;
use hardmeter_tpch::power::{self, Clock, PowerOrder, RunProgress};
use hardmeter_tpch::report::{Report, Runs, Total, FEWEST_BLOCKS, SLOWER};
use hardmeter_tpch::variants::{Preset, Variant};
use serde_json::json;
use std::time::Duration;

/// Run the queries with one or more variants of a session, in turn; compare times and answers.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "A variant is NAME=SETTINGS, settings separated by semicolons: load:LIBRARY or parameter=value. Each is a \
                  session of its own; ratios are to the first. Times are CPU time of the backend, wall time where its \
                  process cannot be seen. Exit status 1 if a query failed or answers differ.\n\n\
                  Example:\n  hardmeter tpch run --queries 1,6,18 --variant stock= --variant 'jit=jit=on'\n  \
                  hardmeter tpch run --settings default --variant stock= --variant 'ccopt=load:ccopt; ccopt.enabled=on'"
)]
pub struct Run {
    /// A variant, NAME=SETTINGS; may be repeated. [default: one, the session as it is]
    #[arg(long = "variant", value_name = "VARIANT", value_parser = argument::<Variant>)]
    variants: Vec<Variant>,
    /// The queries and their order.
    #[arg(long, value_name = "LIST", default_value = "1-22")]
    queries: Queries,
    /// Settings that all variants share: costs that favour indexes, default costs without bitmap scans, or the
    /// server's own (docs/tpch.md lists them).
    #[arg(long, value_enum, default_value_t = Settings::IndexFriendly)]
    settings: Settings,
    /// The clock of the times; parallel queries need wall time.
    #[arg(long, value_enum, default_value_t = ClockName::Cpu)]
    clock: ClockName,
    /// Number of blocks: passes in which every variant runs each query twice. A verdict takes seven or more.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    blocks: u16,
    /// Number of unmeasured passes before.
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm_up: u8,
    /// Draw the parameters by the specification's rules from this seed [default: validation values].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run the refresh functions RF1 and RF2 at the end of each block. They change the data.
    #[arg(long)]
    refresh: bool,
    /// Time limit of a query in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    #[command(flatten)]
    results: Results,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Settings {
    IndexFriendly,
    Default,
    Server,
}

impl Settings {
    fn preset(self) -> Preset {
        match self {
            Settings::IndexFriendly => Preset::IndexFriendly,
            Settings::Default => Preset::Default,
            Settings::Server => Preset::Server,
        }
    }
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum ClockName {
    Cpu,
    Wall,
}

impl RunProgress for Bar {
    fn step(&self, done: usize, of: usize, what: &str) {
        self.stands_at(done, of, what);
    }
}

impl Run {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        self.results.check()?;
        let target = self.place.find(&TPCH, globals)?;
        let stop = cancelled_by_signals();
        let order = self.order();
        order.check_refreshes(Data::of(&mut Session::open(&target, &stop)?)?)?;
        let bar = Bar::new(globals);
        let report = power::run(&target, &order, &stop, &bar)?;
        drop(bar);
        self.results.write(|path| report.write(path))?;
        self.results.printed.print("tpch", || in_words(&report), || json!(report))?;
        if !report.cpu_known && self.clock == ClockName::Cpu {
            remark(globals, "the server's processes cannot be seen from here: times are wall time");
        }
        Ok(if report.is_sound() { Outcome::Complete } else { Outcome::Partial })
    }

    fn order(&self) -> PowerOrder {
        let variants = if self.variants.is_empty() {
            vec![Variant { name: "server".into(), statements: Vec::new() }]
        } else {
            self.variants.clone()
        };
        PowerOrder {
            variants,
            queries: self.queries.0.clone(),
            source: self.seed.map_or(Source::Validation, Source::Seed),
            preset: self.settings.preset(),
            clock: match self.clock {
                ClockName::Cpu => Clock::Cpu,
                ClockName::Wall => Clock::Wall,
            },
            blocks: usize::from(self.blocks),
            warm_up: usize::from(self.warm_up),
            timeout: Duration::from_secs(self.timeout),
            refresh: self.refresh,
        }
    }
}

fn in_words(report: &Report) -> String {
    let order = &report.order;
    let parameters = match order.source {
        Source::Validation => "validation parameters".to_owned(),
        Source::Seed(seed) => format!("parameters of seed {seed}"),
    };
    let clock = if report.cpu_known { "CPU time of the backend" } else { "wall time" };
    let mut text = format!(
        "TPC-H at scale {} on PostgreSQL {}; settings {}; {parameters}\n{clock} in ms, medians of {} runs in {} blocks\n",
        report.data.scale,
        report.server_version,
        order.preset.name(),
        2 * order.blocks,
        order.blocks,
    );
    let base = &order.variants[0].name;
    if order.variants.len() == 1 {
        text += &alone(report, base);
    }
    for variant in 1..order.variants.len() {
        text += &beside(report, variant, base);
    }
    for query in &report.queries {
        if let Some(failure) = &query.failure {
            let (variant, reason) = (&failure.variant, &failure.reason);
            text += &format!("{} failed in variant {variant} and is in no total: {reason}\n", query.query);
            if !failure.remedy.is_empty() {
                text += &format!("  remedy: {}\n", failure.remedy);
            }
        }
    }
    text
}

/// The table of a single variant.
fn alone(report: &Report, name: &str) -> String {
    let mut table = TextTable::of_figures(["query", name, "95 % interval", "rows"]);
    let mut line = |what: &str, time: Option<Median>, rows: &str| {
        let value = time.as_ref().map_or_else(|| "-".into(), |time| format!("{:.1}", time.value));
        let interval = time.map_or_else(|| "-".into(), |time| interval(&time, 1));
        table.plain([what, &value, &interval, rows]);
    };
    for query in &report.queries {
        line(&query.query.to_string(), query.variants[0].ms(), &query.rows.to_string());
    }
    for refresh in &report.refreshes {
        line(refresh.refresh.name(), refresh.variants[0].ms(), "");
    }
    line("total", report.total(0).map(|total| total.ms), "");
    format!("\n{}", table.text())
}

/// The table that compares a variant with the first one.
fn beside(report: &Report, variant: usize, base: &str) -> String {
    let name = &report.order.variants[variant].name;
    let titles = ["query", base, name, "ratio", "95 % interval"];
    let columns = titles.iter().enumerate().map(|(index, title)| match index {
        0 => Column::left(*title),
        _ => Column::right(*title),
    });
    let mut table = TextTable::new(columns.chain([Column::left("answers")]));
    let ms = |runs: &Runs| runs.ms().map_or_else(|| "-".into(), |time| format!("{:.1}", time.value));
    let mut line = |what: &str, base: String, ours: String, ratio: Option<Median>, answers: &str| {
        let value = ratio.as_ref().map_or_else(|| "-".into(), |ratio| format!("{:.3}", ratio.value));
        let interval = ratio.map_or_else(|| "-".into(), |ratio| interval(&ratio, 3));
        table.plain([what, &base, &ours, &value, &interval, answers]);
    };
    for query in &report.queries {
        let answers = if query.failure.is_some() { "failed" } else { query.answers[variant].word() };
        let ratio = query.ratio(variant).map(|ratio| ratio.median);
        let (of_base, ours) = (ms(&query.variants[0]), ms(&query.variants[variant]));
        line(&query.query.to_string(), of_base, ours, ratio, answers);
    }
    for refresh in &report.refreshes {
        let ratio = refresh.ratio(variant).map(|ratio| ratio.median);
        let (of_base, ours) = (ms(&refresh.variants[0]), ms(&refresh.variants[variant]));
        line(refresh.refresh.name(), of_base, ours, ratio, "");
    }
    let (mut answer, mut about) = (String::new(), String::new());
    if let (Some(total), Some(of_base)) = (report.total(variant), report.total(0)) {
        let sum = |total: &Total| format!("{:.1}", total.ms.value);
        line("total", sum(&of_base), sum(&total), Some(total.ratio.median), "");
        about = summary(&total, report.queries.len(), base);
        answer = verdict(&total, report.order.blocks, base);
    }
    format!("\n{answer}{}{about}", table.text())
}

/// The verdict on a variant in a sentence.
fn verdict(total: &Total, blocks: usize, base: &str) -> String {
    let Some(verdict) = total.verdict else { return String::new() };
    let share = (SLOWER - 1.0) * 100.0;
    let mut text =
        format!("{} beside {base}: {verdict}, by the time of all queries in {blocks} blocks", total.variant);
    text += &match verdict {
        Verdict::Same => format!("; a change below {share:.0} % does not matter"),
        Verdict::Undecided if blocks < FEWEST_BLOCKS => format!("; a verdict takes {FEWEST_BLOCKS} or more"),
        Verdict::Undecided => "; more blocks may decide it: --blocks".into(),
        Verdict::Better | Verdict::Worse => String::new(),
    };
    text + "\n"
}

fn summary(total: &Total, queries: usize, base: &str) -> String {
    let names = |list: &[hardmeter_tpch::queries::Query]| {
        list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let mean = &total.geometric_mean.median;
    let mut text = format!("geometric mean of ratios {:.3}", mean.value);
    if mean.interval_95.is_some() {
        text += &format!(" ({})", interval(mean, 3));
    }
    let (query, ratio) = total.worst;
    let share = (SLOWER - 1.0) * 100.0;
    text += &format!("; worst {query} {ratio:.3}; slower than {base} by more than {share:.0} %: ");
    text += &if total.slower.is_empty() { "none".into() } else { names(&total.slower) };
    text += &match total.other_answers.len() {
        0 => format!("\nall {queries} answers are those of {base}, byte for byte\n"),
        count => format!(
            "\n{count} of {queries} answers are not those of {base}: {}\n",
            names(&total.other_answers)
        ),
    };
    text
}

fn interval(median: &Median, digits: usize) -> String {
    median.interval_95.map_or_else(
        || "-".into(),
        |interval| format!("{:.digits$}..{:.digits$}", interval.low, interval.high),
    )
}
