//! `hardmeter sharing`: the contended cache lines, the worst ones access by access.

mod json;
mod movement;
mod page;
mod sentences;
mod text;

use crate::drawn::view_of;
use hardmeter_answers::SharingAnswer;

pub use text::SharingDetail;

view_of! {
    /// Everything that `hardmeter sharing` shows.
    SharingReport(SharingAnswer)
}

impl SharingReport {
    /// The common properties of the lines, in sentences.
    pub fn sentences(&self) -> Vec<String> {
        sentences::of(&self.studied, self.total.misses)
    }

    /// The sentences, or the reason why there are none: never empty.
    pub fn sentences_or_reason(&self) -> Vec<String> {
        match (self.sentences(), &self.missing[..]) {
            (sentences, []) if sentences.is_empty() => {
                vec![format!("{}; no object of them is known by name", self.summary())]
            }
            (sentences, missing) if sentences.is_empty() => missing.to_vec(),
            (sentences, _) => sentences,
        }
    }
}
