//! Names of a cube as the report groups them.

use crate::measures::Measure;
use hardmeter_answers::{CubeAnswer, CubeKey, CubeSum};
use std::collections::BTreeMap;

/// Classes that are pages of relations.
const RELATIONS: [&str; 2] = ["table", "index"];
/// Classes that name the origin of memory, not its content.
const UNSPECIFIC: [&str; 4] = ["heap", "anonymous memory", "shared memory", "unknown"];

/// The names in a cube.
pub(crate) struct Named<'a> {
    answer: &'a CubeAnswer,
}

impl<'a> Named<'a> {
    pub(crate) fn new(answer: &'a CubeAnswer) -> Named<'a> {
        Named { answer }
    }

    /// The rows.
    pub(crate) fn rows(&self) -> &'a [(CubeKey, CubeSum)] {
        &self.answer.cube.rows
    }

    /// Class and name of a row's object: the sums of its parts are added.
    pub(crate) fn object(&self, key: &CubeKey) -> Option<(&'a str, &'a str)> {
        let object = &self.answer.cube.objects[key.object? as usize];
        Some((&*object.class, &*object.name))
    }

    /// The part of a row's object.
    pub(crate) fn part(&self, key: &CubeKey) -> Option<&'a str> {
        let object = &self.answer.cube.objects[key.object? as usize];
        (!object.part.is_empty()).then_some(&*object.part)
    }

    /// The text of a row's statement.
    pub(crate) fn statement(&self, key: &CubeKey) -> Option<&'a str> {
        Some(&self.answer.statements[key.statement? as usize])
    }

    /// The routine in which a row's samples lie.
    pub(crate) fn routine(&self, key: &CubeKey) -> Option<&'a str> {
        let cube = &self.answer.cube;
        Some(&cube.frames[cube.paths[key.path? as usize].1 as usize].routine)
    }

    /// The names of rows by their cost; the largest first.
    pub(crate) fn ranked<T: Ord>(
        &self,
        measure: &Measure,
        wanted: impl Fn(&CubeKey) -> bool,
        name: impl Fn(&CubeKey) -> Option<T>,
    ) -> Vec<(T, u64)> {
        let mut sums: BTreeMap<T, u64> = BTreeMap::new();
        for (key, sum) in self.rows().iter().filter(|(key, _)| wanted(key)) {
            let value = measure.of(key.event, *sum);
            if let (Some(name), true) = (name(key), value > 0) {
                let total = sums.entry(name).or_default();
                *total = total.saturating_add(value);
            }
        }
        let mut ranked: Vec<(T, u64)> = sums.into_iter().collect();
        ranked.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        ranked
    }

    /// The relations whose pages cost most.
    pub(crate) fn relations(&self, measure: &Measure, limit: usize) -> Vec<String> {
        let relation = |key: &CubeKey| {
            let (class, name) = self.object(key)?;
            RELATIONS.contains(&class).then_some(name)
        };
        let ranked = self.ranked(measure, |_| true, relation);
        ranked.into_iter().take(limit).map(|(name, _)| name.to_string()).collect()
    }

    /// The routines with names that cost most.
    pub(crate) fn routines(&self, measure: &Measure, limit: usize) -> Vec<String> {
        let named = |key: &CubeKey| self.routine(key).filter(|name| !name.starts_with('['));
        let ranked = self.ranked(measure, |_| true, named);
        ranked.into_iter().take(limit).map(|(name, _)| name.to_string()).collect()
    }
}

/// True if an object's name describes its content, not only the owner of the memory.
pub(crate) fn is_specific(class: &str) -> bool {
    !UNSPECIFIC.contains(&class)
}
