//! Errors of the auction site: cause and remedy.

use hardmeter_servers::ServerError;
use std::path::PathBuf;

/// Why the auction site could not be made, filled or visited. [`AuctionError::remedy`] is the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages document the variants and their fields
pub enum AuctionError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("{what} failed: {source}")]
    Database { what: String, source: mysql::Error },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the load generator cannot {what}: {source}")]
    System { what: &'static str, source: std::io::Error },
    #[error("{what} was interrupted")]
    Interrupted { what: String },
    #[error("the site's {who} ended {seconds:.1} s after the run began{}", quoted(log))]
    Gone { who: &'static str, seconds: f64, log: String },
    #[error("{what}")]
    Missing { what: String, remedy: String },
    #[error("the analyzer ended: {what}{}", quoted(log))]
    Analyzer { what: String, log: String },
}

fn quoted(log: &str) -> String {
    match log.is_empty() {
        true => String::new(),
        false => format!(
            "; its log ends with:\n{}",
            log.lines().map(|line| format!("    {line}\n")).collect::<String>()
        ),
    }
}

impl AuctionError {
    /// The remedy; may be empty if the cause contains it.
    pub fn remedy(&self) -> String {
        match self {
            AuctionError::Server(error) => error.remedy(),
            AuctionError::Database { .. } => {
                "see the log of MariaDB in the run's folder (--dir names one that stays)".into()
            }
            AuctionError::Io { .. } => "choose a folder that can be written with --dir".into(),
            AuctionError::System { .. } => {
                "raise the limit that it names (ulimit -n for open files), or use fewer clients".into()
            }
            AuctionError::Interrupted { .. } => String::new(),
            AuctionError::Gone { .. } => {
                "check its log for the cause (memory, a signal, a module); the result so far was not kept"
                    .into()
            }
            AuctionError::Missing { remedy, .. } => remedy.clone(),
            AuctionError::Analyzer { .. } => "try hardmeter split analyze alone, or --split off".into(),
        }
    }
}
