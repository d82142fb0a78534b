//! The result of a power run: times, ratios, answers; written to the result file.

use crate::error::{io_error, TpchError};
use crate::load::Data;
use crate::parameters::Source;
use crate::power::PowerOrder;
use crate::queries::Query;
use crate::refresh::Refresh;
use hardmeter_evidence::{geometric_mean, Direction, Median, Metric, Plan, Trial};
use hardmeter_session::{Answer, Cost};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::io::Write;
use std::path::Path;

/// Above this ratio a query counts as slower than the first variant: noise alone is up to 2 %.
pub const SLOWER: f64 = 1.02;

/// The fewest blocks that can decide.
pub const FEWEST_BLOCKS: usize = 7;

/// The relation of an answer to the first variant's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The same, byte for byte.
    Identical,
    /// The same rows in another order: equal by ORDER BY, or a wrong order.
    Reordered,
    /// Other rows.
    Different,
}

impl Verdict {
    /// Compares an answer with the first variant's.
    pub fn of(answer: &Answer, reference: &Answer) -> Verdict {
        if answer == reference {
            return Verdict::Identical;
        }
        let sorted = |answer: &Answer| {
            let mut rows = answer.rows.clone();
            rows.sort();
            rows
        };
        if sorted(answer) == sorted(reference) {
            Verdict::Reordered
        } else {
            Verdict::Different
        }
    }

    /// The verdict in a word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Identical => "identical",
            Verdict::Reordered => "reordered",
            Verdict::Different => "different",
        }
    }
}

/// The cost of one statement in one variant, by run, two per block, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    cpu: Vec<Option<f64>>,
    wall: Vec<f64>,
    /// The mean of each block, by the chosen clock.
    blocks: Vec<f64>,
}

impl Runs {
    /// Adds the runs of one block. Its mean uses CPU time if that is known for all of them.
    pub(crate) fn push_block(&mut self, costs: impl Iterator<Item = Cost>) {
        let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
        let costs: Vec<Cost> = costs.collect();
        self.cpu.extend(costs.iter().map(|cost| cost.cpu.map(ms)));
        self.wall.extend(costs.iter().map(|cost| ms(cost.wall)));
        let cpu: Option<Vec<f64>> = costs.iter().map(|cost| cost.cpu.map(ms)).collect();
        let values = cpu.unwrap_or_else(|| costs.iter().map(|cost| ms(cost.wall)).collect());
        if !values.is_empty() {
            self.blocks.push(values.iter().sum::<f64>() / values.len() as f64);
        }
    }

    /// CPU time of a run; `None` unless it is known for all runs.
    pub fn cpu_ms(&self) -> Option<Median> {
        Median::of(&self.cpu.iter().copied().collect::<Option<Vec<f64>>>()?)
    }

    /// Wall time of a run.
    pub fn wall_ms(&self) -> Option<Median> {
        Median::of(&self.wall)
    }

    /// The value used in ratios: CPU time, or wall time if that is unknown.
    pub fn ms(&self) -> Option<Median> {
        self.cpu_ms().or_else(|| self.wall_ms())
    }

    /// The ratio to another's runs, by block.
    fn ratios(&self, to: &Runs) -> Vec<f64> {
        self.blocks.iter().zip(&to.blocks).map(|(ours, theirs)| ours / theirs).collect()
    }
}

/// A ratio, with what it is the median of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median over blocks.
    #[serde(flatten)]
    pub median: Median,
    /// Block by block.
    pub blocks: Vec<f64>,
}

impl Ratio {
    fn of(blocks: Vec<f64>) -> Option<Ratio> {
        Some(Ratio { median: Median::of(&blocks)?, blocks })
    }
}

/// The reason why a query could not be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Failure {
    pub variant: String,
    pub reason: String,
    pub remedy: String,
}

/// The runs of one query.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryRuns {
    /// Which.
    pub query: Query,
    /// Number of rows in the first variant's answer.
    pub rows: usize,
    /// The fingerprint of its answer.
    pub digest: String,
    /// By variant, in their order.
    pub variants: Vec<Runs>,
    /// The worst verdict on each variant's answers.
    pub answers: Vec<Verdict>,
    /// The reason why there are no more, or no runs.
    pub failure: Option<Failure>,
}

impl QueryRuns {
    /// A query without runs.
    pub fn new(query: Query, variants: usize) -> QueryRuns {
        QueryRuns {
            query,
            rows: 0,
            digest: String::new(),
            variants: vec![Runs::default(); variants],
            answers: vec![Verdict::Identical; variants],
            failure: None,
        }
    }

    /// The ratio of a variant to the first.
    pub fn ratio(&self, variant: usize) -> Option<Ratio> {
        Ratio::of(self.variants[variant].ratios(&self.variants[0]))
    }
}

/// The runs of a refresh function.
#[derive(Clone, Debug, PartialEq)]
pub struct RefreshRuns {
    /// Which.
    pub refresh: Refresh,
    /// By variant, in their order.
    pub variants: Vec<Runs>,
}

impl RefreshRuns {
    /// The ratio of a variant to the first.
    pub fn ratio(&self, variant: usize) -> Option<Ratio> {
        Ratio::of(self.variants[variant].ratios(&self.variants[0]))
    }
}

/// A variant over all queries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Total {
    /// The variant.
    pub variant: String,
    /// The sum of the queries' times in milliseconds: the median over blocks.
    pub ms: Median,
    /// Its ratio to the first variant's.
    pub ratio: Ratio,
    /// The geometric mean of the queries' ratios.
    pub geometric_mean: Ratio,
    /// The query with the largest ratio, and that ratio.
    pub worst: (Query, f64),
    /// The queries that are slower than the first variant by more than 2 %.
    pub slower: Vec<Query>,
    /// The queries whose answers differ from the first variant's, byte for byte.
    pub other_answers: Vec<Query>,
    /// Whether it is better than the first variant, by the time of all queries; `None` for the first one. One
    /// decision for all variants and blocks together ([`Trial`]).
    pub verdict: Option<hardmeter_evidence::Verdict>,
}

/// The result of a power run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The parameters.
    pub order: PowerOrder,
    /// On which data.
    pub data: Data,
    /// The server's version.
    pub server_version: String,
    /// Whether times are CPU time of the backend; else wall time: on request, or because its process is not visible
    /// from here.
    pub cpu_known: bool,
    /// Query by query, in the order of the stream.
    pub queries: Vec<QueryRuns>,
    /// RF1 and RF2, if they were run.
    pub refreshes: Vec<RefreshRuns>,
}

impl Report {
    pub(crate) fn new(
        order: &PowerOrder,
        data: Data,
        server_version: String,
        cpu_known: bool,
        queries: Vec<QueryRuns>,
        refreshes: Vec<RefreshRuns>,
    ) -> Report {
        Report { order: order.clone(), data, server_version, cpu_known, queries, refreshes }
    }

    /// The queries that all variants could run, in every block.
    fn whole(&self) -> impl Iterator<Item = &QueryRuns> + Clone {
        self.queries.iter().filter(|query| query.failure.is_none())
    }

    /// A variant's totals over all queries that all variants could run; `None` if there are none.
    pub fn total(&self, variant: usize) -> Option<Total> {
        let (ours, base) = (self.sums(variant), self.sums(0));
        let means = (0..ours.len()).filter_map(|block| {
            let ratios: Vec<f64> = self
                .whole()
                .map(|query| query.variants[variant].blocks[block] / query.variants[0].blocks[block])
                .collect();
            geometric_mean(&ratios)
        });
        let by_query =
            || self.whole().filter_map(|query| Some((query.query, query.ratio(variant)?.median.value)));
        Some(Total {
            variant: self.order.variants[variant].name.clone(),
            ms: Median::of(&ours)?,
            ratio: Ratio::of(ours.iter().zip(&base).map(|(ours, base)| ours / base).collect())?,
            geometric_mean: Ratio::of(means.collect())?,
            worst: by_query().max_by(|left, right| left.1.total_cmp(&right.1))?,
            slower: by_query().filter(|(_, ratio)| *ratio > SLOWER).map(|(query, _)| query).collect(),
            other_answers: self
                .queries
                .iter()
                .filter(|query| query.answers[variant] != Verdict::Identical)
                .map(|query| query.query)
                .collect(),
            verdict: self.trial().filter(|_| variant > 0).map(|trial| trial.verdict_on(variant)),
        })
    }

    /// The time of all queries that all variants could run, block by block.
    fn sums(&self, variant: usize) -> Vec<f64> {
        let sum = |block: usize| self.whole().map(|query| query.variants[variant].blocks[block]).sum();
        let blocks = self.whole().next().map_or(0, |query| query.variants[variant].blocks.len());
        (0..blocks).map(sum).collect()
    }

    /// The trial of the variants against the first one, over all blocks. The order of its blocks was drawn
    /// ([`crate::power`]). `None` for a single variant.
    fn trial(&self) -> Option<Trial> {
        let contestants = self.order.variants.len();
        let sums: Vec<Vec<f64>> = (0..contestants).map(|variant| self.sums(variant)).collect();
        let time = Metric::new("time of all queries", Direction::Less, SLOWER - 1.0);
        let most_rounds = sums[0].len().max(1) as u32;
        // The trial's own order is not used.
        let plan = Plan { contestants, most_rounds, ..Plan::of_two(vec![time], 0) };
        let mut trial = Trial::new(plan).ok()?;
        for block in 0..sums[0].len() {
            let ratio = |of: &Vec<f64>| vec![Some((of[block] / sums[0][block]).ln())];
            // An error: all variants have their verdict.
            let _ended = trial.observe_round(&sums[1..].iter().map(ratio).collect::<Vec<_>>());
        }
        Some(trial)
    }

    /// Whether all queries ran, and all answers equal the first variant's.
    pub fn is_sound(&self) -> bool {
        let same = |query: &QueryRuns| query.answers.iter().all(|verdict| *verdict == Verdict::Identical);
        self.queries.iter().all(|query| query.failure.is_none() && same(query))
    }

    /// Writes the report to a file atomically.
    ///
    /// # Errors
    ///
    /// [`TpchError`] if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), TpchError> {
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            use std::os::unix::fs::PermissionsExt;
            file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            Ok(())
        };
        write().map_err(io_error("write", path))
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let order = &self.order;
        let cost = |runs: &Runs, ratio: Option<Ratio>, name: &str| {
            serde_json::json!({
                "variant": name,
                "cpu_ms": runs.cpu_ms(),
                "wall_ms": runs.wall_ms(),
                "ratio": ratio,
                "cpu_ms_runs": runs.cpu,
                "wall_ms_runs": runs.wall,
            })
        };
        let names = || order.variants.iter().map(|variant| variant.name.as_str());
        let queries: Vec<_> = self
            .queries
            .iter()
            .map(|query| {
                let variants = names().enumerate().map(|(at, name)| {
                    let mut value = cost(&query.variants[at], query.ratio(at), name);
                    value["answer"] = serde_json::json!(query.answers[at]);
                    value
                });
                serde_json::json!({
                    "query": query.query,
                    "title": query.query.title(),
                    "rows": query.rows,
                    "answer_sha256": query.digest,
                    "failure": query.failure,
                    "variants": variants.collect::<Vec<_>>(),
                })
            })
            .collect();
        let refreshes: Vec<_> = self
            .refreshes
            .iter()
            .map(|refresh| {
                let variants = names().enumerate();
                let variants =
                    variants.map(|(at, name)| cost(&refresh.variants[at], refresh.ratio(at), name));
                serde_json::json!({
                    "function": refresh.refresh.name(),
                    "variants": variants.collect::<Vec<_>>(),
                })
            })
            .collect();
        let parameters = match order.source {
            Source::Validation => "validation".to_owned(),
            Source::Seed(seed) => format!("seed {seed}"),
        };
        let preset: serde_json::Map<_, _> =
            order.preset.settings().iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let totals: Vec<_> = (0..order.variants.len()).filter_map(|at| self.total(at)).collect();
        let mut report = serializer.serialize_struct("Report", 14)?;
        report.serialize_field("format", "hardmeter-tpch")?;
        report.serialize_field("version", &1)?;
        report.serialize_field("server_version", &self.server_version)?;
        report.serialize_field("scale", &self.data.scale)?;
        report.serialize_field("refreshes_before", &self.data.refreshes)?;
        report.serialize_field("parameters", &parameters)?;
        report.serialize_field("preset", order.preset.name())?;
        report.serialize_field("settings", &preset)?;
        report.serialize_field("variants", &order.variants)?;
        report.serialize_field("clock", if self.cpu_known { "cpu" } else { "wall" })?;
        report.serialize_field("blocks", &order.blocks)?;
        report.serialize_field("queries", &queries)?;
        report.serialize_field("refresh_functions", &refreshes)?;
        report.serialize_field("totals", &totals)?;
        report.end()
    }
}

#[cfg(test)]
mod tests;
