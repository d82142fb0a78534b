//! Connections to PostgreSQL as the workloads use them: how a server is reached, what an error means and what mends
//! it, stopping in an orderly way, what a backend's CPU time is.
//!
//! It is not for what a workload says to the server: statements and tables are theirs.

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
