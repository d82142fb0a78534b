//! The answer on a terminal.

use super::heat::{self, Cell};
use super::{explain, remedy, sentences, wording, WhyReport};
use crate::advice;
use crate::layout::{printable, wrap, Column, Cut, Style, TextTable, Tone};
use crate::number::{counted, grouped, percent, percent_interval};
use crate::rows::{append_sentences, only, Frame};
use crate::screen::{Block, Screen, Wanted};
use hardmeter_answers::why::{
    Cause, CauseAnswer, EventAnswer, EventKind, How, MissRatioCurve, Score, SetMap, SetsUnknown,
};
use hardmeter_answers::Share;
use hardmeter_samples::sidecar::PageWalks;
use std::fmt::Write;

/// A cause below this share has no paragraph of its own.
const LEAST_SHARE: f64 = 0.01;
/// Sets that stand out, as listed on a terminal.
const SETS_LISTED: usize = 5;
/// Lines of such a set.
const LINES_LISTED: usize = 10;
/// Columns of the longest bar.
const BAR: usize = 40;

impl WhyReport {
    /// The results in sentences.
    pub fn sentences(&self) -> Vec<String> {
        sentences::of(self)
    }

    /// The report as text; `answers_only` leaves out the heading and the warnings.
    pub fn render(&self, style: Style, answers_only: bool) -> String {
        let frame =
            Frame { heading: &self.heading, remarks: &self.remarks, style, tables_only: answers_only };
        let mut facts = only(self.filter.as_ref());
        facts.push(("geometry", explain::origin(self.hierarchy.as_ref()).to_string()));
        frame.around(&facts, |text| {
            append_sentences(&sentences::of(self), style, text);
            for answer in &self.events {
                self.render_event(answer, style, text);
            }
            if let Some(curve) = &self.reuse {
                render_reuse(curve, sentences::conflicts_of_l2(self), style, text);
            }
            if let Some(walks) = self.page_walks {
                render_walks(walks, style, text);
            }
        })
    }

    /// The first screen: each event's strongest cause in a sentence with its remedy, then all causes in a table.
    pub fn screen(&self, style: Style, wanted: Wanted) -> String {
        let mut screen = Screen::new(&self.heading, style, wanted);
        screen.about(self.filter.iter().map(|filter| format!("only {filter}")));
        screen.findings(self.findings());
        for answer in &self.events {
            let block = match answer.causes.is_empty() {
                true => Block::new(self.event_name(answer), title(answer), places_and_objects(answer)),
                false => Block::new(self.event_name(answer), title(answer), self.causes_grid(answer)).of(
                    answer.causes.iter().map(|cause| cause.share.count).collect(),
                    answer.misses,
                    (0, 0),
                ),
            };
            screen.block(block);
        }
        screen.remarks(&self.remarks);
        let shared = |cause: &CauseAnswer| {
            matches!(cause.cause, Cause::TrueSharing | Cause::FalseSharing | Cause::Coherence)
        };
        if self.events.iter().any(|answer| answer.causes.iter().any(shared)) {
            screen.next("sharing");
        }
        ["objects", "queries"].into_iter().for_each(|command| screen.next(command));
        screen.text()
    }

    /// The strongest cause of each event with its remedy, then what sizes and pages would do.
    fn findings(&self) -> Vec<String> {
        let strongest = |answer: &EventAnswer| {
            let cause = answer.causes.first().filter(|cause| cause.cause != Cause::Unknown)?;
            let routine = cause.places.first().map(|place| place.routine.as_str());
            // On the first screen what an administrator can do comes first; `--full` has the remedy in the code.
            let remedy = match routine.and_then(advice::on_routine) {
                Some(advice) => format!("{advice}; --full says what helps in the code"),
                None => remedy::of_cause(answer, cause, self.geometry_of(answer)),
            };
            Some(format!("{}. Helps: {remedy}", sentences::of_cause(self, answer, cause)))
        };
        let of_machine = sentences::of_sizes(self).into_iter().chain(sentences::of_huge_pages(self));
        self.events.iter().filter_map(strongest).chain(of_machine).collect()
    }

    fn causes_grid(&self, answer: &EventAnswer) -> TextTable {
        let mut grid = TextTable::new(cause_columns(answer));
        for cause in &answer.causes {
            let mut row = cause_figures(answer, cause);
            let object = cause.objects.first().map_or("-".to_string(), |object| printable(&object.name));
            let place = cause.places.first().map_or("-".to_string(), wording::place_text);
            let statement = cause.statements.first().map(|(hash, _)| self.statement(*hash));
            let names = [object, place, statement.unwrap_or_else(|| "-".to_string())];
            row.extend(names.map(|name| (name, Tone::Plain)));
            grid.row(row);
        }
        grid
    }

    fn render_event(&self, answer: &EventAnswer, style: Style, text: &mut String) {
        if !text.is_empty() {
            text.push('\n');
        }
        let name = printable(self.event_name(answer));
        let head = wrap(&format!("{name}: {}", title(answer)), style, 2);
        let _ = match head.strip_prefix(name.as_str()) {
            Some(rest) => writeln!(text, "{}{rest}", style.paint(Tone::Title, &name)),
            None => writeln!(text, "{head}"),
        };
        for missing in &answer.missing {
            paragraph(style, text, "missing", &explain::missing(*missing));
        }
        if !answer.causes.is_empty() {
            render_causes(answer, style, text);
            for cause in answer.causes.iter().filter(|cause| cause.share.fraction() >= LEAST_SHARE) {
                self.render_cause(answer, cause, style, text);
            }
        }
        if !answer.places.is_empty() {
            let parts = answer.places.iter().map(|place| (wording::place_text(place), place.count));
            list(style, text, "where", parts, answer.misses);
        }
        if !answer.objects.is_empty() {
            let parts = answer.objects.iter().map(|object| (printable(&object.name), object.count));
            list(style, text, "on", parts, answer.misses);
        }
        if answer.kind == EventKind::TlbMiss {
            paragraph(style, text, "remedy", remedy::of_tlb());
        }
        match &answer.sets {
            Ok(map) => render_sets(map, style, text),
            Err(SetsUnknown::NoLevel) => {}
            Err(reason) => {
                let _ = writeln!(
                    text,
                    "\n  {}",
                    wrap(&explain::sets_unknown(*reason, answer.kind.level()), style, 2)
                );
            }
        }
        if let Some(score) = &answer.score {
            render_score(score, style, text);
        }
    }

    fn render_cause(&self, answer: &EventAnswer, cause: &CauseAnswer, style: Style, text: &mut String) {
        let head = format!("{}: {}", cause.cause.name(), explain::how(answer.how, cause));
        let _ = writeln!(text, "\n  {}", style.paint(Tone::Title, &wrap(&head, style, 2)));
        let of = cause.share.count;
        let places = cause.places.iter().map(|place| (wording::place_text(place), place.count));
        list(style, text, "where", places, of);
        let objects = cause.objects.iter().map(|object| (printable(&object.name), object.count));
        list(style, text, "on", objects, of);
        if let Some(start) = super::pattern::cold_start_sentence(cause) {
            paragraph(style, text, "when", &start);
        }
        if let Some(pattern) = super::pattern::sentence(cause) {
            paragraph(style, text, "pattern", &pattern);
        }
        let statements =
            cause.statements.iter().map(|(hash, count)| (sentences::cut(&self.statement(*hash)), *count));
        list(style, text, "statement", statements, of);
        paragraph(style, text, "remedy", &remedy::of_cause(answer, cause, self.geometry_of(answer)));
    }
}

/// A table of the places and the objects of an event without causes, side by side.
fn places_and_objects(answer: &EventAnswer) -> TextTable {
    let share = || Column::right(format!("of {}", grouped(answer.misses)));
    let text = |title: &str| Column::left(title).cut(Cut::KeepDifference).at_least(24);
    let mut grid = TextTable::new([share(), text("in"), share(), text("on")]);
    let percent = |count| percent(Share { count, total: answer.misses });
    for index in 0..answer.places.len().max(answer.objects.len()) {
        let place = answer.places.get(index).map(|place| (percent(place.count), wording::place_text(place)));
        let object = answer.objects.get(index).map(|object| (percent(object.count), printable(&object.name)));
        let (place, object) = (place.unwrap_or_default(), object.unwrap_or_default());
        grid.plain([place.0, place.1, object.0, object.1]);
    }
    grid
}

fn title(answer: &EventAnswer) -> String {
    let n = counted(answer.samples, "sample");
    let tlb = || match answer.walked.total {
        0 => String::new(),
        total => format!(
            "; {} of {} with a known translation walked the page table ({})",
            grouped(answer.walked.count),
            grouped(total),
            percent(answer.walked)
        ),
    };
    match (answer.how, answer.kind) {
        (_, EventKind::Invalidation) => {
            format!("n = {n}; stores that take lines away from other cores: `hardmeter sharing` shows them")
        }
        (_, EventKind::Stall) => format!(
            "n = {n} of time at loads; whether a load missed or only had the latency of a hit, and why it missed, \
             samples of time cannot tell: see where and on what, then hold it against --source simulated"
        ),
        (_, EventKind::OtherTime) => {
            format!("n = {n} of CPU time that was not spent right behind a load: nothing to explain here")
        }
        (_, EventKind::Other) => format!(
            "n = {n}; no memory event: samples carry no data address and no data source, so there is no miss to \
             explain; record one with hardmeter record -e l1d-miss,l2-miss (hardmeter doctor says what this machine \
             has), or perf mem record"
        ),
        (How::None, _) => format!("n = {n}{}", tlb()),
        (how, kind) => {
            let misses = match kind {
                EventKind::Accesses => {
                    format!(" of accesses, {} not served by the first level", grouped(answer.misses))
                }
                _ => String::new(),
            };
            let how = if how == How::Exact { "exact (simulated)" } else { "inferred from samples" };
            format!("n = {n}{misses}, causes {how}{}", tlb())
        }
    }
}

fn render_causes(answer: &EventAnswer, style: Style, text: &mut String) {
    let mut columns = cause_columns(answer);
    columns.truncate(if answer.how == How::Inferred { 5 } else { 4 });
    let mut grid = TextTable::new(columns);
    answer.causes.iter().for_each(|cause| grid.row(cause_figures(answer, cause)));
    text.push_str(&grid.render(style, 2));
}

/// A cause's name and figures, then its objects, places and statements, which only the first screen shows in columns.
fn cause_columns(answer: &EventAnswer) -> Vec<Column> {
    let mut columns = vec![
        Column::left("cause"),
        Column::right("count"),
        Column::right(format!("of {}", grouped(answer.misses))),
        Column::right("interval").spare(3),
    ];
    columns.extend((answer.how == How::Inferred).then(|| Column::right("p").spare(1)));
    columns.extend(
        ["most on", "most in"].map(|title| Column::left(title).cut(Cut::KeepDifference).at_least(30)),
    );
    columns.push(Column::left("most for").cut(Cut::KeepDifference).at_least(30).spare(2));
    columns
}

fn cause_figures(answer: &EventAnswer, cause: &CauseAnswer) -> Vec<(String, Tone)> {
    let tone = Tone::of_fraction(cause.share.fraction());
    let mut row = vec![
        (cause.cause.name().to_string(), Tone::Plain),
        (grouped(cause.share.count), tone),
        (percent(cause.share), tone),
        (percent_interval(cause.share), Tone::Faint),
    ];
    let p = || cause.p.map_or_else(|| "-".into(), explain::at_most);
    row.extend((answer.how == How::Inferred).then(|| (p(), Tone::Plain)));
    row
}

/// `where     LWLockRelease (lwlock.c:1796) 40.12 %, ...`
fn list(style: Style, text: &mut String, title: &str, parts: impl Iterator<Item = (String, u64)>, of: u64) {
    let share = |count| percent(Share { count, total: of });
    let parts: Vec<String> = parts.map(|(name, count)| format!("{name} {}", share(count))).collect();
    if !parts.is_empty() {
        paragraph(style, text, title, &parts.join("; "));
    }
}

fn paragraph(style: Style, text: &mut String, title: &str, body: &str) {
    let title = style.paint(Tone::Faint, &format!("{title:<9}"));
    let _ = writeln!(text, "    {title} {}", wrap(body, style, 14));
}

fn render_sets(map: &SetMap, style: Style, text: &mut String) {
    let _ = writeln!(text, "\n  {}", wrap(&explain::geometry(map.level, map.geometry), style, 2));
    let rows = heat::rows(map);
    let hottest = heat::hottest(&rows);
    let width = rows.iter().map(|row| heat::label(row).len()).max().unwrap_or(0);
    for row in &rows {
        let cells: String = row.iter().map(|cell| glyph(*cell, hottest, style)).collect();
        let label = style.paint(Tone::Faint, &format!("{:>width$}", heat::label(row)));
        let _ = writeln!(text, "    {label} {cells}");
    }
    let sets = rows.first().and_then(|row| row.first()).map_or(1, |cell| cell.last - cell.first + 1);
    let cell = if sets == 1 { "a set".to_string() } else { format!("{sets} sets") };
    let scale = match style.width {
        Some(_) => format!("{cell} a cell, from · none to █ {}", counted(hottest, "sample")),
        None => format!("{cell} a digit, from . none over 1 to 9 ({})", counted(hottest, "sample")),
    };
    let _ = writeln!(text, "    {}", style.paint(Tone::Faint, &scale));
    render_standing(map, style, text);
}

fn render_standing(map: &SetMap, style: Style, text: &mut String) {
    if map.standing_out.is_empty() {
        let none = format!(
            "no set stands out (n = {} samples on {}, cold ones left out of the test)",
            grouped(map.tested),
            counted(map.lines, "line")
        );
        let _ = writeln!(text, "    {}", wrap(&none, style, 4));
        return;
    }
    let ranges = heat::ranges(map.standing_out.iter().map(|set| set.set));
    let head = format!(
        "{} out (false discovery rate 1 %; lines as units of a binomial null model, {} as one piece): {ranges}",
        match map.standing_out.len() {
            1 => "1 set stands".to_string(),
            sets => format!("{} sets stand", grouped(sets as u64)),
        },
        counted(map.standing_out[0].overdispersion.round() as u64, "sample"),
    );
    let _ = writeln!(text, "    {}", wrap(&head, style, 4));
    for set in map.standing_out.iter().take(SETS_LISTED) {
        let line = explain::standing(set, map.geometry.ways);
        let _ = writeln!(text, "    {}", wrap(&line, style, 4));
        for line in set.lines.iter().take(LINES_LISTED) {
            let object = line.object.as_deref().map(printable).unwrap_or_default();
            let line = format!("{:>8}  {}  {object}", grouped(line.samples), line.address);
            let _ = writeln!(text, "      {}", line.trim_end());
        }
    }
    let more = map.standing_out.len().saturating_sub(SETS_LISTED);
    if more > 0 {
        let _ = writeln!(text, "    and {}; JSON has all", counted(more as u64, "further set"));
    }
}

/// Blocks on a terminal, digits elsewhere.
fn glyph(cell: Cell, hottest: u64, style: Style) -> String {
    let ninths = (cell.samples * 9).div_ceil(hottest.max(1));
    if style.width.is_none() && !style.color {
        return if ninths == 0 { ".".into() } else { ninths.to_string() };
    }
    const BLOCKS: [&str; 5] = ["·", "░", "▒", "▓", "█"];
    let block = BLOCKS[(cell.samples * 4).div_ceil(hottest.max(1)) as usize];
    let tone = match (cell.standing, ninths) {
        (true, _) => Tone::Hot,
        (false, 7..) => Tone::Warm,
        _ => Tone::Plain,
    };
    style.paint(tone, block)
}

fn render_score(score: &Score, style: Style, text: &mut String) {
    let _ = writeln!(text, "\n  {}", wrap(&explain::score(score), style, 2));
    let mut columns = vec![Column::left("inferred \\ exact")];
    columns.extend(Score::exact().map(|cause| Column::right(cause.name())));
    let mut grid = TextTable::new(columns);
    for inferred in Score::inferred() {
        let mut row = vec![(inferred.name().to_string(), Tone::Plain)];
        row.extend(Score::exact().map(|exact| {
            let right = inferred == exact && inferred != Cause::Unknown;
            (grouped(score.count(inferred, exact)), if right { Tone::Title } else { Tone::Plain })
        }));
        grid.row(row);
    }
    text.push_str(&grid.render(style, 2));
}

fn render_reuse(curve: &MissRatioCurve, conflicts: Option<Share>, style: Style, text: &mut String) {
    let head = format!(
        "reuse: n = {} of the second level by {}, one line in {} followed",
        counted(curve.uses, "use"),
        counted(curve.lines_followed, "line"),
        curve.one_line_in
    );
    let _ = writeln!(text, "\n{}", style.paint(Tone::Title, &wrap(&head, style, 2)));
    let most = curve.distances.iter().map(|row| row.uses).max().unwrap_or(0).max(curve.lines_followed).max(1);
    let share = |uses| percent(Share { count: uses, total: curve.uses });
    let bars = [Column::right("reuse"), Column::right("share"), Column::left("bar")];
    let mut bars = TextTable::new(bars).untitled();
    let mut row = |label: String, uses: u64| {
        let bar = "#".repeat((uses as f64 / most as f64 * BAR as f64).round() as usize);
        bars.plain([label, share(uses), bar]);
    };
    row("first use".into(), curve.lines_followed);
    for distance in &curve.distances {
        row(format!("after {} lines", grouped(distance.up_to)), distance.uses);
    }
    text.push_str(&bars.render(style, 2));
    let right = |title: &str| Column::right(title);
    let mut grid =
        TextTable::new(vec![right("L2 of"), right("miss ratio"), right("+-"), right("misses, to now")]);
    for effect in &curve.sizes {
        let now = effect.size == curve.now;
        let change = match effect.change {
            _ if now => "as now".to_string(),
            Some(change) if effect.size > curve.now => sentences::with_conflicts(change, conflicts),
            Some(change) => sentences::change(change),
            None => "-".into(),
        };
        grid.row(vec![
            (wording::bytes(effect.size), if now { Tone::Title } else { Tone::Plain }),
            (format!("{:.2} %", effect.miss_ratio * 100.0), Tone::Plain),
            (format!("{:.2} %", effect.standard_error * 196.0), Tone::Faint),
            (change, Tone::Plain),
        ]);
    }
    text.push_str(&grid.render(style, 2));
    let note = "a fully associative LRU cache of each size, from the distances at which lines are used again; +- is a \
                95 % interval, were all followed lines used alike";
    let ends = match conflicts.filter(sentences::matters) {
        Some(_) => {
            "; of two changes, the first is without today's conflict misses, the second with all of them"
        }
        None => "",
    };
    let note = format!("{note}{ends}");
    let _ = writeln!(text, "  {}", style.paint(Tone::Faint, &wrap(&note, style, 2)));
}

fn render_walks(walks: PageWalks, style: Style, text: &mut String) {
    let head = format!("page walks: n = {}, exact (simulated)", grouped(walks.small));
    let _ = writeln!(text, "\n{}", style.paint(Tone::Title, &head));
    let right = |title: &str| Column::right(title);
    let mut grid = TextTable::new(vec![Column::left("pages"), right("walks"), right("to now")]);
    for (pages, left) in [
        ("4 KB", walks.small),
        ("shared memory in 2 MB", walks.shared_huge),
        ("all memory in 2 MB", walks.all_huge),
    ] {
        let change = sentences::change(left as f64 / walks.small.max(1) as f64 - 1.0);
        grid.row(vec![
            (pages.into(), Tone::Plain),
            (grouped(left), Tone::Plain),
            (if left == walks.small { "-".into() } else { change }, Tone::Plain),
        ]);
    }
    text.push_str(&grid.render(style, 2));
    paragraph(style, text, "remedy", remedy::of_tlb());
}
