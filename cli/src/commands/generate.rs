//! `hardmeter generate`: man pages and shell completions, generated from the definitions of the commands. For
//! packagers; hidden.

use super::{CommandError, Globals, Outcome};
use clap_complete::Shell;
use std::path::{Path, PathBuf};

/// Write man pages or shell completions into a folder.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter generate man build/man")]
pub struct Arguments {
    /// The data to write.
    #[arg(value_enum)]
    what: What,
    /// The folder, made when it is not there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum What {
    /// One man page for the command and one for each subcommand.
    Man,
    /// For bash, fish and zsh.
    Completions,
}

/// Runs the command; `cli` is the complete command line that pages and completions describe.
pub fn run(arguments: &Arguments, _globals: &Globals, cli: clap::Command) -> Result<Outcome, CommandError> {
    let folder = &arguments.folder;
    write(arguments.what, folder, cli).map_err(|error| {
        CommandError::new(format!("cannot write into {}: {error}", folder.display()), "name another folder")
    })?;
    Ok(Outcome::Complete)
}

fn write(what: What, folder: &Path, mut cli: clap::Command) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    match what {
        What::Man => {
            let extension = "The PostgreSQL extension (plan) has no command here: CREATE EXTENSION ccopt, see docs/plan.md.";
            clap_mangen::generate_to(cli.after_help(extension), folder)?;
        }
        What::Completions => {
            for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
                clap_complete::generate_to(shell, &mut cli, "hardmeter", folder)?;
            }
        }
    }
    Ok(())
}
