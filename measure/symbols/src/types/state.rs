//! The known values at one instruction, and their intersection where two paths meet.

use super::path::Strides;
use super::values::{Pointer, Value};
use std::collections::BTreeMap;

/// Maximum number of frame slots with known values.
const SLOTS_AT_MOST: usize = 64;

/// Registers, by DWARF's numbers, and the places of the frame that registers were saved in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) registers: [Option<Value>; 16],
    /// By distance from the canonical frame address.
    slots: BTreeMap<i64, Value>,
}

impl State {
    /// Records a value that an instruction saved in the frame.
    pub(super) fn save(&mut self, place: i64, size: u64, value: Option<Value>) {
        let end = place.saturating_add(i64::try_from(size.max(1)).unwrap_or(i64::MAX));
        // Overlapping slots are overwritten.
        self.slots.retain(|other, _| other.saturating_add(8) <= place || *other >= end);
        if let (Some(value), true) = (value, size == 8 && self.slots.len() < SLOTS_AT_MOST) {
            self.slots.insert(place, value);
        }
    }

    /// The value saved there.
    pub(super) fn saved(&self, place: i64) -> Option<Value> {
        self.slots.get(&place).copied()
    }

    /// Intersects with the values of another path; returns whether that removed any.
    pub(super) fn meet(&mut self, other: &State) -> bool {
        let before = self.clone();
        for (own, other) in self.registers.iter_mut().zip(&other.registers) {
            *own = both(*own, *other);
        }
        self.slots.retain(|place, own| match both(Some(*own), other.saved(*place)) {
            Some(value) => {
                *own = value;
                true
            }
            None => false,
        });
        *self != before
    }
}

/// The common part of two values. A pointer that advanced by some bytes on one of the paths points to one of many
/// elements: `for (p = first; p < end; p++)`.
fn both(one: Option<Value>, other: Option<Value>) -> Option<Value> {
    let (one, other) = (one?, other?);
    match (one, other) {
        (Value::Pointer(one), Value::Pointer(other)) => {
            if (one.type_of, one.variable) != (other.type_of, other.variable) {
                return None;
            }
            let strides = one.strides.union(other.strides)?;
            let distance = one.offset.wrapping_sub(other.offset).unsigned_abs();
            let strides = if strides.covers(distance) { strides } else { strides.and(distance)? };
            Some(Value::Pointer(Pointer { strides, ..one }))
        }
        (one, other) => (one == other).then_some(one),
    }
}

impl Strides {
    /// Whether a distance is a whole number of one of the steps.
    fn covers(self, distance: u64) -> bool {
        distance == 0 || self.iter().any(|stride| distance.is_multiple_of(stride))
    }

    fn union(self, other: Strides) -> Option<Strides> {
        other
            .iter()
            .try_fold(self, |all, stride| if all.covers(stride) { Some(all) } else { all.and(stride) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::FieldEvidence;

    fn pointer(offset: i64) -> Option<Value> {
        let (strides, evidence) = (Strides::default(), FieldEvidence::Followed);
        Some(Value::Pointer(Pointer { type_of: None, offset, strides, variable: None, evidence }))
    }

    #[test]
    fn a_pointer_that_walks_becomes_one_of_many_and_stays_that() {
        let mut head = State::default();
        head.registers[0] = pointer(0);
        head.registers[1] = pointer(0);
        let mut back = State::default();
        back.registers[0] = pointer(48);
        assert!(head.meet(&back));
        let Some(Value::Pointer(met)) = head.registers[0] else { panic!("{head:?}") };
        assert_eq!((met.offset, met.strides), (0, Strides::default().and(48).expect("room")));
        assert_eq!(head.registers[1], None, "known on one way only");
        // Another iteration of the loop changes nothing.
        back.registers[0] = Value::Pointer(met).plus(48);
        assert!(!head.meet(&back));
    }

    #[test]
    fn what_is_overwritten_in_part_is_forgotten() {
        let mut state = State::default();
        state.save(-24, 8, pointer(0));
        assert_eq!(state.saved(-24), pointer(0));
        state.save(-20, 4, None);
        assert_eq!(state.saved(-24), None);
    }
}
