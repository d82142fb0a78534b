//! Loading: tables without keys, filled by binary COPY, several warehouses in parallel, then keys and statistics.
//!
//! A warehouse is one transaction, which also records it in [`LOAD_TABLE`]. So a load that was killed, or lost its
//! server, continues with the missing warehouses; its parameters are in that table's comment.

use crate::copy::{Rows, Timestamp, HEADER, TRAILER};
use crate::error::TpccError;
use crate::inspection::{inspect, Check};
use crate::population::{Population, RowMaker};
use crate::random::Constants;
use crate::schema::{Layout, PartitionBy, Table, CREATE_LOAD_TABLE, LOAD_TABLE};
use hardmeter_session::{side_by_side, Progress, Session, SessionError, Stop, Target};
use std::time::Instant;

/// Parameters of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadOrder<L = Layout> {
    /// Number of warehouses.
    pub warehouses: u32,
    /// Seed of the rows.
    pub seed: u64,
    /// Layout of the tables.
    pub layout: L,
    /// Whether existing TPC-C tables may be dropped.
    pub replace: bool,
    /// Number of parallel sessions.
    pub jobs: usize,
}

/// The parameters of a load, as recorded in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Mark {
    /// Number of warehouses.
    pub warehouses: u32,
    /// The seed of the rows.
    pub seed: u64,
    /// C-Load: the constant C of NURand for C_LAST.
    pub c_last: u32,
    /// "The current date" of the rows, in microseconds since 2000.
    pub loaded_at: i64,
    /// Partitions of each table; 0: not partitioned.
    pub partitions: u32,
    /// Partitioning method.
    #[serde(default)]
    pub by: PartitionBy,
    /// Whether Citus spreads them.
    #[serde(default)]
    pub distributed: bool,
    /// Fill factor in percent; 0: the server's default.
    pub fill: u8,
    /// Whether all of it is there.
    pub complete: bool,
}

/// The result of a load.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Loaded {
    /// The parameters of the data.
    pub mark: Mark,
    /// Warehouses that were there already, of an interrupted load.
    pub resumed: u32,
    /// Bytes of the tables and their indexes in the server.
    pub bytes: u64,
    /// Whether it is what it should be.
    pub checks: Vec<Check>,
    /// Durations of the phases in seconds.
    pub seconds: Phases,
}

impl Loaded {
    /// Whether all of it is as it should be.
    pub fn is_right(&self) -> bool {
        self.checks.iter().all(Check::holds)
    }
}

/// Durations of a load's phases in seconds.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
#[allow(missing_docs)]
pub struct Phases {
    pub copy: f64,
    pub keys: f64,
    pub vacuum: f64,
    pub checks: f64,
}

impl Mark {
    /// Reads what a database was loaded with. `None`: not by Hardmeter.
    ///
    /// # Errors
    ///
    /// [`TpccError::Session`] if a statement fails, the connection is lost, or `stop` was requested;
    /// [`TpccError::BadMark`] if the mark is not one.
    pub fn of(session: &mut Session) -> Result<Option<Mark>, TpccError> {
        let sql = format!(
            "SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass('{LOAD_TABLE}')"
        );
        let answer = session.query("reading the mark of a load", &sql)?;
        let Some(text) = answer.single() else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|_| TpccError::BadMark { mark: text.to_owned() })
    }

    /// Whether Citus distributes the tables of this database.
    ///
    /// # Errors
    ///
    /// [`TpccError`] as [`Mark::of`].
    pub fn is_distributed(session: &mut Session) -> Result<bool, TpccError> {
        Ok(Mark::of(session)?.is_some_and(|mark| mark.distributed))
    }

    fn new(order: &LoadOrder) -> Mark {
        let LoadOrder { warehouses, seed, .. } = *order;
        let Layout { partitions, by, distributed, fill } = order.layout;
        let (c_last, loaded_at) = (Constants::for_load(seed).last, Timestamp::now().0);
        let (fill, complete) = (fill.unwrap_or(0), false);
        Mark { warehouses, seed, c_last, loaded_at, partitions, by, distributed, fill, complete }
    }

    /// The order that continues this load.
    pub fn order(&self) -> LoadOrder {
        let layout = Layout {
            partitions: self.partitions,
            by: self.by,
            distributed: self.distributed,
            fill: (self.fill > 0).then_some(self.fill),
        };
        LoadOrder {
            warehouses: self.warehouses,
            seed: self.seed,
            layout,
            replace: false,
            jobs: hardmeter_session::usual_jobs(),
        }
    }

    fn is_of(&self, order: &LoadOrder) -> bool {
        let Mark { loaded_at, complete, .. } = *self;
        *self == Mark { loaded_at, complete, ..Mark::new(order) }
    }

    /// The parameters in words.
    pub fn in_words(&self) -> String {
        let Mark { warehouses, seed, partitions, by, fill, .. } = self;
        let distributed = if self.distributed { ", distributed" } else { "" };
        format!(
            "{warehouses} warehouses, seed {seed}, {partitions} partitions by {by}, fill {fill}{distributed}"
        )
    }

    fn statement(&self) -> String {
        // Numbers and booleans only: no quoting needed.
        format!("COMMENT ON TABLE {LOAD_TABLE} IS '{}'", serde_json::json!(self))
    }

    fn population(&self) -> Population {
        Population::of_load(self.seed, Timestamp(self.loaded_at))
    }
}

impl LoadOrder {
    /// Loads the data, or the missing rest.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if a statement fails, the disk of the server is full, other data is there, or `stop` was
    /// requested.
    pub fn load(&self, target: &Target, stop: &Stop, progress: &dyn Progress) -> Result<Loaded, TpccError> {
        load_or_go_on(target, self, stop, progress).map_err(|error| match error {
            TpccError::Session(SessionError::Statement { what, reason, code, .. }) if code == DISK_FULL => {
                TpccError::DiskFull { what, reason }
            }
            other => other,
        })
    }
}

/// SQLSTATE of a full disk.
const DISK_FULL: &str = "53100";

fn load_or_go_on(
    target: &Target,
    order: &LoadOrder,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Loaded, TpccError> {
    let mut session = Session::open(target, stop)?;
    let mut mark = prepare(&mut session, order)?;
    let missing = missing_parts(&mut session, mark.warehouses)?;
    let resumed = begin_copying(mark.warehouses, &missing, progress);
    let mut seconds = Phases::default();
    let population = mark.population();
    seconds.copy = side_by_side(target, order.jobs, stop, missing, |session, number| {
        copy_part(session, &Part { number, population: &population, progress })
    })?;

    let keys: Vec<(String, String)> = Table::ALL.iter().flat_map(|table| table.keys()).collect();
    progress.phase("making keys", keys.len() as u64);
    seconds.keys = side_by_side(target, order.jobs, stop, keys, |session, (what, sql)| {
        make_key(session, &what, &sql)?;
        progress.advance(1);
        Ok::<(), TpccError>(())
    })?;

    progress.phase("vacuuming and analyzing", Table::ALL.len() as u64);
    seconds.vacuum = side_by_side(target, order.jobs, stop, Table::ALL, |session, table| {
        session.execute(&format!("analyzing {table}"), &format!("VACUUM (ANALYZE) {table}"))?;
        progress.advance(1);
        Ok::<(), TpccError>(())
    })?;
    let begin = Instant::now();
    let checks = inspect(target, order.jobs, stop, mark.warehouses, progress)?;
    seconds.checks = begin.elapsed().as_secs_f64();
    mark.complete = true;
    session.execute("leaving the mark of a load", &mark.statement())?;
    // The following run is measured: the load's dirty pages should be on disk. Not every user may request a
    // checkpoint.
    let _ = session.execute("writing a checkpoint", "CHECKPOINT");
    let bytes = size(&mut session, mark.distributed)?;
    Ok(Loaded { mark, resumed, bytes, checks, seconds })
}

/// Creates the tables, or finds those of an interrupted load.
fn prepare(session: &mut Session, order: &LoadOrder) -> Result<Mark, TpccError> {
    match Mark::of(session) {
        Ok(Some(_)) | Err(TpccError::BadMark { .. }) if order.replace => drop_tables(session)?,
        Err(error) => return Err(error),
        Ok(Some(mark)) if mark.complete => {
            return Err(TpccError::AlreadyLoaded { found: mark.in_words() });
        }
        Ok(Some(mark)) if mark.is_of(order) => return Ok(mark),
        Ok(Some(mark)) => {
            let wanted = Mark::new(order).in_words();
            return Err(TpccError::OtherLoad { found: mark.in_words(), wanted });
        }
        Ok(None) => {}
    }
    for table in Table::ALL {
        let sql = format!("SELECT to_regclass('{table}')");
        if session.query("looking for tables", &sql)?.single().is_some() {
            return Err(TpccError::Occupied { table: table.name().into() });
        }
    }
    if order.layout.distributed {
        check_citus(session, order.layout)?;
    }
    let mark = Mark::new(order);
    let mut statements = vec!["BEGIN".to_owned(), CREATE_LOAD_TABLE.to_owned(), mark.statement()];
    statements.extend(Table::ALL.iter().flat_map(|table| table.create(order.layout, order.warehouses)));
    statements.push("COMMIT".into());
    session.execute_each("making the tables", statements)?;
    Ok(mark)
}

/// Citus has to be there, and cuts tables itself.
fn check_citus(session: &mut Session, layout: Layout) -> Result<(), TpccError> {
    let sql = "SELECT extversion FROM pg_extension WHERE extname = 'citus'";
    if session.query("looking for Citus", sql)?.single().is_none() {
        return Err(TpccError::NoCitus);
    }
    if layout.partitions > 0 {
        return Err(TpccError::CutTwice);
    }
    Ok(())
}

fn drop_tables(session: &mut Session) -> Result<(), TpccError> {
    let names: Vec<&str> = Table::ALL.iter().map(|table| table.name()).chain([LOAD_TABLE]).collect();
    session.execute("removing the tables", &format!("DROP TABLE IF EXISTS {}", names.join(", ")))?;
    Ok(())
}

/// The missing parts; 0 is ITEM, the others are warehouses.
fn missing_parts(session: &mut Session, warehouses: u32) -> Result<Vec<u32>, TpccError> {
    let sql = format!(
        "SELECT part FROM generate_series(0, {warehouses}) part \
         WHERE NOT EXISTS (SELECT FROM {LOAD_TABLE} there WHERE there.part = part.part) ORDER BY part"
    );
    let answer = session.query("asking what is loaded", &sql)?;
    Ok(answer.rows.iter().filter_map(|row| row.first()?.as_deref()?.parse().ok()).collect())
}

/// The tables of a part.
fn tables_of(part: u32) -> impl Iterator<Item = Table> {
    Table::ALL.into_iter().filter(move |table| (*table == Table::Item) == (part == 0))
}

fn rows_of(part: u32) -> u64 {
    tables_of(part).map(Table::rows).sum()
}

/// What is loaded in one transaction: the items (0), or a warehouse.
pub(crate) struct Part<'a> {
    pub(crate) number: u32,
    pub(crate) population: &'a Population,
    pub(crate) progress: &'a dyn Progress,
}

impl Part<'_> {
    /// The name of its load, for messages.
    pub(crate) fn loading(&self) -> String {
        match self.number {
            0 => "loading the items".to_owned(),
            warehouse => format!("loading warehouse {warehouse}"),
        }
    }

    /// Loads its tables by `copy`, which returns the number of rows; returns the number of order lines.
    pub(crate) fn copy(
        &self,
        mut copy: impl FnMut(Table, RowMaker) -> Result<u64, TpccError>,
    ) -> Result<u64, TpccError> {
        let mut order_lines = 0;
        for table in tables_of(self.number) {
            let rows = copy(table, self.population.rows(table, self.number))?;
            self.progress.advance(rows);
            if table == Table::OrderLine {
                order_lines = rows;
            }
        }
        Ok(order_lines)
    }
}

/// Announces the copying of the missing parts; returns how many warehouses are there already.
pub(crate) fn begin_copying(warehouses: u32, missing: &[u32], progress: &dyn Progress) -> u32 {
    progress.phase("copying warehouses", missing.iter().map(|&part| rows_of(part)).sum());
    warehouses - missing.iter().filter(|&&part| part > 0).count() as u32
}

/// Appends rows to a buffer until it holds 64 KB; returns whether there are more.
pub(crate) fn fill(rows: &mut Rows, make: &mut dyn FnMut(&mut Rows) -> bool) -> bool {
    let mut more = true;
    while more && rows.len() < 1 << 16 {
        more = make(rows);
    }
    more
}

fn copy_part(session: &mut Session, part: &Part) -> Result<(), TpccError> {
    let what = part.loading();
    // A load without its last commits can be continued: no commit needs to wait for the disk.
    session.execute_each(&what, ["BEGIN", "SET LOCAL synchronous_commit = off"])?;
    let order_lines = part.copy(|table, mut make| {
        let mut begun = false;
        let sql = format!("COPY {table} FROM STDIN (FORMAT binary)");
        let rows = session.copy_in(&what, &sql, &mut |buffer| {
            if !begun {
                buffer.extend_from_slice(HEADER);
                begun = true;
            }
            let mut rows = Rows::new(std::mem::take(buffer));
            let more = fill(&mut rows, &mut make);
            *buffer = rows.into_bytes();
            if !more {
                buffer.extend_from_slice(&TRAILER);
            }
            more
        })?;
        Ok(rows)
    })?;
    let done = format!("INSERT INTO {LOAD_TABLE} VALUES ({}, {order_lines})", part.number);
    Ok(session.execute_each(&what, [done.as_str(), "COMMIT"])?)
}

/// A key may be there already, of a load that was interrupted after the copying.
fn make_key(session: &mut Session, what: &str, sql: &str) -> Result<(), TpccError> {
    let there = match sql.strip_prefix("CREATE INDEX ") {
        Some(rest) => format!("SELECT to_regclass('{}')", rest.split(' ').next().unwrap_or_default()),
        None => format!("SELECT to_regclass('{}_pkey')", sql.split(' ').nth(2).unwrap_or_default()),
    };
    if session.query("looking for keys", &there)?.single().is_some() {
        return Ok(());
    }
    let settings = ["SET maintenance_work_mem = '256MB'", "SET max_parallel_maintenance_workers = 0"];
    Ok(session.execute_each(&format!("making {what}"), [settings[0], settings[1], sql])?)
}

/// Bytes of all tables with their indexes, on all nodes.
fn size(session: &mut Session, distributed: bool) -> Result<u64, TpccError> {
    let names: Vec<String> = Table::ALL.iter().map(|table| format!("'{table}'")).collect();
    let tables = format!("unnest(ARRAY[{}]::regclass[])", names.join(", "));
    let sql = if distributed {
        format!("SELECT sum(citus_total_relation_size(whole)) FROM {tables} whole")
    } else {
        format!(
            "SELECT sum(pg_total_relation_size(part)) FROM {tables} whole, \
             LATERAL (SELECT whole UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = whole) parts(part)"
        )
    };
    let answer = session.query("asking for sizes", &sql)?;
    Ok(answer.single().and_then(|bytes| bytes.parse().ok()).unwrap_or(0))
}
