//! Connections to PostgreSQL for the loads: connection strings, errors with remedies, orderly stopping, a backend's CPU
//! time.
//!
//! Out of scope: the statements and tables of a load.
//!
//! ```
//! use hardmeter_session::Target;
//!
//! let target = Target::parse("host=/run/postgresql user=app password=secret dbname=shop")?;
//! assert_eq!(target.database(), "shop");
//! assert!(!target.description().contains("secret"));
//! # Ok::<(), hardmeter_session::SessionError>(())
//! ```

mod error;
mod password;
mod progress;
mod session;
mod side_by_side;
mod stop;

pub use error::SessionError;
pub use password::holds_password;
pub use progress::Progress;
pub use session::{ensure_database, Answer, Cost, Session, Target};
pub use side_by_side::{side_by_side, side_by_side_over, usual_jobs};
pub use stop::Stop;
