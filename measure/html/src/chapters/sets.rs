//! Sets of a cache: the number of samples in each, and conspicuous sets.

use crate::ask::HtmlReport;
use hardmeter_answers::why::{EventAnswer, SetMap};
use hardmeter_evidence::number::{counted, grouped};
use hardmeter_evidence::page::{table, Section};
use hardmeter_views::printable;
use maud::{html, Markup};
use serde_json::{json, Value as Json};

/// Limit of cells in a drawing; beyond it, neighbouring sets share one.
const CELLS: usize = 2048;
/// Number of conspicuous sets that are listed, and of lines of each.
const LISTED: usize = 6;

impl HtmlReport {
    /// Events with a map of their cache's sets.
    fn maps(&self) -> impl Iterator<Item = (&EventAnswer, &SetMap)> {
        let maps = self.why.events.iter().filter_map(|event| Some((event, event.sets.as_ref().ok()?)));
        maps.filter(|(_, map)| map.samples > 0)
    }

    /// The data of the maps for the script.
    pub(crate) fn sets_data(&self) -> Vec<Json> {
        let map = |(event, map): (&EventAnswer, &SetMap)| {
            let together = map.counts.len().div_ceil(CELLS).max(1);
            let cells: Vec<u64> = map.counts.chunks(together).map(|sets| sets.iter().sum()).collect();
            let standing = map.standing_out.iter().map(|set| set.set as usize / together);
            json!({
                "event": printable(&self.why.heading.events[event.event.0].name),
                "together": together,
                "cells": cells,
                "standing": standing.collect::<Vec<_>>(),
            })
        };
        self.maps().map(map).collect()
    }

    pub(super) fn sets_section(&self) -> Option<Section> {
        let body = html! {
            p.note { "Each cell is a set of the cache, or some neighbouring ones; the deeper the colour, the more samples (by the logarithm). "
                "Sets that stand out beyond chance are outlined. Not filtered." }
            @for (number, (event, map)) in self.maps().enumerate() { (self.map_markup(number, event, map)) }
        };
        self.maps().next().is_some().then(|| Section::new("sets", "Which cache sets", body))
    }

    fn map_markup(&self, number: usize, event: &EventAnswer, map: &SetMap) -> Markup {
        let name = printable(&self.why.heading.events[event.event.0].name);
        let most = map.counts.iter().copied().max().unwrap_or(0);
        let mean = map.samples as f64 / map.counts.len().max(1) as f64;
        html! {
            h3 { (name) ", " (map.level.name()) ": " (grouped(u64::from(map.geometry.sets))) " sets of " (map.geometry.ways) " ways" }
            p { (counted(map.samples, "sample")) " on " (counted(map.lines, "line")) "; "
                (format!("{mean:.1}")) " a set on average, at most " (grouped(most)) ". "
                @if map.standing_out.is_empty() { "No set stands out (n = " (grouped(map.tested)) ", cold misses left out)." }
                @else { b { (counted(map.standing_out.len() as u64, "set")) " stand out" } "." } }
            div.sets #{ "sets-" (number) } role="img" aria-label={ "Samples of " (name) " by set: at most " (most) } {}
            @for set in map.standing_out.iter().take(LISTED) {
                details {
                    summary { "Set " (set.set) ": " (counted(set.samples, "sample")) ", "
                        (counted(u64::from(set.lines_on_one_core), "line")) " on one core in " (map.geometry.ways) " ways (p = "
                        (format!("{:.1e}", set.p)) ")" }
                    (table(
                        &["samples", "address", "object"].map(str::to_string),
                        &set.lines.iter().take(2 * LISTED).map(|line| vec![
                            grouped(line.samples),
                            line.address.to_string(),
                            line.object.as_deref().map(printable).unwrap_or_default(),
                        ]).collect::<Vec<_>>(),
                        1,
                    ))
                }
            }
        }
    }
}
