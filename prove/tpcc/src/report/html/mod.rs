//! A result as one HTML file without a script. Control characters of foreign text are replaced.

mod chart;
mod graphs;
mod tables;

use super::number::{self, count, with_decimals};
use super::prices::Prices;
use super::summary::{mode_in_words, Summary};
use super::text::one_line;
use super::verdicts::{self, Outcome};
use super::DISCLAIMER;
use crate::measure::{Ending, RunResult};
use crate::work::Kind;
use hardmeter_evidence::page::{Page, Section};
use maud::{html, Markup};

/// Additional contents of the page.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Other runs of the same system at other loads: name and result.
    pub others: Vec<(String, RunResult)>,
    /// The price sheet of the system.
    pub prices: Option<Prices>,
    /// Whether to include published records.
    pub context: bool,
}

/// The whole page.
pub fn page(result: &RunResult, extras: &Extras) -> String {
    let summary = Summary::of(result);
    let verdicts = verdicts::verdicts(result);
    let title = format!("{} New-Orders a minute", with_decimals(summary.new_orders_a_minute.floor(), 0));
    let lead = headline(result, extras, &summary, &verdicts);
    let sections = sections(result, extras, &summary, &verdicts);
    Page::new(&format!("{title}, {DISCLAIMER}"), sections).with_lead(lead).html()
}

fn headline(
    result: &RunResult,
    extras: &Extras,
    summary: &Summary,
    verdicts: &[verdicts::Verdict],
) -> Markup {
    let order = &result.order;
    let terminals: u64 = result.drivers.iter().map(|driver| u64::from(driver.terminals)).sum();
    let half = summary.half_interval.map(|half| format!(" \u{b1} {}", number::number(half)));
    let response = summary.kinds[Kind::NewOrder.index()].response;
    let cost = summary.driver_cpu_per_1000.map(|cost| format!("{cost:.3} s"));
    let price = extras.prices.as_ref().and_then(|prices| {
        let price = prices.per_new_order(summary.new_orders_a_minute)?;
        Some(format!("{} {}", with_decimals(price, 2), one_line(&prices.currency)))
    });
    let short: Vec<_> = verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Short).collect();
    html! {
        h1 { (with_decimals(summary.new_orders_a_minute.floor(), 0)) " New-Orders a minute: " (verdicts::answer(verdicts)) }
        p { b { (if result.environment.system.is_empty() { "A TPC-C-derived run".into() } else { one_line(&result.environment.system) }) } }
        p.faint {
            (count(u64::from(order.warehouses))) " warehouses, " @if terminals > 0 { (count(terminals)) " " } (mode_in_words(order.mode)) "; "
            (order.connections) " database connections; " (number::duration(result.measured_seconds)) " after a ramp of "
            (number::duration(order.ramp_seconds)) "; begun " (number::date(result.started_at))
        }
        @match &result.ending {
            Ending::Complete => {}
            Ending::Interrupted => { p.alarm { "This run was interrupted. What is shown is what there was until then." } }
            Ending::Failed { reason } => { p.alarm { "This run failed: " (one_line(reason)) ". What is shown is what there was until then." } }
        }
        @if !short.is_empty() {
            ul.alarm { @for verdict in short {
                li { (verdict.name) ": " (verdict.found_in_words()) "; wanted: " (verdict.wanted)
                    @if !verdict.note.is_empty() { " (" (one_line(&verdict.note)) ")" } }
            } }
        }
        div.figures {
            (figure("figure first", &with_decimals(summary.new_orders_a_minute.floor(), 0), &format!("New-Orders a minute{}", half.unwrap_or_default())))
            (figure("figure", &with_decimals(summary.nopm.floor(), 0), "NOPM: without those rolled back"))
            (figure("figure", &with_decimals(summary.per_warehouse, 2), "New-Orders a minute and warehouse"))
            @if let Some(response) = response { (figure("figure", &number::seconds(response.p90), "90 % of New-Order's response times")) }
            @if let Some(cost) = cost { (figure("figure", &cost, "driver's CPU by 1,000 New-Orders")) }
            @if let Some(price) = price { (figure("figure", &price, "for a New-Order a minute")) }
        }
        p { b { "Derived from TPC-C, not a TPC result" } ", and not comparable to published ones. Verdicts: " (verdicts::summary(verdicts)) "." }
    }
}

fn figure(class: &str, value: &str, what: &str) -> Markup {
    html! { div class=(class) { b { (value) } span { (what) } } }
}

fn sections(
    result: &RunResult,
    extras: &Extras,
    summary: &Summary,
    verdicts: &[verdicts::Verdict],
) -> Vec<Section> {
    let mut sections = vec![
        Section::new("verdicts", "Verdicts", tables::verdicts(verdicts)),
        Section::new("transactions", "Transactions", tables::transactions(summary)),
        Section::new(
            "course",
            "Throughput over time",
            html! { (graphs::throughput(result)) (graphs::series(result)) },
        ),
        Section::new("responses", "Response times", responses(result, extras)),
        Section::new("thinking", "Think times", thinking(result)),
        Section::new("errors", "Failures", tables::errors(result)),
        Section::new("conditions", "Consistency after the run", tables::conditions(result)),
        Section::new("parameters", "Parameters and environment", tables::parameters(result, summary)),
    ];
    if let Some(prices) = &extras.prices {
        sections.push(Section::new("prices", "Prices", tables::prices(prices, summary.new_orders_a_minute)));
    }
    if extras.context {
        sections.push(Section::new(
            "context",
            "Published records",
            tables::context(summary.new_orders_a_minute),
        ));
    }
    sections
}

fn responses(result: &RunResult, extras: &Extras) -> Markup {
    html! {
        (graphs::load(result, &extras.others))
        div.charts { @for kind in &result.kinds { (graphs::responses(kind)) } }
        p.faint { "Each from 0 to four times what 90 % do not exceed (clause 5.6, [m])." }
    }
}

fn thinking(result: &RunResult) -> Markup {
    let figures: Vec<_> = Kind::ALL.into_iter().filter_map(|kind| graphs::thinking(result, kind)).collect();
    html! {
        @if figures.is_empty() { p { "None: " (mode_in_words(result.order.mode)) "." } }
        @else { div.charts { @for figure in &figures { (figure) } } }
    }
}

#[cfg(test)]
mod tests;
