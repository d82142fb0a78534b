//! A page: one self-contained HTML file. Its content security policy forbids all network access, so that it
//! works from mail and archives. Every page of the command has this frame and this style sheet.
//!
//! ```text
//!   Page { title, lead, sections } ── html() ──> <head> policy, style </head>
//!                                                 title, lead, links to the sections, sections, script if there is one
//! ```
//!
//! # Invariants
//!
//! 1. Text enters a page through `maud`'s macro, which escapes it. The only text that is not escaped is the
//!    style sheet and a [`Script`], both of which are compiled into the program; a script's data is JSON
//!    without `<`.
//! 2. A page without a script forbids all scripts. A page with a script allows only that one, by its hash.
//! 3. Control characters of foreign names are replaced by the caller.
//!
//! ```
//! use hardmeter_evidence::page::{table, Page, Section};
//!
//! let names = table(&["n".into(), "name".into()], &[vec!["1".into(), "<b>".into()]], 1);
//! let page = Page::new("Misses", vec![Section::new("names", "Names", names)]);
//! assert!(page.html().contains("<td>&lt;b&gt;</td>"));
//! ```

mod parts;

pub use parts::{bar, heat_map, table, Bar, HeatCell};

use maud::{html, Markup, PreEscaped, DOCTYPE};

const STYLE: &str = include_str!("page.css");

/// A section of a page.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its id in the page's links: letters, digits, hyphens.
    pub id: String,
    /// Its title; may be empty.
    pub title: String,
    /// Its content.
    pub body: Markup,
}

impl Section {
    /// A section with its name in links, its title and its content.
    pub fn new(id: impl Into<String>, title: impl Into<String>, body: Markup) -> Section {
        Section { id: id.into(), title: title.into(), body }
    }

    /// Contents between two sections, without a title and a link: controls for the sections after it.
    pub fn untitled(id: impl Into<String>, body: Markup) -> Section {
        Section { id: id.into(), title: String::new(), body }
    }

    fn is_titled(&self) -> bool {
        !self.title.is_empty()
    }
}

/// The script of a page, compiled into the program, and the data that it reads.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// The program text. It must not contain `</script`.
    pub code: &'static str,
    /// The base64 of the SHA-256 of `code`: the page's policy allows only this script.
    pub sha256: &'a str,
    /// JSON for the element of id `data`.
    pub data: &'a str,
}

/// A whole page.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    title: &'a str,
    lead: Markup,
    sections: Vec<Section>,
    style: &'static str,
    script: Option<Script<'a>>,
}

impl<'a> Page<'a> {
    /// A page of sections.
    pub fn new(title: &'a str, sections: Vec<Section>) -> Page<'a> {
        let lead = html! { h1 { (title) } };
        Page { title, lead, sections, style: "", script: None }
    }

    /// Sets the content above the sections, which replaces the title.
    pub fn with_lead(mut self, lead: Markup) -> Page<'a> {
        self.lead = lead;
        self
    }

    /// Rules for elements that only this page has, after those of the common style sheet.
    pub fn with_style(mut self, style: &'static str) -> Page<'a> {
        self.style = style;
        self
    }

    /// A script at the end of the page.
    pub fn with_script(mut self, script: Script<'a>) -> Page<'a> {
        self.script = Some(script);
        self
    }

    /// The file's text.
    pub fn html(&self) -> String {
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(self.policy());
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="generator" content={ "hardmeter " (env!("CARGO_PKG_VERSION")) };
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) (PreEscaped(self.style)) }
                }
                body {
                    a.skip href="#content" { "Skip to the content" }
                    header { (self.lead) (self.links()) }
                    main #content tabindex="-1" {
                        @for section in &self.sections {
                            @if section.is_titled() {
                                section id=(section.id) aria-labelledby={ (section.id) "-title" } {
                                    h2 id={ (section.id) "-title" } { (section.title) }
                                    (section.body)
                                }
                            } @else {
                                div id=(section.id) { (section.body) }
                            }
                        }
                    }
                    @if let Some(script) = &self.script {
                        script type="application/json" id="data" { (PreEscaped(script.data.replace('<', "\\u003c"))) }
                        script { (PreEscaped(script.code)) }
                    }
                }
            }
        };
        markup.into_string()
    }

    /// Links to the sections, if there is more than one.
    fn links(&self) -> Markup {
        let titled: Vec<&Section> = self.sections.iter().filter(|section| section.is_titled()).collect();
        html! {
            @if titled.len() > 1 {
                nav aria-label="Sections" { ul {
                    @for section in titled { li { a href={ "#" (section.id) } { (section.title) } } }
                } }
            }
        }
    }

    fn policy(&self) -> String {
        let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
        match &self.script {
            Some(script) => format!("{policy}; script-src 'sha256-{}'", script.sha256),
            None => policy.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(title: &str) -> Page<'_> {
        Page::new(title, vec![Section::new("first", "A & B", html! { p { "text" } })])
    }

    #[test]
    fn titles_are_escaped_and_sections_are_labelled() {
        let text = page("<script>").html();
        assert!(text.contains("<title>&lt;script&gt;</title>"), "{text}");
        assert!(text.contains("<section id=\"first\" aria-labelledby=\"first-title\">"), "{text}");
        assert!(text.contains("<h2 id=\"first-title\">A &amp; B</h2>"), "{text}");
        assert!(!text.contains("<nav"), "one section needs no links: {text}");
        let tools = Section::untitled("tools", html! { "a b" });
        let text =
            Page::new("t", vec![tools, Section::new("x", "X", html! {}), Section::new("y", "Y", html! {})])
                .html();
        assert!(text.contains("<div id=\"tools\">a b</div>") && !text.contains("href=\"#tools\""), "{text}");
        assert!(text.contains("<a href=\"#x\">X</a>"), "{text}");
    }

    #[test]
    fn a_page_without_a_script_forbids_scripts() {
        let text = page("plain").html();
        assert!(text.contains("default-src 'none'") && !text.contains("script-src"), "{text}");
        assert!(!text.contains("<script"), "{text}");
    }

    #[test]
    fn a_script_is_allowed_by_its_hash_and_its_data_cannot_end_it() {
        let data = r#"{"name":"</script><script>alert(1)</script>"}"#;
        let script = Script { code: "\"use strict\";", sha256: "abc=", data };
        let text = page("drawn").with_script(script).html();
        assert!(text.contains("script-src 'sha256-abc='"), "{text}");
        assert!(
            text.contains("{\"name\":\"\\u003c/script>\\u003cscript>alert(1)\\u003c/script>\"}"),
            "{text}"
        );
        assert_eq!(text.matches("<script").count(), 2, "{text}");
    }

    #[test]
    fn the_style_sheet_fetches_nothing() {
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
