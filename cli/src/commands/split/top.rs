//! `hardmeter split top`.

use super::folder::{state, Folder};
use super::interruption;
use crate::commands::output::Output;
use crate::commands::{CommandError, Globals, Outcome};
use crate::terminal;
use hardmeter_split::segment::monotonic_ns;
use hardmeter_split::state::State;
use hardmeter_split::view::top::{frame, Layout};
use hardmeter_split::view::Order;
use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Show kinds of requests live: the cache lines they replace, what they cost others, where they run.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Columns: replaces of L2: the share of an L2 cache that one request pushes out (damage). slower after polluters: how \
                        much longer its own time is then (sensitivity). costs the next: what it adds to the request after it on the \
                        same processor. Each with its 95 % interval and n. docs/place.md says how to read and decide.\n\n\
                        Example:\n  hardmeter split top\n  hardmeter split top --once --order harm"
)]
pub(super) struct Top {
    #[command(flatten)]
    folder: Folder,
    /// Polling interval in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    interval: u64,
    /// Print one table and end, as when the output is not a terminal.
    #[arg(long)]
    once: bool,
    /// Order of the rows.
    #[arg(long, value_enum, default_value_t = First::Cpu)]
    order: First,
    /// Maximum number of kinds.
    #[arg(long, value_name = "N", default_value_t = 30)]
    kinds: usize,
    #[command(flatten)]
    output: Output,
}

/// Order of the rows.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum First {
    /// Most of the processors' time.
    Cpu,
    /// Most requests a second.
    Rate,
    /// Replaces most of L2.
    Damage,
    /// Slowed down most by polluters.
    Suffering,
    /// Slows others down most, per second.
    Harm,
}

/// Moves to the top left and clears below: no flicker, and the scroll-back is kept.
const REDRAW: &str = "\x1b[H\x1b[J";

impl Top {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let live = !self.once && self.output.is_text() && std::io::stdout().is_terminal();
        let (stop, stopped) = mpsc::channel();
        if live {
            interruption::watch(move || _ = stop.send(()));
        }
        loop {
            let state = state(&self.folder)?;
            let text = || frame(&state, monotonic_ns(), self.layout(globals));
            if !live {
                self.output.print("split-state", text, || serde_json::json!(state))?;
                return Ok(outcome(&state));
            }
            terminal::print(&format!("{REDRAW}{}", text()))?;
            if stopped.recv_timeout(Duration::from_secs(self.interval.max(1)))
                != Err(RecvTimeoutError::Timeout)
            {
                return Ok(Outcome::Complete);
            }
        }
    }

    fn layout(&self, globals: &Globals) -> Layout {
        let order = match self.order {
            First::Cpu => Order::Cpu,
            First::Rate => Order::Rate,
            First::Damage => Order::Damage,
            First::Suffering => Order::Suffering,
            First::Harm => Order::Harm,
        };
        Layout { order, width: terminal::style(globals).width, kinds: self.kinds }
    }
}

fn outcome(state: &State) -> Outcome {
    if state.is_stale(monotonic_ns()) {
        Outcome::Partial
    } else {
        Outcome::Complete
    }
}
