//! A sample's data address, computed once more from its registers and its instruction, and held against the recorded
//! one.

use crate::code::Place;
use crate::instructions::Instructions;
use crate::pass::Located;
use crate::quality::{AddressCheck, AddressGrade, AddressGrades, Ungraded};
use crate::symbols::SymbolNames;
use hardmeter_samples::machine::LINE_SIZE;
use hardmeter_samples::model::{MemoryOperation, Registers, Sample, VirtualAddress};
use hardmeter_symbols::{Instruction, NotComputable, RegisterMoment};

/// The parts of a sample that are needed to grade its address.
pub(crate) struct Gradable<'s> {
    ip: VirtualAddress,
    address: VirtualAddress,
    registers: Registers<'s>,
    moment: RegisterMoment,
    exact: bool,
    /// Whether it is a fetch of the instruction itself.
    fetch: bool,
}

impl<'s> Gradable<'s> {
    /// A sample that has an address and registers.
    pub(crate) fn new(sample: &Sample<'s>) -> Option<Gradable<'s>> {
        let operation = sample.data_source.map(|source| source.operation());
        Some(Gradable {
            ip: sample.ip?,
            address: sample.address?,
            registers: sample.registers?,
            // The software PMU looks before the instruction, PEBS after it.
            moment: match sample.simulated() {
                Some(_) => RegisterMoment::Before,
                None => RegisterMoment::After,
            },
            exact: sample.exact_ip,
            fetch: operation == Some(MemoryOperation::Execute),
        })
    }

    /// Whether the address points to code.
    pub(crate) fn is_fetch(&self) -> bool {
        self.fetch
    }

    /// Grades it; `instruction` is the one at its place, `None` if the code is missing.
    pub(crate) fn grade(&self, instruction: Option<&Instruction>) -> AddressGrade {
        let not = AddressGrade::NotComputable;
        if !self.exact {
            return not(Ungraded::Inexact);
        }
        let Some(instruction) = instruction else { return not(Ungraded::NoCode) };
        if self.fetch {
            // A fetch loads the instruction's line, or the next line if the instruction extends into it.
            let line = |address: u64| address / u64::from(LINE_SIZE);
            let last = self.ip.0.wrapping_add(u64::from(instruction.length) - 1);
            let agrees = [self.ip.0, last].iter().any(|byte| line(*byte) == line(self.address.0));
            return if agrees { AddressGrade::Agrees } else { AddressGrade::Disagrees };
        }
        let (mut reason, mut width_unknown) = (None, false);
        for operand in &instruction.memory {
            // Valgrind moves the stack pointer before it stores what is pushed.
            let moment = if operand.stack_adjustment < 0 { RegisterMoment::After } else { self.moment };
            match instruction.recompute_operand(operand, self.ip, &self.registers, moment) {
                // An access that crosses lines may be reported for either line.
                Ok(first) if self.address.0.wrapping_sub(first.0) < u64::from(operand.size.0).max(1) => {
                    return AddressGrade::Agrees;
                }
                Ok(_) => width_unknown |= operand.size.0 == 0,
                Err(cause) => reason = Some(cause),
            }
        }
        match reason {
            _ if width_unknown => not(Ungraded::WidthUnknown),
            None if instruction.memory.is_empty() => not(Ungraded::NoMemoryOperand),
            None => AddressGrade::Disagrees,
            Some(NotComputable::Overwritten(_)) => AddressGrade::Overwritten,
            Some(_) if instruction.memory.len() > 1 => not(Ungraded::SeveralOperands),
            Some(NotComputable::SegmentBase) => not(Ungraded::SegmentBase),
            Some(NotComputable::VectorIndex) => not(Ungraded::VectorIndex),
            Some(NotComputable::NotRecorded(_)) => not(Ungraded::RegisterMissing),
            Some(NotComputable::NoMemory) => not(Ungraded::NoMemoryOperand),
        }
    }
}

/// Number of graded samples for the line in every heading: ± 0.2 % if nearly all agree, a few milliseconds.
const DRAWN: usize = 2000;

/// Random sample of a stream of unknown length, each element with the same probability (Li 1994, algorithm
/// L). The same stream gives the same sample.
struct Reservoir {
    seen: u64,
    /// The next one to be drawn once the reservoir is full.
    next: u64,
    weight: f64,
    random: u64,
}

impl Reservoir {
    fn new() -> Reservoir {
        Reservoir { seen: 0, next: 0, weight: 1.0, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Offers the next element of the stream; returns where to store it if it is drawn.
    #[inline]
    fn offer(&mut self) -> Option<usize> {
        self.seen += 1;
        if self.seen > DRAWN as u64 && self.seen != self.next {
            return None;
        }
        let slot = match self.seen {
            seen if seen <= DRAWN as u64 => seen as usize - 1,
            _ => (self.uniform() * DRAWN as f64) as usize,
        };
        if self.seen >= DRAWN as u64 {
            self.weight *= (self.uniform().ln() / DRAWN as f64).exp();
            let skip = (self.uniform().ln() / (1.0 - self.weight).ln()).floor();
            // A skip longer than any capture ends the sampling.
            self.next = self.seen.saturating_add(skip as u64).saturating_add(1);
        }
        Some(slot)
    }

    /// A number above 0 and below 1 (Marsaglia's xorshift).
    fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
}

/// Draws samples with address and registers while they pass by, and grades them at the end.
pub(crate) struct AddressSampler {
    reservoir: Reservoir,
    drawn: Vec<Drawn>,
}

struct Drawn {
    place: Place,
    ip: VirtualAddress,
    address: VirtualAddress,
    abi: u64,
    mask: u64,
    values: Box<[[u8; 8]]>,
    moment: RegisterMoment,
    exact: bool,
}

impl AddressSampler {
    pub(crate) fn new() -> AddressSampler {
        AddressSampler { reservoir: Reservoir::new(), drawn: Vec::new() }
    }

    /// Adds a sample. Fetches are left out: their address needs no computation.
    #[inline]
    pub(crate) fn see(&mut self, sample: &Sample<'_>, located: Located) {
        let (Some(_), Some(_), Some(place)) = (sample.address, sample.registers, located.place) else {
            return;
        };
        let fetch = sample.data_source.is_some_and(|source| source.operation() == MemoryOperation::Execute);
        if fetch {
            return;
        }
        let Some(slot) = self.reservoir.offer() else { return };
        let Some(gradable) = Gradable::new(sample) else { return };
        let drawn = Drawn {
            place,
            ip: gradable.ip,
            address: gradable.address,
            abi: gradable.registers.abi,
            mask: gradable.registers.mask,
            values: gradable.registers.values.into(),
            moment: gradable.moment,
            exact: gradable.exact,
        };
        match self.drawn.get_mut(slot) {
            Some(old) => *old = drawn,
            None => self.drawn.push(drawn),
        }
    }

    /// Grades the drawn samples; `None` if no sample has both an address and registers.
    pub(crate) fn check(self, names: &mut SymbolNames) -> Option<AddressCheck> {
        let mut instructions = Instructions::default();
        let mut grades = AddressGrades::default();
        for drawn in &self.drawn {
            let registers = Registers { abi: drawn.abi, mask: drawn.mask, values: &drawn.values };
            let gradable = Gradable {
                ip: drawn.ip,
                address: drawn.address,
                registers,
                moment: drawn.moment,
                exact: drawn.exact,
                fetch: false,
            };
            grades.add(gradable.grade(instructions.at(names, drawn.place).as_deref()));
        }
        (!self.drawn.is_empty()).then_some(AddressCheck { grades, of: self.reservoir.seen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_samples::model::Register;
    use hardmeter_symbols::{disassemble, ImageAddress, Syntax};

    /// push %rbp: in the registers of either source, the stack pointer is the one after the push.
    #[test]
    fn a_push_has_moved_the_stack_pointer() {
        let values = [0x7000u64.to_ne_bytes()];
        let registers = Registers { abi: 2, mask: 1 << Register::Rsp as u8, values: &values };
        let push = &disassemble(&[0x55], ImageAddress(0x1000), Syntax::Att)[0];
        for moment in [RegisterMoment::Before, RegisterMoment::After] {
            let (ip, address) = (VirtualAddress(0x40_0000), VirtualAddress(0x7000));
            let gradable = Gradable { ip, address, registers, moment, exact: true, fetch: false };
            assert_eq!(gradable.grade(Some(push)), AddressGrade::Agrees);
        }
    }

    #[test]
    fn a_fetch_is_of_the_instructions_own_line() {
        let registers = Registers { abi: 2, mask: 0, values: &[] };
        // Five bytes at 0x40003e: they span two lines.
        let jump = &disassemble(&[0xe9, 0, 0, 0, 0], ImageAddress(0x103e), Syntax::Att)[0];
        let grade = |address| {
            let (ip, moment) = (VirtualAddress(0x40_003e), RegisterMoment::Before);
            let address = VirtualAddress(address);
            Gradable { ip, address, registers, moment, exact: true, fetch: true }.grade(Some(jump))
        };
        assert_eq!(grade(0x40_0000), AddressGrade::Agrees);
        assert_eq!(grade(0x40_0040), AddressGrade::Agrees);
        assert_eq!(grade(0x40_0080), AddressGrade::Disagrees);
    }

    /// rbx = 0x1000, rdi = 0x2000; the instruction ran at 0x400000.
    fn graded(code: &[u8], address: u64, moment: RegisterMoment) -> AddressGrade {
        let values = [0x1000u64.to_ne_bytes(), 0x2000u64.to_ne_bytes()];
        let mask = 1 << Register::Rbx as u8 | 1 << Register::Rdi as u8;
        let gradable = Gradable {
            ip: VirtualAddress(0x40_0000),
            address: VirtualAddress(address),
            registers: Registers { abi: 2, mask, values: &values },
            moment,
            exact: true,
            fetch: false,
        };
        gradable.grade(disassemble(code, ImageAddress(0x1000), Syntax::Att).first())
    }

    #[test]
    fn addresses_are_held_against_the_registers() {
        use RegisterMoment::{After, Before};
        // mov 0x8(%rbx),%rax reads 0x1008..0x1010.
        let load = [0x48, 0x8b, 0x43, 0x08];
        assert_eq!(graded(&load, 0x1008, After), AddressGrade::Agrees);
        assert_eq!(graded(&load, 0x100f, After), AddressGrade::Agrees, "the second line of a split access");
        assert_eq!(graded(&load, 0x1010, After), AddressGrade::Disagrees);
        assert_eq!(graded(&load, 0x1007, After), AddressGrade::Disagrees);
        // mov (%rbx),%rbx
        let chase = [0x48, 0x8b, 0x1b];
        assert_eq!(graded(&chase, 0x1000, Before), AddressGrade::Agrees);
        assert_eq!(graded(&chase, 0x1000, After), AddressGrade::Overwritten);
        // nop; mov (%rax),%ecx; mov %fs:0x28,%rax
        let not = AddressGrade::NotComputable;
        assert_eq!(graded(&[0x90], 0x1000, After), not(Ungraded::NoMemoryOperand));
        assert_eq!(graded(&[0x8b, 0x08], 0x1000, After), not(Ungraded::RegisterMissing));
        let local = [0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0];
        assert_eq!(graded(&local, 0x1000, Before), not(Ungraded::SegmentBase));
        // xsave (%rbx): the offsets of its parts depend on the processor's state.
        let save = [0x0f, 0xae, 0x23];
        assert_eq!(graded(&save, 0x1000, Before), AddressGrade::Agrees);
        assert_eq!(graded(&save, 0x1200, Before), not(Ungraded::WidthUnknown));
        // push (%rbx): the load agrees; the store needs the stack pointer, which was not recorded.
        let push = [0xff, 0x33];
        assert_eq!(graded(&push, 0x1000, Before), AddressGrade::Agrees);
        assert_eq!(graded(&push, 0x3000, Before), not(Ungraded::SeveralOperands));
        assert_eq!(graded(&[], 0x1000, Before), not(Ungraded::NoCode));
    }

    /// Of 2,000,000 elements the later half gets about 1,000 of the 2,000, with a standard deviation of 22
    /// (binomial); five deviations are allowed.
    #[test]
    fn every_sample_has_the_same_chance_to_be_drawn() {
        let (mut reservoir, mut drawn) = (Reservoir::new(), vec![0u64; DRAWN]);
        for position in 1..=2_000_000 {
            if let Some(slot) = reservoir.offer() {
                drawn[slot] = position;
            }
        }
        assert_eq!(reservoir.seen, 2_000_000);
        let late = drawn.iter().filter(|position| **position > 1_000_000).count();
        assert!((890..=1110).contains(&late), "{late}");
        let distinct: std::collections::BTreeSet<u64> = drawn.iter().copied().collect();
        assert_eq!(distinct.len(), DRAWN, "each at most once");
    }
}
