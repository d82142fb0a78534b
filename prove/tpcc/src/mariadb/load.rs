//! Loading MariaDB: the same rows, a warehouse in one transaction, by `LOAD DATA LOCAL`.
//!
//! Tables are created with their primary keys, since InnoDB stores rows in key order, which is the order of the
//! load; the two secondary indexes are created after all rows. Over several servers ([`Layout::Shards`]) each
//! warehouse is loaded directly on its server, which saves sending every row through the head.

use super::schema::{create, create_on_head, further_indexes, Layout};
use super::session::Session;
use super::sites::{servers_of, Sites};
use super::target::Target;
use crate::copy::{Rows, Timestamp};
use crate::error::TpccError;
use crate::load::{begin_copying, fill, Part, Phases};
use crate::population::Population;
use crate::random::Constants;
use crate::schema::{Table, CREATE_LOAD_TABLE, LOAD_TABLE};
use hardmeter_session::{side_by_side_over, Progress, Stop};
use serde::{Deserialize, Serialize};

/// Parameters of a load.
pub type LoadOrder = crate::load::LoadOrder<Layout>;

/// The parameters of a load, from the comment of [`LOAD_TABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Number of warehouses.
    pub warehouses: u32,
    /// The seed of the rows.
    pub seed: u64,
    /// C-Load: the constant C of NURand for C_LAST.
    pub c_last: u32,
    /// "The current date" of the rows, in microseconds since 2000.
    pub loaded_at: i64,
    /// Layout of the tables.
    pub layout: Layout,
    /// Whether all of it is there.
    pub complete: bool,
}

/// The result of a load.
#[derive(Clone, Debug, Serialize)]
pub struct Loaded {
    /// The parameters of the data.
    pub mark: Mark,
    /// Warehouses that were there already, of an interrupted load.
    pub resumed: u32,
    /// Bytes of the tables and their indexes, on all servers.
    pub bytes: u64,
    /// Durations of the phases in seconds; `vacuum` is that of ANALYZE.
    pub seconds: Phases,
}

impl Mark {
    /// The parameters of the load. `None`: no load by Hardmeter.
    pub(super) fn of(session: &mut Session) -> Result<Option<Mark>, TpccError> {
        let sql = format!(
            "SELECT table_comment FROM information_schema.tables \
             WHERE table_schema = DATABASE() AND table_name = '{LOAD_TABLE}'"
        );
        let Some(text) = session.single("reading the mark of a load", &sql)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|_| TpccError::BadMark { mark: text })
    }

    fn new(order: &LoadOrder) -> Mark {
        let LoadOrder { warehouses, seed, layout, .. } = *order;
        let (c_last, loaded_at) = (Constants::for_load(seed).last, Timestamp::now().0);
        Mark { warehouses, seed, c_last, loaded_at, layout, complete: false }
    }

    fn is_of(&self, order: &LoadOrder) -> bool {
        let Mark { loaded_at, complete, .. } = *self;
        *self == Mark { loaded_at, complete, ..Mark::new(order) }
    }

    /// The parameters in words.
    pub fn in_words(&self) -> String {
        format!("{} warehouses, seed {}, {}", self.warehouses, self.seed, self.layout.in_words())
    }

    /// As a table's comment. Numbers, words and booleans only: no quoting needed.
    fn comment(&self) -> String {
        format!("COMMENT = '{}'", serde_json::json!(self))
    }

    fn population(&self) -> Population {
        Population::of_load(self.seed, Timestamp(self.loaded_at))
    }
}

/// Reads what a database was loaded with.
///
/// # Errors
///
/// [`TpccError::NoData`] if Hardmeter has loaded no data, [`TpccError::Incomplete`] if parts of it are missing.
pub fn mark(target: &Target, stop: &Stop) -> Result<Mark, TpccError> {
    let mut session = Session::open(target, stop)?;
    match Mark::of(&mut session)? {
        None => Err(TpccError::NoData { table: LOAD_TABLE.into() }),
        Some(mark) if !mark.complete => {
            let sites = Sites::of(target, &mut session, mark.layout.servers())?;
            let missing = missing_parts(&sites, mark.warehouses, stop)?;
            let missing = missing.iter().filter(|&&part| part > 0).count() as u32;
            Err(TpccError::Incomplete { missing, all: mark.warehouses })
        }
        Some(mark) => Ok(mark),
    }
}

/// Creates the database if it does not exist.
///
/// # Errors
///
/// [`TpccError`] if the server does not accept the connection, or refuses to create the database.
pub fn ensure_database(target: &Target, stop: &Stop) -> Result<(), TpccError> {
    let name = target.database().replace('`', "``");
    Session::open_server(target, stop)?
        .execute("making the database", &format!("CREATE DATABASE IF NOT EXISTS `{name}`"))
}

impl LoadOrder {
    /// Loads the data, or the missing rest.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if a statement fails, other data is there, or `stop` was requested.
    pub fn load(&self, target: &Target, stop: &Stop, progress: &dyn Progress) -> Result<Loaded, TpccError> {
        let mut head = Session::open(target, stop)?;
        let servers = self.layout.servers();
        if servers > 0 {
            servers_of(&mut head, servers)?.iter().try_for_each(|server| ensure_database(server, stop))?;
        }
        let sites = Sites::of(target, &mut head, servers)?;
        let mut mark = prepare(&mut head, &sites, self, stop)?;
        let missing = missing_parts(&sites, mark.warehouses, stop)?;
        let resumed = begin_copying(mark.warehouses, &missing, progress);
        let mut seconds = Phases::default();
        let population = mark.population();
        let open = || Ok(sites.sessions(stop));
        seconds.copy = side_by_side_over(self.jobs, open, missing, |sessions, number| {
            copy_part(sessions.of_part(number)?, &Part { number, population: &population, progress })
        })?;

        let indexes: Vec<_> = sites
            .data()
            .flat_map(|site| further_indexes().into_iter().map(move |index| (site, index)))
            .collect();
        progress.phase("making keys", indexes.len() as u64);
        seconds.keys =
            side_by_side_over(self.jobs, open, indexes, |sessions, (site, (table, name, sql))| {
                make_index(sessions.at(site)?, table, name, &sql)?;
                progress.advance(1);
                Ok::<(), TpccError>(())
            })?;

        let analyzed: Vec<_> =
            sites.all().flat_map(|site| sites.tables(site).map(move |table| (site, table))).collect();
        progress.phase("analyzing", analyzed.len() as u64);
        seconds.vacuum = side_by_side_over(self.jobs, open, analyzed, |sessions, (site, table)| {
            sessions.at(site)?.rows(&format!("analyzing {table}"), &format!("ANALYZE TABLE {table}"))?;
            progress.advance(1);
            Ok::<(), TpccError>(())
        })?;
        mark.complete = true;
        head.execute("leaving the mark of a load", &format!("ALTER TABLE {LOAD_TABLE} {}", mark.comment()))?;
        let mut bytes = 0;
        let mut sessions = sites.sessions(stop);
        for site in sites.all() {
            bytes += size(sessions.at(site)?)?;
        }
        Ok(Loaded { mark, resumed, bytes, seconds })
    }
}

/// Creates the tables, or finds those of an interrupted load.
///
/// MariaDB commits after each table, so this may be interrupted anywhere: the mark is written before the tables,
/// the head's mark before those of its servers; a continued load creates the missing tables.
fn prepare(head: &mut Session, sites: &Sites, order: &LoadOrder, stop: &Stop) -> Result<Mark, TpccError> {
    let mark = match Mark::of(head) {
        Ok(Some(_)) | Err(TpccError::BadMark { .. }) if order.replace => {
            drop_tables(head)?;
            Mark::new(order)
        }
        Err(error) => return Err(error),
        Ok(Some(mark)) if mark.complete => {
            return Err(TpccError::AlreadyLoaded { found: mark.in_words() });
        }
        Ok(Some(mark)) if mark.is_of(order) => mark,
        Ok(Some(mark)) => {
            let wanted = Mark::new(order).in_words();
            return Err(TpccError::OtherLoad { found: mark.in_words(), wanted });
        }
        Ok(None) => Mark::new(order),
    };
    let mut sessions = sites.sessions(stop);
    for site in sites.all() {
        let session = sessions.at(site)?;
        match Mark::of(session) {
            Ok(Some(there)) if there == mark => {}
            Ok(Some(_)) | Err(TpccError::BadMark { .. }) if order.replace => {
                drop_tables(session)?;
                leave_mark(session, &mark)?;
            }
            Ok(None) => {
                refuse_occupied(session)?;
                leave_mark(session, &mark)?;
            }
            Ok(Some(there)) => {
                let (found, wanted) = (there.in_words(), mark.in_words());
                let found = format!("{found}, on {}", sites.description(site));
                return Err(TpccError::OtherLoad { found, wanted });
            }
            Err(error) => return Err(error),
        }
        for table in Table::ALL {
            let sql = match order.layout.servers() {
                0 => create(table, order.layout, order.warehouses),
                servers if site == 0 => create_on_head(table, servers),
                _ if table == Table::Item => continue,
                _ => create(table, Layout::Whole, order.warehouses),
            };
            session.execute(&format!("making the table {table}"), &sql)?;
        }
    }
    Ok(mark)
}

fn leave_mark(session: &mut Session, mark: &Mark) -> Result<(), TpccError> {
    let sql = format!("{CREATE_LOAD_TABLE} ENGINE = InnoDB {}", mark.comment());
    session.execute("making the mark of a load", &sql)
}

fn refuse_occupied(session: &mut Session) -> Result<(), TpccError> {
    for table in Table::ALL {
        let sql = format!(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '{table}'"
        );
        if session.single("looking for tables", &sql)?.is_some() {
            return Err(TpccError::Occupied { table: table.name().into() });
        }
    }
    Ok(())
}

fn drop_tables(session: &mut Session) -> Result<(), TpccError> {
    // The mark last: until then it identifies the tables as Hardmeter's.
    for name in Table::ALL.iter().map(|table| table.name()).chain([LOAD_TABLE]) {
        session.execute("removing the tables", &format!("DROP TABLE IF EXISTS {name}"))?;
    }
    Ok(())
}

/// The missing parts; 0 is ITEM, the others are warehouses.
fn missing_parts(sites: &Sites, warehouses: u32, stop: &Stop) -> Result<Vec<u32>, TpccError> {
    let mut there = vec![false; warehouses as usize + 1];
    let mut sessions = sites.sessions(stop);
    for site in sites.all() {
        let rows =
            sessions.at(site)?.rows("asking what is loaded", &format!("SELECT part FROM {LOAD_TABLE}"))?;
        for part in rows.iter().filter_map(|row| row.first()?.as_deref()?.parse::<usize>().ok()) {
            if let Some(known) = there.get_mut(part) {
                *known = true;
            }
        }
    }
    Ok((0u32..).zip(there).filter_map(|(part, known)| (!known).then_some(part)).collect())
}

fn copy_part(session: &mut Session, part: &Part) -> Result<(), TpccError> {
    let what = part.loading();
    session.execute(&what, "START TRANSACTION")?;
    let order_lines = part.copy(|table, mut make| {
        // With LOCAL the client supplies the data: the file name is arbitrary, and no file is read.
        let sql = format!("LOAD DATA LOCAL INFILE '{table}' INTO TABLE {table} CHARACTER SET latin1");
        let rows = session.load(&what, &sql, move |buffer| {
            let mut rows = Rows::lines(std::mem::take(buffer));
            let more = fill(&mut rows, &mut make);
            *buffer = rows.into_bytes();
            more
        })?;
        Ok(rows)
    })?;
    session.execute(&what, &format!("INSERT INTO {LOAD_TABLE} VALUES ({}, {order_lines})", part.number))?;
    session.execute(&what, "COMMIT")
}

/// An index may be there already, of a load that was interrupted after the copying.
fn make_index(session: &mut Session, table: Table, name: &str, sql: &str) -> Result<(), TpccError> {
    let there = format!(
        "SELECT 1 FROM information_schema.statistics \
         WHERE table_schema = DATABASE() AND table_name = '{table}' AND index_name = '{name}' LIMIT 1"
    );
    if session.single("looking for keys", &there)?.is_some() {
        return Ok(());
    }
    session.execute(&format!("making the index {name}"), sql)
}

pub(super) fn size(session: &mut Session) -> Result<u64, TpccError> {
    let names: Vec<String> = Table::ALL.iter().map(|table| format!("'{table}'")).collect();
    let sql = format!(
        "SELECT sum(data_length + index_length) FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND engine = 'InnoDB' AND table_name IN ({})",
        names.join(", ")
    );
    let bytes = session.single("asking for sizes", &sql)?;
    Ok(bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0))
}
