//! The architecture of a recorded machine: the numbers and names that its registers have in samples.

use super::registers::Register;

/// An architecture whose registers are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// x86-64: numbers of [`Register`].
    X86_64,
    /// 64-bit Arm: 0 to 30 are x0 to x30, 31 is the stack pointer, 32 the program counter
    /// (`PERF_REG_ARM64_*` in `asm/perf_regs.h`).
    Aarch64,
}

/// The names of [`Architecture::Aarch64`]'s registers, by number.
const AARCH64: [&str; 33] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
    "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "lr",
    "sp", "pc",
];

impl Architecture {
    /// That of this program; `None` where registers are not understood.
    pub const HOST: Option<Architecture> = if cfg!(target_arch = "x86_64") {
        Some(Architecture::X86_64)
    } else if cfg!(target_arch = "aarch64") {
        Some(Architecture::Aarch64)
    } else {
        None
    };

    /// That of a capture's header, which has the machine's name (`uname -m`); simpleperf writes `arm64`.
    pub fn of_header(name: &str) -> Option<Architecture> {
        match name {
            "x86_64" => Some(Architecture::X86_64),
            "aarch64" | "arm64" => Some(Architecture::Aarch64),
            _ => None,
        }
    }

    /// The stack pointer's number.
    pub fn stack_pointer(self) -> u32 {
        match self {
            Architecture::X86_64 => Register::Rsp as u32,
            Architecture::Aarch64 => 31,
        }
    }

    /// The instruction pointer's number.
    pub fn instruction_pointer(self) -> u32 {
        match self {
            Architecture::X86_64 => Register::Rip as u32,
            Architecture::Aarch64 => 32,
        }
    }

    /// The mask (`sample_regs_intr`, `sample_regs_user`) of all general registers and the instruction pointer. Without
    /// the pseudo-register of the vector length (46), which kernels before 6.1 refuse.
    pub fn general_mask(self) -> u64 {
        match self {
            Architecture::X86_64 => Register::general_mask(),
            Architecture::Aarch64 => (1 << 33) - 1,
        }
    }

    /// The numbers of the general registers, in the order of the mask's bits.
    pub fn general(self) -> impl Iterator<Item = u32> {
        let mask = self.general_mask();
        (0..u64::BITS).filter(move |number| mask >> number & 1 == 1)
    }

    /// The assembler's name of a register; `None` for a number that is not a general register.
    pub fn register_name(self, number: u32) -> Option<&'static str> {
        match self {
            Architecture::X86_64 => {
                Register::GENERAL.into_iter().find(|register| *register as u32 == number).map(Register::name)
            }
            Architecture::Aarch64 => AARCH64.get(number as usize).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_kernels_header() {
        let arm = Architecture::of_header("aarch64").expect("known");
        assert_eq!(arm.register_name(0), Some("x0"));
        assert_eq!(arm.register_name(29), Some("x29"));
        assert_eq!(arm.register_name(30), Some("lr"));
        assert_eq!(arm.register_name(arm.stack_pointer()), Some("sp"));
        assert_eq!(arm.register_name(arm.instruction_pointer()), Some("pc"));
        assert_eq!((arm.register_name(33), arm.general_mask()), (None, 0x1_ffff_ffff));
        let x86 = Architecture::of_header("x86_64").expect("known");
        assert_eq!(x86.register_name(x86.stack_pointer()), Some("rsp"));
        assert_eq!(x86.register_name(x86.instruction_pointer()), Some("rip"));
        assert_eq!((x86.register_name(12), x86.general_mask()), (None, 0xff_03ff));
        for architecture in [arm, x86] {
            let mask = architecture.general().fold(0, |mask, number| mask | 1u64 << number);
            assert_eq!(mask, architecture.general_mask());
            assert!(architecture.general().all(|number| architecture.register_name(number).is_some()));
        }
        assert_eq!(Architecture::of_header("riscv64"), None);
    }
}
