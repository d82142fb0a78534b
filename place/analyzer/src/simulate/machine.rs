//! Simulated machines, by a line of text.

use crate::model::{Cpu, CpuId, Machine};

/// The reason why a text does not describe a machine.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid machine {text:?}: {why}. Valid: 16x2,l2=2M,l3=32M/8 (cores x threads; /8: shared by 8 cores), core-i7-965, this")]
pub struct MachineError {
    text: String,
    why: String,
}

/// The largest machine: the size of a CPU set of the simulator.
pub const CPUS_MAX: u32 = 512;

/// Parses `16x2,l2=2M,l3=32M/8` or a name. `this` is not known here: the caller that can read topologies resolves
/// it.
///
/// # Errors
///
/// [`MachineError`] if the text does not follow this form.
pub fn parse(text: &str) -> Result<Machine, MachineError> {
    let bad = |why: &str| MachineError { text: text.into(), why: why.into() };
    if text == "core-i7-965" {
        let mut machine = build(4, 2, (256, 1), (8192, 4));
        machine.source =
            "simulated: core-i7-965 (4 cores x 2 threads, 256 KB L2 each, 8 MB L3; the paper's table 3)"
                .into();
        return Ok(machine);
    }
    let mut parts = text.split(',');
    let (cores, smt) = match parts.next().unwrap_or_default().split_once('x') {
        Some((cores, smt)) => (cores.parse::<u32>().ok(), smt.parse::<u32>().ok()),
        None => (text.split(',').next().and_then(|cores| cores.parse().ok()), Some(1)),
    };
    let (Some(cores), Some(smt)) = (cores, smt) else { return Err(bad("it begins with cores x threads")) };
    if cores == 0 || !(1..=8).contains(&smt) || cores.saturating_mul(smt) > CPUS_MAX {
        return Err(bad("1 to 512 logical processors, up to 8 to a core"));
    }
    let (mut l2, mut l3) = ((2048, 1), (32 * 1024, cores));
    for part in parts {
        let Some((level, size)) = part.split_once('=') else {
            return Err(bad("caches are l2=SIZE or l3=SIZE"));
        };
        let (size, shared) = size.split_once('/').map_or((size, None), |(size, by)| (size, Some(by)));
        let kilobytes = kilobytes(size).ok_or_else(|| bad("sizes are such as 512K or 2M"))?;
        let shared = match shared {
            Some(by) => Some(
                by.parse::<u32>()
                    .ok()
                    .filter(|by| (1..=cores).contains(by))
                    .ok_or_else(|| bad("a cache is shared by 1 core up to all of them"))?,
            ),
            None => None,
        };
        match level {
            "l2" => l2 = (kilobytes, shared.unwrap_or(1)),
            "l3" => l3 = (kilobytes, shared.unwrap_or(cores)),
            _ => return Err(bad("caches are l2 and l3")),
        }
    }
    if l3.0 < l2.0 || l3.1 < l2.1 {
        return Err(bad("an L3 cache is no smaller than L2, and no less shared"));
    }
    let mut machine = build(cores, smt, l2, l3);
    machine.source = format!("simulated: {text}");
    Ok(machine)
}

fn kilobytes(text: &str) -> Option<u64> {
    let unit = match text.chars().next_back()? {
        'K' | 'k' => 1,
        'M' | 'm' => 1024,
        'G' | 'g' => 1024 * 1024,
        _ => return None,
    };
    let number: u64 = text[..text.len() - 1].parse().ok()?;
    number.checked_mul(unit).filter(|kilobytes| (1..=1 << 30).contains(kilobytes))
}

/// Second threads are numbered after all first ones, as in Linux on most machines.
fn build(cores: u32, smt: u32, l2: (u64, u32), l3: (u64, u32)) -> Machine {
    let cpu = |id: u32| {
        let core = id % cores;
        Cpu { id: CpuId(id), core, l2: core / l2.1, l3: core / l3.1, node: 0 }
    };
    Machine {
        source: String::new(),
        cpus: (0..cores * smt).map(cpu).collect(),
        l2_bytes: l2.0 * 1024,
        l3_bytes: l3.0 * 1024,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by the fuzz target read_side_files: a size whose last character has two bytes.
    #[test]
    fn a_size_in_foreign_letters_is_refused() {
        assert!(parse("2,l2=2\u{d5}").is_err());
        assert!(parse("2,l2=").is_err());
    }

    #[test]
    fn a_line_is_a_machine() {
        let machine = parse("8x2,l2=2M/2,l3=32M/4").unwrap();
        assert_eq!((machine.cpus.len(), machine.l2_bytes, machine.l3_bytes), (16, 2 << 20, 32 << 20));
        let cpu = machine.cpus[13];
        assert_eq!((cpu.id, cpu.core, cpu.l2, cpu.l3), (CpuId(13), 5, 2, 1));
        assert_eq!(parse("128").unwrap().cpus.len(), 128);
        let paper = parse("core-i7-965").unwrap();
        assert_eq!((paper.cpus.len(), paper.l2_bytes, paper.l3_bytes), (8, 256 << 10, 8 << 20));
        assert_eq!(paper.cpus[0].core, paper.cpus[4].core);
    }

    #[test]
    fn what_is_no_machine_is_refused() {
        for text in [
            "",
            "0",
            "x2",
            "4x9",
            "600",
            "4x1,l2",
            "4x1,l2=2",
            "4x1,l2=2M/5",
            "4x1,l4=2M",
            "4x1,l2=64M,l3=32M",
            "-4",
            "4x1,l3=1M",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
