//! `hardmeter annotate`: show one routine instruction by instruction.

use super::output::Output;
use super::{CommandError, Globals, Outcome};
use crate::view::{outcome, require_samples_of, Extent, ViewArguments};
use hardmeter_answers::{AnnotateQuestion, RoutineWanted};
use hardmeter_symbols::SourceOptions;
use hardmeter_views::{Listing, Wanted};
use std::path::PathBuf;

/// Show one routine: its instructions with source lines and the samples of each event.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter annotate LWLockRelease
  hardmeter annotate 0x3b2b67                    the routine around an address of the report
  hardmeter annotate LWLockRelease --registers   and the registers of its first ten records
  hardmeter annotate hash_search --event l2-miss --syntax intel --source-root ~/postgresql-15.10

\"mem\" is what the instruction does to memory: r reads, w writes, rw both.")]
pub struct Arguments {
    /// The routine's name, or an address in it (0x...), as the report prints them.
    #[arg(value_name = "ROUTINE|ADDRESS")]
    routine: RoutineWanted,
    #[command(flatten)]
    view: ViewArguments,
    /// Print the first N records with their registers, data address and latency.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10")]
    registers: Option<usize>,
    /// Assembler syntax.
    #[arg(long, value_enum, default_value_t = Syntax::Att)]
    syntax: Syntax,
    /// A folder that holds the program's source (may be given more than once).
    #[arg(long = "source-root", value_name = "DIR", help_heading = "Names")]
    source_roots: Vec<PathBuf>,
    #[command(flatten)]
    extent: Extent,
    #[command(flatten)]
    output: Output,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    Att,
    Intel,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let question = AnnotateQuestion {
        wanted: arguments.routine.clone(),
        syntax: match arguments.syntax {
            Syntax::Att => hardmeter_symbols::Syntax::Att,
            Syntax::Intel => hardmeter_symbols::Syntax::Intel,
        },
        sources: SourceOptions { roots: arguments.source_roots.clone(), prefixes: Vec::new() },
        registers: arguments.registers,
    };
    let listing = Listing(arguments.view.ask(globals, |answers| answers.annotate(&question))?);
    let passing = listing.annotation.events.iter().map(|event| event.share.total).sum();
    require_samples_of(&listing.heading, passing, &listing.unread, globals)?;
    match arguments.output.is_text() {
        true => arguments.extent.print(Wanted::default(), globals, &listing)?,
        false => arguments.output.print("annotate", String::new, || listing.json())?,
    }
    Ok(outcome(&listing.unread, globals))
}
