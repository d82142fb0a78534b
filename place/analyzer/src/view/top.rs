//! The live table: the kinds of requests, their effects on others and the reverse, and where they run.

use super::words::{guard, number, one_line, rules, share, slice, time, time_estimate};
use super::{cores, rows, Order, Row};
use crate::model::Placement;
use crate::state::{without_in_words, State};
use hardmeter_evidence::table::{Column, Cut, Style, TextTable};
use std::fmt::Write;

/// The layout of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The order of kinds.
    pub order: Order,
    /// Columns of the terminal; `None`: unlimited.
    pub width: Option<usize>,
    /// Maximum number of kinds.
    pub kinds: usize,
}

/// Longer labels are cut.
const LABEL: usize = 60;

/// One frame as text. `now_ns`: on CLOCK_MONOTONIC.
pub fn frame(state: &State, now_ns: u64, layout: Layout) -> String {
    let mut text = heading(state, now_ns);
    let rows = rows(state, layout.order);
    if rows.is_empty() {
        text.push_str("no requests yet: load a module into a server (docs/place.md), and let it work\n");
        return text;
    }
    text.push_str(
        &table(&rows, layout.kinds).sparing().render(Style { color: false, width: layout.width }, 0),
    );
    if rows.len() > layout.kinds {
        let _ = writeln!(text, "and {} kinds more", rows.len() - layout.kinds);
    }
    for remark in &state.plan.remarks {
        let _ = writeln!(text, "warning: {}", one_line(remark, 200));
    }
    text
}

fn heading(state: &State, now_ns: u64) -> String {
    let machine = &state.machine;
    let mut text = format!(
        "policy {}, placement {}; guard {}\n",
        state.policy,
        if state.placement_on { "on" } else { "off" },
        one_line(&guard(&state.guard), 300)
    );
    for effect in &state.guard.effects {
        let _ = writeln!(
            text,
            "  {}: {:+.1} % ({:+.1} to {:+.1}, n {})",
            one_line(&effect.measure, 80),
            effect.change * 100.0,
            effect.low * 100.0,
            effect.high * 100.0,
            effect.n
        );
    }
    for rule in rules(state) {
        let _ = writeln!(text, "  {rule}");
    }
    let _ = writeln!(
        text,
        "{} processors, L2 {} MB each; probe: {}{}",
        machine.cpus.len(),
        number(machine.l2_bytes as f64 / f64::from(1 << 20)),
        state.probe.kind,
        if state.probe.reason.is_empty() {
            String::new()
        } else {
            format!(" ({})", one_line(&state.probe.reason, 120))
        }
    );
    if let Some(neighbours) = state.probe.neighbours.in_words() {
        let _ = writeln!(text, "neighbours: {neighbours}");
    }
    for app in &state.applications {
        let off = if app.collecting { "" } else { ", switched off" };
        let without = without_in_words(&app.without);
        let _ = writeln!(
            text,
            "{} ({}): {} of {} kinds, {} sections, {} moves, by {}{without}{off}",
            one_line(&app.name, 32),
            app.app,
            app.kinds,
            app.kinds_max,
            number(app.sections as f64),
            number(app.moves as f64),
            app.backend
        );
        if let Some(admission) = app.admission.in_words() {
            let _ = writeln!(text, "  admission: {admission}");
        }
    }
    if state.is_stale(now_ns) {
        let age = now_ns.saturating_sub(state.written_ns) as f64 / 1e9;
        let _ = writeln!(
            text,
            "STALE: the analyzer (process {}) last wrote {age:.0} s ago; nothing is placed",
            state.pid
        );
    }
    text.push('\n');
    text
}

fn table(rows: &[Row<'_>], kinds: usize) -> TextTable {
    let mut columns = vec![
        Column::left("app").spare(2),
        Column::right("rate/s").spare(1),
        Column::right("CPU %"),
        Column::right("time").spare(4),
        Column::right("replaces of L2"),
        Column::right("slower after polluters"),
        Column::right("costs the next").spare(5),
        Column::left("class"),
        Column::left("cores").spare(3),
        Column::left("kind").cut(Cut::KeepHead).at_least(24),
    ];
    // Most policies do not order requests.
    let ordered = |placement: &Placement| placement.slice_us != 0 || placement.admit;
    let has_slices = rows.iter().any(|row| row.placement.is_some_and(ordered));
    if has_slices {
        columns.insert(columns.len() - 1, Column::right("slice").spare(3));
    }
    // Web servers have no statements.
    let has_statements = rows.iter().take(kinds).any(|row| row.profile.statement.is_some());
    columns.extend(has_statements.then(|| Column::left("statement").spare(6)));
    let mut table = TextTable::new(columns);
    for row in rows.iter().take(kinds) {
        let profile = row.profile;
        let mut cells = vec![
            one_line(row.app, 16),
            number(profile.rate),
            format!("{:.1}", profile.share * 100.0),
            row.micros.map_or("-".into(), |micros| time(micros.mean)),
            share(profile.displaced, false),
            share(profile.slowdown, true),
            time_estimate(row.harm, true),
            profile.class.name().into(),
            row.placement.map_or("any".into(), |placement| cores(&placement.cpus)),
            one_line(&profile.label, LABEL),
        ];
        if has_slices {
            let words = row.placement.map_or_else(|| "own".into(), slice);
            cells.insert(cells.len() - 1, words);
        }
        let statement = || profile.statement.map_or(String::new(), |statement| statement.to_string());
        cells.extend(has_statements.then(statement));
        table.plain(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Admission;
    use crate::view::testing;
    use hardmeter_statement::StatementId;

    const LAYOUT: Layout = Layout { order: Order::Cpu, width: None, kinds: 2 };

    #[test]
    fn a_frame_says_what_was_measured_with_its_n() {
        let frame = frame(&testing::state(), 5_500_000_000, LAYOUT);
        for part in [
            "guard kept: CPU time per request is less",
            "CPU time per request: -21.0 % (-25.0 to -17.0, n 12)",
            "  the rule of 1.3 \"/ViewItem.php\" is off, it runs anywhere: not better with it than without: CPU time",
            "90.0 ±5.0 %, n 40",
            "+31.0 ±6.0 %, n 310",
            // (60 x 27 us + 30 x 10 us) / 90
            "+21.3 ±",
            "/ViewItem.php",
            "and 1 kinds more",
            "neighbours: two processors share an L2 by 10 of 40 checks (4 more were unclear), though each should have one",
            "other programs displace 30 % of L2 in 200 us",
            "without hardware counters",
        ] {
            assert!(frame.contains(part), "no {part:?} in:\n{frame}");
        }
        assert!(!frame.contains("STALE"));
        assert!(!frame.contains('\u{1b}'), "a label may not steer the terminal");
    }

    #[test]
    fn a_statement_is_named_by_its_id_where_there_are_statements() {
        let mut state = testing::state();
        assert!(!frame(&state, 5_500_000_000, LAYOUT).contains("statement"));
        state.workload.kinds.iter_mut().for_each(|kind| kind.statement = Some(StatementId(0xfe)));
        let frame = frame(&state, 5_500_000_000, LAYOUT);
        assert!(frame.contains("statement") && frame.contains("00000000000000fe"), "{frame}");
    }

    #[test]
    fn slices_have_a_column_where_there_are_any() {
        let mut state = testing::state();
        assert!(!frame(&state, 5_500_000_000, LAYOUT).contains("slice"));
        state.plan.placements[0].slice_us = 12_800;
        let frame = frame(&state, 5_500_000_000, LAYOUT);
        assert!(frame.contains("slice") && frame.contains("12.8 ms") && frame.contains("own"), "{frame}");
        let lines = crate::view::slices(&state);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("slice 12.8 ms: web ") && lines[0].contains("away from"), "{lines:?}");
    }

    #[test]
    fn a_queue_is_shown_where_requests_are_limited() {
        let mut state = testing::state();
        assert!(!frame(&state, 5_500_000_000, LAYOUT).contains("admission"));
        state.plan.placements[0].admit = true;
        state.applications[0].admission = Admission {
            places: 2,
            running: 2,
            waiting: 3,
            waits: 4,
            waited_seconds: 1.0,
            longest_wait_seconds: 0.7,
            ..Admission::default()
        };
        let frame = frame(&state, 5_500_000_000, LAYOUT);
        let line = "admission: 2 places, 2 long requests run, 3 wait; 4 waited so far, 0.250 s on average, 0.700 s at most";
        assert!(frame.contains(line) && frame.contains("own, queued"), "{frame}");
        assert!(!frame.contains("table of long requests"), "{frame}");
        state.applications[0].admission.unlimited = 6;
        let full = "0 after their limit, 6 since the table of long requests was full";
        assert!(super::frame(&state, 5_500_000_000, LAYOUT).contains(full));
    }

    #[test]
    fn an_analyzer_that_is_gone_is_told() {
        let frame = frame(&testing::state(), 65_000_000_000, LAYOUT);
        assert!(frame.contains("STALE: the analyzer (process 77) last wrote 60 s ago"), "{frame}");
    }

    #[test]
    fn without_requests_the_way_on_is_told() {
        let mut state = testing::state();
        state.workload.kinds.clear();
        assert!(frame(&state, 5_000_000_000, LAYOUT).contains("load a module into a server"));
    }
}
