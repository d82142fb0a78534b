//! `hardmeter oo1 run`.

use super::arguments::{argument, Place};
use super::{interruption, remark, table, writable, Bar, Results};
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_oo1::compare::{compare, usual_protocol, Progress};
use hardmeter_oo1::figures::Figure;
use hardmeter_oo1::order::{Cell, Contestant, Graph, Layout, Measure, Order, PageCache, Protocol};
use hardmeter_oo1::programs::Programs;
use hardmeter_oo1::report::Report;
use hardmeter_oo1::stop::Stop;
use hardmeter_oo1::stores::Stores;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Run OO1 in several modes, in turn; compare times and the visited parts.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "A round runs every mode twice, in mirrored order, each in a process of its own; ratios are of what ran \
                  within a round. Exit status 1 if a mode failed or visited other parts than the others.\n\n\
                  Example:\n  hardmeter oo1 run\n  hardmeter oo1 run --parts 200000 --locality both --plots figures\n  \
                  hardmeter oo1 run --parts 2000000 --layout paper --protocol hot-set --memory 48 \
                  --page-cache dropped --modes p3l-plugin,offset"
)]
pub struct Run {
    /// Number of parts; several, separated by commas. OO1's sizes are 20000, 200000 and 2000000.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "20000",
          value_parser = clap::value_parser!(u64).range(100..=8_000_000))]
    parts: Vec<u64>,
    /// Whether connections lead to parts nearby, nine times in ten.
    #[arg(long, value_enum, default_value_t = Locality::Yes)]
    locality: Locality,
    /// oo1: the complete benchmark, with connections as objects; paper: three pointers per part.
    #[arg(long, value_name = "LAYOUT", default_value = "oo1", value_parser = argument::<Layout>)]
    layout: Layout,
    /// Which modes, separated by commas; ratios need plain and texas among them. MODE+prefetch has P3L prefetch.
    /// [default: all that are built]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = argument::<Contestant>)]
    modes: Vec<Contestant>,
    /// The measure: traversal, reverse, lookup, insert.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "traversal",
          value_parser = argument::<Measure>)]
    measure: Vec<Measure>,
    /// The protocol: texas, oo1, hot, hot-set, figure1, figure2, figure3 (docs/oo1.md). [default: texas for
    /// traversals, oo1 for others]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = argument::<Protocol>)]
    protocol: Vec<Protocol>,
    /// State of a store in the page cache before a run: dropped, hot.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "dropped,hot",
          value_parser = argument::<PageCache>)]
    page_cache: Vec<PageCache>,
    /// Number of rounds; an interval needs at least six.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// The first number of the protocol, instead of the default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    units: Option<u64>,
    /// Limit each process and its page cache to this many MB, in a control group.
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(8..))]
    memory: Option<u64>,
    /// Seed of graphs and patterns.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Time limit of one program in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Also measure the data of the paper's figures 1 to 3, and draw them into this folder, as SVG.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    #[command(flatten)]
    results: Results,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Locality {
    Yes,
    No,
    Both,
}

impl Progress for Bar {
    fn step(&self, done: usize, of: usize, what: &str) {
        self.stands_at(done, of, what);
    }
}

impl Run {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let programs = Programs::find()?;
        let order = self.order(&programs)?;
        self.results.check()?;
        if let Some(folder) = &self.plots {
            make_folder(folder)?;
            writable(&folder.join("figure"))?;
        }
        let stores = Stores::open(&self.place.folder())?;
        let stop = Stop::new();
        let asked = stop.clone();
        interruption::watch(move || asked.ask());
        let bar = Bar::new(globals);
        let report = compare(&order, &programs, &stores, &stop, &bar)?;
        drop(bar);
        self.results.write(|path| report.write(path))?;
        if let Some(folder) = &self.plots {
            draw(&report, folder, globals)?;
        }
        self.results.printed.print("oo1", || table::in_words(&report), || report.to_json())?;
        Ok(if report.is_sound() { Outcome::Complete } else { Outcome::Partial })
    }

    fn order(&self, programs: &Programs) -> Result<Order, CommandError> {
        let contestants = match self.modes.is_empty() {
            true => programs.modes().iter().filter_map(|mode| mode.parse().ok()).collect(),
            false => self.modes.clone(),
        };
        Ok(Order {
            cells: self.cells()?,
            contestants,
            rounds: usize::from(self.rounds),
            units: self.units,
            seed: self.seed,
            timeout: Duration::from_secs(self.timeout),
        })
    }

    fn cells(&self) -> Result<Vec<Cell>, CommandError> {
        let mut cells: Vec<Cell> = Vec::new();
        let mut add = |cell: Cell| {
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        };
        let localities = match self.locality {
            Locality::Yes => vec![true],
            Locality::No => vec![false],
            Locality::Both => vec![true, false],
        };
        for &parts in &self.parts {
            for &locality in &localities {
                let graph = Graph { parts, locality, seed: self.seed };
                let cell = |measure, protocol, page_cache| Cell {
                    graph,
                    layout: self.layout,
                    measure,
                    protocol,
                    page_cache,
                    memory_bytes: self.memory.map(|mb| mb * 1_000_000),
                };
                for &measure in &self.measure {
                    if measure == Measure::Reverse && self.layout == Layout::Paper {
                        return Err(CommandError::new(
                            "the layout of the paper has no way back: its parts do not know who points at them",
                            "measure reverse traversals with --layout oo1",
                        ));
                    }
                    let usual = vec![usual_protocol(measure)];
                    for &protocol in if self.protocol.is_empty() { &usual } else { &self.protocol } {
                        for &page_cache in &self.page_cache {
                            add(cell(measure, protocol, page_cache));
                        }
                    }
                }
                if self.plots.is_some() {
                    let figures: &[Protocol] = match locality {
                        true => &[Protocol::Figure1, Protocol::Figure2],
                        false => &[Protocol::Figure3],
                    };
                    for &figure in figures {
                        add(cell(Measure::Traversal, figure, PageCache::Dropped));
                    }
                }
            }
        }
        Ok(cells)
    }
}

/// Draws the figures that a report has the runs for.
pub(super) fn draw(report: &Report, folder: &Path, globals: &Globals) -> Result<(), CommandError> {
    make_folder(folder)?;
    let figures = Figure::of_report(report);
    if figures.is_empty() {
        remark(globals, "no figure was drawn: protocols figure1, figure2 and figure3 were not measured");
    }
    for figure in figures {
        let path = figure.draw(folder)?;
        remark(globals, &format!("drew {}", path.display()));
    }
    Ok(())
}

fn make_folder(folder: &Path) -> Result<(), CommandError> {
    std::fs::create_dir_all(folder).map_err(|error| {
        CommandError::new(
            format!("cannot make the folder {}: {error}", folder.display()),
            "name a folder that you may write to",
        )
    })
}
