//! The role of code in a server's work: operators of plans, phases of transactions.

use super::range_tree::{Range, RangeTree};
use super::ObjectIndex;
use crate::code::ImageAddress;
use hardmeter_samples::object_notes::{CodeMark, CodeMarkKind, ObjectNotes, TextId};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Marked code, by image and address in the image's own numbering.
#[derive(Clone, Debug, Default)]
pub struct CodeMarks {
    images: FxHashMap<Arc<str>, [RangeTree; 2]>,
    /// Length and name of each mark.
    marks: Vec<(u64, Arc<str>)>,
}

impl CodeMarks {
    /// The marks of a side file.
    pub fn new(notes: Option<&ObjectNotes>) -> Self {
        let mut marks = CodeMarks::default();
        let Some(notes) = notes else { return marks };
        let mut images: FxHashMap<Arc<str>, [Vec<Range>; 2]> = FxHashMap::default();
        for CodeMark { image, start, end, kind, name } in &notes.marks {
            if end <= start {
                continue;
            }
            let ranges = images.entry(notes.text(*image).into()).or_default();
            ranges[*kind as usize].push((*start, *end, marks.marks.len() as u32));
            marks.marks.push((end - start, notes.text(*name).into()));
        }
        marks.images =
            images.into_iter().map(|(image, ranges)| (image, ranges.map(RangeTree::new))).collect();
        marks
    }

    /// True if no code is marked.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// The operator and the phase at an address, in the numbering of `index`.
    pub(crate) fn at(
        &self,
        image: &str,
        address: ImageAddress,
        index: &mut ObjectIndex,
    ) -> (Option<TextId>, Option<TextId>) {
        let Some(trees) = self.images.get(image) else { return (None, None) };
        let mut name = |kind: CodeMarkKind| {
            let mut found = Vec::new();
            trees[kind as usize].containing(address.0, &mut found);
            let marks = found.into_iter().map(|number| &self.marks[number as usize]);
            let (_, name) = marks.min_by_key(|(length, _)| *length)?;
            Some(index.number(name))
        };
        (name(CodeMarkKind::Operator), name(CodeMarkKind::Phase))
    }
}
