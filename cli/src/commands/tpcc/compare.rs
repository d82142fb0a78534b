//! `hardmeter tpcc compare`.

mod blocks;

use crate::commands::output::Output;
use crate::commands::place_engines::EnginePlace;
use crate::commands::{CommandError, Globals, Outcome};
use blocks::Blocks;
use hardmeter_tpcc::compare::{of_runs, Run};
use hardmeter_tpcc::measure::files::load;
use hardmeter_tpcc::settings::Settings;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Compare two sides: settings in turn on one database, or finished runs.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "With settings, short runs (blocks) of A and B take turns in drawn order until the verdict is sure or --blocks \
                  are over: better, worse, same or undecided; a wrong verdict has a probability of 5 %. The settings are those of the \
                  blocks' connections; nothing else on the server changes. It runs transactions: the database grows. Ctrl-C ends \
                  it with what is known.\n\n\
                  One result a side is described, never judged: two runs of one configuration differ by their hour. Several \
                  results a side are judged if the sides took turns (A B B A ...): a run and its neighbour in time are one \
                  observation, and a verdict takes seven or more. Runs of another mode, load or number of warehouses are not \
                  compared unless --force is given.\n\n\
                  Example:\n  hardmeter tpcc compare --a '' --b jit=on\n  \
                  hardmeter tpcc compare --a work_mem=4MB --b work_mem=64MB,jit=off --clients 8 --seconds 20\n  \
                  hardmeter tpcc compare before.json after.json\n  \
                  hardmeter tpcc compare --a before-*.json --b after-*.json"
)]
pub struct Compare {
    /// Two results of hardmeter tpcc run, A and B.
    #[arg(value_name = "RESULT", num_args = 2, required_unless_present_any = ["a", "b"])]
    results: Vec<PathBuf>,
    /// Side A: settings, NAME=VALUE[,NAME=VALUE] ('': the server's own), or results, each a run.
    #[arg(long, value_name = "SETTINGS|RESULT", num_args = 1.., requires = "b", conflicts_with = "results")]
    a: Vec<String>,
    /// Side B.
    #[arg(long, value_name = "SETTINGS|RESULT", num_args = 1.., requires = "a", conflicts_with = "results")]
    b: Vec<String>,
    /// Compare although the runs are not comparable, with a warning.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    blocks: Blocks,
    #[command(flatten)]
    place: EnginePlace,
}

/// What a side is.
enum Meant {
    Settings(Settings),
    Results(Vec<PathBuf>),
}

impl Compare {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        if let [a, b] = self.results.as_slice() {
            return self.of_results(std::slice::from_ref(a), std::slice::from_ref(b));
        }
        match (meant(&self.a)?, meant(&self.b)?) {
            (Meant::Settings(a), Meant::Settings(b)) => {
                self.blocks.run([&a, &b], &self.place, &self.output, globals)
            }
            (Meant::Results(a), Meant::Results(b)) => self.of_results(&a, &b),
            _ => Err(CommandError::new(
                "one side is settings, the other one results",
                "give settings on both sides ('' for the server's own), or results on both",
            )),
        }
    }

    fn of_results(&self, a: &[PathBuf], b: &[PathBuf]) -> Result<Outcome, CommandError> {
        let comparison = of_runs(&runs(a)?, &runs(b)?, self.force)?;
        self.output.print("tpcc-compare", || comparison.in_words(), || json!({ "runs": comparison }))?;
        Ok(Outcome::Complete)
    }
}

/// Settings have a name and `=`, and no file of that name is there; all else is a file.
fn meant(side: &[String]) -> Result<Meant, CommandError> {
    let is_setting = |text: &String| {
        text.is_empty()
            || text.split_once('=').is_some_and(|(name, _)| !name.contains('/') && !Path::new(text).exists())
    };
    if !side.iter().all(is_setting) {
        return Ok(Meant::Results(side.iter().map(PathBuf::from).collect()));
    }
    let mut settings = Settings::default();
    for text in side {
        let more: Result<Settings, String> = text.parse();
        more.and_then(|more| settings.add(&more)).map_err(|cause| {
            CommandError::new(cause, "write a side as NAME=VALUE[,NAME=VALUE], each name once")
        })?;
    }
    Ok(Meant::Settings(settings))
}

fn runs(files: &[PathBuf]) -> Result<Vec<Run>, CommandError> {
    let mut runs = Vec::new();
    for (at, file) in files.iter().enumerate() {
        if files[..at].contains(file) {
            return Err(CommandError::new(
                format!("{} is named twice on one side", file.display()),
                "name each run once: a run that counts twice makes the intervals too narrow",
            ));
        }
        runs.push(Run { name: file.display().to_string(), result: load(file)? });
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(texts: &[&str]) -> Result<Meant, CommandError> {
        meant(&texts.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn settings_and_files_are_distinguished() {
        let settings = |texts: &[&str]| match side(texts).unwrap() {
            Meant::Settings(settings) => settings.to_string(),
            Meant::Results(files) => panic!("{files:?}"),
        };
        assert_eq!(settings(&[""]), "the server's own");
        assert_eq!(settings(&["jit=on,work_mem=4MB", "a.b=1"]), "a.b=1, jit=on, work_mem=4MB");
        for files in [&["a.json"][..], &["./a=b.json"], &["a.json", "jit=on"]] {
            assert!(matches!(side(files).unwrap(), Meant::Results(found) if found.len() == files.len()));
        }
        assert!(side(&["jit=on", "jit=off"]).is_err_and(|error| error.to_string().contains("set twice")));
    }
}
