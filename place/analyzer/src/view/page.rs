//! The state of the analyzer as one HTML file without a script.

use super::words::{guard, number, one_line, rules, share, slice, time, time_estimate};
use super::{cores, rows, Order, Row};
use crate::model::{Actuation, Estimate, KindRef};
use crate::state::State;
use hardmeter_evidence::page::{Page, Section};
use maud::{html, Markup};
use std::collections::BTreeMap;

const LABEL: usize = 160;
/// The number of kinds on each side of the matrix: those that cost others most, or suffer most.
const MATRIX: usize = 14;

/// The complete page. `now_ns`: on CLOCK_MONOTONIC.
pub fn page(state: &State, now_ns: u64) -> String {
    let rows = rows(state, Order::Cpu);
    let sections = vec![
        Section::new("kinds", "Kinds of requests", kinds(&rows)),
        Section::new("matrix", "Who makes whom slower", matrix(state, &rows)),
        Section::new("judgement", "Does placement help?", judgement(state)),
        Section::new("servers", "Servers", applications(state)),
        Section::new("log", "Log", log(state)),
    ];
    let lead = html! {
        h1 { "Which requests pollute the caches, and which suffer" }
        (summary(state, now_ns))
    };
    Page::new("Who makes whom slower", sections).with_lead(lead).html()
}

fn summary(state: &State, now_ns: u64) -> Markup {
    html! {
        @if state.is_stale(now_ns) {
            p.short { "The analyzer (process " (state.pid) ") has ended: this is its last state; nothing is placed." }
        }
        p {
            "Policy " b { (state.policy) } ", placement " b { (if state.placement_on { "on" } else { "off" }) } ". "
            (state.machine.cpus.len()) " processors, L2 caches of " (number(state.machine.l2_bytes as f64 / f64::from(1 << 20)))
            " MB; figures are of the latest " (number(state.workload.seconds)) " s."
        }
        @for remark in &state.plan.remarks { p { (one_line(remark, 300)) } }
    }
}

fn kinds(rows: &[Row<'_>]) -> Markup {
    html! {
        p.faint {
            "“Replaces” is the share of an L2 cache that one request pushes out; “slower” how much longer it takes after a polluter; "
            "“costs the next” what it makes the following request on the same processor take longer. Each with its 95 % interval and n."
        }
        table {
            thead { tr {
                th { "server" } th { "kind" } th { "rate/s" } th { "CPU" } th { "time" } th { "replaces" } th { "slower" }
                th { "costs the next" } th { "class" } th { "cores" } th { "why" }
            } }
            tbody { @for row in rows { (kind(row)) } }
        }
    }
}

fn kind(row: &Row<'_>) -> Markup {
    let profile = row.profile;
    let reason = row.placement.map_or(profile.reason.as_str(), |placement| placement.reason.as_str());
    html! {
        tr {
            td { (one_line(row.app, 32)) }
            td.label title=(profile.kind) { (one_line(&profile.label, LABEL)) }
            td.number { (number(profile.rate)) }
            td.number { (format!("{:.1} %", profile.share * 100.0)) }
            td.number { (row.micros.map_or("-".into(), |micros| time(micros.mean))) }
            td.number { (share(profile.displaced, false)) }
            td.number { (share(profile.slowdown, true)) }
            td.number { (time_estimate(row.harm, true)) }
            td class=(profile.class.name()) { (profile.class.name()) }
            td {
                @match row.placement {
                    Some(placement) if placement.actuation != Actuation::None => {
                        (cores(&placement.cpus))
                        @if placement.slice_us != 0 { ", slice " (slice(placement)) }
                    }
                    _ => "any",
                }
            }
            td.faint { (one_line(reason, 300)) }
        }
    }
}

/// Rows: the predecessor; columns: the successor, and its extra time.
fn matrix(state: &State, rows: &[Row<'_>]) -> Markup {
    let transitions = &state.workload.transitions;
    let most = |of: fn(&(KindRef, KindRef, Estimate)) -> KindRef| -> Vec<&Row<'_>> {
        let mut weights: BTreeMap<KindRef, f64> = BTreeMap::new();
        for one in transitions {
            *weights.entry(of(one)).or_default() += (one.2.mean * one.2.n as f64).abs();
        }
        let weight = |row: &Row<'_>| weights.get(&row.profile.kind).copied().unwrap_or(0.0);
        let mut chosen: Vec<&Row<'_>> = rows.iter().filter(|row| weight(row) > 0.0).collect();
        chosen.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        chosen.truncate(MATRIX);
        chosen
    };
    let (before, after) = (most(|one| one.0), most(|one| one.1));
    if before.is_empty() {
        return html! { p { "No pair of requests was observed often enough yet." } };
    }
    let cycles_per_micro = (state.workload.cycles_per_second as f64 / 1e6).max(1.0);
    let found = |first: KindRef, second: KindRef| {
        transitions.iter().find(|one| one.0 == first && one.1 == second).map(|one| one.2)
    };
    html! {
        p.faint { "How much longer the request of the column takes if the one of the row came before it on the same processor. "
            "Bold: the 95 % interval does not contain zero." }
        table.matrix {
            thead { tr { th { "before \\ next" } @for row in &after { th { (one_line(&row.profile.label, 28)) } } } }
            tbody {
                @for first in &before {
                    tr {
                        th title=(one_line(&first.profile.label, LABEL)) { (one_line(&first.profile.label, 40)) }
                        @for second in &after { (cell(found(first.profile.kind, second.profile.kind), second, cycles_per_micro)) }
                    }
                }
            }
        }
    }
}

fn cell(estimate: Option<Estimate>, second: &Row<'_>, cycles_per_micro: f64) -> Markup {
    let Some(cycles) = estimate else { return html! { td.number.faint { "-" } } };
    let micros = super::scaled(cycles, 1.0 / cycles_per_micro);
    let sure = micros.low > 0.0 || micros.high < 0.0;
    // The colour's depth is the loss relative to the request's own time; half of it has full depth.
    let part = second.micros.map_or(0.0, |own| (micros.mean / own.mean.max(1e-9)).clamp(-0.5, 0.5) * 2.0);
    let colour = if part >= 0.0 { "200,60,40" } else { "40,130,80" };
    let style = format!("background: rgba({colour},{:.2})", if sure { part.abs() * 0.6 } else { 0.0 });
    html! { td.number.sure[sure] style=(style) { (time_estimate(Some(micros), true)) } }
}

fn judgement(state: &State) -> Markup {
    html! {
        p { "Guard: " (one_line(&guard(&state.guard), 400)) "; " (state.guard.epochs_on) " epochs with placement, "
            (state.guard.epochs_off) " without." }
        @for rule in rules(state) { p { (rule) } }
        @if !state.guard.effects.is_empty() {
            table {
                thead { tr { th { "measure" } th { "with placement" } th { "95 % interval" } th { "n" } } }
                tbody { @for effect in &state.guard.effects { tr {
                    td { (one_line(&effect.measure, 120)) }
                    td.number { (format!("{:+.1} %", effect.change * 100.0)) }
                    td.number { (format!("{:+.1} to {:+.1} %", effect.low * 100.0, effect.high * 100.0)) }
                    td.number { (effect.n) }
                } } }
            }
        }
    }
}

fn applications(state: &State) -> Markup {
    html! {
        table {
            thead { tr {
                th { "server" } th { "id" } th { "measures by" } th { "without" } th { "kinds" } th { "sections" }
                th { "no room" } th { "dropped" } th { "moves" } th { "probing costs" }
            } }
            tbody { @for app in &state.applications { tr {
                td { (one_line(&app.name, 32)) }
                td { (app.app) }
                td { (app.backend) @if !app.collecting { " (switched off)" } }
                td { (app.without.join(", ")) }
                td.number { (app.kinds) " of " (app.kinds_max) }
                td.number { (number(app.sections as f64)) }
                td.number { (number(app.without_room as f64)) }
                td.number { (number(app.dropped as f64)) }
                td.number { (number(app.moves as f64)) }
                td.number { (time(app.probe_cycles as f64 * 1e6 / (app.cycles_per_second.max(1) as f64))) }
            } } }
        }
        p.faint {
            "Probe: " (state.probe.kind) @if !state.probe.reason.is_empty() { " (" (one_line(&state.probe.reason, 200)) ")" }
            @if !state.probe.points.is_empty() {
                ". Sections of known size displaced: "
                (state.probe.points.iter().map(|point| format!("{} KB {:.0} %", point.kilobytes, point.median * 100.0)).collect::<Vec<_>>().join(", "))
            }
            @if let Some(neighbours) = state.probe.neighbours.in_words() { ". Neighbours: " (neighbours) }
        }
    }
}

fn log(state: &State) -> Markup {
    html! { ol.log { @for event in state.events.iter().rev() { li { span.faint { (one_line(&event.time, 40)) } " " (one_line(&event.text, 400)) } } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing;

    #[test]
    fn the_page_stands_alone_and_escapes_what_strangers_wrote() {
        let page = page(&testing::state(), 5_000_000_000);
        for part in [
            "/Search&lt;b&gt;?[31m.php",
            "+27.0 ±2.00 us, n 60",
            "-21.0 %",
            "placement on",
            "512 KB 50 %",
            "L2 by 10 of 40 checks",
        ] {
            assert!(page.contains(part), "no {part:?} in:\n{page}");
        }
        assert!(!page.contains("<script") && !page.contains("http://") && !page.contains("<b>?"));
    }

    #[test]
    fn a_silent_analyzer_is_told() {
        assert!(page(&testing::state(), 99_000_000_000).contains("has ended"));
    }
}
