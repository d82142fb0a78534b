//! The address that a sampled instruction accessed, computed from the registers of the sample.
//!
//! It grades a sample: if the hardware's data address agrees with the registers, both are probably right. The
//! computation depends on when the source records the registers:
//!
//! ```text
//!   mov (%rax),%rax       before (software PMU): rax is the address
//!                         after (PEBS):          rax is what was loaded; the address is lost
//! ```

use crate::disassembly::{Instruction, MemoryOperand};
use hardmeter_samples::model::{Register, Registers, VirtualAddress};

/// When the registers of a sample were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterMoment {
    /// Before the instruction changed any: the software PMU.
    Before,
    /// After it: PEBS.
    After,
}

/// The reason why an address cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotComputable {
    /// The instruction uses no memory.
    #[error("the instruction uses no memory")]
    NoMemory,
    /// The instruction overwrote a register of its address.
    #[error("the instruction overwrites %{}", .0.name())]
    Overwritten(Register),
    /// The sample lacks a register.
    #[error("the sample has no %{}", .0.name())]
    NotRecorded(Register),
    /// The base of `%fs` or `%gs` is in no sample.
    #[error("the base of %fs and %gs is not recorded")]
    SegmentBase,
    /// Gathers and scatters have several addresses, computed from vector registers.
    #[error("vector registers are not recorded")]
    VectorIndex,
}

impl Instruction {
    /// The address of the first memory operand, for an instruction that ran at `ip`.
    ///
    /// # Errors
    ///
    /// [`NotComputable`] if there is no memory operand, or its registers were not sampled or have been
    /// overwritten.
    pub fn recompute_address(
        &self,
        ip: VirtualAddress,
        registers: &Registers<'_>,
        moment: RegisterMoment,
    ) -> Result<VirtualAddress, NotComputable> {
        let operand = self.memory.first().ok_or(NotComputable::NoMemory)?;
        self.recompute_operand(operand, ip, registers, moment)
    }

    /// The address of one of its operands.
    ///
    /// # Errors
    ///
    /// [`NotComputable`] if its registers were not sampled or have been overwritten, or it needs a segment base
    /// or vector.
    pub fn recompute_operand(
        &self,
        operand: &MemoryOperand,
        ip: VirtualAddress,
        registers: &Registers<'_>,
        moment: RegisterMoment,
    ) -> Result<VirtualAddress, NotComputable> {
        if operand.segment_base {
            return Err(NotComputable::SegmentBase);
        }
        if operand.vector_index {
            return Err(NotComputable::VectorIndex);
        }
        if let (RegisterMoment::After, Some(register)) = (moment, operand.register_overwritten) {
            return Err(NotComputable::Overwritten(register));
        }
        let value = |register: Register| match register {
            Register::Rip => Ok(ip.0.wrapping_add(u64::from(self.length))),
            _ => registers.get(register).ok_or(NotComputable::NotRecorded(register)),
        };
        let mut base = operand.base.map_or(Ok(0), value)?;
        if moment == RegisterMoment::After {
            base = base.wrapping_sub(operand.stack_adjustment as u64);
        }
        let index = operand.index.map_or(Ok(0), value)?;
        let index = index.wrapping_mul(u64::from(operand.scale));
        let address = base.wrapping_add(index).wrapping_add(operand.displacement as u64);
        Ok(VirtualAddress(if operand.short_address { address & 0xffff_ffff } else { address }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disassembly::{disassemble, Syntax};
    use crate::image::ImageAddress;
    use RegisterMoment::{After, Before};

    const IP: VirtualAddress = VirtualAddress(0x5555_0000_1000);

    /// rbx = 0x1000, rcx = 3, rsp = 0x7000, rdi = 0xffff_ffff_ffff_fff8 (-8); no other register.
    fn address(code: &[u8], moment: RegisterMoment) -> Result<u64, NotComputable> {
        let recorded = [
            (Register::Rbx, 0x1000u64),
            (Register::Rcx, 3),
            (Register::Rdi, -8i64 as u64),
            (Register::Rsp, 0x7000),
        ];
        let mut in_mask_order = recorded;
        in_mask_order.sort_by_key(|(register, _)| *register as u8);
        let values = in_mask_order.map(|(_, value)| value.to_ne_bytes());
        let mask = recorded.iter().fold(0, |mask, (register, _)| mask | 1 << *register as u8);
        let registers = Registers { abi: 2, mask, values: &values };
        let instruction = &disassemble(code, ImageAddress(0x1000), Syntax::Att)[0];
        instruction.recompute_address(IP, &registers, moment).map(|address| address.0)
    }

    #[test]
    fn computed_by_hand() {
        // mov 0x8(%rbx,%rcx,4),%eax: 0x1000 + 3*4 + 8
        assert_eq!(address(&[0x8b, 0x44, 0x8b, 0x08], Before), Ok(0x1014));
        assert_eq!(address(&[0x8b, 0x44, 0x8b, 0x08], After), Ok(0x1014));
        // mov -0x10(%rbx),%eax
        assert_eq!(address(&[0x8b, 0x43, 0xf0], After), Ok(0xff0));
        // mov 0x20(%rip),%eax, six bytes long
        assert_eq!(address(&[0x8b, 0x05, 0x20, 0, 0, 0], After), Ok(IP.0 + 6 + 0x20));
        // mov 0x10(%edi),%eax with an addr32 prefix: 0xfffffff8 + 0x10 wraps at 32 bits
        assert_eq!(address(&[0x67, 0x8b, 0x47, 0x10], After), Ok(8));
        // mov (%rdi,%rcx,1),%eax: -8 + 3 wraps at 64 bits
        assert_eq!(address(&[0x8b, 0x04, 0x0f], After), Ok(-5i64 as u64));
        // mov 0x601000,%eax (absolute)
        assert_eq!(address(&[0x8b, 0x04, 0x25, 0x00, 0x10, 0x60, 0x00], After), Ok(0x601000));
    }

    #[test]
    fn a_loaded_base_register_hides_the_address_afterwards() {
        // mov (%rbx),%rbx
        assert_eq!(address(&[0x48, 0x8b, 0x1b], Before), Ok(0x1000));
        assert_eq!(address(&[0x48, 0x8b, 0x1b], After), Err(NotComputable::Overwritten(Register::Rbx)));
        // movzbl (%rbx),%ebx: the 32-bit half counts as well
        assert_eq!(address(&[0x0f, 0xb6, 0x1b], After), Err(NotComputable::Overwritten(Register::Rbx)));
    }

    #[test]
    fn the_stack_pointer_is_wound_back() {
        // push %rbp writes below the old top; with rsp = 0x7000 after it, that is the address.
        assert_eq!(address(&[0x55], Before), Ok(0x6ff8));
        assert_eq!(address(&[0x55], After), Ok(0x7000));
        // pop %rbp reads the old top; afterwards rsp is above it.
        assert_eq!(address(&[0x5d], Before), Ok(0x7000));
        assert_eq!(address(&[0x5d], After), Ok(0x6ff8));
        // call: pushes the return address.
        assert_eq!(address(&[0xe8, 0, 0, 0, 0], After), Ok(0x7000));
        // pop %rsp loads the stack pointer: its old value is lost.
        assert_eq!(address(&[0x5c], After), Err(NotComputable::Overwritten(Register::Rsp)));
    }

    #[test]
    fn what_a_sample_does_not_hold_is_said() {
        // mov (%rax),%ecx
        assert_eq!(address(&[0x8b, 0x08], After), Err(NotComputable::NotRecorded(Register::Rax)));
        // mov %fs:0x28,%rax
        let thread_local = [0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0];
        assert_eq!(address(&thread_local, Before), Err(NotComputable::SegmentBase));
        // vpgatherdd %ymm1,(%rbx,%ymm2,4),%ymm0
        let gather = [0xc4, 0xe2, 0x75, 0x90, 0x04, 0x93];
        assert_eq!(address(&gather, Before), Err(NotComputable::VectorIndex));
        assert_eq!(address(&[0x90], Before), Err(NotComputable::NoMemory));
    }
}
