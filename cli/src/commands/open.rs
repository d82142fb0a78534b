//! `hardmeter open`: writes the report next to the capture, and shows it in the browser.

use super::report::write_html;
use super::{CommandError, Globals, Outcome};
use crate::terminal::print;
use crate::view::{outcome, ViewArguments};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Show the report of a capture in the browser: written next to it, opened from disk, without a server.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  hardmeter open                                  hardmeter.data: writes hardmeter.data.html and opens it
  hardmeter open yesterday.data
  hardmeter open --no-browser                     writes it and prints its path: to mail it

The browser is that of $BROWSER, or what xdg-open starts. Without either the path is
printed. The file needs no network and no server.")]
pub struct Arguments {
    /// The capture, instead of -i.
    file: Option<PathBuf>,
    #[command(flatten)]
    view: ViewArguments,
    /// Only write the report and print its path.
    #[arg(long)]
    no_browser: bool,
}

/// Runs the command.
pub fn run(arguments: &mut Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    if let Some(file) = arguments.file.take() {
        arguments.view.input = file;
    }
    let mut name = OsString::from(&arguments.view.input);
    name.push(".html");
    let page = PathBuf::from(name);
    let unread = write_html(&arguments.view, globals, &page)?;
    let path = page.canonicalize().unwrap_or(page);
    let shown = !arguments.no_browser && browse(&path);
    if !shown {
        print(&format!("{}\n", path.display()))?;
    }
    Ok(outcome(&unread, globals))
}

/// Starts the browser; returns `false` if there is none.
fn browse(page: &Path) -> bool {
    let named = std::env::var_os("BROWSER").filter(|browser| !browser.is_empty());
    let starters = named.into_iter().chain([OsString::from("xdg-open")]);
    starters.into_iter().any(|browser| {
        let mut command = Command::new(browser);
        command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}
