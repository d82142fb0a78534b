//! `hardmeter tune`: where a live server's time goes, and which remedies would help most.

use super::output::Output;
use super::tune_options::TrialOptions;
use super::tune_server::TunedServer;
use super::workload::{cancelled_by_signals, Bar};
use super::{tune_auto, tune_estimate, tune_ledger, tune_try, CommandError, Globals, Outcome};
use crate::terminal;
use hardmeter_advise::trial::{Ledger, Running};
use hardmeter_advise::{advise, AdviseError, Audience, Page};
use hardmeter_session::SessionError;
use std::time::Duration;

/// Show where a live server's time goes and which remedies would help most.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
It looks for some seconds at a PostgreSQL (15 or newer) or MariaDB (10.11) server that works, under its own traffic or LOAD, and
changes nothing: remedies are printed as commands, with their undo; `hardmeter tune try` proves one and undoes it. It
needs a role that may see other sessions (pg_monitor); the plans of statements need the right to read their tables. Run
queue and kernel time need to be on the server's machine. What is known of statements is richer with pg_stat_statements.

With --auto it goes on: it tries the best remedy that a reload or SET GLOBAL switches (with --ddl: or an index; with
--copy: what needs a restart, on a copy of PostgreSQL), keeps it if a gain is proven, undoes it if not, looks again, and
ends when nothing is left that may gain. Without --yes it prints what it would do, and asks on a terminal. LOAD finds the server by PGHOST, PGPORT, PGUSER, PGDATABASE, of MariaDB by MYSQL_UNIX_PORT
or MYSQL_HOST and MYSQL_TCP_PORT.

Exit status: 0 when the server was looked at, whatever was found, and --auto came to its end; 1 when not; 2 for wrong
arguments.

Examples:
  hardmeter tune --server /var/tmp/pg
  hardmeter tune --url 'host=/run/postgresql user=postgres dbname=shop' --seconds 60 --full
  hardmeter tune --url postgresql:///shop?host=/run/postgresql --for schema
  hardmeter tune --url mysql://monitor@db.example/shop
  hardmeter tune --auto --ddl --server /var/tmp/pg --database shop -- pgbench -n -c 4 -T 600 shop"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    server: TunedServer,
    /// Duration of the observation in seconds.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Only remedies that this reader can apply.
    #[arg(long = "for", value_enum, value_name = "READER")]
    reader: Option<Reader>,
    /// All shares, all remedies with evidence, commands, undo and risk.
    #[arg(long)]
    full: bool,
    /// Try the remedies that may be tried, one after the other, and keep what is proven to gain.
    #[arg(long, conflicts_with_all = ["reader", "full"])]
    auto: bool,
    /// Do it: without this --auto asks on a terminal, and elsewhere only prints what it would do.
    #[arg(long, requires = "auto")]
    yes: bool,
    /// --auto may create indexes; on MariaDB it may drop them, too.
    #[arg(long, requires = "auto")]
    ddl: bool,
    /// The most trials of --auto.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "auto", value_parser = clap::value_parser!(u32).range(1..=100))]
    most_steps: u32,
    #[command(flatten)]
    options: TrialOptions,
    #[command(flatten)]
    output: Output,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Try(Box<tune_try::Arguments>),
    Undo(tune_ledger::Undo),
    Log(tune_ledger::Log),
    Report(tune_ledger::Report),
    Estimate(tune_estimate::Arguments),
    /// Undo a trial when the program that conducts it dies.
    #[command(hide = true)]
    Watchdog(tune_ledger::Watchdog),
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// Runs the server.
    Operator,
    /// Writes the programs that use it.
    Application,
    /// Owns tables and indexes.
    Schema,
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    match &arguments.action {
        Some(Action::Try(action)) => return tune_try::run(action, globals),
        Some(Action::Undo(action)) => return tune_ledger::undo(action, globals),
        Some(Action::Log(action)) => return tune_ledger::log(action, globals),
        Some(Action::Report(action)) => return tune_ledger::report(action, globals),
        Some(Action::Estimate(action)) => return tune_estimate::run(action, globals),
        Some(Action::Watchdog(action)) => return tune_ledger::watchdog(action),
        None => {}
    }
    if arguments.auto {
        return tune_auto::run(&arguments.wanted(), globals);
    }
    if arguments.options.given() {
        return Err(CommandError::new(
            "options of trials were given, but a look makes no trial",
            "add --auto, or use hardmeter tune try",
        ));
    }
    let server = arguments.server.tuned()?;
    let load = arguments.options.load(server.environment());
    let running = Running::start(&load, Ledger::of_user().beside("load.log"))?;
    let stop = cancelled_by_signals();
    let bar = Bar::new(globals);
    let progress = |share: f64| bar.stands_at((share * 1000.0) as usize, 1000, "observing the server");
    let seconds = Duration::from_secs(arguments.seconds);
    let look = server.look(seconds, &stop, &progress)?;
    drop(bar);
    running.still_works()?;
    drop(running);
    let mut findings = advise(&look, server.remedies());
    if let Some(reader) = arguments.reader {
        findings.retain(|finding| finding.audience == reader.audience());
    }
    let page = Page { look, findings };
    let style = terminal::style(globals);
    let text = || match arguments.full {
        true => page.full(style),
        false => page.first_screen(style, &arguments.again()),
    };
    arguments.output.print("tune", text, || page.json())?;
    Ok(Outcome::Complete)
}

impl Reader {
    fn audience(self) -> Audience {
        match self {
            Reader::Operator => Audience::Operator,
            Reader::Application => Audience::Application,
            Reader::Schema => Audience::Schema,
        }
    }
}

impl Arguments {
    fn wanted(&self) -> tune_auto::Wanted<'_> {
        tune_auto::Wanted {
            server: &self.server,
            options: &self.options,
            seconds: self.seconds,
            yes: self.yes,
            ddl: self.ddl,
            most_steps: self.most_steps,
            output: &self.output,
        }
    }

    /// The command without what it printed, for what to type next.
    fn again(&self) -> String {
        format!("hardmeter tune {}", self.server.again())
    }
}

impl From<AdviseError> for CommandError {
    fn from(error: AdviseError) -> CommandError {
        match error {
            AdviseError::Session(error @ SessionError::Interrupted { .. }) => CommandError::new(error, ""),
            error => CommandError::new(&error, error.remedy()),
        }
    }
}
