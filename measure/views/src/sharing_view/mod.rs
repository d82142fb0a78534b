//! `hardmeter sharing`: the cache lines that cores fight for, the worst ones access by access.

mod json;
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
    /// What the lines have in common, in sentences.
    pub fn sentences(&self) -> Vec<String> {
        sentences::of(&self.studied, self.total.misses)
    }
}
