//! Finds the load that a timer sample waited for: the one that ran right before the sampled instruction.
//!
//! The timer's interrupt is taken when the waiting instruction retires; the instruction pointer is then at the next
//! one ([`Landing::Behind`]). Processors that stop at the waiting instruction itself are [`Landing::At`].

use super::function::Function;
use super::machine::{Machine, NoAddress, State};
use super::values::Values;
use hardmeter_samples::model::{Landing, Registers};

/// The reason why it is not known whether a load was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBlame {
    /// The code is not available: generated at run time, or in an unreadable file.
    NoCode,
    /// No known function contains the address, or it is inside an instruction.
    NoFunction,
    /// The function was entered here, or a call returned, or a jump table led here.
    Entry,
    /// Control arrives from several places, more than one of them a load.
    Join,
}

/// An instruction of the image, and the address that it loads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blamed {
    /// The load's address in its image.
    pub(super) load: u64,
    /// The address of its operand.
    pub(super) address: Result<u64, NoAddress>,
}

/// Looks for the load behind a sample. `Ok(None)`: it waited for no load.
pub(super) fn blame<M: Machine>(
    function: &Function<M>,
    position: usize,
    registers: &Registers<'_>,
    bias: u64,
    landing: Landing,
) -> Result<Option<Blamed>, NoBlame> {
    let mut machine = M::default();
    let here = function.at(position);
    if landing == Landing::At || M::is_restarted(here) {
        return Ok(machine.load(here).map(|operand| {
            let mut values = Values::new(function, position, position, registers, bias);
            finish(&mut values, position, operand)
        }));
    }
    let before = function.predecessors(position).ok_or(NoBlame::Entry)?;
    let mut found = None;
    for last in before {
        let fused = function.fused_with(last);
        let load = [Some(last), fused]
            .into_iter()
            .flatten()
            .find_map(|candidate| machine.load(function.at(candidate)).map(|operand| (candidate, operand)));
        if let Some((load, operand)) = load {
            if found.is_some() {
                return Err(NoBlame::Join);
            }
            found = Some((load, operand, last + 1));
        }
    }
    Ok(found.map(|(load, operand, end)| {
        let mut values = Values::new(function, load, end, registers, bias);
        finish(&mut values, load, operand)
    }))
}

fn finish<M: Machine>(values: &mut Values<'_, M>, position: usize, operand: M::Operand) -> Blamed {
    let load = M::address(&values.at(position));
    Blamed { load, address: M::data_address(values, position, operand) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::x86::X86;
    use hardmeter_samples::model::Register;

    const START: u64 = 0x1000;
    const BIAS: u64 = 0x5555_0000_0000;

    /// Finds the load for a sample at the end of a piece of code, with these registers.
    fn at_end(code: &[u8], recorded: &[(Register, u64)]) -> Result<Option<Result<u64, NoAddress>>, NoBlame> {
        let mut recorded = recorded.to_vec();
        recorded.sort_by_key(|(register, _)| *register as u8);
        let values: Vec<[u8; 8]> = recorded.iter().map(|(_, value)| value.to_ne_bytes()).collect();
        let mask = recorded.iter().fold(0, |mask, (register, _)| mask | 1 << *register as u8);
        let registers = Registers { abi: 2, mask, values: &values };
        let with_end = [code, &[0x90]].concat();
        let function = Function::<X86>::decode(&with_end, START, &|_| None);
        let position = function.position(START + code.len() as u64).expect("the end");
        let blamed = blame(&function, position, &registers, BIAS, Landing::Behind)?;
        Ok(blamed.map(|blamed| blamed.address))
    }

    use Register::{Rax, Rbp, Rbx, Rcx, Rsp};

    #[test]
    fn addresses_computed_by_hand() {
        // mov 8(%rbx,%rcx,4),%eax
        let load = [0x8b, 0x44, 0x8b, 0x08];
        assert_eq!(at_end(&load, &[(Rbx, 0x1000), (Rcx, 3)]), Ok(Some(Ok(0x1014))));
        // mov 0x20(%rip),%eax: 0x1000 + 6 + 0x20 in the image
        assert_eq!(at_end(&[0x8b, 0x05, 0x20, 0, 0, 0], &[]), Ok(Some(Ok(BIAS + 0x1026))));
        // pop %rbp: the stack pointer is above the operand
        assert_eq!(at_end(&[0x5d], &[(Rsp, 0x7008)]), Ok(Some(Ok(0x7000))));
        // cmp %eax,(%rbx); je +0: the two retire as one
        assert_eq!(at_end(&[0x39, 0x03, 0x75, 0x10], &[(Rbx, 0x2000)]), Ok(Some(Ok(0x2000))));
        // rep movsb at the sample itself has its own test; a store and arithmetic are not loads
        assert_eq!(at_end(&[0x89, 0x03], &[(Rbx, 0x2000)]), Ok(None));
        assert_eq!(at_end(&[0x48, 0x01, 0xd8], &[(Rbx, 0x2000)]), Ok(None));
        // lea is not a load, prefetcht0 (%rbx) does not wait
        assert_eq!(at_end(&[0x48, 0x8d, 0x03], &[(Rbx, 0x2000)]), Ok(None));
        assert_eq!(at_end(&[0x0f, 0x18, 0x0b], &[(Rbx, 0x2000)]), Ok(None));
    }

    #[test]
    fn an_overwritten_base_is_found_elsewhere_or_not_at_all() {
        // mov (%rax),%rax: the address is overwritten
        assert_eq!(at_end(&[0x48, 0x8b, 0x00], &[(Rax, 5)]), Ok(Some(Err(NoAddress::Overwritten))));
        // mov %rax,%rbx; mov (%rax),%rax: a copy remains
        let copied = [0x48, 0x89, 0xc3, 0x48, 0x8b, 0x00];
        assert_eq!(at_end(&copied, &[(Rax, 5), (Rbx, 0x3000)]), Ok(Some(Ok(0x3000))));
        // lea 16(%rbx,%rcx,8),%rax; mov 8(%rax),%rax: recomputed
        let made = [0x48, 0x8d, 0x44, 0xcb, 0x10, 0x48, 0x8b, 0x40, 0x08];
        assert_eq!(at_end(&made, &[(Rax, 5), (Rbx, 0x3000), (Rcx, 2)]), Ok(Some(Ok(0x3028))));
        // mov %ebx,%eax; mov (%rax),%rax: the upper half was cleared
        let half = [0x89, 0xd8, 0x48, 0x8b, 0x00];
        assert_eq!(at_end(&half, &[(Rax, 5), (Rbx, 0xf_0000_3000)]), Ok(Some(Ok(0x3000))));
        // leave: the frame pointer was overwritten, and the stack pointer is eight above the operand
        assert_eq!(at_end(&[0xc9], &[(Rbp, 5), (Rsp, 0x7008)]), Ok(Some(Err(NoAddress::Overwritten))));
        // mov %fs:0x28,%rax
        let thread_local = [0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0];
        assert_eq!(at_end(&thread_local, &[]), Ok(Some(Err(NoAddress::Segment))));
    }

    #[test]
    fn a_loop_is_entered_from_two_sides() {
        // 1000 mov (%rbx),%rax; 1003 mov (%rcx),%rdx; 1006 dec %rsi; 1009 jne 1003; 100b ret
        let code = [0x48, 0x8b, 0x03, 0x48, 0x8b, 0x11, 0x48, 0xff, 0xce, 0x75, 0xf8, 0xc3];
        let function = Function::<X86>::decode(&code, START, &|_| None);
        let values = [0x2000u64.to_ne_bytes(), 0x3000u64.to_ne_bytes()];
        let registers = Registers { abi: 2, mask: 1 << Rbx as u8 | 1 << Rcx as u8, values: &values };
        let load =
            |address| blame(&function, function.position(address).unwrap(), &registers, 0, Landing::Behind);
        // From above it is found by a load, from below by a jump that is fused with no load.
        assert_eq!(load(0x1003), Ok(Some(Blamed { load: 0x1000, address: Ok(0x2000) })));
        assert_eq!(load(0x1006), Ok(Some(Blamed { load: 0x1003, address: Ok(0x3000) })));
        assert_eq!(load(0x1009), Ok(None));
        assert_eq!(load(0x1000), Err(NoBlame::Entry));
        let at = blame(&function, 1, &registers, 0, Landing::At);
        assert_eq!(at, Ok(Some(Blamed { load: 0x1003, address: Ok(0x3000) })));
    }

    #[test]
    fn random_code_and_registers_never_panic() {
        let mut random = crate::stall::random_numbers();
        let (mut blamed, mut asked) = (0, 0);
        for _ in 0..2_000 {
            let code: Vec<u8> = (0..16).flat_map(|_| random().to_le_bytes()).collect();
            let start = random();
            let values: Vec<[u8; 8]> = (0..18).map(|_| random().to_ne_bytes()).collect();
            let registers = Registers { abi: 2, mask: Register::general_mask(), values: &values };
            let word = random() as i32;
            let function = Function::<X86>::decode(&code, start, &|_| Some(word));
            for offset in 0..code.len() as u64 {
                let Some(position) = function.position(start.wrapping_add(offset)) else { continue };
                for landing in [Landing::Behind, Landing::At] {
                    asked += 1;
                    let found = blame(&function, position, &registers, random(), landing);
                    blamed += usize::from(matches!(found, Ok(Some(_))));
                }
            }
        }
        assert!(asked > 10_000 && blamed > asked / 20, "{blamed} of {asked}");
    }
}
