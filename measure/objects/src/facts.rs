//! The facts found so far: each text stored once, each range of memory looked up once, and an end for facts
//! that changed. Pure: no memory is read here.

use crate::found::Found;
use hardmeter_samples::model::{Pid, Timestamp, VirtualAddress};
use hardmeter_samples::object_notes::{ObjectFact, ObjectPath, StateKey, TextId};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Number of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FactId(usize);

/// The fields that identify a fact.
type Identity = (i32, VirtualAddress, u64, ObjectPath, Option<StateKey>);

/// The process number for shared memory.
const SHARED: i32 = -1;

/// Texts, each once.
#[derive(Debug)]
pub(crate) struct Texts {
    texts: Vec<String>,
    numbers: HashMap<String, TextId>,
}

impl Texts {
    /// Only the empty text, with the number 0.
    pub fn new() -> Texts {
        Texts { texts: vec![String::new()], numbers: HashMap::from([(String::new(), TextId(0))]) }
    }

    /// The number of a text.
    pub fn number(&mut self, text: &str) -> TextId {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = TextId(self.texts.len() as u32);
        self.texts.push(text.to_string());
        self.numbers.insert(text.to_string(), number);
        number
    }

    /// The text of a number.
    pub fn text(&self, number: TextId) -> &str {
        self.texts.get(number.0 as usize).map_or("", String::as_str)
    }

    /// All, in the order of their numbers.
    pub fn into_inner(self) -> Vec<String> {
        self.texts
    }
}

/// All facts.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The texts of their paths, and other texts of the side file.
    pub texts: Texts,
    facts: Vec<ObjectFact>,
    /// Facts that hold now, by process and first address.
    live: BTreeMap<(i32, VirtualAddress), FactId>,
    known: HashMap<Identity, FactId>,
    /// Facts that are true as long as their process or the server runs.
    lasting: HashSet<FactId>,
    most: usize,
    /// Facts beyond the limit.
    pub left_out: u64,
}

/// The number of shorter facts that may precede one that contains an address.
const NESTED: usize = 4;

impl Facts {
    /// No facts yet; at most this many.
    pub fn new(most: usize) -> Facts {
        Facts {
            texts: Texts::new(),
            facts: Vec::new(),
            live: BTreeMap::new(),
            known: HashMap::new(),
            lasting: HashSet::new(),
            most,
            left_out: 0,
        }
    }

    /// The fact that holds now for an address.
    pub fn at(&self, pid: Option<Pid>, address: VirtualAddress) -> Option<(FactId, &ObjectFact)> {
        let process = pid.map_or(SHARED, |pid| pid.0);
        let before = self.live.range((process, VirtualAddress(0))..=(process, address)).rev().take(NESTED);
        let holds = |fact: &ObjectFact| address.0 - fact.start.0 < fact.length.0;
        before.map(|(_, id)| (*id, &self.facts[id.0])).find(|(_, fact)| holds(fact))
    }

    /// A fact by its number.
    pub fn get(&self, id: FactId) -> &ObjectFact {
        &self.facts[id.0]
    }

    /// Records a fact that held from `seen.0` to `seen.1` at least. An earlier fact about the same place
    /// ends.
    pub fn begin(
        &mut self,
        pid: Option<Pid>,
        found: &Found,
        state: Option<StateKey>,
        seen: (Timestamp, Timestamp),
    ) -> Option<FactId> {
        let process = pid.map_or(SHARED, |pid| pid.0);
        let path = self.path(found);
        let identity = (process, found.start, found.length.0, path, state);
        let place = (process, found.start);
        if let Some(id) = self.known.get(&identity).copied().filter(|id| self.live.get(&place) == Some(id)) {
            self.confirm(id, seen.1);
            return Some(id);
        }
        if self.facts.len() >= self.most {
            self.left_out += 1;
            return None;
        }
        let id = FactId(self.facts.len());
        self.facts.push(ObjectFact {
            pid,
            start: found.start,
            length: found.length,
            seen,
            state: identity.4.clone(),
            path,
            origin: found.origin,
        });
        self.known.insert(identity, id);
        self.live.insert(place, id);
        Some(id)
    }

    /// Records a past fact of one moment: a sample carried the evidence.
    pub fn note_past(&mut self, pid: Option<Pid>, found: &Found, state: StateKey, time: Timestamp) {
        let path = self.path(found);
        let identity = (pid.map_or(SHARED, |pid| pid.0), found.start, found.length.0, path, Some(state));
        if let Some(id) = self.known.get(&identity) {
            let seen = &mut self.facts[id.0].seen;
            // The state is the evidence; the time only distinguishes facts without it, and the span may have
            // gaps.
            *seen = (seen.0.min(time), seen.1.max(time));
            return;
        }
        if self.facts.len() >= self.most {
            self.left_out += 1;
            return;
        }
        let id = FactId(self.facts.len());
        let state = identity.4.clone();
        let (start, length, origin) = (found.start, found.length, found.origin);
        self.facts.push(ObjectFact { pid, start, length, seen: (time, time), state, path, origin });
        self.known.insert(identity, id);
    }

    /// The fact is still true.
    pub fn confirm(&mut self, id: FactId, now: Timestamp) {
        let seen = &mut self.facts[id.0].seen;
        seen.1 = seen.1.max(now);
    }

    /// The fact is true as long as its process or the server runs.
    pub fn make_lasting(&mut self, id: FactId) {
        self.lasting.insert(id);
    }

    /// A sample was taken in the fact's memory: a lasting fact was true then.
    pub fn touch(&mut self, id: FactId, time: Timestamp) {
        if self.lasting.contains(&id) {
            self.confirm(id, time);
        }
    }

    /// The fact no longer holds; the moment of the change is unknown.
    pub fn end(&mut self, id: FactId) {
        let fact = &self.facts[id.0];
        let place = (fact.pid.map_or(SHARED, |pid| pid.0), fact.start);
        if self.live.get(&place) == Some(&id) {
            self.live.remove(&place);
        }
    }

    /// The fact was true all the time, but its name was not known.
    pub fn rename(&mut self, id: FactId, class: &str, name: &str) {
        let path = ObjectPath {
            class: self.texts.number(class),
            name: self.texts.number(name),
            ..self.facts[id.0].path
        };
        self.facts[id.0].path = path;
    }

    /// Whether a fact has this class and name.
    pub fn is_of(&self, id: FactId, (class, name): (&str, &str)) -> bool {
        let path = &self.facts[id.0].path;
        self.texts.text(path.class) == class && self.texts.text(path.name) == name
    }

    /// Whether the object that was found equals that of a fact.
    pub fn says(&self, id: FactId, found: &Found) -> bool {
        let fact = &self.facts[id.0];
        let text = |number: TextId| Cow::Borrowed(self.texts.text(number));
        (fact.start, fact.length) == (found.start, found.length)
            && text(fact.path.class) == found.class
            && text(fact.path.name) == found.name
            && text(fact.path.instance) == found.instance
            && text(fact.path.part) == found.part
    }

    fn path(&mut self, found: &Found) -> ObjectPath {
        ObjectPath {
            class: self.texts.number(&found.class),
            name: self.texts.number(&found.name),
            instance: self.texts.number(&found.instance),
            part: self.texts.number(&found.part),
        }
    }

    /// The texts and the facts.
    pub fn into_inner(self) -> (Texts, Vec<ObjectFact>) {
        (self.texts, self.facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_samples::model::StateId;

    fn found(start: u64, length: u64, name: &'static str) -> Found {
        Found::new("table", VirtualAddress(start), length).named(name)
    }

    fn at(facts: &Facts, address: u64) -> Option<FactId> {
        facts.at(None, VirtualAddress(address)).map(|(id, _)| id)
    }

    #[test]
    fn a_stretch_is_looked_up_once_and_ends_when_another_takes_its_place() {
        let mut facts = Facts::new(10);
        let first =
            facts.begin(None, &found(100, 50, "a"), None, (Timestamp(5), Timestamp(7))).expect("room");
        assert_eq!((at(&facts, 149), at(&facts, 150), at(&facts, 99)), (Some(first), None, None));
        assert_eq!(facts.at(Some(Pid(4)), VirtualAddress(120)), None, "another process's memory");
        let again = facts.begin(None, &found(100, 50, "a"), None, (Timestamp(9), Timestamp(9)));
        assert_eq!((again, facts.get(first).seen), (Some(first), (Timestamp(5), Timestamp(9))));
        let second = facts.begin(None, &found(100, 50, "b"), None, (Timestamp(11), Timestamp(11)));
        assert_eq!(at(&facts, 120), second);
        facts.touch(second.expect("room"), Timestamp(15));
        assert_eq!(facts.get(second.expect("room")).seen.1, Timestamp(11), "it may have changed since");
        facts.make_lasting(second.expect("room"));
        facts.touch(second.expect("room"), Timestamp(15));
        assert_eq!(facts.get(second.expect("room")).seen.1, Timestamp(15));
        facts.confirm(second.expect("room"), Timestamp(20));
        facts.end(second.expect("room"));
        assert_eq!(at(&facts, 120), None);
        let (texts, all) = facts.into_inner();
        assert_eq!(all.iter().map(|fact| fact.seen.1 .0).collect::<Vec<_>>(), [9, 20]);
        assert_eq!(texts.into_inner(), ["", "table", "a", "b"]);
    }

    #[test]
    fn short_facts_inside_a_long_one_do_not_hide_it() {
        let mut facts = Facts::new(10);
        let seen = (Timestamp(1), Timestamp(1));
        let long = facts.begin(None, &found(1000, 500, "long"), None, seen);
        let short = facts.begin(None, &found(1100, 8, "short"), None, seen);
        assert_eq!((at(&facts, 1104), at(&facts, 1200)), (short, long));
    }

    #[test]
    fn the_past_is_noted_once_and_there_is_an_end_to_memory() {
        let mut facts = Facts::new(1);
        let state = StateKey { id: StateId(1), bytes: vec![1] };
        facts.note_past(None, &found(0, 8192, "old"), state.clone(), Timestamp(7));
        facts.note_past(None, &found(0, 8192, "old"), state, Timestamp(3));
        assert_eq!(at(&facts, 5), None);
        assert_eq!(facts.begin(None, &found(0, 1, "x"), None, (Timestamp(8), Timestamp(8))), None);
        assert_eq!(facts.left_out, 1);
        let (_, all) = facts.into_inner();
        assert_eq!((all.len(), all[0].seen), (1, (Timestamp(3), Timestamp(7))));
    }
}
