//! The first screen of a view: the recording, the main findings, the first rows of each table, limits, and the next
//! commands, on at most [`LINES`] lines and never wider than the terminal.
//!
//! ```text
//!  head       one line: the capture
//!  findings   sentences, strongest first; then one on what else costs much
//!  blocks     a table each: as many rows as there are lines left, shared out evenly
//!  closing    one line of warnings and limits, one or two lines of commands
//! ```

use crate::heading::HeadingText;
use crate::layout::{one_line, wrap, Style, TextTable, Tone};
use crate::number::{counted, percent};
use hardmeter_answers::{Heading, Remark, Share};
use unicode_width::UnicodeWidthStr;

/// Lines of a first screen, at most.
pub const LINES: usize = 40;
/// Columns where there is no terminal.
pub const COLUMNS: usize = 100;
/// Lines of sentences where tables follow them.
const FINDINGS: usize = 14;
/// Maximum number of lines on large costs other than findings.
const BESIDES: usize = 5;
/// A table with fewer rows is left to `--full`, where there are others.
const LEAST_ROWS: usize = 3;
/// Maximum warnings on the screen; `--full` shows all.
const NOTES: usize = 2;
/// Lines of a table's title.
const TITLE: usize = 3;

/// Differences of a first screen from the view's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Results only: no heading, limits or next commands.
    pub quiet: bool,
    /// The user gave a number of rows: show them, whatever the length.
    pub all_rows: bool,
    /// The user chose the columns: leave none out.
    pub all_columns: bool,
}

impl Wanted {
    /// The defaults, except that the number of rows may have been `asked` for.
    pub fn rows(asked: bool) -> Wanted {
        Wanted { all_rows: asked, ..Wanted::default() }
    }
}

/// A part of the screen: a title, preformatted lines, and a table.
pub(crate) struct Block {
    title: (String, String),
    drawn: Vec<String>,
    table: Option<TextTable>,
    /// The samples of each row of the table.
    counts: Vec<u64>,
    total: u64,
    /// Rows that are not in the table, and their samples.
    more: (u64, u64),
    /// The noun for the counts.
    noun: &'static str,
}

impl Block {
    /// A table, with the samples of each of its rows.
    pub(crate) fn new(title: impl Into<String>, about: impl Into<String>, table: TextTable) -> Block {
        Block {
            title: (title.into(), about.into()),
            drawn: Vec::new(),
            table: Some(table.sparing()),
            counts: Vec::new(),
            total: 0,
            more: (0, 0),
            noun: "sample",
        }
    }

    /// Lines under a title, without a table.
    pub(crate) fn lines(title: impl Into<String>, about: impl Into<String>, drawn: Vec<String>) -> Block {
        Block { drawn, table: None, ..Block::new(title, about, TextTable::new([])) }
    }

    /// Sets the counts: samples of each row, of all rows together, and of rows beyond the table.
    pub(crate) fn of(self, counts: Vec<u64>, total: u64, more: (u64, u64)) -> Block {
        Block { counts, total, more, ..self }
    }

    /// The same with all columns of the table, however narrow the terminal is.
    pub(crate) fn with_table(self, table: TextTable) -> Block {
        Block { table: Some(table), ..self }
    }

    /// Sets the noun for the counts, if they are not samples.
    pub(crate) fn counting(self, noun: &'static str) -> Block {
        Block { noun, ..self }
    }

    /// Lines between the title and the table.
    pub(crate) fn drawn(self, drawn: Vec<String>) -> Block {
        Block { drawn, ..self }
    }

    fn rows(&self) -> usize {
        self.table.as_ref().map_or(0, TextTable::len)
    }

    /// The title and its details, on at most [`TITLE`] lines.
    fn title(&self, style: Style) -> String {
        let (title, about) = &self.title;
        let text = match about.is_empty() {
            true => title.clone(),
            false => format!("{title}: {about}"),
        };
        let text = wrap(&text, style, 2);
        let mut lines: Vec<&str> = text.lines().take(TITLE).collect();
        let last = format!("{} …", lines.last().copied().unwrap_or_default());
        let last = one_line_indented(&last, style.width.unwrap_or(COLUMNS));
        if text.lines().count() > TITLE {
            lines[TITLE - 1] = last.as_str();
        }
        let text = lines.join("\n");
        match text.strip_prefix(title.as_str()) {
            Some(rest) => style.paint(Tone::Title, title) + rest,
            None => text,
        }
    }

    /// Lines besides the rows: blank, title, drawing, titles of columns, omitted rows.
    fn frame(&self, style: Style) -> usize {
        1 + self.title(style).lines().count() + self.drawn.len() + if self.rows() > 0 { 2 } else { 0 }
    }

    fn text(&self, rows: usize, style: Style) -> String {
        let mut text = self.title(style) + "\n";
        text.extend(self.drawn.iter().map(|line| format!("{line}\n")));
        let Some(table) = self.table.as_ref().filter(|table| !table.is_empty()) else { return text };
        let mut table = table.clone();
        table.truncate(rows);
        text.push_str(&table.render(style, 2));
        let hidden = self.more.0 + (self.rows() - table.len()) as u64;
        if hidden > 0 {
            let samples = self.more.1 + self.counts.iter().skip(rows).sum::<u64>();
            let mut rest = format!("and {}", counted(hidden, "more row"));
            if samples > 0 {
                let share = percent(Share { count: samples, total: self.total });
                rest.push_str(&format!(" with {} ({share})", counted(samples, self.noun)));
            }
            text.push_str(&format!("  {}\n", style.paint(Tone::Faint, &format!("{rest}: --all"))));
        }
        text
    }
}

/// A first screen under construction.
pub(crate) struct Screen<'h> {
    heading: &'h Heading,
    style: Style,
    wanted: Wanted,
    about: Vec<String>,
    findings: Vec<String>,
    besides: Vec<String>,
    blocks: Vec<Block>,
    remarks: &'h [Remark],
    limits: bool,
    next: Vec<String>,
}

impl<'h> Screen<'h> {
    /// The first screen of a view of a capture.
    pub(crate) fn new(heading: &'h Heading, style: Style, wanted: Wanted) -> Self {
        let style = Style { width: Some(style.width.unwrap_or(COLUMNS)), ..style };
        let (about, findings, besides, blocks, next) = Default::default();
        Screen { heading, style, wanted, about, findings, besides, blocks, remarks: &[], limits: true, next }
    }

    /// The style, with the width that the screen has in any case.
    pub(crate) fn style(&self) -> Style {
        self.style
    }

    /// Adds a fact to the line on the capture.
    pub(crate) fn about(&mut self, fact: impl IntoIterator<Item = String>) {
        self.about.extend(fact);
    }

    /// Adds sentences, the strongest first.
    pub(crate) fn findings(&mut self, sentences: Vec<String>) {
        self.findings.extend(sentences);
    }

    /// Adds a sentence that is shown below the findings, however many there are.
    pub(crate) fn besides(&mut self, sentence: Option<String>) {
        self.besides.extend(sentence);
    }

    /// Adds a table.
    pub(crate) fn block(&mut self, block: Block) {
        self.blocks.push(block);
    }

    /// Adds the view's warnings.
    pub(crate) fn remarks(&mut self, remarks: &'h [Remark]) {
        self.remarks = remarks;
    }

    /// Leaves out the line of limits: the view itself shows them.
    pub(crate) fn without_limits(&mut self) {
        self.limits = false;
    }

    /// Adds a suggested next command, without the name of the capture.
    pub(crate) fn next(&mut self, command: impl Into<String>) {
        self.next.push(command.into());
    }

    /// The screen as text.
    pub(crate) fn text(self) -> String {
        let mut parts: Vec<String> = Vec::new();
        let closing = if self.wanted.quiet { String::new() } else { self.closing() };
        if !self.wanted.quiet {
            parts.push(self.head());
        }
        let mut left = LINES.saturating_sub(closing.lines().count() + 1 + 2 * parts.len());
        let mut findings = String::new();
        let most = if self.blocks.is_empty() { left } else { FINDINGS };
        for sentence in &self.findings {
            let sentence = sentences_text(std::slice::from_ref(sentence), self.style);
            if findings.lines().count() + sentence.lines().count() > most {
                break;
            }
            findings.push_str(&sentence);
        }
        findings.extend(self.besides.iter().map(|sentence| self.cut_sentence(sentence)));
        if !findings.is_empty() {
            left = left.saturating_sub(findings.lines().count() + 1);
            parts.push(findings);
        }
        parts.extend(self.blocks_text(left));
        parts.extend((!closing.is_empty()).then_some(closing));
        parts.join("\n")
    }

    /// A sentence on at most [`BESIDES`] lines.
    fn cut_sentence(&self, sentence: &str) -> String {
        let text = sentences_text(&[sentence.to_string()], self.style);
        let mut lines: Vec<&str> = text.lines().take(BESIDES).collect();
        let last = format!("{} …", lines.last().copied().unwrap_or_default());
        let last = one_line_indented(&last, self.width());
        if text.lines().count() > BESIDES {
            lines[BESIDES - 1] = last.as_str();
        }
        lines.join("\n") + "\n"
    }

    /// The blocks that fit on this number of lines, each with a proportional number of its rows.
    fn blocks_text(&self, lines: usize) -> Vec<String> {
        if self.wanted.all_rows {
            return self.blocks.iter().map(|block| block.text(usize::MAX, self.style)).collect();
        }
        let least = |block: &Block| block.frame(self.style) + block.rows().min(LEAST_ROWS);
        let all: usize = self.blocks.iter().map(least).sum();
        let lines = if all <= lines { lines } else { lines.saturating_sub(2) };
        let mut used = 0;
        let fitting = self.blocks.iter().take_while(|block| {
            used += least(block);
            used <= lines
        });
        // The first is shown in any case, with what rows there is space for.
        let shown = &self.blocks[..fitting.count().max(1).min(self.blocks.len())];
        let mut left = lines.saturating_sub(shown.iter().map(|block| block.frame(self.style)).sum());
        let mut rows = vec![0; shown.len()];
        loop {
            let open = |index: &usize| rows[*index] < shown[*index].rows();
            let Some(next) = (0..shown.len()).filter(open).min_by_key(|index| rows[*index]) else { break };
            if left == 0 {
                break;
            }
            rows[next] += 1;
            left -= 1;
        }
        let mut parts: Vec<String> =
            shown.iter().zip(rows).map(|(block, rows)| block.text(rows.max(1), self.style)).collect();
        let rest: Vec<&str> = self.blocks[shown.len()..].iter().map(|block| block.title.0.as_str()).collect();
        if !rest.is_empty() {
            let rest = format!("and {}: --full", rest.join(", "));
            parts.push(self.style.paint(Tone::Faint, &one_line(&rest, self.width())) + "\n");
        }
        parts
    }

    fn width(&self) -> usize {
        self.style.width.unwrap_or(COLUMNS)
    }

    /// `hardmeter.data: simulated; 19,629 samples of 14 processes in 300 ms; pgbench -n -c 10 -t 150`
    fn head(&self) -> String {
        let line = one_line(&self.heading.in_short(&self.about), self.width());
        match line.split_once(": ") {
            Some((file, rest)) => format!("{}: {rest}\n", self.style.paint(Tone::Title, file)),
            None => line + "\n",
        }
    }

    /// Notes and limits, a line each, then what to type next.
    fn closing(&self) -> String {
        let file = match self.heading.file.as_str() {
            "hardmeter.data" => String::new(),
            file => format!(" -i {file}"),
        };
        let mut about: Vec<String> = Vec::new();
        if self.limits {
            about.extend(self.remarks.iter().filter_map(note).take(NOTES));
            about.extend(limits_line(self.heading, self.remarks, &file));
        }
        let width = self.width();
        let faint = |line: &String| self.style.paint(Tone::Faint, &one_line(line, width)) + "\n";
        let mut text: String = about.iter().map(faint).collect();
        let commands = self.next.iter().map(|command| format!("hardmeter {command}{file}"));
        let mut lines = vec![String::from("next: --full")];
        for command in commands {
            let fits =
                |line: &String, sign: &str| line.width() + sign.len() + command.width() <= self.width();
            let last = lines.last_mut().expect("one line at least");
            if fits(last, " | ") {
                last.push_str(&format!(" | {command}"));
            } else if lines.len() < 2 {
                lines.push(one_line_indented(&format!("    | {command}"), self.width()));
            }
        }
        text.extend(lines.iter().map(|line| format!("{line}\n")));
        text
    }
}

/// [`one_line`], but keeps the indentation.
fn one_line_indented(line: &str, width: usize) -> String {
    let indent = line.len() - line.trim_start().len();
    " ".repeat(indent) + &one_line(line, width.saturating_sub(indent))
}

/// A warning of the view, unless the line of limits counts it.
fn note(remark: &Remark) -> Option<String> {
    let counted = matches!(remark, Remark::Names { .. } | Remark::Nameless { .. } | Remark::Lost { .. });
    (!counted).then(|| format!("note: {remark}"))
}

/// `limits (hardmeter report --quality): 27.40 % of samples in nameless functions, 8 limits of the source`
fn limits_line(heading: &Heading, remarks: &[Remark], file: &str) -> Option<String> {
    let mut parts = Vec::new();
    let lost = heading.lost_samples + heading.lost_records;
    if lost > 0 {
        parts.push(format!("{} lost", counted(lost, "record")));
    }
    parts.extend(remarks.iter().find_map(|remark| match remark {
        Remark::Nameless { nameless } => {
            Some(format!("{} of samples in nameless functions", percent(*nameless)))
        }
        _ => None,
    }));
    let nameless = remarks.iter().any(|remark| matches!(remark, Remark::Names { .. }));
    parts.extend(nameless.then(|| "names are missing".to_string()));
    if !heading.limits.is_empty() {
        parts.push(format!("{} of the source", counted(heading.limits.len() as u64, "limit")));
    }
    (!parts.is_empty()).then(|| format!("limits (hardmeter report --quality{file}): {}", parts.join(", ")))
}

/// Sentences as a list, one below the other.
pub fn sentences_text(sentences: &[String], style: Style) -> String {
    sentences.iter().map(|sentence| format!("* {}\n", wrap(sentence, style, 2))).collect()
}
