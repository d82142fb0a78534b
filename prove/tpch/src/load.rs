//! Loading: tables are created and filled by COPY from a streaming generator, then indexed and analyzed.
//!
//! Each table is made and filled in one transaction: with `wal_level = minimal` the server then writes no log of
//! it, and `FREEZE` leaves rows as VACUUM would. A load that fails or is interrupted drops its tables; a killed one
//! leaves the mark "loading" on them.

use crate::error::TpchError;
use crate::scale::Scale;
use crate::schema::{Index, Table};
use hardmeter_session::{side_by_side, Progress, Session, Stop, Target};
use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

/// The parameters of a load.
#[derive(Clone, Debug)]
pub struct LoadOrder {
    /// The scale.
    pub scale: Scale,
    /// Whether existing TPC-H tables may be dropped.
    pub replace: bool,
    /// Number of parallel sessions.
    pub jobs: usize,
}

/// The result of a load.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Loaded {
    /// The scale.
    pub scale: Scale,
    /// Rows of each table.
    pub rows: Vec<(&'static str, u64)>,
    /// Bytes of the tables and their indexes in the server.
    pub bytes: u64,
    /// Durations of filling, indexing and analyzing.
    pub seconds: Phases,
}

/// Durations of a load's phases in seconds.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
#[allow(missing_docs)]
pub struct Phases {
    pub copy: f64,
    pub index: f64,
    pub vacuum: f64,
}

/// The data in a database, from the mark of a load, or by counting if another program loaded them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Data {
    /// The scale.
    pub scale: Scale,
    /// Number of executed pairs of refresh functions.
    pub refreshes: u32,
}

const MARK: &str = "hardmeter tpch:";
const LOADING: &str = "hardmeter tpch: loading";

impl Data {
    /// Reads the scale of the loaded data, and how often they were refreshed.
    ///
    /// # Errors
    ///
    /// [`TpchError::NoData`] if a table is missing, [`TpchError::Incomplete`] if a load was interrupted.
    pub fn of(session: &mut Session) -> Result<Data, TpchError> {
        for table in Table::ALL {
            if !exists(session, table)? {
                return Err(TpchError::NoData { table: table.name() });
            }
        }
        match mark(session, Table::Orders)? {
            Some(mark) if mark.starts_with(LOADING) => Err(TpchError::Incomplete),
            Some(mark) => match Data::parse(&mark) {
                Some(data) => Ok(data),
                None => Data::counted(session),
            },
            None => Data::counted(session),
        }
    }

    fn counted(session: &mut Session) -> Result<Data, TpchError> {
        let answer = session.query("counting suppliers", "SELECT count(*) FROM supplier")?;
        let suppliers: f64 = answer.single().and_then(|count| count.parse().ok()).unwrap_or(0.0);
        Ok(Data { scale: Scale::new(suppliers / 10_000.0)?, refreshes: 0 })
    }

    fn parse(mark: &str) -> Option<Data> {
        let rest = mark.strip_prefix(MARK)?.trim().strip_prefix("scale ")?;
        let (scale, rest) = rest.split_once(", ")?;
        let refreshes = rest.strip_suffix(" refreshes")?.parse().ok()?;
        Some(Data { scale: scale.parse().ok()?, refreshes })
    }

    /// The statement that leaves the mark.
    pub(crate) fn mark(self) -> String {
        format!("COMMENT ON TABLE orders IS '{MARK} scale {}, {} refreshes'", self.scale, self.refreshes)
    }
}

fn exists(session: &mut Session, table: Table) -> Result<bool, TpchError> {
    let sql = format!("SELECT to_regclass('public.{}')", table.name());
    Ok(session.query("looking for tables", &sql)?.single().is_some())
}

fn mark(session: &mut Session, table: Table) -> Result<Option<String>, TpchError> {
    let sql = format!("SELECT obj_description('public.{}'::regclass, 'pg_class')", table.name());
    Ok(session.query("reading the mark of a load", &sql)?.single().map(String::from))
}

/// Loads the data.
///
/// # Errors
///
/// [`TpchError`] if tables exist already, a statement fails, or `stop` was requested.
pub fn load(
    target: &Target,
    order: &LoadOrder,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Loaded, TpchError> {
    let mut session = Session::open(target, stop)?;
    make_room(&mut session, order.replace)?;
    match fill(target, order, stop, progress, &mut session) {
        Ok(loaded) => Ok(loaded),
        Err(error) => {
            // Report the first error. The session that runs this ignores the stop request.
            if let Ok(mut session) = Session::open(target, &Stop::new()) {
                let _ = drop_tables(&mut session);
            }
            Err(error)
        }
    }
}

/// Ensures that the tables do not exist.
fn make_room(session: &mut Session, replace: bool) -> Result<(), TpchError> {
    for table in Table::ALL {
        let ours = |mark: Option<String>| mark.is_some_and(|mark| mark.starts_with(LOADING));
        if exists(session, table)? && !replace && !ours(mark(session, table)?) {
            return Err(TpchError::AlreadyLoaded { table: table.name().into() });
        }
    }
    drop_tables(session)
}

fn drop_tables(session: &mut Session) -> Result<(), TpchError> {
    let names: Vec<&str> = Table::ALL.iter().map(|table| table.name()).collect();
    session.execute("removing the tables", &format!("DROP TABLE IF EXISTS {}", names.join(", ")))?;
    Ok(())
}

fn fill(
    target: &Target,
    order: &LoadOrder,
    stop: &Stop,
    progress: &dyn Progress,
    session: &mut Session,
) -> Result<Loaded, TpchError> {
    let mut seconds = Phases::default();
    let estimate = Table::ALL.iter().map(|table| order.scale.rows(*table)).sum();
    progress.phase("copying rows", estimate);
    let counts: Vec<AtomicU64> = Table::ALL.iter().map(|_| AtomicU64::new(0)).collect();
    seconds.copy = side_by_side(target, order.jobs, stop, Table::ALL, |session, table| {
        let rows = copy_table(session, table, order.scale, progress)?;
        counts[table as usize].store(rows, Ordering::Relaxed);
        Ok::<(), TpchError>(())
    })?;

    let indexes: Vec<(Table, Index)> =
        Table::ALL.iter().flat_map(|table| table.indexes().iter().map(|index| (*table, *index))).collect();
    progress.phase("making indexes", indexes.len() as u64);
    seconds.index =
        side_by_side(target, order.jobs, stop, indexes.iter().copied(), |session, (table, index)| {
            // Sorted in memory up to about scale 5; the sessions share the processors, so none uses parallel
            // workers.
            session.execute(
                "preparing to index",
                "SET maintenance_work_mem = '512MB'; SET max_parallel_maintenance_workers = 0",
            )?;
            session.execute(&format!("making the index {}", index.name), &index.create(table))?;
            progress.advance(1);
            Ok::<(), TpchError>(())
        })?;
    for (table, index) in &indexes {
        if let Some(sql) = index.declare(*table) {
            session.execute(&format!("declaring the primary key of {}", table.name()), &sql)?;
        }
    }

    progress.phase("vacuuming and analyzing", Table::ALL.len() as u64);
    seconds.vacuum = side_by_side(target, order.jobs, stop, Table::ALL, |session, table| {
        let sql = format!("VACUUM (FREEZE, ANALYZE) {}", table.name());
        session.execute(&format!("analyzing {}", table.name()), &sql)?;
        progress.advance(1);
        Ok::<(), TpchError>(())
    })?;
    session.execute("leaving the mark of a load", &Data { scale: order.scale, refreshes: 0 }.mark())?;
    // The following run is measured: the load's dirty pages should be on disk. Not every user may request a
    // checkpoint.
    let _ = session.execute("writing a checkpoint", "CHECKPOINT");

    let sizes: Vec<String> =
        Table::ALL.iter().map(|table| format!("pg_total_relation_size('{}')", table.name())).collect();
    let size = session.query("asking for sizes", &format!("SELECT {}", sizes.join(" + ")))?;
    let rows = Table::ALL.iter().zip(&counts);
    Ok(Loaded {
        scale: order.scale,
        rows: rows.map(|(table, count)| (table.name(), count.load(Ordering::Relaxed))).collect(),
        bytes: size.single().and_then(|size| size.parse().ok()).unwrap_or(0),
        seconds,
    })
}

fn copy_table(
    session: &mut Session,
    table: Table,
    scale: Scale,
    progress: &dyn Progress,
) -> Result<u64, TpchError> {
    let what = format!("loading {}", table.name());
    let name = table.name();
    session.execute(&what, &format!("BEGIN; {}; COMMENT ON TABLE {name} IS '{LOADING}'", table.create()))?;
    let copied = copy_rows(session, &what, table, scale, progress);
    match copied {
        Ok(rows) => {
            // The mark of the complete database is on the table orders, and is changed last.
            let unmark = if table == Table::Orders {
                String::new()
            } else {
                format!("COMMENT ON TABLE {name} IS NULL; ")
            };
            session.execute(&what, &format!("{unmark}COMMIT"))?;
            Ok(rows)
        }
        Err(error) => Err(error), // the session ends with its worker, and with it the transaction
    }
}

fn copy_rows(
    session: &mut Session,
    what: &str,
    table: Table,
    scale: Scale,
    progress: &dyn Progress,
) -> Result<u64, TpchError> {
    let sql = format!("COPY {} FROM STDIN (FREEZE, DELIMITER '|')", table.name());
    let factor = scale.factor();
    macro_rules! copy {
        ($generator:ident) => {{
            let mut rows = $generator::new(factor, 1, 1).iter();
            Ok(session.copy_in(what, &sql, &mut |buffer| append_rows(&mut rows, buffer, progress))?)
        }};
    }
    match table {
        Table::LineItem => copy!(LineItemGenerator),
        Table::Orders => copy!(OrderGenerator),
        Table::PartSupp => copy!(PartSuppGenerator),
        Table::Customer => copy!(CustomerGenerator),
        Table::Part => copy!(PartGenerator),
        Table::Supplier => copy!(SupplierGenerator),
        Table::Nation => copy!(NationGenerator),
        Table::Region => copy!(RegionGenerator),
    }
}

/// Appends about 64 KB of rows; returns whether there may be more.
fn append_rows<T: Display>(
    rows: &mut impl Iterator<Item = T>,
    buffer: &mut Vec<u8>,
    progress: &dyn Progress,
) -> bool {
    const ENOUGH: usize = (1 << 16) - 512;
    let mut count = 0;
    let mut more = true;
    while buffer.len() < ENOUGH {
        match rows.next() {
            Some(row) => append_row(&row, buffer),
            None => {
                more = false;
                break;
            }
        }
        count += 1;
    }
    progress.advance(count);
    more
}

/// Appends one row in COPY's text format. The generator ends every column with `|`, COPY separates by it. No value of
/// the specification's grammar holds a backslash, a line feed or a `|`: nothing has to be escaped.
pub(crate) fn append_row(row: &impl Display, buffer: &mut Vec<u8>) {
    // Writing into a vector cannot fail.
    let _ = write!(buffer, "{row}");
    if buffer.last() == Some(&b'|') {
        buffer.pop();
    }
    buffer.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_lines_that_copy_takes() {
        let mut buffer = Vec::new();
        let region = RegionGenerator::new(1.0, 1, 1).iter().next().unwrap();
        append_row(&region, &mut buffer);
        let text = String::from_utf8(buffer).unwrap();
        assert!(text.starts_with("0|AFRICA|"), "{text}");
        assert!(text.ends_with('\n') && !text.ends_with("|\n"), "{text}");
    }

    #[test]
    fn no_row_needs_escaping_and_every_row_has_its_columns() {
        fn check<T: Display>(table: Table, rows: impl Iterator<Item = T>) -> u64 {
            let mut count = 0;
            for row in rows {
                let mut line = Vec::new();
                append_row(&row, &mut line);
                let text = String::from_utf8(line).unwrap();
                assert_eq!(text.matches('|').count() + 1, table.columns().len(), "{text}");
                assert!(!text.contains('\\'), "{text}");
                assert_eq!(text.matches('\n').count(), 1, "{text}");
                count += 1;
            }
            count
        }
        let scale = Scale::new(0.01).unwrap();
        let factor = scale.factor();
        let counts = [
            (Table::Orders, check(Table::Orders, OrderGenerator::new(factor, 1, 1).iter())),
            (Table::PartSupp, check(Table::PartSupp, PartSuppGenerator::new(factor, 1, 1).iter())),
            (Table::Customer, check(Table::Customer, CustomerGenerator::new(factor, 1, 1).iter())),
            (Table::Part, check(Table::Part, PartGenerator::new(factor, 1, 1).iter())),
            (Table::Supplier, check(Table::Supplier, SupplierGenerator::new(factor, 1, 1).iter())),
            (Table::Nation, check(Table::Nation, NationGenerator::new(factor, 1, 1).iter())),
        ];
        for (table, count) in counts {
            assert_eq!(count, scale.rows(table), "{}", table.name());
        }
        let items = check(Table::LineItem, LineItemGenerator::new(factor, 1, 1).iter());
        assert_eq!(items, 60_175, "what dbgen makes of this scale");
    }

    #[test]
    fn marks_are_read_back() {
        let data = Data { scale: Scale::new(0.1).unwrap(), refreshes: 3 };
        let sql = data.mark();
        let mark = sql.split('\'').nth(1).unwrap();
        assert_eq!(Data::parse(mark), Some(data));
        assert_eq!(Data::parse(LOADING), None);
        assert_eq!(Data::parse("a comment of somebody else"), None);
    }
}
