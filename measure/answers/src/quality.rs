//! Checks of a capture's samples against their registers and instructions.
//!
//! * *Addresses.* The data address of a sample is computed again from its registers and its instruction. If both agree,
//!   instruction, registers and address belong together.
//! * *Skid.* A sample of a memory event on an instruction that uses no memory belongs to another one, probably to the
//!   preceding instruction if that uses memory.
//! * *Shadowing.* Instructions of one straight-line block are executed equally often, so an event that counts
//!   executions (loads, stores, instructions) is spread evenly over them. A chi-square test finds blocks where it is
//!   not.
//!
//! What this module is *not* for: decoding instructions (`measure/symbols`), and repair: a sample that fails is counted
//! and kept.

use crate::code::ImageAddress;
use crate::estimate::Share;
use hardmeter_samples::model::{DataSource, EventIndex, MemoryLevel, MemoryOperation, Sample};
use serde::Serialize;
use std::collections::BTreeMap;

/// The result of recomputing a sample's data address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressGrade {
    /// Equal to the recorded one.
    Agrees,
    /// The instruction overwrote a register of its address before the registers were recorded.
    Overwritten,
    /// Different from the recorded one.
    Disagrees,
    /// The address cannot be computed.
    NotComputable(Ungraded),
}

/// The reason why an address cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ungraded {
    /// The instruction's bytes are missing: the program is absent, of another build, or was compiled at run
    /// time.
    NoCode,
    /// The instruction uses no memory.
    NoMemoryOperand,
    /// The instruction has several memory operands, one of which cannot be computed.
    SeveralOperands,
    /// Its address has the base of `%fs` or `%gs`, which samples do not carry.
    SegmentBase,
    /// Gathers and scatters: vector registers are not recorded.
    VectorIndex,
    /// A register that it needs was not recorded.
    RegisterMissing,
    /// The width depends on the processor's state (`xsave`, `rep movs`).
    WidthUnknown,
    /// The instruction is not exactly known (no precise event): its registers are those of a later one.
    Inexact,
}

impl Ungraded {
    /// The reason as text.
    pub fn describe(self) -> &'static str {
        match self {
            Ungraded::NoCode => "the instruction's code is not available",
            Ungraded::NoMemoryOperand => "the instruction uses no memory",
            Ungraded::SeveralOperands => "the instruction uses several places, not all computable",
            Ungraded::SegmentBase => "the base of %fs or %gs is in no sample",
            Ungraded::VectorIndex => "vector registers are not recorded",
            Ungraded::RegisterMissing => "a register of the address was not recorded",
            Ungraded::WidthUnknown => "the accessed address depends on the processor's state",
            Ungraded::Inexact => "the instruction is not exactly known (not a precise event)",
        }
    }
}

/// Grades, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AddressGrades {
    /// Addresses that agree.
    pub agree: u64,
    /// Addresses whose base or index register was overwritten.
    pub overwritten: u64,
    /// Addresses that disagree.
    pub disagree: u64,
    /// Addresses that cannot be computed, by reason.
    pub not_computable: BTreeMap<Ungraded, u64>,
}

impl AddressGrades {
    /// Counts one.
    pub fn add(&mut self, grade: AddressGrade) {
        match grade {
            AddressGrade::Agrees => self.agree += 1,
            AddressGrade::Overwritten => self.overwritten += 1,
            AddressGrade::Disagrees => self.disagree += 1,
            AddressGrade::NotComputable(reason) => *self.not_computable.entry(reason).or_default() += 1,
        }
    }

    /// Share of agreeing addresses among those that could be computed.
    pub fn agreeing(&self) -> Share {
        Share { count: self.agree, total: self.agree + self.disagree }
    }

    /// The number of samples examined.
    pub fn total(&self) -> u64 {
        self.agree + self.overwritten + self.disagree + self.not_computable.values().sum::<u64>()
    }
}

/// Grades of a random part of the samples, for the heading of every view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AddressCheck {
    /// The grades.
    pub grades: AddressGrades,
    /// Samples with an address and registers, of which the graded ones were drawn at random.
    pub of: u64,
}

/// Samples on instructions that use no memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skid {
    /// Samples of memory events whose code is available.
    pub examined: u64,
    /// On an instruction without memory operand.
    pub suspects: u64,
    /// Of those, samples right after an instruction that uses memory.
    pub behind_memory: u64,
}

/// Completeness and consistency of one event's samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EventQuality {
    /// Samples.
    pub samples: u64,
    /// With a data address.
    pub with_address: u64,
    /// Samples with registers.
    pub with_registers: u64,
    /// With an exact instruction.
    pub exact: u64,
    /// With a data source.
    pub with_source: u64,
    /// Of those, samples whose level or operation is unknown.
    pub source_unknown: u64,
    /// Of those, samples with bits that no known kernel version sets.
    pub source_foreign_bits: u64,
    /// Addresses computed once more, of the samples with address and registers.
    pub addresses: AddressGrades,
    /// Instruction fetches: whether the data address agrees with the instruction pointer.
    pub fetches: AddressGrades,
    /// Samples on instructions that use no memory; `None` for events unrelated to memory.
    pub skid: Option<Skid>,
    /// Evenness within straight-line blocks; `None` for events that do not count executions.
    pub shadowing: Option<Shadowing>,
}

/// Bits 0 to 45 of the data-source word are defined (Linux 6.18): operation to hops.
const DEFINED_SOURCE_BITS: u64 = (1 << 46) - 1;

impl EventQuality {
    /// Adds a sample.
    pub fn see(&mut self, sample: &Sample<'_>) {
        self.samples += 1;
        self.with_address += u64::from(sample.address.is_some());
        self.with_registers += u64::from(sample.registers.is_some());
        self.exact += u64::from(sample.exact_ip);
        let Some(source) = sample.data_source else { return };
        self.with_source += 1;
        let unknown =
            source.operation() == MemoryOperation::Unknown || source.level() == MemoryLevel::Unknown;
        self.source_unknown += u64::from(unknown);
        self.source_foreign_bits += u64::from(has_foreign_bits(source));
    }
}

fn has_foreign_bits(source: DataSource) -> bool {
    source.0 & !DEFINED_SOURCE_BITS != 0
}

/// Samples on the instructions of a straight-line block that an event counts at each execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockCounts {
    /// The routine.
    pub routine: String,
    /// Each instruction, the number of events per execution (a copy from memory to memory loads once and
    /// stores once; `cmps` loads twice), and its samples.
    pub instructions: Vec<(ImageAddress, u64, u64)>,
}

/// A block whose samples are uneven.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnevenBlock {
    /// The routine.
    pub routine: String,
    /// The instruction with the largest excess of samples.
    pub instruction: ImageAddress,
    /// Its samples.
    pub samples: u64,
    /// The expected number of samples if all were equal.
    pub expected: f64,
    /// Samples of the block.
    pub block_samples: u64,
    /// Instructions of the block that the event counts.
    pub instructions: u64,
    /// The chi-square test's p-value.
    pub p: f64,
}

impl UnevenBlock {
    /// Ratio of samples to the expected number.
    pub fn factor(&self) -> f64 {
        self.samples as f64 / self.expected
    }
}

/// Evenness within straight-line blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Shadowing {
    /// Blocks with enough samples for the test: at least five for each instruction and fifty in all.
    pub blocks: u64,
    /// Their samples.
    pub samples: u64,
    /// Blocks whose samples are not spread evenly (p < 0.001).
    pub uneven: u64,
    /// The samples of those blocks.
    pub uneven_samples: u64,
    /// The worst of them, by factor.
    pub worst: Option<UnevenBlock>,
}

/// Significance level for a block: of a thousand even blocks, one is reported as uneven.
const LEVEL: f64 = 0.001;
const LEAST_PER_INSTRUCTION: u64 = 5;
const LEAST_PER_BLOCK: u64 = 50;

impl Shadowing {
    /// Tests a block.
    pub fn add(&mut self, block: BlockCounts) {
        let samples: u64 = block.instructions.iter().map(|(_, _, samples)| samples).sum();
        let weights: u64 = block.instructions.iter().map(|(_, weight, _)| weight).sum();
        let count = block.instructions.len() as u64;
        if count < 2 || samples < LEAST_PER_BLOCK || samples < LEAST_PER_INSTRUCTION * weights {
            return;
        }
        self.blocks += 1;
        self.samples += samples;
        let due = |weight: u64| samples as f64 * weight as f64 / weights as f64;
        let square = |(_, weight, samples): &(ImageAddress, u64, u64)| {
            (*samples as f64 - due(*weight)).powi(2) / due(*weight)
        };
        let chi_square: f64 = block.instructions.iter().map(square).sum();
        let p = chi_square_beyond(chi_square, count - 1);
        if p >= LEVEL {
            return;
        }
        self.uneven += 1;
        self.uneven_samples += samples;
        let factor = |(_, weight, samples): &(ImageAddress, u64, u64)| *samples as f64 / due(*weight);
        let most = block.instructions.iter().max_by(|a, b| factor(a).total_cmp(&factor(b)));
        let Some((instruction, weight, most)) = most.copied() else { return };
        let found = UnevenBlock {
            routine: block.routine,
            instruction,
            samples: most,
            expected: due(weight),
            block_samples: samples,
            instructions: count,
            p,
        };
        if self.worst.as_ref().is_none_or(|worst| worst.factor() < found.factor()) {
            self.worst = Some(found);
        }
    }
}

/// P(X > x) of a chi-square variable, by Wilson and Hilferty's cube root (1931): good to two digits where it is used,
/// far out in the tail.
fn chi_square_beyond(x: f64, degrees: u64) -> f64 {
    let k = degrees as f64;
    let z = ((x / k).cbrt() - (1.0 - 2.0 / (9.0 * k))) / (2.0 / (9.0 * k)).sqrt();
    normal_beyond(z)
}

/// P(Z > z) of a normal variable, by Abramowitz and Stegun's formula 26.2.17 (absolute error below 7.5e-8).
fn normal_beyond(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    const B: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let series: f64 = B.iter().rev().fold(0.0, |sum, b| (sum + b) * t);
    let tail = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * series;
    if z >= 0.0 {
        tail
    } else {
        1.0 - tail
    }
}

/// Qualities by event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quality {
    events: Vec<EventQuality>,
}

impl Quality {
    /// The quality of one event.
    pub fn event(&mut self, event: EventIndex) -> &mut EventQuality {
        if event.0 >= self.events.len() {
            self.events.resize(event.0 + 1, EventQuality::default());
        }
        &mut self.events[event.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;
    use hardmeter_samples::model::VirtualAddress;

    #[test]
    fn grades_add_up() {
        let mut grades = AddressGrades::default();
        let reason = AddressGrade::NotComputable(Ungraded::NoCode);
        for grade in [AddressGrade::Agrees, AddressGrade::Agrees, AddressGrade::Disagrees, reason, reason] {
            grades.add(grade);
        }
        grades.add(AddressGrade::Overwritten);
        assert_eq!(grades.agreeing(), Share { count: 2, total: 3 });
        assert_eq!(grades.not_computable, BTreeMap::from([(Ungraded::NoCode, 2)]));
        assert_eq!(grades.total(), 6);
    }

    #[test]
    fn what_a_sample_carries_is_counted() {
        let mut quality = Quality::default();
        let mut bare = sample(1, 1, 0x1000);
        quality.event(EventIndex(1)).see(&bare);
        bare.address = Some(VirtualAddress(0x10));
        // A load served by L1; then an unknown operation and level, with an undefined bit.
        bare.data_source = Some(DataSource(0x02 | 1 << 33));
        quality.event(EventIndex(1)).see(&bare);
        bare.data_source = Some(DataSource(0x01 | 1 << 63));
        quality.event(EventIndex(1)).see(&bare);
        let seen = quality.event(EventIndex(1)).clone();
        assert_eq!((seen.samples, seen.with_address, seen.with_registers, seen.exact), (3, 2, 0, 3));
        assert_eq!((seen.with_source, seen.source_unknown, seen.source_foreign_bits), (2, 1, 1));
        assert_eq!(quality.event(EventIndex(0)).samples, 0);
    }

    /// Critical values from published tables: 0.05 of the chi-square distribution lies beyond 3.841 (1
    /// degree), 12.592 (6), 0.001 beyond 22.458 (6).
    #[test]
    fn chi_square_agrees_with_the_tables() {
        assert!((chi_square_beyond(3.841, 1) - 0.05).abs() < 0.004);
        assert!((chi_square_beyond(12.592, 6) - 0.05).abs() < 0.001);
        assert!((chi_square_beyond(22.458, 6) - 0.001).abs() < 0.0001);
        assert!((normal_beyond(1.959_964) - 0.025).abs() < 1e-6);
        assert!((normal_beyond(-1.0) - 0.841_345).abs() < 1e-6);
    }

    fn block(samples: &[u64]) -> BlockCounts {
        let instruction = |(i, samples): (usize, &u64)| (ImageAddress(i as u64), 1, *samples);
        let instructions = samples.iter().enumerate().map(instruction).collect();
        BlockCounts { routine: "walk".into(), instructions }
    }

    /// Seven loads with 715 expected samples each and 200 to 2,597 observed: the PNNL microbenchmarks on
    /// Skylake.
    #[test]
    fn a_shadowed_block_is_found_and_an_even_one_is_not() {
        let mut shadowing = Shadowing::default();
        shadowing.add(block(&[715, 700, 730, 690, 720, 735, 715]));
        assert_eq!((shadowing.blocks, shadowing.uneven, shadowing.worst.is_none()), (1, 0, true));
        shadowing.add(block(&[200, 300, 400, 450, 500, 558, 2597]));
        shadowing.add(block(&[20, 29]));
        let worst = shadowing.worst.clone().expect("the second block");
        assert_eq!((shadowing.blocks, shadowing.uneven, shadowing.samples), (2, 1, 10_010), "49 are too few");
        assert_eq!((worst.instruction, worst.samples, worst.expected), (ImageAddress(6), 2597, 715.0));
        assert!((worst.factor() - 3.632).abs() < 0.001);
        assert_eq!(worst.p, 0.0);
    }

    /// An instruction that loads twice has twice the samples.
    #[test]
    fn expectations_follow_the_number_of_accesses() {
        let mut shadowing = Shadowing::default();
        let instructions = vec![(ImageAddress(0), 1, 100), (ImageAddress(4), 2, 200)];
        shadowing.add(BlockCounts { routine: "copy".into(), instructions });
        assert_eq!((shadowing.blocks, shadowing.uneven), (1, 0));
    }
}
