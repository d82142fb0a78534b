//! Sorts and hash tables go to temporary files.
//!
//! Rule: the load writes a temporary file a second or more. That alone is no fault: runs that fit the processor's caches
//! can be sorted faster than one large run, so no gain is predicted and a trial must tell.

use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Scope};

pub(super) struct Spill;

impl Remedy for Spill {
    fn id(&self) -> &'static str {
        "spill"
    }

    fn title(&self) -> &'static str {
        "more work_mem: only a trial can tell"
    }

    fn audience(&self) -> Audience {
        Audience::Operator
    }

    fn documentation(&self) -> &'static str {
        "https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-WORK-MEM"
    }

    fn examine(&self, look: &Look) -> Option<Advice> {
        let rate = ratio(look.database.temp_files, look.seconds);
        if rate < 1.0 {
            return None;
        }
        let each = ratio(look.database.temp_bytes, look.database.temp_files);
        let written =
            |one: &crate::Statement| one.counts.as_ref().map_or(0.0, |counts| counts.temp_blks_written);
        let worst = look.statements.iter().max_by(|a, b| written(a).total_cmp(&written(b)));
        let worst = worst
            .filter(|one| written(one) > 0.0)
            .map_or_else(String::new, |one| format!(", most by {}", one.short()));
        let now = look.server.number("work_mem").unwrap_or(4096.0);
        let wanted = (now + each * 3.0 / 1024.0).max(now * 2.0);
        let value = format!("{wanted:.0}kB");
        let advice = Advice {
            finding: format!("{rate:.1} temporary files a second of {:.1} MB each{worst}", each / 1e6),
            evidence: vec![
                Evidence::new("temporary files a second", rate, "1/s", look.database.temp_files as u64),
                Evidence::new("size of one", each / 1e6, "MB", look.database.temp_files as u64),
                Evidence::new("work_mem", now, "kB", 1),
            ],
            prediction: Prediction::unknown(
                "no file, and perhaps more time: a sort whose runs fit the cache took 26 % less CPU with the files",
                "only a trial can tell; compare the statement's time in one session with both values",
            ),
            apply: vec![format!("-- or, for a trial in one session: SET work_mem = '{value}'")],
            undo: Vec::new(),
            changes: Vec::new(),
            risk: "each sort and each hash table of each session may take that much memory".into(),
        };
        let scope = Scope::Database(look.server.database.clone());
        Some(advice.with_changes(vec![look.server.change(scope, "work_mem", &value)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    #[test]
    fn a_spill_is_named_without_a_gain() {
        let look = |temp_files| Look {
            seconds: 10.0,
            database: Database { temp_files, temp_bytes: temp_files * 1e6, ..Database::default() },
            ..Look::default()
        };
        assert_eq!(Spill.examine(&look(100.0)).unwrap().prediction.gain, None);
        assert_eq!(Spill.examine(&look(5.0)), None);
    }
}
