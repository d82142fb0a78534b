//! Sorts and hash tables go to temporary files.
//!
//! Rule: the load writes a temporary file a second or more, the cost of the files and their blocks is 2 % of
//! the active time or more, and the statement that writes most does not only sort. Files alone are not a
//! fault: a sort whose runs fit the processor's caches was faster than one large sort (26 % less CPU),
//! whereas a hash join in one batch was a quarter faster than in many.

use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Scope, Statement};

/// Seconds of CPU to write or read a block of a temporary file, including the rows in it.
const COST_OF_BLOCK: f64 = 3e-6;
/// The same of a hash join in batches: its rows are also hashed once more, copied row by row, and put into a table again.
/// A join that gained 79 % of its time, where the cost above predicts 29 %, gives 8 us; 7 is a conservative
/// value.
const COST_OF_HASHED_BLOCK: f64 = 7e-6;
/// Seconds to create and remove one file.
const COST_OF_FILE: f64 = 4e-5;

pub(super) const REMEDY: Remedy = Remedy {
    id: "spill",
    title: "more work_mem, as far as a trial confirms it",
    audience: Audience::Operator,
    documentation: "https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-WORK-MEM",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let rate = ratio(look.database.temp_files, look.seconds);
    if rate < 1.0 {
        return None;
    }
    let each = ratio(look.database.temp_bytes, look.database.temp_files);
    let written = |one: &Statement| one.counts.as_ref().map_or(0.0, |counts| counts.temp_blks_written);
    let worst = look.statements.iter().max_by(|a, b| written(a).total_cmp(&written(b)));
    let worst = worst.filter(|one| written(one) > 0.0);
    if worst.is_some_and(only_sorts) {
        return None;
    }
    let table = worst.and_then(|one| hash_table(one, look)).unwrap_or(0.0);
    let hashes = worst.and_then(|one| one.plan.as_ref()).is_some_and(|plan| plan.shape.contains("Hash"));
    let of_block = if hashes { COST_OF_HASHED_BLOCK } else { COST_OF_BLOCK };
    let worst = worst.map_or_else(String::new, |one| format!(", most by {}", one.short()));
    let blocks = blocks(look);
    let (waits, n) = look.time.waits(&["BufFile"]);
    let now = look.server.number("work_mem").unwrap_or(4096.0);
    // At most an eighth of the memory for all working sessions.
    let most = match look.server.memory > 0.0 {
        true => look.server.memory / 8.0 / look.active_backends.max(1.0) / 1024.0,
        false => f64::INFINITY,
    };
    let wanted = (now + each * 3.0 / 1024.0).max(table).min(most).max(now * 2.0);
    let value = format!("{wanted:.0}kB");
    let advice = Advice {
        finding: format!("{rate:.1} temporary files a second of {:.1} MB each{worst}", each / 1e6),
        evidence: vec![
            Evidence::new("temporary files a second", rate, "1/s", look.database.temp_files as u64),
            Evidence::new("size of one", each / 1e6, "MB", look.database.temp_files as u64),
            Evidence::new("blocks written and read", ratio(blocks, look.seconds), "1/s", blocks as u64),
            Evidence::new("waits for temporary files, of active time", waits * 100.0, "%", n),
            Evidence::new("work_mem", now, "kB", 1),
        ],
        prediction: Prediction::gain(
            look.time.with_cpu_seconds(blocks * of_block + look.database.temp_files * COST_OF_FILE) + waits,
            format!("{:.0} blocks a second not written and read", ratio(blocks, look.seconds)),
            format!(
                "{:.0} us of CPU a block and 40 us a file (assumed, not measured here) with the run queue in \
                 proportion, and the waits for temporary files; a hash table that does not fit the caches costs \
                 misses: only a trial shows it",
                of_block * 1e6
            ),
        ),
        apply: vec![format!("-- or, for a trial in one session: SET work_mem = '{value}'")],
        risk: "each sort and each hash table of each session may take that much memory".into(),
        ..Advice::default()
    };
    let scope = Scope::Database(look.server.database.clone());
    Some(advice.with_setting(&look.server, scope, "work_mem", &value))
}

/// True if the plan of a statement sorts, and has no hash table that could spill.
fn only_sorts(statement: &Statement) -> bool {
    statement.plan.as_ref().is_some_and(|plan| plan.shape.contains("Sort ") && !plan.shape.contains("Hash"))
}

/// The work_mem, in kB, with which the hash table of a statement would fit: half of a call's blocks are the
/// hashed side, and in memory rows take twice that. `None` if the plan has no hash table.
fn hash_table(statement: &Statement, look: &Look) -> Option<f64> {
    let (counts, plan) = (statement.counts.as_ref()?, statement.plan.as_ref()?);
    let multiplier = look.server.number("hash_mem_multiplier").unwrap_or(1.0).max(1.0);
    let kilobytes = look.server.number("block_size").unwrap_or(8192.0) / 1024.0;
    let written = ratio(counts.temp_blks_written, counts.calls) * kilobytes;
    plan.shape.contains("Hash").then_some(written / multiplier)
}

/// Blocks of temporary files that were written and read: as counted, otherwise twice the written ones.
fn blocks(look: &Look) -> f64 {
    let counted = look.statements.iter().filter_map(|one| one.counts.as_ref());
    let blocks: f64 = counted.map(|counts| counts.temp_blks_written + counts.temp_blks_read).sum();
    blocks.max(2.0 * look.database.temp_bytes / look.server.number("block_size").unwrap_or(8192.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::statements::Counts;
    use crate::{Database, Kind, Plan, Share, TimeShares};

    #[test]
    fn a_spill_gains_what_its_blocks_cost() {
        let look = |temp_files, temp_bytes| {
            let run = Share { kind: Kind::RunningUser, event: String::new(), seconds: 10.0, n: 1 };
            Look {
                seconds: 10.0,
                time: TimeShares { total: 10.0, shares: vec![run], ..TimeShares::default() },
                database: Database { temp_files, temp_bytes, ..Database::default() },
                ..Look::default()
            }
        };
        // 100,000 blocks written and read, 3 us each, and 100 files of 40 us: 0.604 s of 10 s.
        let advice = examine(&look(100.0, 8.192e8)).unwrap();
        assert!((advice.prediction.gain.unwrap() - 0.0604).abs() < 1e-9);
        assert_eq!(examine(&look(5.0, 8.192e8)), None);
        // A tenth of the blocks is not worth a remedy.
        let gain = examine(&look(100.0, 8.192e7)).unwrap().prediction.gain.unwrap();
        assert!(gain < 0.02, "{gain}");

        let statement = |shape: &str| Statement {
            counts: Some(Counts { temp_blks_written: 9.0, ..Counts::default() }),
            plan: Some(Plan { shape: shape.into(), ..Plan::default() }),
            ..Statement::default()
        };
        let planned = |shape| Look { statements: vec![statement(shape)], ..look(100.0, 8.192e8) };
        assert_eq!(examine(&planned("Limit  (Sort  (Seq Scan t ()))")), None);
        let mut hashed = planned("Sort  (Hash Join  (Seq Scan t ()Hash  (Seq Scan u ())))");
        // 100,000 blocks written and read with rows that are hashed again, 7 us each, and the files: 1.404 s of 10 s.
        let gain = examine(&hashed).unwrap().prediction.gain.unwrap();
        assert!((gain - 0.1404).abs() < 1e-9, "{gain}");
        // 5,000 blocks a call are 40,000 kB, half of them the hashed side, which takes twice that in memory; the multiplier
        // of 2 halves it.
        let counts = Counts { calls: 4.0, temp_blks_written: 20_000.0, ..Counts::default() };
        hashed.statements[0].counts = Some(counts);
        hashed.server.settings = [("hash_mem_multiplier".to_owned(), "2".to_owned())].into();
        let advice = examine(&hashed).unwrap();
        assert!(advice.apply[0].contains("work_mem = '28096kB'"), "{:?}", advice.apply);
        hashed.database.temp_bytes = 8.192e6;
        let advice = examine(&hashed).unwrap();
        assert!(advice.apply[0].contains("work_mem = '20000kB'"), "{:?}", advice.apply);
        hashed.server.memory = 8.0 * 12_000.0 * 1024.0;
        assert!(examine(&hashed).unwrap().apply[0].contains("work_mem = '12000kB'"));
    }
}
