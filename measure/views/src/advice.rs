//! What an administrator can try against misses on an object: a hint, not a prediction. `hardmeter tune`
//! predicts and proves.
//!
//! The remedies of `why` are for developers; these are for administrators.

use hardmeter_answers::{Besides, BesidesKind};

/// A part of an object's class and name, and what to try. The first that fits counts.
struct Rule {
    class: &'static str,
    name: &'static str,
    advice: &'static str,
}

const fn rule(class: &'static str, name: &'static str, advice: &'static str) -> Rule {
    Rule { class, name, advice }
}

const PREPARE: &str = "prepare statements: this is read and written to parse and plan them each time";
const KEEP_CATALOG: &str =
    "keep connections open (a pool) and prepare statements: each new backend fills its own";
const LESS_WAL: &str =
    "write less log: larger transactions, fewer indexes on updated columns, a larger max_wal_size";
const FEWER_BACKENDS: &str =
    "fewer connections at a time (a pool): each snapshot and commit visits all of them";

const RULES: [Rule; 17] = [
    rule("memory context", "MessageContext", PREPARE),
    rule("memory context", "CacheMemoryContext", KEEP_CATALOG),
    rule("catalog cache", "", KEEP_CATALOG),
    rule("relation cache", "", KEEP_CATALOG),
    rule("constants", "postgres", "prepare statements: the parser's tables are most of it"),
    rule("WAL", "", LESS_WAL),
    rule("shared memory area", "XLOG", LESS_WAL),
    rule("lightweight lock", "WAL", LESS_WAL),
    rule(
        "shared memory area",
        "LOCK hash",
        "fewer, larger transactions, and fewer that wait for the same row",
    ),
    rule(
        "shared memory area",
        "Shared Buffer Lookup Table",
        "visit fewer pages: a covering index, a narrower range",
    ),
    rule(
        "shared memory area",
        "Wal Sender",
        "without replicas, a lower max_wal_senders: each flush visits all slots",
    ),
    rule("process", "", FEWER_BACKENDS),
    rule("lightweight lock", "ProcArray", FEWER_BACKENDS),
    rule("lightweight lock", "", "`hardmeter sharing` names both sides; fewer writers at a time"),
    rule(
        "buffer descriptor",
        "",
        "many backends pin the same page: spread its rows (fillfactor), or fewer writers at a time",
    ),
    rule(
        "index",
        "",
        "`hardmeter pages` shows which part; then a smaller or a covering index, REINDEX if it is bloated",
    ),
    rule(
        "table",
        "",
        "`hardmeter pages` shows which part; then an index that covers the statement, or fewer dead rows",
    ),
];

/// What to try against misses on an object of this server, by the object's class and name. The rules are those
/// of PostgreSQL: `None` for another server.
pub fn on_object(server: Option<&str>, class: &str, name: &str) -> Option<&'static str> {
    server.filter(|server| server.starts_with("PostgreSQL"))?;
    let fits = |rule: &&Rule| class.starts_with(rule.class) && name.contains(rule.name);
    RULES.iter().find(fits).map(|rule| rule.advice)
}

/// What to try where a routine of PostgreSQL, or of its libraries, misses.
pub fn on_routine(routine: &str) -> Option<&'static str> {
    Some(match routine {
        "base_yyparse" | "core_yylex" | "raw_parser" => PREPARE,
        "standard_planner" | "subquery_planner" | "query_planner" | "grouping_planner" => PREPARE,
        "XLogInsertRecord" | "XLogInsert" | "CopyXLogRecordToWAL" | "pg_comp_crc32c_sse42" => LESS_WAL,
        "WalSndWakeup" => "without replicas, a lower max_wal_senders: each flush visits all slots",
        _ => return None,
    })
}

/// Remedies for samples that are not on an object of the database.
pub(crate) fn against(besides: &Besides) -> Vec<&'static str> {
    const CODE: &str = "of code, prepared statements and connections that stay open";
    const BACKENDS: &str =
        "where backends start and end, a pool of connections (record --delay leaves the start out)";
    const SERVER: &str = "of a server's memory, recording it with --server DIR or -p PID";
    const HEAP: &str = "of a program's heap, record --heap (software PMU)";
    if besides.kind == BesidesKind::Code {
        return vec![CODE];
    }
    let mut helps = Vec::new();
    for (class, name, _) in &besides.most {
        let help = match (&**class, &**name) {
            ("heap", "") => HEAP,
            ("shared memory", _) => SERVER,
            (_, "") => continue,
            _ => BACKENDS,
        };
        if !helps.contains(&help) {
            helps.push(help);
        }
    }
    helps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(class: &str, name: &str) -> Option<&'static str> {
        on_object(Some("PostgreSQL 15.20 (process 7)"), class, name)
    }

    #[test]
    fn the_more_particular_rule_counts() {
        assert_eq!(on("memory context", "TopMemoryContext/MessageContext"), Some(PREPARE));
        assert_eq!(on("memory context", "TopMemoryContext"), None);
        assert_eq!(on("lightweight lock", "WALInsert"), Some(LESS_WAL));
        assert_eq!(on("lightweight lock", "ProcArray"), Some(FEWER_BACKENDS));
        assert_eq!(on("process slot", "client backend"), Some(FEWER_BACKENDS));
        assert!(on("table", "public.t").is_some_and(|advice| advice.starts_with("`hardmeter pages`")));
        assert_eq!(on_object(Some("MariaDB 10.11"), "table", "public.t"), None);
        assert_eq!(on_object(None, "table", "public.t"), None, "no server was recorded");
        assert_eq!(on_routine("base_yyparse"), Some(PREPARE));
        assert_eq!(on_routine("main"), None);
        assert_eq!(on("global variable", "counters"), None);
    }
}
