//! A throwaway PostgreSQL for runs of TPC-C: the command, SQL in its database, its processes.

// Each test file uses its part.
#![allow(dead_code)]

use super::common::{hardmeter, run, stderr, stdout, succeeded};
use super::server::ThrowawayServer;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A server, with the database `tpcc` once a command has created it.
pub struct Tpcc {
    pub server: ThrowawayServer,
}

impl Tpcc {
    /// `None`, with a message, if it cannot be created.
    pub fn new() -> Option<Tpcc> {
        ThrowawayServer::new(&["psql"], &["fsync=off", "autovacuum=off"], 1).map(|server| Tpcc { server })
    }

    /// Loaded with this number of warehouses.
    pub fn loaded(warehouses: u32) -> Option<Tpcc> {
        let tpcc = Tpcc::new()?;
        let warehouses = warehouses.to_string();
        let mut load = hardmeter();
        load.args(["tpcc", "load", "--warehouses", &warehouses, "--server"]).arg(tpcc.server.folder().path());
        succeeded(run(&mut load));
        Some(tpcc)
    }

    /// `hardmeter tpcc run` on this server, its files in the test's folder under `name`.
    pub fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = hardmeter();
        command.args(["tpcc", "run", "--server"]).arg(self.server.folder().path());
        command.arg("--output").arg(self.server.path(name)).args(arguments);
        command
    }

    /// The same by a connection string, as `user`.
    pub fn command_as(&self, user: &str, name: &str, arguments: &[&str]) -> Command {
        let mut command = hardmeter();
        command.args(["tpcc", "run", "--connection", &self.connection(user)]);
        command.arg("--output").arg(self.server.path(name)).args(arguments);
        command.env_remove("PGPASSWORD").env("PGPASSFILE", "/nonexistent");
        command
    }

    /// The connection string of a user.
    pub fn connection(&self, user: &str) -> String {
        let cluster = self.server.cluster();
        let state = cluster.state();
        format!("host={} port={} user={user} dbname=tpcc", state.socket_folder.display(), state.port)
    }

    pub fn run(&self, name: &str, arguments: &[&str]) -> Output {
        run(&mut self.command(name, arguments))
    }

    /// Starts a run in the background.
    pub fn spawn(&self, name: &str, arguments: &[&str]) -> Child {
        self.command(name, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The result that a run wrote.
    pub fn result(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.file(&format!("{name}.json"))).unwrap()).unwrap()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.server.path(name)
    }

    /// The result of a statement in the database of TPC-C.
    pub fn sql(&self, sql: &str) -> String {
        stdout(&succeeded(self.psql("tpcc", sql))).trim().to_owned()
    }

    pub fn psql(&self, database: &str, sql: &str) -> Output {
        let cluster = self.server.cluster();
        let mut psql = Command::new(cluster.programs().folder.join("psql"));
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", sql]);
        psql.envs(cluster.environment()).env("PGDATABASE", database);
        run(&mut psql)
    }

    /// Whether a row satisfies a condition; false if the database or a table does not exist.
    pub fn there_is(&self, from_where: &str) -> bool {
        let output = self.psql("tpcc", &format!("SELECT EXISTS (SELECT FROM {from_where})"));
        output.status.success() && stdout(&output).trim() == "t"
    }

    /// Orders that runs have left.
    pub fn orders_of_runs(&self) -> u64 {
        self.sql("SELECT sum(d_next_o_id - 3001) FROM district").parse().unwrap()
    }

    /// Whether transactions have run: there are orders besides the load's.
    pub fn is_under_way(&self) -> bool {
        self.there_is("district WHERE d_next_o_id > 3005")
    }
}

/// Sends a program SIGINT, as Ctrl-C does.
pub fn interrupt(child: &Child) {
    // SAFETY: kill takes plain numbers; the child has not been reaped, so its number is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
}

/// Waits for the end of a program, and gives what it printed.
pub fn ended(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

/// Asserts that it failed with this message, without a panic.
#[track_caller]
pub fn failed_saying(output: &Output, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{text}{}", stdout(output));
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}
