//! A log so short that pages must be flushed before a checkpoint can free it.
//!
//! Rule: the checkpoint's age is 70 % of the log or more at the end of the look, and pages are flushed 100 a second or more.
//! A log that is written much and is long enough is no fault.

use crate::look::shares::ratio;
use crate::mariadb::rules::set_global;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Takes};

pub(super) const REMEDY: Remedy = Remedy {
    id: "log-size",
    title: "a longer redo log",
    audience: Audience::Operator,
    documentation: "https://mariadb.com/kb/en/innodb-system-variables/#innodb_log_file_size",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let size = maria.number("innodb_log_file_size");
    let age = maria.status.get("innodb_checkpoint_age").copied().unwrap_or(0.0);
    let full = ratio(age, size);
    let flushed = maria.count("innodb_buffer_pool_pages_flushed");
    let rate = ratio(flushed, look.seconds);
    if full < 0.7 || rate < 100.0 {
        return None;
    }
    let written = ratio(maria.count("innodb_os_log_written"), look.seconds);
    // A quarter of an hour of the log, within bounds.
    let wanted = (written * 900.0).clamp(size * 4.0, (64e9_f64).min(look.server.memory).max(size * 4.0));
    let value = format!("{:.0}", (wanted / 1_048_576.0).ceil() * 1_048_576.0);
    let advice = Advice {
        finding: format!(
            "the log of {:.0} MB is {:.0} % full, and {rate:.0} pages a second are flushed to free it",
            size / 1e6,
            full * 100.0
        ),
        evidence: vec![
            Evidence::new("age of the checkpoint, of the log", full * 100.0, "%", 1),
            Evidence::new("pages flushed a second", rate, "1/s", flushed as u64),
            Evidence::new("log written", written / 1e6, "MB/s", 1),
        ],
        prediction: Prediction::unknown(
            "pages are flushed once for many changes instead of for each",
            "how many flushes are saved depends on how often the same pages change: a trial shows it",
        ),
        risk: "recovery after a crash reads a longer log; the file takes that much of the disk".into(),
        ..Advice::default()
    };
    Some(advice.with_changes(vec![set_global(look, "innodb_log_file_size", &value, Takes::AtOnce)]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn a_full_log_is_a_fault_only_while_pages_are_flushed_for_it() {
        let of = |age: f64, flushed: f64| {
            let counted = [("innodb_buffer_pool_pages_flushed", flushed), ("innodb_os_log_written", 1e7)];
            let mut look = look(&counted, &[("innodb_log_file_size", "10485760")]);
            look.mariadb.as_mut().unwrap().status.insert("innodb_checkpoint_age".into(), age);
            examine(&look)
        };
        // 1 MB/s for 900 s.
        assert_eq!(of(9e6, 5000.0).unwrap().apply[0], "SET GLOBAL innodb_log_file_size = 900726784;");
        assert_eq!((of(2e6, 5000.0), of(9e6, 50.0)), (None, None));
    }
}
