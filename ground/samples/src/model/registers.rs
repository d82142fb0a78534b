//! The register file at the moment of a sample (`PERF_SAMPLE_REGS_INTR`, `PERF_SAMPLE_REGS_USER`).

/// x86-64 registers by their number in `asm/perf_regs.h`.
///
/// Other architectures keep their own numbering; see [`Registers::get_index`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the processor manual's own names
#[repr(u8)]
pub enum Register {
    Rax = 0,
    Rbx = 1,
    Rcx = 2,
    Rdx = 3,
    Rsi = 4,
    Rdi = 5,
    Rbp = 6,
    Rsp = 7,
    Rip = 8,
    Rflags = 9,
    Cs = 10,
    Ss = 11,
    R8 = 16,
    R9 = 17,
    R10 = 18,
    R11 = 19,
    R12 = 20,
    R13 = 21,
    R14 = 22,
    R15 = 23,
}

impl Register {
    /// The general registers, flags and instruction pointer, in the order of the mask bits.
    pub const GENERAL: [Register; 18] = [
        Register::Rax,
        Register::Rbx,
        Register::Rcx,
        Register::Rdx,
        Register::Rsi,
        Register::Rdi,
        Register::Rbp,
        Register::Rsp,
        Register::Rip,
        Register::Rflags,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];

    /// The assembler's name.
    pub fn name(self) -> &'static str {
        match self {
            Register::Rax => "rax",
            Register::Rbx => "rbx",
            Register::Rcx => "rcx",
            Register::Rdx => "rdx",
            Register::Rsi => "rsi",
            Register::Rdi => "rdi",
            Register::Rbp => "rbp",
            Register::Rsp => "rsp",
            Register::Rip => "rip",
            Register::Rflags => "rflags",
            Register::Cs => "cs",
            Register::Ss => "ss",
            Register::R8 => "r8",
            Register::R9 => "r9",
            Register::R10 => "r10",
            Register::R11 => "r11",
            Register::R12 => "r12",
            Register::R13 => "r13",
            Register::R14 => "r14",
            Register::R15 => "r15",
        }
    }

    /// The mask (`sample_regs_intr`) of [`Register::GENERAL`].
    pub fn general_mask() -> u64 {
        Register::GENERAL.iter().fold(0, |mask, register| mask | 1 << *register as u8)
    }
}

/// The registers of one sample, borrowed from its record: one value per set bit of `mask`, lowest bit first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`: 1 for 32-bit, 2 for 64-bit code.
    pub abi: u64,
    /// The registers that are present.
    pub mask: u64,
    /// Their values, eight little-endian bytes each (already in host order).
    pub values: &'a [[u8; 8]],
}

impl Registers<'_> {
    /// The value of an x86-64 register, if it was recorded.
    pub fn get(&self, register: Register) -> Option<u64> {
        self.get_index(register as u32)
    }

    /// The value of register number `index` in the numbering of the capture's architecture.
    pub fn get_index(&self, index: u32) -> Option<u64> {
        if index >= 64 || self.mask & (1 << index) == 0 {
            return None;
        }
        let position = (self.mask & ((1u64 << index) - 1)).count_ones() as usize;
        self.values.get(position).map(|bytes| u64::from_ne_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_is_found_at_the_rank_of_its_mask_bit() {
        let values = [1u64.to_ne_bytes(), 2u64.to_ne_bytes(), 3u64.to_ne_bytes()];
        let registers = Registers {
            abi: 2,
            mask: 1 << Register::Rax as u8 | 1 << Register::Rsp as u8 | 1 << Register::R15 as u8,
            values: &values,
        };
        assert_eq!(registers.get(Register::Rax), Some(1));
        assert_eq!(registers.get(Register::Rsp), Some(2));
        assert_eq!(registers.get(Register::R15), Some(3));
        assert_eq!(registers.get(Register::Rbx), None);
        assert_eq!(registers.get_index(64), None);
    }
}
