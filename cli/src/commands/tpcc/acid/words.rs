//! The results of clause 3 as text.

use hardmeter_evidence::table::{Column, Style, TextTable};
use hardmeter_tpcc::acid::durability::{Durability, Kill, Moment};
use hardmeter_tpcc::acid::{Property, Source, Trial, Tried};
use hardmeter_tpcc::audit::Verdict;
use indicatif::HumanCount;

pub(super) fn in_words(
    tried: &[Tried],
    durability: Option<&Durability>,
    refused: bool,
    warehouses: u32,
    place: &str,
) -> String {
    let mut text = format!("clause 3 of TPC-C, {warehouses} warehouses, in the database {place}\n");
    for part in tried {
        text += &format!("\n{}, {}\n", name(part.property), part.transactions);
        text += &trials(&part.trials);
    }
    if let Some(durability) = durability {
        text += &format!("\n{}\n", name(Property::Durability));
        text += &durability.kills.iter().map(kill).collect::<String>();
        text += &trials(std::slice::from_ref(&durability.trial));
    } else if refused {
        text +=
            "\ndurability: not tried, for this is not a server that hardmeter made, and it would be killed\n";
    }
    text += "\n[m]  steps from memory, not verified against the official text\n\
             derived from TPC-C, not a TPC result\n";
    text
}

fn name(property: Property) -> &'static str {
    match property {
        Property::Atomicity => "atomicity",
        Property::Isolation => "isolation",
        Property::Consistency => "consistency",
        Property::Durability => "durability",
    }
}

fn trials(trials: &[Trial]) -> String {
    let mut table = TextTable::new(["clause", "source", "name", "verdict"].map(Column::left)).untitled();
    for trial in trials {
        let verdict = match trial.verdict {
            Verdict::Held => "held",
            Verdict::Short => "SHORT",
            Verdict::Undecided => "undecided",
            Verdict::NotApplicable => "not applicable",
        };
        let source = if trial.source == Source::Memory { "[m]" } else { "" };
        table.plain([trial.clause.to_string(), source.into(), trial.name.to_string(), verdict.into()]);
        trial.seen.iter().for_each(|seen| table.note(seen.to_string()));
        if let Some(case) = &trial.case {
            table.note(format!("case: {case}"));
        }
    }
    table.render(Style::default(), 2)
}

fn kill(kill: &Kill) -> String {
    let moment = match kill.moment {
        Moment::Any => "",
        Moment::InCheckpoint => ", in a checkpoint",
        Moment::BehindCheckpoint => ", behind a checkpoint",
    };
    format!(
        "  kill {:>3} after {:.2} s{moment}: {} New-Orders acknowledged, {} lost, D_NEXT_O_ID + {}; recovery {:.1} s\n",
        kill.number,
        kill.after_seconds,
        HumanCount(kill.acknowledged),
        HumanCount(kill.missing + kill.incomplete),
        HumanCount(kill.growth),
        kill.recovery_seconds
    )
}
