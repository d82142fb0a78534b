//! Malformed side files: questions are still answered, and only from facts that the file contains.

use super::*;
use crate::code::ImageAddress;
use crate::pages::relations;
use hardmeter_samples::model::{ByteCount, Pid, StateId, Timestamp};
use hardmeter_samples::object_notes::{
    CodeMark, CodeMarkKind, ObjectFact, ObjectNotes, PageKind, ProcessRole, StateKey, TextId,
};

/// The same numbers in every run (Knuth's multiplier).
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// Small numbers, which collide often, and numbers at the limits of arithmetic.
    fn number(&mut self) -> u64 {
        match self.next(4) {
            0 => [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, u64::from(u32::MAX)]
                [self.next(7) as usize],
            _ => self.next(64),
        }
    }

    fn text(&mut self) -> TextId {
        TextId(self.number() as u32)
    }

    fn pid(&mut self) -> Pid {
        Pid([10, 11, -1, i32::MIN][self.next(4) as usize])
    }

    fn notes(&mut self) -> ObjectNotes {
        let mut notes = ObjectNotes::new("\u{1b}[2J");
        notes.texts = (0..self.next(20)).map(|number| format!("{number}\n\u{1b}")).collect();
        notes.facts = (0..self.next(30))
            .map(|_| ObjectFact {
                pid: (self.next(2) == 0).then(|| self.pid()),
                start: VirtualAddress(self.number()),
                length: ByteCount(self.number()),
                seen: (Timestamp(self.number()), Timestamp(self.number())),
                state: (self.next(3) == 0)
                    .then(|| StateKey { id: StateId(1), bytes: vec![self.next(2) as u8] }),
                path: ObjectPath {
                    class: self.text(),
                    name: self.text(),
                    instance: self.text(),
                    part: self.text(),
                },
                origin: VirtualAddress(self.number()),
            })
            .collect();
        notes.roles = (0..self.next(4)).map(|_| ProcessRole { pid: self.pid(), role: self.text() }).collect();
        notes.marks = (0..self.next(4))
            .map(|_| CodeMark {
                image: TextId(0),
                start: self.number(),
                end: self.number(),
                kind: CodeMarkKind::Phase,
                name: self.text(),
            })
            .collect();
        notes.pages = (0..self.next(4))
            .map(|_| PageKind { relation: self.text(), page_size: self.number() as u32, kind: self.text() })
            .collect();
        notes
    }
}

/// True if a fact applies to an address: in its range, and in that process or shared.
fn holds(fact: &ObjectFact, pid: Pid, address: u64) -> bool {
    let begins = fact.start.0 <= address && fact.pid.is_none_or(|of| of == pid);
    begins && address < fact.start.0.saturating_add(fact.length.0)
}

/// Queries an index over the side file at random; each answer must be a fact that applies there.
fn ask(notes: &ObjectNotes, dice: &mut Dice) {
    let mut index = ObjectIndex::new(Some(notes));
    for _ in 0..30 {
        let (pid, address, time) = (dice.pid(), dice.number(), Timestamp(dice.number()));
        let bytes = [dice.next(2) as u8];
        let states = [(StateId(1), &bytes[..])];
        let told = index.lookup(pid, VirtualAddress(address), (dice.next(4) > 0).then_some(time), &states);
        let Some(told) = told else { continue };
        let levels = |path: ObjectPath| [path.class, path.name, path.instance, path.part];
        let texts = levels(told.path).map(|id| index.text(id).to_string());
        let says = |fact: &&ObjectFact| levels(fact.path).map(|id| notes.text(id).to_string()) == texts;
        let found = notes.facts.iter().filter(|fact| holds(fact, pid, address)).any(|fact| says(&fact));
        assert!(found, "{texts:?} at {address:#x} of {pid} is not in {notes:?}");
        index.describe(told.path);
        index.is_specific(told.path);
    }
    index.role(dice.pid());
    let marks = CodeMarks::new(Some(notes));
    marks.at(notes.text(TextId(0)), ImageAddress(dice.number()), &mut index);
    assert!(relations(notes).iter().all(|relation| (1..=1 << 20).contains(&relation.page_size)));
}

#[test]
fn whatever_notes_say_is_answered_by_what_they_say() {
    let mut dice = Dice(1);
    for _ in 0..3000 {
        let notes = dice.notes();
        ask(&notes, &mut dice);
    }
}

/// Valid side files with some bytes changed: facts that can still be read are answered as usual.
#[test]
fn changed_bytes_are_refused_or_answered() {
    let mut dice = Dice(2);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..1500 {
        let mut bytes = serde_json::to_vec(&dice.notes()).expect("JSON");
        for _ in 0..dice.next(3) {
            let at = dice.next(bytes.len() as u64) as usize;
            bytes[at] = b"0123456789-,:{}[]\"x\xff"[dice.next(20) as usize];
        }
        if dice.next(8) == 0 {
            bytes.truncate(dice.next(bytes.len() as u64) as usize);
        }
        match serde_json::from_slice(&bytes) {
            Ok(notes) => {
                read += 1;
                ask(&notes, &mut dice);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(read > 300 && refused > 300, "{read} read, {refused} refused");
}
