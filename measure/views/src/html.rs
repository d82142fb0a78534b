//! A view as a page: the common frame, with the conditions of the recording above the sections.

use crate::heading::HeadingText;
use crate::layout::Style;
use hardmeter_answers::Heading;
use hardmeter_evidence::page::{Page, Section};
use maud::html;

/// A complete page: conditions of the recording, then the sections.
pub fn page(title: &str, heading: &Heading, sections: Vec<Section>) -> String {
    let conditions = heading.render(Style::default(), &[]) + &heading.render_limits(Style::default());
    let lead = html! {
        h1 { (title) }
        details { summary { "How this was recorded" } pre { (conditions) } }
    };
    Page::new(title, sections).with_lead(lead).html()
}
