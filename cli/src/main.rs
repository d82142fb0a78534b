//! The `hardmeter` command: arguments, progress, exit status. No logic of its own: each subcommand calls one part.
//!
//! Exit status: 0 done, 1 failed or incomplete (the message names cause and remedy), 2 wrong arguments.

mod commands;
mod parts;
mod terminal;
mod view;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use commands::{Globals, Outcome};
use std::process::ExitCode;

/// Shows where and why a database server stalls on memory, and whether a remedy helps.
#[derive(Parser, Debug)]
#[command(name = "hardmeter", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Record(commands::record::Arguments),
    Stat(commands::stat::Arguments),
    Events(commands::events::Arguments),
    Doctor(commands::doctor::Arguments),
    Report(commands::report::Arguments),
    Open(commands::open::Arguments),
    Tui(commands::tui::Arguments),
    Annotate(commands::annotate::Arguments),
    Sharing(commands::sharing::Arguments),
    Objects(commands::objects::Arguments),
    Pages(commands::pages::Arguments),
    Queries(commands::queries::Arguments),
    Why(commands::why::Arguments),
    Compare(commands::compare::Arguments),
    Overhead(commands::overhead::Arguments),
    Latency(commands::latency::Arguments),
    Export(commands::export::Arguments),
    Server(commands::server::Arguments),
    #[command(subcommand)]
    Tpcc(commands::tpcc::Action),
    #[command(subcommand)]
    Tpch(commands::tpch::Action),
    #[command(subcommand)]
    Oo1(commands::oo1::Action),
    Split(commands::split::Arguments),
    Tune(commands::tune::Arguments),
    Auction(Box<commands::auction::Arguments>),
    #[command(hide = true)]
    Generate(commands::generate::Arguments),
}

fn main() -> ExitCode {
    let matches = parts::grouped(Cli::command()).get_matches();
    let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let globals = &cli.globals;
    let result = match &mut cli.command {
        Command::Record(arguments) => commands::record::run(arguments, globals),
        Command::Stat(arguments) => commands::stat::run(arguments, globals),
        Command::Events(arguments) => commands::events::run(arguments, globals),
        Command::Doctor(arguments) => commands::doctor::run(arguments, globals),
        Command::Report(arguments) => commands::report::run(arguments, globals),
        Command::Open(arguments) => commands::open::run(arguments, globals),
        Command::Tui(arguments) => commands::tui::run(arguments, globals),
        Command::Annotate(arguments) => commands::annotate::run(arguments, globals),
        Command::Sharing(arguments) => commands::sharing::run(arguments, globals),
        Command::Objects(arguments) => commands::objects::run(arguments, globals),
        Command::Pages(arguments) => commands::pages::run(arguments, globals),
        Command::Queries(arguments) => commands::queries::run(arguments, globals),
        Command::Why(arguments) => commands::why::run(arguments, globals),
        Command::Compare(arguments) => commands::compare::run(arguments, globals),
        Command::Overhead(arguments) => commands::overhead::run(arguments, globals),
        Command::Latency(arguments) => commands::latency::run(arguments, globals),
        Command::Export(arguments) => commands::export::run(arguments, globals),
        Command::Server(arguments) => commands::server::run(arguments, globals),
        Command::Tpcc(action) => commands::tpcc::run(action, globals),
        Command::Tpch(action) => commands::tpch::run(action, globals),
        Command::Oo1(action) => commands::oo1::run(action, globals),
        Command::Tune(arguments) => commands::tune::run(arguments, globals),
        Command::Split(arguments) => commands::split::run(arguments, globals),
        Command::Auction(arguments) => commands::auction::run(arguments, globals),
        Command::Generate(arguments) => {
            commands::generate::run(arguments, globals, parts::grouped(Cli::command()))
        }
    };
    match result {
        Ok(Outcome::Complete) => ExitCode::SUCCESS,
        Ok(Outcome::Partial) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{} {error}", terminal::warning(globals, "hardmeter:"));
            ExitCode::from(1)
        }
    }
}
