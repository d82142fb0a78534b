//! A machine as placement uses it: units that share an L2 cache, with neighbours adjacent, and the
//! distribution of whole units by shares.

use crate::model::{CpuId, Machine};
use std::collections::BTreeMap;

/// The processors of each L2 cache, ordered so that neighbours share an L3 cache and a node. Two processors of one
/// L2 cache are one unit, because work on them shares the cache.
pub fn units(machine: &Machine) -> Vec<Vec<CpuId>> {
    grouped(machine, |cpu| (cpu.node, cpu.l3, cpu.l2, 0))
}

/// The logical processors of each physical core, in the same order.
pub fn physical(machine: &Machine) -> Vec<Vec<CpuId>> {
    grouped(machine, |cpu| (cpu.node, cpu.l3, cpu.l2, cpu.core))
}

fn grouped<K: Ord>(machine: &Machine, key: impl Fn(&crate::model::Cpu) -> K) -> Vec<Vec<CpuId>> {
    let mut groups: BTreeMap<K, Vec<CpuId>> = BTreeMap::new();
    for cpu in &machine.cpus {
        groups.entry(key(cpu)).or_default().push(cpu.id);
    }
    groups
        .into_values()
        .map(|mut cpus| {
            cpus.sort();
            cpus
        })
        .collect()
}

/// Distributes whole units by weight: largest remainders (Hamilton), and at least one for each positive weight if
/// there are enough units. With more weights than units the largest get one each.
pub fn apportion(weights: &[f64], units: usize) -> Vec<usize> {
    let total: f64 = weights.iter().sum();
    let mut shares = vec![0; weights.len()];
    let mut order: Vec<usize> = (0..weights.len()).filter(|&i| weights[i] > 0.0).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
    if order.len() >= units {
        for &i in order.iter().take(units) {
            shares[i] = 1;
        }
        return shares;
    }
    let exact = |i: usize| weights[i] / total * units as f64;
    for &i in &order {
        shares[i] = (exact(i).floor() as usize).max(1);
    }
    let mut given: usize = shares.iter().sum();
    // The minimum of one each may use more units than exist: the excess is removed from the largest share
    // above its quota.
    while given > units {
        let over = |i: usize| shares[i] as f64 - exact(i);
        let Some(&richest) =
            order.iter().filter(|&&i| shares[i] > 1).max_by(|&&a, &&b| over(a).total_cmp(&over(b)))
        else {
            break;
        };
        shares[richest] -= 1;
        given -= 1;
    }
    while given < units && !order.is_empty() {
        let short = |i: usize| exact(i) - shares[i] as f64;
        let poorest = order.iter().copied().max_by(|&a, &b| short(a).total_cmp(&short(b)).then(b.cmp(&a)));
        let Some(poorest) = poorest else { break };
        shares[poorest] += 1;
        given += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::super::testing::machine;
    use super::*;

    #[test]
    fn shares_by_hand() {
        // 60, 30, 10 of 8: 4.8, 2.4, 0.8 -> 4, 2, 1 and the one left to the largest remainder, 0.8.
        assert_eq!(apportion(&[60.0, 30.0, 10.0], 8), [5, 2, 1]);
        // 96, 3, 1 of 4: 3.84, 0.12, 0.04; the small ones are raised to one each, the large one gets the
        // rest.
        assert_eq!(apportion(&[96.0, 3.0, 1.0], 4), [2, 1, 1]);
        assert_eq!(apportion(&[1.0, 5.0, 3.0], 2), [0, 1, 1]);
        assert_eq!(apportion(&[0.0, 5.0], 3), [0, 3]);
        assert_eq!(apportion(&[], 3), [0; 0]);
        assert_eq!(apportion(&[0.0], 3), [0]);
    }

    #[test]
    fn all_units_are_given_away() {
        for units in 1..20 {
            for heavy in 1..50 {
                let shares = apportion(&[f64::from(heavy), 7.0, 1.0, 0.5], units);
                assert_eq!(shares.iter().sum::<usize>(), units, "{heavy} {units}");
            }
        }
    }

    #[test]
    fn siblings_are_one_unit() {
        let units = units(&machine(8, 2));
        assert_eq!(units.len(), 4);
        assert_eq!(units[0], [CpuId(0), CpuId(4)]);
        assert_eq!(units, physical(&machine(8, 2)));
    }
}
