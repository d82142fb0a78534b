//! Installing the stored procedures, once for a database and version.

use super::procedures::{CITUS_FUNCTIONS, FUNCTIONS};
use crate::error::TpccError;
use crate::load::Mark;
use hardmeter_session::{Session, SessionError, Stop, Target};

/// The result of [`install`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// They were missing or of another version, and have been installed.
    Now,
    /// They were already installed.
    Before,
}

/// Installs the stored procedures in the schema `public`, if they are missing; those of another version are
/// replaced. Several drivers may do so at the same time.
///
/// # Errors
///
/// [`TpccError`] if the tables are missing, or the user may not create functions in `public`.
pub fn install(target: &Target, stop: &Stop) -> Result<Installed, TpccError> {
    let mut session = Session::open(target, stop)?;
    for table in crate::schema::Table::ALL {
        let sql = format!("SELECT to_regclass('{table}')");
        if session.query("looking for tables", &sql)?.single().is_none() {
            return Err(TpccError::NoData { table: table.name().into() });
        }
    }
    let functions = if Mark::is_distributed(&mut session)? { CITUS_FUNCTIONS } else { FUNCTIONS };
    // A second driver waits here, and then finds them installed.
    session.execute(WHAT, &format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})"))?;
    let there = session.query("looking for stored procedures", MARK_THERE)?;
    let installed = if there.single() == Some(&mark(functions)) { Installed::Before } else { Installed::Now };
    if installed == Installed::Now {
        let mark = format!("COMMENT ON FUNCTION hardmeter_tpcc_stock_level IS '{}'", mark(functions));
        if functions == CITUS_FUNCTIONS {
            // They run on this node, the coordinator; their statements go to the others.
            session.execute(WHAT, "SET LOCAL citus.enable_ddl_propagation = off")?;
        }
        session.execute(WHAT, &format!("{DROP_ALL}; {functions}; {mark}")).map_err(refused)?;
    }
    session.execute(WHAT, "COMMIT")?;
    Ok(installed)
}

/// The user may not create functions in the schema, or not remove another user's.
fn refused(error: SessionError) -> TpccError {
    match error {
        SessionError::Statement { reason, code, .. } if code == INSUFFICIENT_PRIVILEGE => {
            TpccError::NoRightToInstall { reason }
        }
        other => other.into(),
    }
}

const INSUFFICIENT_PRIVILEGE: &str = "42501";
const WHAT: &str = "installing stored procedures";
/// A lock number that other programs are unlikely to use: the letters "hmtpcc".
const LOCK: u64 = 0x686d_7470_6363;

/// The mark is on the function that is created last: it implies that all exist.
const MARK_THERE: &str = "SELECT obj_description(oid, 'pg_proc') FROM pg_proc \
     WHERE proname = 'hardmeter_tpcc_stock_level' AND pronamespace = 'public'::regnamespace";

const DROP_ALL: &str = "DO $drop$ DECLARE old regprocedure; BEGIN \
     FOR old IN SELECT oid FROM pg_proc WHERE starts_with(proname, 'hardmeter_tpcc_') \
         AND pronamespace = 'public'::regnamespace \
     LOOP EXECUTE format('DROP FUNCTION %s', old); END LOOP; END $drop$";

/// The version mark: FNV-1a of the source text, which needs no maintenance.
fn mark(functions: &str) -> String {
    let hash = functions
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("stored procedures of hardmeter tpcc, version {hash:016x}")
}
