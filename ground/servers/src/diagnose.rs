//! Recognises causes of failures in the output of servers and tools.

/// The remedy for a failure, from the output of the server or its tools. `None` if no cause is recognised.
pub(crate) fn diagnose(log: &str) -> Option<String> {
    const KNOWN: &[(&str, &str)] = &[
        ("No space left on device", "free some disk space, or use another disk with --dir"),
        ("Disk quota exceeded", "free some disk space, or use another disk with --dir"),
        ("Disk is full", "free some disk space, or use another disk with --dir"),
        ("Read-only file system", "use a folder on a writable disk with --dir"),
        (
            "database files are incompatible",
            "use the programs that made the data with --version, or a new --dir",
        ),
        (
            "lock file \"postmaster.pid\" already exists",
            "a server runs there that was not started by hardmeter: \
            stop it (pg_ctl stop -D the data folder named above), or use another --dir",
        ),
        ("Unable to lock ./ibdata1", "another mariadbd uses this data folder: stop it, or use another --dir"),
        (
            "Is another postmaster already running",
            "another server uses this socket: stop it, or use another --dir",
        ),
        ("Do you already have another", "another server uses this socket: stop it, or use another --dir"),
        ("unrecognized configuration parameter", "check the name given to --set"),
        ("unknown variable", "check the name given to --set"),
        ("unknown option", "check the name given to --set"),
        ("invalid value for parameter", "check the value given to --set"),
        ("requires a numeric value", "check the value given to --set"),
        ("is outside the valid range", "check the value given to --set"),
        (
            "Cannot allocate memory",
            "use less memory: --set shared_buffers=32MB (PostgreSQL) or \
            --set innodb_buffer_pool_size=32M (MariaDB)",
        ),
        ("Cannot allocate memory for the buffer pool", "use less memory: --set innodb_buffer_pool_size=32M"),
        ("invalid checkpoint record", "the data are damaged: hardmeter server remove, then start a new one"),
        (
            "could not locate a valid checkpoint record",
            "the data are damaged: hardmeter server remove, then start a \
            new one",
        ),
        (
            "could not open file \"global/pg_control\"",
            "the data are damaged: hardmeter server remove, then start a \
            new one",
        ),
        ("invalid locale name", "apt-get install locales, and make C.UTF-8 known"),
        (
            "Permission denied",
            "let the server's account read what the line above names, or use another --dir",
        ),
    ];
    KNOWN.iter().find(|(sign, _)| log.contains(sign)).map(|(_, remedy)| (*remedy).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_print_leads_to_a_remedy() {
        let full = "FATAL:  could not write to file \"pg_wal/xlogtemp.7\": No space left on device";
        assert!(diagnose(full).unwrap().contains("disk space"));
        let busy = "HINT:  Is another postmaster already running on port 5432? If not, remove socket file";
        assert!(diagnose(busy).unwrap().contains("another server uses this socket"));
        let unknown = "FATAL:  unrecognized configuration parameter \"shared_bufers\"";
        assert!(diagnose(unknown).unwrap().contains("--set"));
        assert_eq!(diagnose("LOG:  database system is ready"), None);
    }
}
