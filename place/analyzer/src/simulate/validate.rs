//! Compares the simulator with measurements: docs/design/place.md, section 4, ten mixes on two processors
//! under four methods of placement.
//!
//! There the classes were given, not found: clean kinds on the first processor, the others on the second. So
//! plans are given here, too.

use super::{mixes, simulate, simulate_plan, Damage, Length, Outcome};
use crate::model::{Actuation, Class, CpuId, CpuSet, Machine, Placement, Plan};
use serde::Serialize;

/// A row of the table: medians, in percent against the default scheduler, for the paper's method, lazy
/// affinity, and class queues with stealing (P1, P2, P4).
pub struct Row {
    /// The mix.
    pub mix: &'static str,
    /// The extra time of the same requests.
    pub makespan: [f64; 3],
    /// Processor time of all requests.
    pub cpu: [f64; 3],
}

/// Section 6c.
pub const MEASURED: [Row; 10] = [
    Row { mix: "A", makespan: [-12.0, -25.0, -13.0], cpu: [-21.0, -26.0, -15.0] },
    Row { mix: "C", makespan: [-33.0, -44.0, -23.0], cpu: [-36.0, -41.0, -23.0] },
    Row { mix: "F", makespan: [-23.0, -33.0, -36.0], cpu: [-25.0, -28.0, -24.0] },
    Row { mix: "H", makespan: [3.0, -11.0, -5.0], cpu: [-11.0, -14.0, -10.0] },
    Row { mix: "B", makespan: [20.0, 9.0, -7.0], cpu: [-3.0, -9.0, -5.0] },
    Row { mix: "D", makespan: [20.0, 13.0, -2.0], cpu: [13.0, 6.0, -2.0] },
    Row { mix: "E", makespan: [15.0, 27.0, -12.0], cpu: [-18.0, -17.0, -9.0] },
    Row { mix: "K", makespan: [-31.0, -35.0, -32.0], cpu: [-42.0, -46.0, -32.0] },
    Row { mix: "M", makespan: [22.0, 6.0, -10.0], cpu: [-3.0, -16.0, -9.0] },
    Row { mix: "N", makespan: [9.0, 1.0, -6.0], cpu: [-9.0, -12.0, -5.0] },
];

/// The methods, in the order of a row.
pub const WAYS: [(&str, Actuation); 3] =
    [("paper (P1)", Actuation::Paper), ("lazy (P2)", Actuation::Lazy), ("soft (P4)", Actuation::Soft)];

/// A simulated mix: percent against the default scheduler, by method.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Compared {
    pub mix: String,
    pub makespan: [f64; 3],
    pub cpu: [f64; 3],
    pub measured_makespan: [f64; 3],
    pub measured_cpu: [f64; 3],
}

/// All mixes, and the agreement of their order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Validation {
    /// By mix.
    pub mixes: Vec<Compared>,
    /// Spearman's rank correlation of makespans over all mixes and methods.
    pub makespan_rank: f64,
    /// The same for processor time.
    pub cpu_rank: f64,
}

/// Simulates all of section 6c.
pub fn validate(damage: &Damage, length: &Length) -> Validation {
    let mut compared: Vec<Compared> = Vec::new();
    let machine = super::machine::parse("2x1,l2=2M,l3=32M").expect("a good line");
    for row in &MEASURED {
        let outcomes = outcomes(row.mix, &machine, damage, length);
        let against = |of: fn(&Outcome, &Outcome) -> f64| -> [f64; 3] {
            [1, 2, 3].map(|way: usize| of(&outcomes[way], &outcomes[0]) * 100.0)
        };
        compared.push(Compared {
            mix: row.mix.into(),
            makespan: against(Outcome::makespan_against),
            cpu: against(Outcome::cpu_against),
            measured_makespan: row.makespan,
            measured_cpu: row.cpu,
        });
    }
    let all = |of: fn(&Compared) -> [f64; 3]| -> Vec<f64> { compared.iter().flat_map(of).collect() };
    let makespan_rank = spearman(&all(|one| one.makespan), &all(|one| one.measured_makespan));
    let cpu_rank = spearman(&all(|one| one.cpu), &all(|one| one.measured_cpu));
    Validation { mixes: compared, makespan_rank, cpu_rank }
}

/// The default scheduler, then the three methods.
pub fn outcomes(mix: &str, machine: &Machine, damage: &Damage, length: &Length) -> Vec<Outcome> {
    let scenario = mixes::named(mix, machine.cpus.len()).expect("a mix of the table");
    let mut outcomes = vec![simulate(&scenario, machine, damage, None, length)];
    for (name, actuation) in WAYS {
        let place = |i: usize, class: Class| Placement {
            kind: scenario.kinds[i].kind,
            class,
            cpus: CpuSet([CpuId(i as u32)].into()),
            actuation,
            queue: i as u32,
            slice_us: 0,
            background: false,
            admit: false,
            reason: String::new(),
        };
        // The second kind streams, unless both are clean.
        let class = if scenario.kinds[1].stream_kb > 0.0 { Class::Polluter } else { Class::Sensitive };
        let placements = vec![place(0, Class::Sensitive), place(1, class)];
        let plan = Plan { policy: name.into(), placements, places: 0, remarks: Vec::new() };
        outcomes.push(simulate_plan(&scenario, machine, damage, &plan, length));
    }
    outcomes
}

/// Spearman's rank correlation; ties share their mean rank.
fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let sum = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    sum(&a, &b) / (sum(&a, &a) * sum(&b, &b)).sqrt()
}

fn ranks(values: &[f64]) -> Vec<f64> {
    values
        .iter()
        .map(|value| {
            let below = values.iter().filter(|other| *other < value).count();
            let equal = values.iter().filter(|other| *other == value).count();
            below as f64 + (equal as f64 + 1.0) / 2.0
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_by_hand() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
        assert!((spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 90.0]) - 1.0).abs() < 1e-12);
        assert!((spearman(&[1.0, 2.0, 3.0], &[9.0, 5.0, 1.0]) + 1.0).abs() < 1e-12);
        // One swap of neighbours among four: 1 - 6 x 2 / (4 x 15) = 0.8.
        assert!((spearman(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 3.0, 4.0]) - 0.8).abs() < 1e-12);
    }
}
