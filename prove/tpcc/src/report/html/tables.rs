//! The tables of the page.

use crate::measure::RunResult;
use crate::report::context::RECORDS;
use crate::report::number::{self, count, seconds, with_decimals};
use crate::report::prices::Prices;
use crate::report::summary::{order_in_words, Quantiles, Summary};
use crate::report::text::one_line;
use crate::report::verdicts::{Basis, Group, Outcome, Verdict};
use maud::{html, Markup};

fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Held => "outcome held",
        Outcome::Short => "outcome short",
        Outcome::Undecided => "outcome undecided",
        Outcome::Deviation => "outcome deviation",
        Outcome::NotApplicable => "outcome not-applicable",
    }
}

/// The verdicts, group by group; those that are not applicable are folded.
pub fn verdicts(verdicts: &[Verdict]) -> Markup {
    let (folded, shown): (Vec<_>, Vec<_>) =
        verdicts.iter().partition(|verdict| verdict.outcome == Outcome::NotApplicable);
    html! {
        @for group in Group::ALL {
            @let of_group: Vec<_> = shown.iter().copied().filter(|verdict| verdict.group == group).collect();
            @if !of_group.is_empty() {
                h3 { (group.title()) }
                (rows(&of_group))
            }
        }
        @if !folded.is_empty() {
            details { summary { "Not applicable (" (folded.len()) ")" } (rows(&folded)) }
        }
        p.faint {
            "Held: as wanted. Undecided: too few to tell, or beside the window by no more than chance does (p at least 0.001). \
             Deviation: ordered otherwise than the specification has it. [m]: from memory, not verified against the official text. \
             Own: a rule of this program, no clause."
        }
    }
}

fn rows(verdicts: &[&Verdict]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "verdict" } th { "what" } th.number { "found" } th.number { "n" } th { "wanted" } th { "clause" } } }
            tbody {
                @for verdict in verdicts { tr {
                    td class=(class(verdict.outcome)) { (verdict.outcome.word()) }
                    td { (verdict.name) @if !verdict.note.is_empty() { br; span.note { (one_line(&verdict.note)) } } }
                    td.number { (verdict.found_in_words()) }
                    td.number { @if verdict.n > 0 { (count(verdict.n)) } }
                    td { (verdict.wanted) }
                    td.faint { (clause(verdict)) }
                } }
            }
        } }
    }
}

fn clause(verdict: &Verdict) -> String {
    match verdict.basis {
        Basis::Read => verdict.clause.into(),
        Basis::NotVerified => format!("{} [m]", verdict.clause),
        Basis::Ours => "own".into(),
    }
}

type Pick = fn(&Quantiles) -> f64;

/// A line for each transaction.
pub fn transactions(summary: &Summary) -> Markup {
    let of = |times: &Option<Quantiles>, pick: Pick| {
        times.as_ref().map_or_else(|| "-".into(), |times| seconds(pick(times)))
    };
    let responses: [(&str, Pick); 7] = [
        ("50 %", |times| times.p50),
        ("90 %", |times| times.p90),
        ("95 %", |times| times.p95),
        ("99 %", |times| times.p99),
        ("99.9 %", |times| times.p999),
        ("longest", |times| times.max),
        ("mean", |times| times.mean),
    ];
    html! {
        div.scroll { table {
            thead { tr {
                th { "transaction" } th.number { "completed" } th.number { "share" }
                @for (name, _) in &responses { th.number { (name) } }
                th.number { "lag 99 %" } th.number { "queued 90 %" } th.number { "service 90 %" }
                th.number { "rolled back" } th.number { "tried again" } th.number { "given up" }
            } }
            tbody { @for kind in &summary.kinds { tr {
                th { (kind.kind.name()) }
                td.number { (count(kind.completed)) } td.number { (with_decimals(kind.share, 2)) " %" }
                @for (_, pick) in &responses { td.number { (of(&kind.response, *pick)) } }
                td.number { (of(&kind.lag, |times| times.p99)) }
                td.number { (of(&kind.queued, |times| times.p90)) }
                td.number { (of(&kind.service, |times| times.p90)) }
                td.number { (count(kind.rolled_back)) } td.number { (count(kind.retried)) } td.number { (count(kind.failed)) }
            } } }
        } }
        @if let Some(delivery) = &summary.delivery {
            p { "Deferred deliveries: " (count(delivery.n)) " done, half of them within " (seconds(delivery.p50)) ", 90 % within "
                (seconds(delivery.p90)) ", the longest in " (seconds(delivery.max)) "." }
        }
        p.faint {
            "Response times count from when a terminal should have sent: the driver's own lag and the wait for a connection are \
             inside of them, and tries that failed are, too. Delivery: the interactive part."
        }
    }
}

/// Failures of the whole run.
pub fn errors(result: &RunResult) -> Markup {
    if result.errors.is_empty() {
        return html! { p { "None in the whole run." } };
    }
    html! { div.scroll { table {
        thead { tr { th { "transaction" } th { "code" } th.number { "how often" } th.number { "tried again" } th { "the first one" } } }
        tbody { @for errors in &result.errors { tr {
            th { (errors.kind.name()) } td { (one_line(&errors.code)) }
            td.number { (count(errors.count)) } td.number { (count(errors.retried)) }
            td { (one_line(&errors.example)) }
        } } }
    } } }
}

/// The consistency conditions.
pub fn conditions(result: &RunResult) -> Markup {
    if result.conditions.is_empty() {
        return html! { p { "They were not checked after this run." } };
    }
    html! { div.scroll { table {
        thead { tr { th { "clause" } th { "rule" } th { "verdict" } th { "rows that break it" } } }
        tbody { @for condition in &result.conditions {
            @let outcome = match condition.held {
                Some(true) => Outcome::Held,
                Some(false) => Outcome::Short,
                None => Outcome::NotApplicable,
            };
            tr {
                th { "3.3.2." (condition.number) } td { (one_line(&condition.rule)) }
                td class=(class(outcome)) { (outcome.word()) }
                td { (one_line(&condition.examples.join("; "))) }
            }
        } }
    } } }
}

/// Parameters of the run, program and machine.
pub fn parameters(result: &RunResult, summary: &Summary) -> Markup {
    let environment = &result.environment;
    let (before, after) = environment.database_bytes;
    let cost =
        |value: Option<f64>| value.map_or_else(|| "not seen".into(), |value| format!("{value:.4} CPU s"));
    html! {
        div.charts {
            div { h3 { "Order" } (pairs(&order_in_words(&result.order))) }
            div { h3 { "System" } (pairs(&[
                ("system under test", environment.system.clone()),
                ("processor", environment.processor.clone()),
                ("memory", number::bytes(environment.memory_bytes)),
                ("kernel", environment.kernel.clone()),
                ("database before, after", format!("{}, {}", number::bytes(before), number::bytes(after))),
                ("CPUs", environment.cpu_plan.clone().unwrap_or_else(|| "no plan".into())),
                ("hardmeter", environment.hardmeter.clone()),
            ])) }
            div { h3 { "By 1,000 New-Orders" } (pairs(&[
                ("driver", cost(summary.driver_cpu_per_1000)),
                ("server", cost(summary.server_cpu_per_1000)),
            ])) }
        }
        h3 { "Drivers" }
        div.scroll { table {
            thead { tr {
                th { "host" } th.number { "warehouses" } th.number { "terminals" } th { "begun" } th.number { "CPU" }
                th.number { "memory" } th.number { "CPUs" } th.number { "calendar stepped by" }
            } }
            tbody { @for driver in &result.drivers { tr {
                th { (one_line(&driver.host)) }
                td.number { (driver.first_warehouse) " to " (u64::from(driver.first_warehouse) + u64::from(driver.warehouses).max(1) - 1) }
                td.number { (count(u64::from(driver.terminals))) }
                td { (number::date(driver.started_at)) }
                td.number { (with_decimals(driver.cpu_seconds, 2)) " s" }
                td.number { (number::bytes(driver.resident_bytes)) }
                td.number { (driver.cpus) }
                td.number { (with_decimals(driver.clock_step_seconds, 3)) " s" }
            } } }
        } }
        @if !environment.remarks.is_empty() {
            h3 { "Warnings" }
            ul { @for remark in &environment.remarks { li { (one_line(remark)) } } }
        }
        @if !environment.settings.is_empty() {
            details { summary { "The server's settings that are not its defaults (" (environment.settings.len()) ")" }
                div.scroll { table { tbody { @for (name, value) in &environment.settings { tr {
                    th { (one_line(name)) } td { (one_line(value)) }
                } } } } }
            }
        }
    }
}

fn pairs(rows: &[(&str, String)]) -> Markup {
    html! { table { tbody { @for (name, value) in rows { tr {
        th.faint { (name) } td { @if value.is_empty() { "-" } @else { (one_line(value)) } }
    } } } } }
}

/// The price sheet.
pub fn prices(prices: &Prices, new_orders_a_minute: f64) -> Markup {
    let money = |value: f64| with_decimals(value, 2);
    html! {
        div.scroll { table {
            thead { tr {
                th { "item" } th.number { "quantity" } th.number { "price" } th.number { "maintenance, a month" }
                th.number { "over " (prices.months) " months" }
            } }
            tbody {
                @for item in &prices.items { tr {
                    th { (one_line(&item.name)) } td.number { (number::number(item.quantity)) } td.number { (money(item.price)) }
                    td.number { (money(item.maintenance)) } td.number { (money(item.total(prices.months))) }
                } }
                tr { th { b { "together" } } td {} td {} td {}
                    td.number { b { (money(prices.total())) " " (one_line(&prices.currency)) } } }
            }
        } }
        @match prices.per_new_order(new_orders_a_minute) {
            Some(price) => p { b { (money(price)) " " (one_line(&prices.currency)) } " for each New-Order a minute." }
            None => p { "No New-Orders: no price of one." }
        }
    }
}

/// Published records, with this run's figure for comparison.
pub fn context(new_orders_a_minute: f64) -> Markup {
    html! {
        p { "Published TPC-C figures, " b { "as context and not as a claim" } ": they are of audited systems, by tpmC; this run is "
            "derived from TPC-C, not a TPC result, and must not be compared with them." }
        div.scroll { table {
            thead { tr { th { "year" } th { "system" } th.number { "published" } th.number { "times this run" } } }
            tbody {
                @for record in &RECORDS { tr {
                    th { (record.year) } td { (record.system) @if !record.read { " [m]" } }
                    td.number { (with_decimals(record.figure, 0)) }
                    td.number { @if new_orders_a_minute >= 1.0 { (number::number(record.figure / new_orders_a_minute)) } @else { "-" } }
                } }
                tr { th { "this run" } td {} td.number { (with_decimals(new_orders_a_minute.floor(), 0)) } td.number { "1" } }
            }
        } }
    }
}
