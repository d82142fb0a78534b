//! Workloads defined without a recording: the ten mixes of docs/design/place.md, section 4; those in two tiers are
//! in `tiers`.
//!
//! Times of the clean kinds are section 6a's (a pass over 1 MB, each load depending on the one before: 88 us; independent loads: a
//! tenth), streams run at 16 GB/s (64 MB in 4.2 ms). A reload of independent loads is a tenth of that of dependent ones: from D, in
//! which clean work gained 2 % at most, and M, in which it gained 17 %.

use super::scenario::{App, Kind, Load, Request, Scenario};
use super::tiers;
use crate::model::AppId;

/// Names, for `--mix`.
pub const NAMES: [&str; 12] = ["A", "B", "C", "D", "E", "F", "H", "K", "M", "N", "auction", "much-data"];

const PASS_US_PER_KB: f64 = 88.0 / 1024.0;
const STREAM_US_PER_KB: f64 = 4200.0 / 65536.0;
const INDEPENDENT: f64 = 0.1;

/// A mix for a machine with this number of logical processors; `None`: there is no such mix.
pub fn named(name: &str, cpus: usize) -> Option<Scenario> {
    let clean = |label: &str, code: u32, kb: f64, passes: f64, reload: f64| {
        let warm = kb * passes * PASS_US_PER_KB * reload;
        Kind::new(0, AppId(1), code, label, warm).resident(kb, passes, reload)
    };
    let dirty = |kb: f64| Kind::new(0, AppId(1), 3, "dirty", kb * STREAM_US_PER_KB).streaming(kb);
    // `None`: as much time for each kind when its data is warm.
    let (title, first, second, share) = match name {
        "A" => (
            "clean: 4 passes over 1 MB; dirty: 4 MB; balanced",
            clean("clean", 2, 1024.0, 4.0, 1.0),
            dirty(4096.0),
            None,
        ),
        "B" => (
            "clean: 4 passes over 1 MB; dirty: 64 MB; balanced",
            clean("clean", 2, 1024.0, 4.0, 1.0),
            dirty(65536.0),
            None,
        ),
        "C" => (
            "clean: 1 pass over 1 MB; dirty: 4 MB; balanced",
            clean("clean", 2, 1024.0, 1.0, 1.0),
            dirty(4096.0),
            None,
        ),
        "D" => (
            "clean: 4 passes over 1 MB, independent loads; dirty: 4 MB; balanced",
            clean("clean", 2, 1024.0, 4.0, INDEPENDENT),
            dirty(4096.0),
            None,
        ),
        "E" => {
            ("as A, 80 % of requests clean", clean("clean", 2, 1024.0, 4.0, 1.0), dirty(4096.0), Some(0.8))
        }
        "F" => (
            "clean as A; dirty: 1 MB, 85 % of requests",
            clean("clean", 2, 1024.0, 4.0, 1.0),
            dirty(1024.0),
            Some(0.15),
        ),
        "H" => (
            "clean: 4 passes over 256 KB; dirty: 4 MB; balanced",
            clean("clean", 2, 256.0, 4.0, 1.0),
            dirty(4096.0),
            None,
        ),
        "K" => (
            "two clean kinds, 1 pass over 1.2 MB each",
            clean("clean 1", 2, 1229.0, 1.0, 1.0),
            clean("clean 2", 3, 1229.0, 1.0, 1.0),
            None,
        ),
        "M" => (
            "two clean kinds, 1.2 MB each, independent loads",
            clean("clean 1", 2, 1229.0, 4.0, INDEPENDENT),
            clean("clean 2", 3, 1229.0, 4.0, INDEPENDENT),
            None,
        ),
        "N" => (
            "two clean kinds of 600 KB, which fit together",
            clean("clean 1", 2, 600.0, 1.0, 1.0),
            clean("clean 2", 3, 600.0, 1.0, 1.0),
            None,
        ),
        "auction" => return Some(tiers::auction(cpus)),
        "much-data" => return Some(tiers::much_data()),
        _ => return None,
    };
    let share = share.unwrap_or_else(|| second.warm_us / (first.warm_us + second.warm_us));
    Some(Scenario {
        name: name.into(),
        title: title.into(),
        apps: vec![App {
            id: AppId(1),
            name: "sections".into(),
            related: None,
            threads: 2 * cpus,
            code_kb: 0.0,
            code_pass_us: 0.0,
        }],
        requests: vec![
            Request { name: first.label.clone(), steps: vec![0], weight: share },
            Request { name: second.label.clone(), steps: vec![1], weight: 1.0 - share },
        ],
        kinds: vec![first, second],
        load: Load::Closed(4 * cpus),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_mix_whose_steps_exist() {
        for name in NAMES {
            let mix = named(name, 2).unwrap();
            assert_eq!(mix.name, name);
            for request in &mix.requests {
                assert!(
                    !request.steps.is_empty() && request.steps.iter().all(|&step| step < mix.kinds.len())
                );
            }
            let weight: f64 = mix.requests.iter().map(|request| request.weight).sum();
            assert!((weight - 1.0).abs() < 1e-9, "{name}: {weight}");
        }
        assert!(named("Z", 2).is_none());
    }

    /// Section 6c: 360 us for four passes over 1 MB, 88 us for one, 35 us for four with independent loads; 4.2 ms for 64 MB.
    #[test]
    fn warm_times_are_those_of_the_table() {
        let warm = |name: &str, kind: usize| named(name, 2).unwrap().kinds[kind].warm_us;
        assert!((warm("A", 0) - 352.0).abs() < 1.0);
        assert!((warm("C", 0) - 88.0).abs() < 1.0);
        assert!((warm("D", 0) - 35.2).abs() < 1.0);
        assert!((warm("B", 1) - 4200.0).abs() < 1.0);
    }
}
