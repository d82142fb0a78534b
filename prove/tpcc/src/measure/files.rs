//! Result files: complete under their final name, or absent; validated when read.

use super::{RunResult, RESULT_VERSION};
use crate::error::TpccError;
use crate::work::Kind;
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;

/// The file's first field, which identifies the format.
const FORMAT: &str = "hardmeter-tpcc-run";

#[derive(Serialize)]
struct Marked<'a> {
    format: &'static str,
    #[serde(flatten)]
    result: &'a RunResult,
}

/// The text of a result file.
pub fn to_json(result: &RunResult) -> String {
    let mut text = serde_json::to_string(&Marked { format: FORMAT, result })
        .expect("a result has nothing that JSON has no form for");
    text.push('\n');
    text
}

/// Parses a result file; `file` names it in errors.
///
/// # Errors
///
/// [`TpccError::ForeignResult`] if the text is not a result of a known version, [`TpccError::DamagedResult`] if
/// fields are missing.
pub fn from_json(text: &[u8], file: &Path) -> Result<RunResult, TpccError> {
    let file = || file.display().to_string();
    let foreign = |reason: String| TpccError::ForeignResult { file: file(), reason };
    let damaged = |reason: String| TpccError::DamagedResult { file: file(), reason };
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(foreign("it is empty".into()));
    }
    let marked = text.windows(FORMAT.len()).any(|window| window == FORMAT.as_bytes());
    let mut value: Value = serde_json::from_slice(text).map_err(|error| match marked {
        true => damaged(error.to_string()),
        false => foreign(format!("it is not JSON: {error}")),
    })?;
    let fields = value.as_object_mut().ok_or_else(|| foreign("it is JSON of something else".into()))?;
    if fields.remove("format").as_ref().and_then(Value::as_str) != Some(FORMAT) {
        return Err(foreign(format!("it is JSON of something else, without \"format\": \"{FORMAT}\"")));
    }
    match fields.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(RESULT_VERSION) => {}
        Some(found) => {
            return Err(TpccError::OtherResultVersion { file: file(), found, known: RESULT_VERSION })
        }
        None => return Err(damaged("it has no version".into())),
    }
    let result: RunResult = serde_json::from_value(value).map_err(|error| damaged(error.to_string()))?;
    inconsistency(&result).map_or(Ok(result), |reason| Err(damaged(reason)))
}

/// Writes a result file: to a temporary name in the same folder, renamed at the end. On an error, an existing file
/// stays as it was.
///
/// # Errors
///
/// [`TpccError::File`] if the file cannot be written.
pub fn save(result: &RunResult, path: &Path) -> Result<(), TpccError> {
    write_whole(path, to_json(result).as_bytes())
}

/// Reads a result file.
///
/// # Errors
///
/// [`TpccError::File`] if the file cannot be read; otherwise as [`from_json`].
pub fn load(path: &Path) -> Result<RunResult, TpccError> {
    let text = std::fs::read(path).map_err(|error| TpccError::File {
        action: "read",
        file: path.display().to_string(),
        error,
    })?;
    from_json(&text, path)
}

/// Writes a complete file, or leaves the old one. A device or pipe (/dev/stdout) is written to, not replaced.
///
/// # Errors
///
/// [`TpccError::File`] if the file cannot be written or renamed.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), TpccError> {
    let written = || -> io::Result<()> {
        if path.exists() && !path.is_file() {
            return std::fs::File::options().write(true).open(path)?.write_all(bytes);
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".hardmeter-").suffix(".part").tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_data()?;
        // A temporary file is readable by its owner only; give the result the usual mode.
        set_ordinary_mode(file.as_file())?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    written().map_err(|error| TpccError::File { action: "write", file: path.display().to_string(), error })
}

fn set_ordinary_mode(file: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

/// A contradiction within a result; all readers rely on its absence.
fn inconsistency(result: &RunResult) -> Option<String> {
    let kinds = result.kinds.iter().map(|kind| kind.kind);
    if !kinds.eq(Kind::ALL) {
        return Some("it has not the five transactions in their order".into());
    }
    for kind in &result.kinds {
        let name = kind.kind.name();
        let phases = [&kind.response, &kind.lag, &kind.queued, &kind.service];
        if phases.iter().any(|times| times.count() != kind.completed) {
            return Some(format!("the times of {name} are not as many as its transactions"));
        }
        if kind.rolled_back > kind.completed {
            return Some(format!("more {name} were rolled back than there were"));
        }
    }
    let draws = &result.draws;
    let orders: u64 = draws.orders_by_lines.iter().sum();
    let shares = [
        (orders, result.of(Kind::NewOrder).completed),
        (draws.remote_lines, draws.lines),
        (draws.remote_payments, draws.payments),
        (draws.payments_by_name, draws.payments),
        (draws.order_statuses_by_name, draws.order_statuses),
    ];
    if shares.iter().any(|(some, all)| some > all) {
        return Some("a part of the draws is more than their total".into());
    }
    let seconds = [result.measured_seconds, result.order.ramp_seconds, result.order.interval_seconds];
    // A century: larger values are errors and would overflow later computations.
    if seconds.iter().any(|seconds| !(0.0..3.2e9).contains(seconds)) {
        return Some("its durations are none".into());
    }
    if result.drivers.is_empty() || result.order.warehouses == 0 {
        return Some("it has no driver, or no warehouse".into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, measured, new_order};
    use super::super::{interval, Ending, Recorder, Run};
    use super::*;
    use crate::time::Micros;

    fn result() -> RunResult {
        let order = testing::order(1.0, 10.0);
        let mut recorder = Recorder::new(interval(&order));
        for number in 0..1000u64 {
            let due = Micros(number * 10_000);
            let input = new_order(5 + (number % 11) as u8);
            let times = measured(Kind::NewOrder, due, Micros(10), Micros(20), Micros(1_000 + number));
            recorder.completed(&times, &input);
        }
        Run {
            order: &order,
            started_at: 1_700_000_000_000_000,
            ended: Micros::seconds(11),
            ending: Ending::Complete,
            driver: testing::driver(1, 4),
        }
        .result([recorder])
    }

    fn told(text: &[u8]) -> String {
        from_json(text, Path::new("x.json")).unwrap_err().to_string()
    }

    #[test]
    fn a_result_comes_back_as_it_was_and_replaces_an_older_file_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        std::fs::write(&path, "older").unwrap();
        let result = result();
        save(&result, &path).unwrap();
        assert_eq!(load(&path).unwrap(), result);
        // The folder has no other file.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let nowhere = folder.path().join("no/such/folder/run.json");
        assert!(save(&result, &nowhere).unwrap_err().to_string().contains("cannot write"));
        assert!(load(&nowhere).unwrap_err().to_string().contains("cannot read"));
    }

    #[test]
    fn foreign_files_are_called_so() {
        assert!(told(b"").contains("empty"));
        assert!(told(b"pgbench (15.20)\n").contains("not JSON"));
        assert!(told(b"[1, 2]").contains("something else"));
        assert!(told(b"{\"version\": 1, \"queries\": []}").contains("something else"));
        let later = to_json(&result()).replace("\"version\":1", "\"version\":99");
        assert!(told(later.as_bytes()).contains("99"), "{}", told(later.as_bytes()));
    }

    #[test]
    fn damaged_files_are_called_so() {
        let text = to_json(&result());
        let cut = &text.as_bytes()[..text.len() / 2];
        assert!(told(cut).contains("damaged"), "{}", told(cut));
        let change = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            let changed = told(text.replacen(from, to, 1).as_bytes());
            assert!(changed.contains("damaged"), "{changed}");
            changed
        };
        assert!(change("\"measured_seconds\":10.0", "\"measured_seconds\":-1.0").contains("durations"));
        assert!(change("\"completed\":900", "\"completed\":901").contains("as many"));
        assert!(change("\"kind\":\"payment\"", "\"kind\":\"delivery\"").contains("five transactions"));
        change("\"kinds\":[", "\"kinds\":[1,");
        // A histogram's letters.
        change("\"response\":\"", "\"response\":\"????");
        assert!(change("\"remote_lines\":900", "\"remote_lines\":900000").contains("more than their total"));
    }

    #[test]
    fn no_byte_of_a_damaged_file_makes_it_panic() {
        let text = to_json(&result()).into_bytes();
        for at in (0..text.len()).step_by(97) {
            for byte in [b'9', b'"', 0xff] {
                let mut damaged = text.clone();
                damaged[at] = byte;
                // It is refused, or reads as a consistent result.
                let _ = from_json(&damaged, Path::new("x"));
            }
        }
    }
}
