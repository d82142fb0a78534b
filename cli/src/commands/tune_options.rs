//! Options that `tune try` and `tune --auto` share: how trials are conducted, and under which load.

use super::CommandError;
use hardmeter_advise::trial::{Guards, Load, LoadCommand, Pace, Tuned};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "How a remedy is tried")]
pub(super) struct TrialOptions {
    /// Seconds of a block [default: 5].
    #[arg(long, value_name = "SECONDS")]
    block: Option<f64>,
    /// Seconds at the begin of a block that are left out [default: 3 tenths of the block].
    #[arg(long, value_name = "SECONDS")]
    settle: Option<f64>,
    /// Rounds of two blocks after which an undecided trial ends [default: 24].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(7..=1000))]
    rounds: Option<u32>,
    /// The smallest gain that matters, in per cent [default: 2].
    #[arg(long, value_name = "PERCENT")]
    minimum: Option<f64>,
    /// The longest build of an index that a switch may take, in seconds [default: 30].
    #[arg(long, value_name = "SECONDS")]
    longest_build: Option<f64>,
    /// End and undo a trial when less of the machine's memory is available than this, in per cent [default: 5].
    #[arg(long, value_name = "PERCENT")]
    least_memory: Option<f64>,
    /// End and undo a trial when a standby is farther behind than this, in seconds [default: 10].
    #[arg(long, value_name = "SECONDS")]
    most_lag: Option<f64>,
    /// Try on a throwaway copy of the server below DIR: settings that need a restart, too [default: /var/tmp].
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "/var/tmp", group = "restarted")]
    copy: Option<PathBuf>,
    /// Seconds at the begin of each block that are left out after a restart: the buffer pool fills [default: 10].
    #[arg(long, value_name = "SECONDS", requires = "restarted")]
    warm_up: Option<f64>,
    /// LOAD is run once in each block and ends it, instead of running throughout.
    #[arg(long, requires = "load")]
    per_block: bool,
    /// A command that loads the server [default: the existing traffic].
    #[arg(last = true, value_name = "LOAD", help_heading = None::<&str>)]
    load: Vec<OsString>,
}

/// Number of blocks in the first part, in which nothing is changed.
const FIRST_BLOCKS: u32 = 6;

impl TrialOptions {
    /// True if any of the options was given.
    pub(super) fn given(&self) -> bool {
        let numbers =
            [self.block, self.settle, self.minimum, self.longest_build, self.least_memory, self.most_lag];
        self.per_block || self.copy.is_some() || self.rounds.is_some() || numbers.iter().any(Option::is_some)
    }

    /// The folder for a copy, where one may be made.
    pub(super) fn copy(&self) -> Option<&Path> {
        self.copy.as_deref()
    }

    /// # Errors
    /// If a copy was requested of a server that cannot be copied.
    pub(super) fn copies(&self, server: &Tuned) -> Result<(), CommandError> {
        match (server, &self.copy) {
            (Tuned::Mariadb(_), Some(_)) => {
                Err(CommandError::new("MariaDB is not copied yet", "leave out --copy: SET GLOBAL is undone"))
            }
            _ => Ok(()),
        }
    }

    /// Seconds that a server warms up after a restart.
    pub(super) fn warm_up(&self) -> Result<f64, CommandError> {
        match self.warm_up.unwrap_or(10.0) {
            seconds if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
            seconds => Err(CommandError::new(
                format!("--warm-up {seconds} is out of range"),
                "give 0 to 3600 seconds",
            )),
        }
    }

    pub(super) fn per_block(&self) -> bool {
        self.per_block
    }

    pub(super) fn pace(&self) -> Result<Pace, CommandError> {
        let within = |value: f64, low: f64, high: f64| value >= low && value <= high;
        let block = self.block.unwrap_or(5.0);
        let settle = self.settle.unwrap_or(block * 0.3);
        let (minimum, longest_build) = (self.minimum.unwrap_or(2.0), self.longest_build.unwrap_or(30.0));
        if !within(block, 0.5, 3600.0) || !within(settle, 0.0, block - 0.2) {
            return Err(CommandError::new(
                format!("a block of {block} s of which {settle} s are left out cannot be measured"),
                "give blocks of 0.5 to 3600 s, and leave out 0.2 s less than that at most",
            ));
        }
        if !within(minimum, 0.1, 90.0) || !within(longest_build, 0.0, 3600.0) {
            return Err(CommandError::new(
                format!("--minimum {minimum} or --longest-build {longest_build} is out of range"),
                "give a smallest gain of 0.1 to 90 per cent, and a build of at most 3600 s",
            ));
        }
        Ok(Pace {
            block,
            settle,
            first_blocks: FIRST_BLOCKS,
            most_rounds: self.rounds.unwrap_or(24),
            minimum: minimum / 100.0,
            longest_build,
        })
    }

    pub(super) fn guards(&self) -> Result<Guards, CommandError> {
        let default = Guards::default();
        let least_memory = self.least_memory.map_or(default.least_memory, |percent| percent / 100.0);
        let most_lag = self.most_lag.unwrap_or(default.most_lag);
        if !((0.0..=1.0).contains(&least_memory) && most_lag >= 0.0 && most_lag.is_finite()) {
            return Err(CommandError::new(
                "--least-memory or --most-lag is out of range",
                "give 0 to 100 per cent of the memory, and seconds of 0 or more",
            ));
        }
        Ok(Guards { least_memory, most_lag })
    }

    /// The load of the trial: a command that finds the server in these variables of its environment, or the server's
    /// existing traffic.
    pub(super) fn load(&self, environment: Vec<(String, OsString)>) -> Load {
        if self.load.is_empty() {
            return Load::Traffic;
        }
        let command = LoadCommand { words: self.load.clone(), environment };
        match self.per_block {
            true => Load::PerBlock(command),
            false => Load::Throughout(command),
        }
    }
}
