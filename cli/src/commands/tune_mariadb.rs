//! `hardmeter tune try` on MariaDB: a variable is set by SET GLOBAL, measured in blocks, and set back.

use super::tune_try::{nanoseconds, print_conducted, watchdog, Arguments, MeasureName, UNDONE};
use super::workload::{cancelled_by_signals, Bar};
use super::{CommandError, Globals, Outcome};
use crate::terminal;
use hardmeter_advise::trial::{
    conduct_on_mariadb, plan_on_mariadb, Ledger, Load, Measure, Order, Proposal, Running, TryError, Wanted,
};
use hardmeter_advise::{advise, look_at_mariadb, Finding, MariaTarget, MARIADB_REMEDIES};
use hardmeter_session::{Stop, Target};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// Runs the command.
pub(super) fn tried(
    arguments: &Arguments,
    target: &MariaTarget,
    globals: &Globals,
) -> Result<Outcome, CommandError> {
    if arguments.options.copy().is_some() {
        return Err(CommandError::new("MariaDB is not copied yet", "leave out --copy: SET GLOBAL is undone"));
    }
    let (pace, guards) = (arguments.options.pace()?, arguments.options.guards()?);
    let (ledger, stop) = (Ledger::of_user(), cancelled_by_signals());
    let load = arguments.options.load_in(&arguments.load, target.environment());
    let (wanted, finding) = match &arguments.remedy {
        Some(remedy) => {
            let throughout = match load.clone() {
                Load::PerBlock(command) => Load::Throughout(command),
                load => load,
            };
            let running = Running::start(&throughout, ledger.beside("load.log"))?;
            let finding = found(arguments, remedy, target, &stop, globals)?;
            drop(running);
            (Wanted::of_finding(&finding)?, Some(finding))
        }
        None => {
            let wanted: Result<Vec<Wanted>, TryError> =
                arguments.set.iter().map(|text| Wanted::of_text(text)).collect();
            (wanted?, None)
        }
    };
    let name = finding.as_ref().map_or_else(|| arguments.set.join(", "), |found| found.remedy.to_owned());
    let proposal = Proposal {
        name: name.clone(),
        finding: finding.clone(),
        switches: plan_on_mariadb(target, &wanted, &load)?,
        measure: arguments.measure.map_or(Measure::Throughput, MeasureName::measure),
        pace,
        per_block: arguments.options.per_block(),
    };
    let style = terminal::style(globals);
    if arguments.output.is_text() {
        terminal::print(&proposal.text(style))?;
    }
    if !arguments.yes {
        let text = || "\nNothing was changed. With --yes it is tried, and undone.\n".to_owned();
        arguments.output.print("tune-try", text, || {
            json!({ "format": "hardmeter-tune-try", "version": 1, "tried": false, "proposal": proposal.json() })
        })?;
        return Ok(Outcome::Complete);
    }
    let advice = finding.as_ref().map(|finding| &finding.advice);
    let order = Order {
        // For its description: the server is reached by `target`.
        target: Target::socket(Path::new("/"), 0, "", target.database()),
        wanted,
        remedy: name,
        finding: advice.map(|advice| advice.finding.clone()),
        evidence: advice.map_or(json!([]), |advice| json!(advice.evidence)),
        predicted: advice.and_then(|advice| advice.prediction.gain),
        measure: proposal.measure,
        pace,
        keep: arguments.keep,
        guards,
        run: None,
        seed: nanoseconds(),
    };
    let bar = Bar::new(globals);
    let progress = |what: &str, share: f64| bar.stands_at((share * 1000.0) as usize, 1000, what);
    let watchdog = |token: &str| watchdog(&arguments.server, token);
    let conducted = conduct_on_mariadb(&order, target, &ledger, &watchdog, &load, &stop, &progress);
    drop(bar);
    let conducted = conducted?;
    let kept = format!(
        "kept until the server is restarted (write it into the configuration, too); hardmeter tune undo {} restores \
         what was before",
        conducted.entry
    );
    print_conducted(&conducted, &proposal, (&kept, UNDONE), arguments, globals)
}

/// The finding of a remedy by its name.
fn found(
    arguments: &Arguments,
    remedy: &str,
    target: &MariaTarget,
    stop: &Stop,
    globals: &Globals,
) -> Result<Finding, CommandError> {
    if !MARIADB_REMEDIES.iter().any(|known| known.id() == remedy) {
        let names: Vec<&str> = MARIADB_REMEDIES.iter().map(|known| known.id()).collect();
        return Err(CommandError::new(
            format!("no remedy of MariaDB is named {remedy}"),
            format!("name one of {}; or a variable: --set NAME=VALUE", names.join(", ")),
        ));
    }
    let bar = Bar::new(globals);
    let progress = |share: f64| bar.stands_at((share * 1000.0) as usize, 1000, "looking at the server");
    let look = look_at_mariadb(target, Duration::from_secs(arguments.seconds), stop, &progress)?;
    drop(bar);
    let finding = advise(&look, MARIADB_REMEDIES).into_iter().find(|finding| finding.remedy == remedy);
    finding.ok_or_else(|| {
        CommandError::new(
            format!("{} s of looking gave no evidence for {remedy}", arguments.seconds),
            "look longer with --seconds, or while the load runs",
        )
    })
}
