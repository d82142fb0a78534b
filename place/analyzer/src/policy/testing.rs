//! Machines and workloads for the tests of policies.

use crate::model::{AppId, Class, CodeId, Cpu, CpuId, Estimate, KindProfile, KindRef, Machine, Workload};

/// The clock rate of the workloads here.
pub const HERTZ: f64 = 1e9;

/// Siblings are numbered as Linux does: second threads after all first ones. Eight cores share an L3 cache.
pub fn machine(cpus: u32, smt: u32) -> Machine {
    let cores = cpus / smt;
    let cpu = |id: u32| {
        let core = id % cores;
        Cpu { id: CpuId(id), core, l2: core, l3: core / 8, node: core / 8 }
    };
    Machine {
        source: "a test".into(),
        cpus: (0..cpus).map(cpu).collect(),
        l2_bytes: 2 << 20,
        l3_bytes: 32 << 20,
    }
}

pub fn one_core() -> Machine {
    machine(1, 1)
}

pub fn exactly(mean: f64) -> Estimate {
    Estimate { mean, low: mean, high: mean, n: 100 }
}

pub fn kind(app: u32, code: u32) -> KindRef {
    KindRef { app: AppId(app), code: CodeId(code) }
}

/// Kinds of an application: (app, code, class, microseconds, sections per second), over one second. Polluters
/// displace 97 %, sensitive kinds 74 % and are twice as slow after polluters.
pub fn workload(kinds: &[(u32, u32, Class, f64, f64)]) -> Workload {
    let total: f64 = kinds.iter().map(|(_, _, _, micros, rate)| micros * rate).sum();
    let mut profiles: Vec<KindProfile> = kinds
        .iter()
        .map(|&(app, code, class, micros, rate)| KindProfile {
            kind: kind(app, code),
            label: format!("{app}/{code}"),
            statement: None,
            count: rate as u64,
            rate,
            share: micros * rate / total,
            cycles: Some(exactly(micros * 1e-6 * HERTZ)),
            misses: None,
            displaced: Some(exactly(match class {
                Class::Polluter => 0.97,
                Class::Sensitive => 0.74,
                _ => 0.1,
            })),
            footprint_kb: None,
            slowdown: Some(exactly(if class == Class::Sensitive { 1.0 } else { 0.0 })),
            class,
            reason: "a test".into(),
            related: None,
        })
        .collect();
    profiles.sort_by_key(|profile| profile.kind);
    let mut apps: Vec<u32> = kinds.iter().map(|kind| kind.0).collect();
    apps.sort_unstable();
    apps.dedup();
    Workload {
        seconds: 1.0,
        cycles_per_second: HERTZ as u64,
        apps: apps.into_iter().map(|app| (AppId(app), format!("app {app}"), None)).collect(),
        kinds: profiles,
        transitions: Vec::new(),
    }
}
