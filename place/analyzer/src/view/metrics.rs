//! OpenMetrics text for monitoring systems. Gauges describe the latest window, counters the application's
//! lifetime.

use super::{rows, Order};
use crate::state::State;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

/// The content type of the format in HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(String, String)>;
type Real = Gauge<f64, AtomicU64>;

/// Labels are cut: a monitoring system pays for each byte of them.
const LABEL: usize = 120;

/// The complete text.
pub fn text(state: &State, now_ns: u64) -> String {
    let mut registry = Registry::with_prefix("split");
    analyzer(&mut registry, state, now_ns);
    applications(&mut registry, state);
    kinds(&mut registry, state);
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing into memory cannot fail");
    text
}

fn analyzer(registry: &mut Registry, state: &State, now_ns: u64) {
    let one = |registry: &mut Registry, name: &str, help: &str, value: f64| {
        let gauge = Real::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    };
    one(
        registry,
        "analyzer_up",
        "Whether an analyzer works on this folder",
        f64::from(!state.is_stale(now_ns)),
    );
    one(registry, "placement_on", "Whether kinds are placed now", f64::from(state.placement_on));
    let neighbours = &state.probe.neighbours;
    if let Some(shared) = neighbours.shared() {
        let help = "Share of checks in which processors shared an L2 that should each have one";
        one(registry, "l2_shared_ratio", help, shared);
    }
    if neighbours.looks > 0 {
        let help = "Share of L2 that other programs displace in 200 us";
        one(registry, "l2_displaced_by_others_ratio", help, neighbours.by_others);
    }
    let effects = Family::<Labels, Real>::default();
    for effect in &state.guard.effects {
        let labels = vec![label("measure", &effect.measure)];
        effects.get_or_create(&labels).set(effect.change);
    }
    registry.register(
        "guard_change_ratio",
        "Placement on over off, minus one, as the guard measured it",
        effects,
    );
}

fn applications(registry: &mut Registry, state: &State) {
    let families: Vec<(&str, &str, Family<Labels, Counter>)> = [
        ("sections", "Sections that ended"),
        ("sections_without_room", "Sections of kinds without space in the table"),
        ("sections_contended", "Sections not counted, since two threads met in one record"),
        ("sections_dropped", "Sections that never ended, or ended on another thread"),
        ("moves", "Changes of a thread's affinity"),
        ("probes", "Occupancy probes"),
        ("admission_waits", "Long requests that waited for a place"),
    ]
    .into_iter()
    .map(|(name, help)| (name, help, Family::default()))
    .collect();
    for app in &state.applications {
        let labels = vec![label("app", &app.name)];
        let waits = app.admission.waits;
        let values =
            [app.sections, app.without_room, app.contended, app.dropped, app.moves, app.probes, waits];
        for ((_, _, family), value) in families.iter().zip(values) {
            family.get_or_create(&labels).inc_by(value);
        }
    }
    for (name, help, family) in families {
        registry.register(name, help, family);
    }
}

fn kinds(registry: &mut Registry, state: &State) {
    let family = Family::<Labels, Real>::default;
    let (rate, share, own, displaced, slowdown, harm, placed) =
        (family(), family(), family(), family(), family(), family(), family());
    for row in rows(state, Order::Cpu) {
        let profile = row.profile;
        let mut labels = vec![
            label("app", row.app),
            label("kind", &profile.kind.to_string()),
            label("label", &profile.label),
            label("class", profile.class.name()),
        ];
        rate.get_or_create(&labels).set(profile.rate);
        share.get_or_create(&labels).set(profile.share);
        for (family, value) in [
            (&own, row.micros.map(|micros| micros.mean / 1e6)),
            (&displaced, profile.displaced.map(|displaced| displaced.mean)),
            (&slowdown, profile.slowdown.map(|slowdown| slowdown.mean)),
            (&harm, row.harm.map(|harm| harm.mean / 1e6)),
        ] {
            if let Some(value) = value {
                family.get_or_create(&labels).set(value);
            }
        }
        if let Some(placement) = row.placement {
            labels.push(label("cpus", &super::cores(&placement.cpus)));
            placed.get_or_create(&labels).set(f64::from(state.placement_on));
        }
    }
    registry.register("kind_rate", "Sections a second", rate);
    registry.register("kind_cpu_ratio", "Share of the time of all kinds", share);
    registry.register_with_unit("kind_own_time", "Own time of a section", Unit::Seconds, own);
    registry.register("kind_displaced_ratio", "Share of L2 that a section replaces", displaced);
    registry.register("kind_slowdown_ratio", "How much longer after a polluter", slowdown);
    registry.register_with_unit(
        "kind_harm",
        "What a section costs the next one on its processor",
        Unit::Seconds,
        harm,
    );
    registry.register("kind_placed", "Whether the kind is held to these processors", placed);
}

fn label(name: &str, value: &str) -> (String, String) {
    (name.into(), super::words::one_line(value, LABEL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing;

    #[test]
    fn every_figure_is_there_and_labels_are_escaped() {
        let mut state = testing::state();
        state.workload.kinds[2].label = "select \"a\\b\"\nfrom t".into();
        let text = text(&state, 5_000_000_000);
        for line in [
            "split_analyzer_up 1.0",
            "split_l2_shared_ratio 0.25",
            "split_l2_displaced_by_others_ratio 0.3",
            "split_sections_total{app=\"web\"} 9000",
            "split_kind_displaced_ratio{app=\"web\",kind=\"1.2\",label=\"/Search<b>?[31m.php\",class=\"polluter\"} 0.9",
            "split_kind_own_time_seconds{app=\"web\",kind=\"1.3\",label=\"/ViewItem.php\",class=\"sensitive\"} 0.00005",
            "label=\"select \\\"a\\\\b\\\"?from t\"",
            "cpus=\"1\"} 1.0",
        ] {
            assert!(text.contains(line), "no {line:?} in:\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        assert!(super::text(&state, 99_000_000_000).contains("split_analyzer_up 0.0"));
    }
}
