//! Words for what an answer rests on, and for what is missing.

use super::wording::bytes;
use crate::number::{counted, grouped, percent, percent_interval};
use hardmeter_answers::why::{
    CacheLevel, Cause, CauseAnswer, Hierarchy, How, LevelGeometry, Missing, Score, SetIndexing, SetsUnknown,
    StandingSet,
};

/// `exact (simulated)`, or `inferred (sampled, n = 3,412, p <= 0.02; by reuse 3,000, set 412)`.
pub(super) fn how(how: How, cause: &CauseAnswer) -> String {
    match how {
        How::Exact => "exact (simulated)".into(),
        How::None => String::new(),
        How::Inferred => {
            let n = grouped(cause.share.count);
            if cause.cause == Cause::Unknown {
                return format!("samples do not tell (n = {n})");
            }
            let p = cause.p.map_or_else(|| "p not known".into(), at_most);
            let basis: Vec<String> =
                cause.basis.iter().map(|basis| format!("{} {}", basis.name, grouped(basis.count))).collect();
            format!("inferred (sampled, n = {n}, {p}; by {})", basis.join(", "))
        }
    }
}

/// `p <= 0.02`.
pub(super) fn at_most(p: f64) -> String {
    if p < 0.001 {
        "p < 0.001".into()
    } else {
        format!("p <= {p:.3}")
    }
}

/// The geometry of a level and the address bits that choose its sets.
pub(super) fn geometry(level: CacheLevel, geometry: LevelGeometry) -> String {
    let mut text = format!(
        "{} of {}: {} sets of {} ways, {} B lines",
        level.name(),
        bytes(geometry.size()),
        grouped(u64::from(geometry.sets)),
        geometry.ways,
        geometry.line_size
    );
    let kind = match geometry.indexing {
        SetIndexing::Virtual => "virtual",
        SetIndexing::Physical => "physical",
        SetIndexing::Hashed => {
            text.push_str("; real processors choose the set by a hash that is not published");
            return text;
        }
    };
    match geometry.address_bits() {
        Some((high, low)) => text.push_str(&format!(
            "; the set is {kind} address bits {high}..{low}, the same again every {}",
            bytes(geometry.stride())
        )),
        None => text.push_str(&format!("; the set is the {kind} line number modulo {}", geometry.sets)),
    }
    text
}

/// A set that stands out, in one line.
pub(super) fn standing(set: &StandingSet, ways: u32) -> String {
    format!(
        "set {}: {} on {} for {ways} ways; each cut to the {} of the first line too many: {} where {:.1} are expected, {}",
        set.set,
        counted(set.samples, "sample"),
        counted(u64::from(set.lines_on_one_core), "line"),
        grouped(set.cut_at),
        grouped(set.counted),
        set.expected,
        at_most(set.p)
    )
}

/// The reason why the map of sets is missing, and the remedy.
pub(super) fn sets_unknown(reason: SetsUnknown, level: Option<CacheLevel>) -> String {
    let level = level.map_or("the cache", CacheLevel::name);
    match reason {
        SetsUnknown::NoGeometry => format!(
            "sets of {level}: unknown, the capture does not tell the caches' geometry; name the machine with --machine \
             (a model's name, a TOML file, or `this`), or record with hardmeter, or with a perf that writes its caches into the header"
        ),
        SetsUnknown::NoSuchLevel => format!("sets of {level}: the machine has no {level}"),
        SetsUnknown::NoAddress => format!(
            "sets of {level}: unknown, samples have no data address; record a memory event (hardmeter record -e l1d-miss, \
             perf mem record, perf record -d)"
        ),
        SetsUnknown::NoPhysicalAddress => format!(
            "sets of {level}: unknown, {level} is indexed by the physical address, which samples lack; record as root, or \
             with perf record --phys-data"
        ),
        SetsUnknown::Hashed => format!(
            "sets of {level}: unknown, and not to be known from samples: real processors spread {level} over slices by a \
             hash that is not published"
        ),
        SetsUnknown::NoLevel => String::new(),
    }
}

/// Missing fields of the samples, and how to record them.
pub(super) fn missing(missing: Missing) -> String {
    match missing {
        Missing::DataAddress { without } => format!(
            "{} of {} samples ({}) have no data address (PERF_SAMPLE_ADDR), without which neither sets nor reuse are \
             known: record a precise memory event (hardmeter record -e l1d-miss, perf mem record, or perf record -d)",
            grouped(without.count),
            grouped(without.total),
            percent(without)
        ),
        Missing::DataSource { without } => format!(
            "{} of {} samples ({}) have no data source (PERF_SAMPLE_DATA_SRC), without which level, TLB walks and other \
             cores' lines are unknown: record with hardmeter record, or perf mem record",
            grouped(without.count),
            grouped(without.total),
            percent(without)
        ),
        Missing::PhysicalAddress { without } => format!(
            "{} of {} samples ({}) have no physical address (PERF_SAMPLE_PHYS_ADDR), by which this level finds its set: \
             record as root, or with perf record --phys-data",
            grouped(without.count),
            grouped(without.total),
            percent(without)
        ),
        Missing::Geometry => "the capture does not contain the caches' geometry, so that only coherence is known: name \
                              the machine with --machine (a model's name, a TOML file, or `this` where it was recorded)"
            .into(),
        Missing::Causes => "causes were not simulated (--no-causes): record again without it for exact ones".into(),
    }
}

/// The inference's score, as a sentence.
pub(super) fn score(score: &Score) -> String {
    let (decided, right) = (score.decided(), score.agreement());
    let head = format!("inferred against exact (n = {})", grouped(score.total()));
    if decided.count == 0 {
        return format!("{head}: none got a verdict");
    }
    let kappa = score.kappa().map_or_else(String::new, |kappa| format!(", kappa {kappa:.2}"));
    format!(
        "{head}: {} got a verdict ({}); {} are right ({}, 95 %: {}){kappa}",
        grouped(decided.count),
        percent(decided),
        grouped(right.count),
        percent(right),
        percent_interval(right)
    )
}

/// The source of the geometry, as text.
pub(super) fn origin(hierarchy: Option<&Hierarchy>) -> String {
    hierarchy.map_or_else(|| "unknown".into(), |hierarchy| hierarchy.origin.clone())
}
