//! Errors of TPC-C: cause and remedy.

use hardmeter_session::SessionError;

/// Errors of TPC-C. [`TpccError::remedy`] is the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages document the variants and their fields
pub enum TpccError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("this database already holds the table {table}, which Hardmeter did not load")]
    Occupied { table: String },
    #[error("this database holds a population of TPC-C already: {found}")]
    AlreadyLoaded { found: String },
    #[error("an interrupted load of {found} is here, and this one differs: {wanted}")]
    OtherLoad { found: String, wanted: String },
    #[error("the mark of a load in this database is not one that this version wrote: {mark}")]
    BadMark { mark: String },
    #[error("other clients work in the database {place}: {others} sessions")]
    NotAlone { place: String, others: u32 },
    #[error("the success file {} cannot be compared: {reason}", path.display())]
    SuccessFile { path: std::path::PathBuf, reason: String },
    #[error("the server could not be {what}: {reason}")]
    Victim { what: &'static str, reason: String, remedy: String },
    #[error("{what} is not as it must be in TPC-C: {found}")]
    StrangeRow { what: String, found: String },
    #[error("this database does not hold the expected data of TPC-C: there is no table {table}")]
    NoData { table: String },
    #[error("invalid connection URL {connection} for MariaDB: {reason}")]
    BadConnection { connection: String, reason: String },
    #[error("{what} cannot be done with MariaDB: {reason}")]
    NotInMariadb { what: String, reason: String, remedy: String },
    #[error("the data of TPC-C in this database are incomplete: {missing} of {all} warehouses are missing")]
    Incomplete { missing: u32, all: u32 },
    #[error("cannot {action} {file}: {error}")]
    File { action: &'static str, file: String, error: std::io::Error },
    #[error("{file} is not a result of hardmeter tpcc run: {reason}")]
    ForeignResult { file: String, reason: String },
    #[error("{file} is a result of another version, {found}; this one knows version {known}")]
    OtherResultVersion { file: String, found: u64, known: u32 },
    #[error("these results do not add up to one: {reason}")]
    CannotMerge { reason: String },
    #[error("these runs cannot be compared: {reasons}")]
    CannotCompare { reasons: String },
    #[error("{file} is not a price sheet: {reason}")]
    BadPrices { file: String, reason: String },
    #[error("{file} is a damaged result: {reason}")]
    DamagedResult { file: String, reason: String },
    #[error("{what} failed: the server's disk is full ({reason})")]
    DiskFull { what: String, reason: String },
    #[error("the tables cannot be distributed: this database has no extension citus")]
    NoCitus,
    #[error("tables are either cut into partitions here or distributed by Citus")]
    CutTwice,
    #[error("Citus refuses the statements of client SQL, which join other rows to those of a warehouse")]
    ClientOnCitus,
    #[error("stored procedures cannot be installed: {reason}")]
    NoRightToInstall { reason: String },
    #[error("the CPU plan cannot be followed: {cause}")]
    CpuPlan { cause: String, remedy: String },
    #[error("a setting of the run's connections is refused: {reason}")]
    Setting { reason: String, remedy: String },
    #[error("impossible order: {reason}")]
    BadOrder { reason: String, remedy: String },
    #[error(
        "the run was to begin {late_seconds:.0} s ago, and its measurement interval has begun without it"
    )]
    TooLate { late_seconds: f64 },
    #[error("nothing could be measured over {connections} connections: {reason}")]
    LegFailed { connections: u32, reason: String },
    #[error("a picture could not be drawn: {reason}")]
    Drawing { reason: String },
}

impl TpccError {
    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            TpccError::Session(error) => error.remedy(),
            TpccError::Occupied { .. } => {
                "load into another database (--database NAME), or rename or drop that table yourself".into()
            }
            TpccError::AlreadyLoaded { .. } => {
                "use the existing tables, load into another database, or drop the tables of TPC-C and load \
                 them again: --replace"
                    .into()
            }
            TpccError::OtherLoad { .. } => {
                "give the same --warehouses, --seed, --partitions, --partition-by, --distribute and --fill to go on with it, or --replace to begin again"
                    .into()
            }
            TpccError::DiskFull { .. } => {
                "make room on the disk of the server's data, then give the same command again: it goes on with the \
                 warehouses that are missing"
                    .into()
            }
            TpccError::NoCitus => {
                "install Citus on all nodes and say CREATE EXTENSION citus in this database, or leave --distribute out"
                    .into()
            }
            TpccError::CutTwice => "leave --partitions or --distribute out".into(),
            TpccError::ClientOnCitus => "use stored procedures: --style procedures".into(),
            TpccError::NoRightToInstall { .. } => {
                "let the owner of the schema run GRANT CREATE ON SCHEMA public TO ..., let a user who may install them \
                 run once, or use client SQL: --style client"
                    .into()
            }
            TpccError::BadMark { .. } => "load the data again: hardmeter tpcc load --replace".into(),
            TpccError::NotAlone { .. } => {
                "wait until they are done, or stop them: what others change looks here like a broken transaction".into()
            }
            TpccError::SuccessFile { .. } => "see that its folder's disk is not full; run it again".into(),
            TpccError::Victim { remedy, .. } => remedy.clone(),
            TpccError::StrangeRow { .. } => {
                "see with hardmeter tpcc audit what the data are; load them again: hardmeter tpcc load --replace".into()
            }
            TpccError::NoData { .. } => {
                "load them (hardmeter tpcc load), name another database, or say which tool made them: --foreign NAME"
                    .into()
            }
            TpccError::BadConnection { .. } => {
                "write it as a URL: mysql://USER@HOST:PORT/DATABASE, or \
                 mysql://USER@localhost/DATABASE?socket=/run/mysqld/mysqld.sock; the password may be in MYSQL_PWD"
                    .into()
            }
            TpccError::NotInMariadb { remedy, .. } => remedy.clone(),
            TpccError::Incomplete { .. } => {
                "go on with the load: the same hardmeter tpcc load again".into()
            }
            TpccError::File { action, .. } => format!("see that the file can be {}", match *action {
                "read" => "read: its name, its folder, its permissions",
                _ => "written: its folder, its permissions, room on the disk",
            }),
            TpccError::ForeignResult { .. } => {
                "name a file that hardmeter tpcc run --output wrote".into()
            }
            TpccError::OtherResultVersion { .. } => {
                "use the version of hardmeter that wrote it, or run again".into()
            }
            TpccError::CannotMerge { .. } => "merge the results of one run: the same order, other warehouses for each driver, \
                                              begun together (--start-at)"
                .into(),
            TpccError::CannotCompare { .. } => "compare runs of one mode and size, or say --force".into(),
            TpccError::BadPrices { .. } => "see hardmeter tpcc show --help for what a price sheet looks like".into(),
            TpccError::DamagedResult { .. } => "use another copy of it, or run again".into(),
            TpccError::CpuPlan { remedy, .. } => remedy.clone(),
            TpccError::BadOrder { remedy, .. } | TpccError::Setting { remedy, .. } => remedy.clone(),
            TpccError::LegFailed { .. } => {
                "see the server's log, and whether hardmeter tpcc run --mode closed --clients 4 works; if it is only \
                 slow, measure for longer: hardmeter tpcc sweep --leg 10, hardmeter tpcc compare --seconds 30"
                    .into()
            }
            TpccError::Drawing { .. } => "leave the picture away".into(),
            TpccError::TooLate { .. } => {
                "give all drivers a time to begin at that lies ahead far enough for them to connect, and set the \
                 machines' clocks alike"
                    .into()
            }
        }
    }
}
