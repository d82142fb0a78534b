//! Texts with numbers; equal texts have the same number.

use hardmeter_samples::object_notes::TextId;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Texts by number; number 0 is the empty text.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    texts: Vec<Arc<str>>,
    numbers: FxHashMap<Arc<str>, TextId>,
}

impl Texts {
    /// A table with only the empty text.
    pub(super) fn new() -> Self {
        Texts { texts: vec!["".into()], numbers: FxHashMap::default() }
    }

    /// The number of a text, which is added if it is new.
    pub(super) fn number(&mut self, text: &str) -> TextId {
        if text.is_empty() {
            return TextId(0);
        }
        if let Some(id) = self.numbers.get(text) {
            return *id;
        }
        let id = TextId(u32::try_from(self.texts.len()).expect("memory ends before 2^32 texts"));
        let text: Arc<str> = text.into();
        self.texts.push(text.clone());
        self.numbers.insert(text, id);
        id
    }

    /// A text by its number, which must be of this table.
    pub(super) fn text(&self, id: TextId) -> &Arc<str> {
        &self.texts[id.0 as usize]
    }
}
