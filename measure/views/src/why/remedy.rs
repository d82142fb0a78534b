//! Remedies for a cause, from the paper (section 4.1), with the figures of the capture.

use super::wording::bytes;
use hardmeter_answers::why::{Cause, CauseAnswer, EventAnswer, EventKind, LevelGeometry, SetMap};
use hardmeter_samples::model::ByteCount;

/// The remedy for a cause of this event's misses.
pub(super) fn of_cause(answer: &EventAnswer, cause: &CauseAnswer, geometry: Option<LevelGeometry>) -> String {
    let known = cause.places.first().filter(|place| !place.routine.starts_with("[unknown"));
    let place = known.map_or_else(String::new, |place| format!(" in {}", place.routine));
    if cause.cold_start.is_some() {
        return super::pattern::COLD_START.into();
    }
    let code = matches!(answer.kind, EventKind::Miss(hardmeter_answers::why::CacheLevel::L1i));
    if let Some(remedy) = super::pattern::remedy(cause, &place, geometry).filter(|_| !code) {
        return match cause.cause {
            Cause::Conflict => format!("{remedy}; or {}", conflict(answer.sets.as_ref().ok(), geometry)),
            _ => remedy,
        };
    }
    match cause.cause {
        Cause::Cold if code => "lay hot routines side by side (profile-guided layout, --function-sections with an \
                                ordering file), so that a fetch brings in what is needed next"
            .into(),
        Cause::Cold => format!(
            "prefetch ahead of the first use{place} (__builtin_prefetch a few iterations before), or pack what is used \
             together into one line, so that one miss brings it all"
        ),
        Cause::Capacity if code => "shrink the hot code: fewer inlined copies, cold paths out of line \
                                    (__builtin_expect, -freorder-blocks-and-partition), profile-guided layout"
            .into(),
        Cause::Capacity => {
            let size = geometry.map_or_else(|| "the cache".to_string(), |level| bytes(level.size()));
            format!(
                "blocking: do all work{place} on a part that fits {size} before going on to the next; or make the data \
                 smaller: narrower fields, hot fields apart from cold ones"
            )
        }
        Cause::Conflict => conflict(answer.sets.as_ref().ok(), geometry),
        Cause::TrueSharing => "make fewer writes: batch updates, one counter per core that is summed when read, or a \
                               test before the atomic write (the paper's spin lock); `hardmeter sharing` names both sides"
            .into(),
        Cause::FalseSharing => "give each writer a line of its own: align the fields to 64 bytes (alignas(64)) or move \
                                those that are only read elsewhere; `hardmeter sharing` shows the layout"
            .into(),
        Cause::Coherence => "`hardmeter sharing` shows who else writes these lines; keep what several cores write apart \
                             from what they only read"
            .into(),
        Cause::Unknown => "more samples (a smaller --period), or the software PMU (--source simulated), which records \
                           causes exactly"
            .into(),
    }
}

/// The remedy for translation misses.
pub(super) fn of_tlb() -> &'static str {
    "huge pages: one entry of 2 MB stands for 512 of 4 KB (for a server's shared memory its huge_pages option, for a heap \
     madvise(MADV_HUGEPAGE) or glibc.malloc.hugetlb=1); or visit data in the order of its pages"
}

/// Colouring, with the distance that brings lines together.
fn conflict(map: Option<&SetMap>, geometry: Option<LevelGeometry>) -> String {
    let Some(geometry) = geometry else {
        return "colouring: move or pad one of the conflicting structures, so that they begin in other sets"
            .into();
    };
    let step = geometry.line_size;
    let mut text = format!(
        "colouring: lines whose addresses are equal modulo {} share a set of {} ways; pad each next structure by another \
         {step} bytes, or let it begin at another offset, so that their hot lines spread over the {} sets",
        bytes(geometry.stride()),
        geometry.ways,
        geometry.sets
    );
    if let Some(distance) = map.and_then(distance) {
        text.push_str(&format!(
            "; the conflicting lines of the busiest set are multiples of {} apart",
            bytes(distance)
        ));
    }
    text
}

/// The common divisor of all distances between the lines of the busiest set.
fn distance(map: &SetMap) -> Option<ByteCount> {
    let lines = &map.standing_out.first()?.lines;
    let first = lines.first()?.address.0;
    let common = lines.iter().map(|line| line.address.0.abs_diff(first)).fold(0, gcd);
    (common > 0).then_some(ByteCount(common))
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_what_all_have_in_common() {
        assert_eq!(gcd(gcd(0, 8192), 12288), 4096);
    }
}
