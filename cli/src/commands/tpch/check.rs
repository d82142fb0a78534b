//! `hardmeter tpch check`.

use super::arguments::{argument, Queries, TPCH};
use super::{cancelled_by_signals, Bar, Output};
use crate::commands::place::Place;
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_evidence::table::{Column, Style, TextTable};
use hardmeter_session::Session;
use hardmeter_tpch::answers::{compare, Agreement};
use hardmeter_tpch::load::Data;
use hardmeter_tpch::parameters::{Parameters, Source};
use hardmeter_tpch::queries::Query;
use hardmeter_tpch::variants::Variant;
use hardmeter_tpch::{Scale, TpchError};
use serde_json::{json, Value};
use std::time::Duration;

/// Compare the answers at scale 1 with the published ones.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Agreement is by clause 2.1.3.5 of the specification: columns and counts equal, sums within $100, \
                  averages and ratios within 1 %. How many values differ in published digits is told besides.\n\n\
                  Example:\n  hardmeter tpch check\n  hardmeter tpch check --variant 'batch=load:ccopt; ccopt.enabled=on'"
)]
pub struct Check {
    /// The queries.
    #[arg(long, value_name = "LIST", default_value = "1-22")]
    queries: Queries,
    /// Settings of the session: NAME=SETTINGS, as for run.
    #[arg(long, value_name = "VARIANT", default_value = "server=", value_parser = argument::<Variant>)]
    variant: Variant,
    /// Time limit of a query in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

struct Checked {
    query: Query,
    rows: usize,
    agreement: Agreement,
}

impl Check {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let target = self.place.find(&TPCH, globals)?;
        let stop = cancelled_by_signals();
        let mut session = Session::open(&target, &stop)?;
        let data = Data::of(&mut session)?;
        if data.scale != Scale::ONE {
            return Err(TpchError::WrongScale { found: data.scale.factor() }.into());
        }
        if data.refreshes > 0 {
            return Err(TpchError::Refreshed { refreshes: data.refreshes }.into());
        }
        self.variant.apply(&mut session)?;
        session.set_timeout(Duration::from_secs(self.timeout))?;
        let bar = Bar::new(globals);
        bar.0.set_length(self.queries.0.len() as u64);
        let mut checked = Vec::new();
        for query in &self.queries.0 {
            bar.0.set_message(query.to_string());
            let sql = query.sql(&Parameters::of(*query, Source::Validation, data.scale));
            let answer = session.query(&query.to_string(), &sql)?;
            let agreement = compare(*query, &answer);
            checked.push(Checked { query: *query, rows: answer.rows.len(), agreement });
            bar.0.inc(1);
        }
        drop(bar);
        self.output.print("tpch-check", || in_words(&checked), || as_json(&checked, &self.variant))?;
        let sound = checked.iter().all(|checked| checked.agreement.holds());
        Ok(if sound { Outcome::Complete } else { Outcome::Partial })
    }
}

fn in_words(checked: &[Checked]) -> String {
    let mut text =
        String::from("answers at scale 1 with validation parameters, against the published ones\n");
    let columns =
        [Column::right("query"), Column::left("title"), Column::right("rows"), Column::left("agreement")];
    let mut table = TextTable::new(columns).untitled();
    for one in checked {
        let agreement = match &one.agreement {
            Agreement::Identical => "as published".into(),
            Agreement::WithinTolerance(1) => {
                "within the tolerance; 1 value differs in published digits".into()
            }
            Agreement::WithinTolerance(count) => {
                format!("within the tolerance; {count} values differ in published digits")
            }
            Agreement::Different(how) => format!("DIFFERENT: {how}"),
        };
        table.plain([
            one.query.to_string(),
            one.query.title().into(),
            format!("{} rows", one.rows),
            agreement,
        ]);
    }
    text += &table.render(Style::default(), 2);
    let agreeing = checked.iter().filter(|one| one.agreement.holds()).count();
    let identical = checked.iter().filter(|one| one.agreement == Agreement::Identical).count();
    text += &format!(
        "{agreeing} of {} answers agree with the published ones, {identical} of them in every published digit\n",
        checked.len()
    );
    text
}

fn as_json(checked: &[Checked], variant: &Variant) -> Value {
    let queries: Vec<Value> = checked
        .iter()
        .map(|one| {
            let (word, how) = match &one.agreement {
                Agreement::Identical => ("identical", Value::Null),
                Agreement::WithinTolerance(count) => ("within-tolerance", json!(count)),
                Agreement::Different(how) => ("different", json!(how)),
            };
            json!({ "query": one.query.number(), "rows": one.rows, "agreement": word, "difference": how })
        })
        .collect();
    json!({ "variant": variant, "queries": queries })
}
