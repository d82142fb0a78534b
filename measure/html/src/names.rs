//! Names of a cube as the report groups them.

use crate::measures::Measure;
use hardmeter_answers::{CubeAnswer, CubeKey, CubeSum};
use std::collections::BTreeMap;

/// Classes that are pages of relations.
const RELATIONS: [&str; 2] = ["table", "index"];
/// Classes that name the origin of memory, not its content.
const UNSPECIFIC: [&str; 4] = ["heap", "anonymous memory", "shared memory", "unknown"];

/// The part of a measure that rows of one name have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranked<T> {
    pub(crate) name: T,
    pub(crate) value: u64,
    pub(crate) samples: u64,
}

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

    /// The names of rows by their cost, with their samples; the largest cost first.
    pub(crate) fn ranked<T: Ord>(
        &self,
        measure: &Measure,
        wanted: impl Fn(&CubeKey) -> bool,
        name: impl Fn(&CubeKey) -> Option<T>,
    ) -> Vec<Ranked<T>> {
        let mut sums: BTreeMap<T, (u64, u64)> = BTreeMap::new();
        for (key, sum) in self.rows().iter().filter(|(key, _)| wanted(key)) {
            let value = measure.of(key.event, *sum);
            if let (Some(name), true) = (name(key), value > 0) {
                let total = sums.entry(name).or_default();
                *total = (total.0.saturating_add(value), total.1 + sum.samples);
            }
        }
        let ranked = |(name, (value, samples))| Ranked { name, value, samples };
        let mut ranked: Vec<Ranked<T>> = sums.into_iter().map(ranked).collect();
        ranked.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.name.cmp(&b.name)));
        ranked
    }

    /// The relations whose pages cost most.
    pub(crate) fn relations(&self, measure: &Measure, limit: usize) -> Vec<String> {
        let relation = |key: &CubeKey| {
            let (class, name) = self.object(key)?;
            RELATIONS.contains(&class).then_some(name)
        };
        let ranked = self.ranked(measure, |_| true, relation);
        ranked.into_iter().take(limit).map(|row| row.name.to_string()).collect()
    }

    /// The routines with names that cost most.
    pub(crate) fn routines(&self, measure: &Measure, limit: usize) -> Vec<String> {
        let named = |key: &CubeKey| self.routine(key).filter(|name| !name.starts_with('['));
        let ranked = self.ranked(measure, |_| true, named);
        ranked.into_iter().take(limit).map(|row| row.name.to_string()).collect()
    }
}

/// True if an object's name describes its content, not only the owner of the memory.
pub(crate) fn is_specific(class: &str) -> bool {
    !UNSPECIFIC.contains(&class)
}
