//! A state with two applications and three kinds, one of which has a hostile label.

use crate::model::*;
use crate::state::{
    Admission, Application, Effect, Event, Guard, Neighbours, Probe, ProbePoint, Rule, State, VERSION,
};

fn application(app: u32, name: &str) -> Application {
    Application {
        app: AppId(app),
        name: name.into(),
        related: None,
        collecting: true,
        placing: true,
        backend: "probe".into(),
        without: vec!["hardware counters".into()],
        kinds: 4,
        kinds_max: 1024,
        sections: 9_000,
        without_room: 0,
        contended: 1,
        dropped: 2,
        moves: 3,
        narrowed: 0,
        slices: 3,
        sliced: 2,
        admission: Admission::default(),
        probes: 100,
        probe_cycles: 2_000_000,
        cycles_per_second: 2_000_000_000,
    }
}

fn profile(app: u32, code: u32, label: &str, class: Class) -> KindProfile {
    KindProfile {
        kind: KindRef { app: AppId(app), code: CodeId(code) },
        label: label.into(),
        statement: None,
        count: 1_000,
        rate: 100.0,
        share: 0.2,
        cycles: Some(Estimate { mean: 100_000.0, low: 98_000.0, high: 102_000.0, n: 1_000 }),
        misses: None,
        displaced: None,
        footprint_kb: None,
        slowdown: None,
        class,
        reason: String::new(),
        related: None,
    }
}

pub(super) fn state() -> State {
    let mut search = profile(1, 2, "/Search<b>\u{1b}[31m.php", Class::Polluter);
    search.displaced = Some(Estimate { mean: 0.9, low: 0.85, high: 0.95, n: 40 });
    search.reason = "replaces 90 % of L2".into();
    let mut view = profile(1, 3, "/ViewItem.php", Class::Sensitive);
    view.rate = 900.0;
    view.slowdown = Some(Estimate { mean: 0.31, low: 0.25, high: 0.37, n: 310 });
    let select = profile(2, 2, "select * from items where id = ?", Class::Short);
    let placement = Placement {
        kind: search.kind,
        class: Class::Polluter,
        cpus: CpuSet([CpuId(1)].into()),
        actuation: Actuation::Soft,
        queue: 1,
        slice_us: 0,
        background: false,
        admit: false,
        reason: "away from sensitive kinds".into(),
    };
    let rule = Rule {
        kind: view.kind,
        on: false,
        reason: "not better with it than without: CPU time per request +0.2 %".into(),
        n: 12,
        retry_seconds: 590.0,
    };
    let cpu = |id| Cpu { id: CpuId(id), core: id, l2: id, l3: 0, node: 0 };
    State {
        version: VERSION,
        written_ns: 5_000_000_000,
        pid: 77,
        policy: "soft".into(),
        interval_ms: 1000,
        machine: Machine {
            source: "hwloc".into(),
            cpus: vec![cpu(0), cpu(1)],
            l2_bytes: 2 << 20,
            l3_bytes: 32 << 20,
        },
        applications: vec![application(1, "web"), application(2, "mariadb")],
        workload: Workload {
            seconds: 10.0,
            cycles_per_second: 2_000_000_000,
            apps: vec![(AppId(1), "web".into(), None), (AppId(2), "mariadb".into(), Some(AppId(1)))],
            transitions: vec![
                (search.kind, view.kind, Estimate { mean: 54_000.0, low: 50_000.0, high: 58_000.0, n: 60 }),
                (search.kind, select.kind, Estimate { mean: 20_000.0, low: 10_000.0, high: 30_000.0, n: 30 }),
            ],
            kinds: vec![search, view, select],
        },
        plan: Plan {
            policy: "soft".into(),
            placements: vec![placement],
            places: 0,
            remarks: vec!["two cores".into()],
        },
        guard: Guard {
            active: true,
            phase: "kept".into(),
            reason: "CPU time per request is less".into(),
            retry_seconds: None,
            epochs_on: 12,
            epochs_off: 12,
            effects: vec![Effect {
                measure: "CPU time per request".into(),
                change: -0.21,
                low: -0.25,
                high: -0.17,
                n: 12,
            }],
            rules: vec![rule],
        },
        epoch: 24,
        placement_on: true,
        probe: Probe {
            kind: "full sets".into(),
            reason: String::new(),
            generation: 2,
            verified: Some(1.0),
            background_per_cycle: 1e-7,
            points: vec![ProbePoint { kilobytes: 512, median: 0.5, p10: 0.45, p90: 0.55 }],
            neighbours: Neighbours { looks: 44, together: 10, unclear: 4, by_others: 0.3 },
        },
        events: vec![Event { time: "2026-11-22T10:30:00.123Z".into(), text: "placement on".into() }],
    }
}
