//! The known value of a register: a typed pointer, or a multiple of an unknown number.

use super::path::Strides;
use super::units::EntryRef;
use super::FieldEvidence;
use iced_x86::Register;

/// A pointer to an object of a type, plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    pub(super) type_of: Option<EntryRef>,
    pub(super) offset: i64,
    /// The unknown multiples that were added.
    pub(super) strides: Strides,
    /// The global variable that it points into, if any.
    pub(super) variable: Option<EntryRef>,
    pub(super) evidence: FieldEvidence,
}

/// A multiple of an unknown number, plus a constant. `i * 48` takes a compiler several instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Multiple {
    /// The id of the unknown number.
    pub(super) of: u64,
    pub(super) factor: i64,
    pub(super) plus: i64,
}

/// The known value of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Pointer(Pointer),
    Number(Multiple),
}

impl Value {
    pub(super) fn followed(self) -> Value {
        match self {
            Value::Pointer(pointer) => {
                Value::Pointer(Pointer { evidence: FieldEvidence::Followed, ..pointer })
            }
            number => number,
        }
    }

    pub(super) fn plus(self, constant: i64) -> Option<Value> {
        Some(match self {
            Value::Pointer(pointer) => {
                Value::Pointer(Pointer { offset: pointer.offset.wrapping_add(constant), ..pointer })
            }
            Value::Number(number) => {
                Value::Number(Multiple { plus: number.plus.wrapping_add(constant), ..number })
            }
        })
    }

    pub(super) fn times(self, factor: i64) -> Option<Value> {
        match self {
            Value::Pointer(_) => None,
            Value::Number(Multiple { of, factor: own, plus }) => Some(Value::Number(Multiple {
                of,
                factor: own.checked_mul(factor)?,
                plus: plus.checked_mul(factor)?,
            })),
        }
    }

    /// The sum of a pointer and an index, or of two multiples of one number.
    pub(super) fn add(self, other: Value) -> Option<Value> {
        match (self, other) {
            (Value::Pointer(_), Value::Pointer(_)) => None,
            (Value::Pointer(pointer), Value::Number(number))
            | (Value::Number(number), Value::Pointer(pointer)) => {
                let strides = pointer.strides.and(number.factor.unsigned_abs())?;
                let offset = pointer.offset.wrapping_add(number.plus);
                Some(Value::Pointer(Pointer { offset, strides, ..pointer }))
            }
            (Value::Number(one), Value::Number(other)) if one.of == other.of => {
                Some(Value::Number(Multiple {
                    of: one.of,
                    factor: one.factor.checked_add(other.factor)?,
                    plus: one.plus.checked_add(other.plus)?,
                }))
            }
            _ => None,
        }
    }
}

/// DWARF's number of the register that a name is a part of.
pub(super) fn dwarf_number(register: Register) -> Option<usize> {
    /// rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi: the processor's order.
    const FIRST_EIGHT: [usize; 8] = [0, 2, 1, 3, 7, 6, 4, 5];
    if !register.is_gpr() {
        return None;
    }
    let number = register.full_register().number();
    Some(FIRST_EIGHT.get(number).copied().unwrap_or(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_the_numbers_of_the_psabi() {
        let numbers = [
            (Register::RAX, 0),
            (Register::DL, 1),
            (Register::ECX, 2),
            (Register::BX, 3),
            (Register::RSI, 4),
            (Register::RDI, 5),
            (Register::RBP, 6),
            (Register::RSP, 7),
            (Register::R8D, 8),
            (Register::R15, 15),
        ];
        for (register, number) in numbers {
            assert_eq!(dwarf_number(register), Some(number));
        }
        assert_eq!(dwarf_number(Register::XMM0), None);
        assert_eq!(dwarf_number(Register::RIP), None);
    }
}
