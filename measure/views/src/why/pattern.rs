//! Sentences on patterns of misses, with remedies.

use super::wording::{bytes, place_text};
use crate::number::{grouped, percent};
use hardmeter_answers::why::{Cause, CauseAnswer, LevelGeometry, PatternCount, SetIndexing};
use hardmeter_answers::Share;
use hardmeter_samples::machine::LINE_SIZE;
use hardmeter_samples::model::{ByteCount, MissPattern};

/// A pattern below this share of a cause's misses is not named.
const LEAST_SHARE: f64 = 0.3;
/// Samples from which on a pattern is named.
const LEAST_SAMPLES: u64 = 10;
/// A distance is the pattern's if it has this share of its samples.
const LEAST_SHARE_OF_STRIDE: f64 = 0.5;

/// The pattern that most misses of a cause have, if it has enough samples. None for lines that processors take from
/// each other: how an address was found does not matter there.
pub(super) fn leading(cause: &CauseAnswer) -> Option<&PatternCount> {
    if cause.cause.is_sharing() {
        return None;
    }
    cause.patterns.first().filter(|first| is_named(first, cause.share.count))
}

/// Whether a pattern has enough samples of a number of misses.
pub(crate) fn is_named(pattern: &PatternCount, of: u64) -> bool {
    let share = Share { count: pattern.count, total: of };
    pattern.count >= LEAST_SAMPLES && share.fraction() >= LEAST_SHARE
}

/// The distance of a pattern, if most of its misses have it.
fn stride(pattern: &PatternCount) -> Option<i64> {
    let (stride, count) = pattern.stride?;
    (Share { count, total: pattern.count }.fraction() >= LEAST_SHARE_OF_STRIDE).then_some(stride)
}

/// `97.10 % at a stride of 4,096 bytes in transpose (t.c:12)`.
pub(super) fn sentence(cause: &CauseAnswer) -> Option<String> {
    let pattern = leading(cause)?;
    let share = percent(Share { count: pattern.count, total: cause.share.count });
    let what = words(pattern);
    // The place is in the sentence already if it is the cause's own.
    let place = pattern
        .place
        .as_ref()
        .map(place_text)
        .filter(|place| cause.places.first().is_none_or(|first| place_text(first) != *place));
    Some(match place {
        Some(place) => format!("{share} {what}, most in {place}"),
        None => format!("{share} {what}"),
    })
}

/// `at a stride of 4,096 bytes`.
pub(crate) fn words(pattern: &PatternCount) -> String {
    match (pattern.pattern, stride(pattern)) {
        (MissPattern::Chase, Some(apart)) => {
            format!(
                "by a pointer chase (each address came from the load before), nodes {} bytes apart",
                distance(apart)
            )
        }
        (MissPattern::Chase, None) => "by a pointer chase (each address came from the load before)".into(),
        (MissPattern::Indirect, _) => {
            "by an address that another load had just read (a table of pointers or indices, a bucket's entry)"
                .into()
        }
        (MissPattern::Stride, Some(apart)) if is_stream(apart) => {
            format!("as a stream ({} bytes from miss to miss)", distance(apart))
        }
        (MissPattern::Stride, Some(apart)) => format!("at a stride of {} bytes", distance(apart)),
        (MissPattern::Stride, None) => "at several constant strides".into(),
        (MissPattern::Scattered, _) => "at scattered addresses (hash buckets, random elements)".into(),
    }
}

/// `stride 4,096 (n = 97)`, for a column.
pub(crate) fn in_short(pattern: &PatternCount) -> String {
    let name = match (pattern.pattern, stride(pattern)) {
        (MissPattern::Chase, _) => "chase".into(),
        (MissPattern::Indirect, _) => "indirect".into(),
        (MissPattern::Stride, Some(apart)) if is_stream(apart) => "stream".into(),
        (MissPattern::Stride, Some(apart)) => format!("stride {}", distance(apart)),
        (MissPattern::Stride, None) => "strides".into(),
        (MissPattern::Scattered, _) => "scattered".into(),
    };
    format!("{name} (n = {})", grouped(pattern.count))
}

/// `a cold start: 95.10 % in the first 4.2 % of the recording`.
pub(super) fn cold_start_sentence(cause: &CauseAnswer) -> Option<String> {
    let start = cause.cold_start?;
    Some(format!(
        "a cold start: {} (n = {} of {}) in the first {:.1} % of the recording",
        percent(start.misses),
        grouped(start.misses.count),
        grouped(start.misses.total),
        start.part * 100.0
    ))
}

/// The remedy for first uses at a start: measure later, since a long-running server needs no change of its
/// code.
pub(super) const COLD_START: &str = "nothing in the code, if what runs is to run for long: these are first uses, which \
     end. Record later (--delay SECONDS) or for longer. At the server: warm it up before it serves (PostgreSQL: \
     pg_prewarm; any service: a load of requests)";

/// The remedy for misses of this pattern; `None` where the cause's own remedy fits.
pub(super) fn remedy(cause: &CauseAnswer, place: &str, geometry: Option<LevelGeometry>) -> Option<String> {
    let pattern = leading(cause)?;
    // The pattern's place, which can differ from the cause's.
    let own = pattern.place.as_ref().filter(|place| !place.routine.starts_with("[unknown"));
    let place = &own.map_or_else(|| place.to_string(), |own| format!(" in {}", own.routine));
    let size = geometry.map_or_else(|| "the cache".to_string(), |level| bytes(level.size()));
    match (cause.cause, pattern.pattern) {
        (Cause::Cold | Cause::Capacity, MissPattern::Chase) => Some(format!(
            "shorten the chain{place}: the next address is known only when the load before has returned, so that neither \
             blocking nor a prefetch of the next node helps. Put several entries into each node, or use an array or a \
             B-tree instead; allocate nodes in the order in which they are followed; or follow several chains at once \
             (a batch of lookups)"
        )),
        (Cause::Capacity, MissPattern::Scattered) => Some(format!(
            "batches: the addresses{place} are known early and do not depend on one another. Compute those of several \
             keys, prefetch all, then use them; or partition the keys so that the part in use fits {size}; or make the \
             elements smaller"
        )),
        (Cause::Cold | Cause::Capacity, MissPattern::Indirect) => Some(format!(
            "prefetch by the table{place}: its entries are read before the data they lead to, so read some entries ahead \
             and prefetch what they lead to; or keep the hot part of that data in the table itself"
        )),
        (Cause::Capacity | Cause::Conflict, MissPattern::Stride) => {
            strided(cause.cause, stride(pattern)?, place, geometry)
        }
        (Cause::Cold, MissPattern::Stride) if stride(pattern).is_some_and(is_stream) => Some(format!(
            "a stream{place} is fetched ahead by the processor: what remains is bandwidth, so make the data smaller (narrower \
             fields, columns apart)"
        )),
        _ => None,
    }
}

/// A distance that the processor's prefetchers follow as a stream of lines.
fn is_stream(stride: i64) -> bool {
    stride.unsigned_abs() <= 2 * u64::from(LINE_SIZE)
}

fn strided(cause: Cause, stride: i64, place: &str, geometry: Option<LevelGeometry>) -> Option<String> {
    let apart = stride.unsigned_abs();
    if is_stream(stride) {
        return (cause == Cause::Capacity).then(|| {
            let size = geometry.map_or_else(|| "the cache".to_string(), |level| bytes(level.size()));
            format!(
                "blocking: the stream{place} comes again after more than {size}: do all work on a part that fits it before \
                 going on to the next; or make the data smaller"
            )
        });
    }
    let used = geometry.and_then(|level| sets_used(apart, level)).map_or_else(String::new, |(used, all)| {
        format!(
            "; it uses {} of the {} sets, which a row longer by a line would spread",
            grouped(used),
            grouped(all)
        )
    });
    Some(format!(
        "visit memory in order{place}: at {} bytes from miss to miss each uses a line of its own{used}. Exchange the loops, work \
         in tiles whose rows fit the cache, or store what is read together side by side",
        grouped(apart)
    ))
}

/// The number of sets that a stride reaches, and of all sets, if the address selects the set.
fn sets_used(stride: u64, level: LevelGeometry) -> Option<(u64, u64)> {
    // Beyond the first level, physical addresses select the set.
    level.address_bits().filter(|_| level.indexing == SetIndexing::Virtual)?;
    let (sets, line) = (u64::from(level.sets), u64::from(level.line_size));
    let used = if stride.is_multiple_of(line) { sets / gcd(sets, stride / line) } else { sets };
    (used < sets).then_some((used, sets))
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}

/// `4,096`, or `-64` for descending addresses.
fn distance(stride: i64) -> String {
    let sign = if stride < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(ByteCount(stride.unsigned_abs()).0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_answers::why::ColdStart;

    fn cause(cause: Cause, pattern: MissPattern, count: u64, stride: Option<(i64, u64)>) -> CauseAnswer {
        CauseAnswer {
            cause,
            share: Share { count: 100, total: 100 },
            p: None,
            basis: Vec::new(),
            places: Vec::new(),
            objects: Vec::new(),
            statements: Vec::new(),
            in_standing_sets: None,
            patterns: vec![PatternCount { pattern, count, stride, place: None }],
            cold_start: None,
        }
    }

    /// 64 sets of 8 ways: 32 KB.
    fn l1d() -> LevelGeometry {
        LevelGeometry { sets: 64, ways: 8, line_size: 64, indexing: SetIndexing::Virtual }
    }

    #[test]
    fn a_pattern_is_named_with_its_number() {
        let said = |pattern, count, stride| sentence(&cause(Cause::Capacity, pattern, count, stride));
        let transposition = said(MissPattern::Stride, 97, Some((4096, 90)));
        assert_eq!(transposition.as_deref(), Some("97.00 % at a stride of 4,096 bytes"));
        let stream = said(MissPattern::Stride, 50, Some((-64, 50)));
        assert_eq!(stream.as_deref(), Some("50.00 % as a stream (-64 bytes from miss to miss)"));
        let several = said(MissPattern::Stride, 50, Some((4096, 24)));
        assert_eq!(several.as_deref(), Some("50.00 % at several constant strides"));
        assert_eq!(said(MissPattern::Scattered, 29, None), None, "not most misses'");
        let short = |pattern, stride| in_short(&PatternCount { pattern, count: 1_097, stride, place: None });
        assert_eq!(short(MissPattern::Stride, Some((4096, 1_000))), "stride 4,096 (n = 1,097)");
        assert_eq!(short(MissPattern::Stride, Some((4096, 9))), "strides (n = 1,097)");
        assert_eq!(short(MissPattern::Stride, Some((64, 1_000))), "stream (n = 1,097)");
        assert_eq!(short(MissPattern::Chase, Some((64, 1_000))), "chase (n = 1,097)");
    }

    #[test]
    fn contended_lines_have_no_pattern() {
        for sharing in [Cause::TrueSharing, Cause::FalseSharing, Cause::Coherence] {
            assert_eq!(sentence(&cause(sharing, MissPattern::Scattered, 90, None)), None);
        }
    }

    #[test]
    fn a_cold_start_is_named_with_its_end() {
        let mut cold = cause(Cause::Cold, MissPattern::Scattered, 20, None);
        assert_eq!(cold_start_sentence(&cold), None);
        cold.cold_start = Some(ColdStart { misses: Share { count: 95, total: 100 }, part: 0.042 });
        let said = cold_start_sentence(&cold);
        assert_eq!(
            said.as_deref(),
            Some("a cold start: 95.00 % (n = 95 of 100) in the first 4.2 % of the recording")
        );
    }

    #[test]
    fn a_list_is_not_to_be_blocked() {
        let helps = |of, pattern, stride| remedy(&cause(of, pattern, 90, stride), "", Some(l1d()));
        let list = helps(Cause::Capacity, MissPattern::Chase, None).expect("its own remedy");
        assert!(list.starts_with("shorten the chain: "), "{list}");
        let stream = helps(Cause::Capacity, MissPattern::Stride, Some((64, 90))).expect("its own remedy");
        assert!(stream.starts_with("blocking: the stream comes again after more than 32 KB"), "{stream}");
        assert_eq!(helps(Cause::TrueSharing, MissPattern::Chase, None), None);
    }

    /// 4,096 bytes are 64 lines: all in one set of 64. 192 bytes are three lines: all sets.
    #[test]
    fn a_stride_tells_how_many_sets_it_uses() {
        assert_eq!(sets_used(4096, l1d()), Some((1, 64)));
        assert_eq!(sets_used(1024, l1d()), Some((4, 64)));
        assert_eq!(sets_used(192, l1d()), None);
        assert_eq!(sets_used(100, l1d()), None);
        let conflict = cause(Cause::Conflict, MissPattern::Stride, 90, Some((4096, 90)));
        let text = remedy(&conflict, " in f", Some(l1d())).expect("its own remedy");
        assert!(text.contains("it uses 1 of the 64 sets"), "{text}");
    }
}
