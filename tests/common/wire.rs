//! A throwaway PostgreSQL, scripted transactions, and a driver of them: for tests of the driver's own protocol.

// Each test file uses its part.
#![allow(dead_code)]

use hardmeter_servers::{Cluster, Engine, Programs, ProgramsWanted, ServerFolder, StartOptions};
use hardmeter_session::Target;
use hardmeter_tpcc::backend::{Backend, Backends};
use hardmeter_tpcc::time::{Clock, Micros};
use hardmeter_tpcc::wire::{
    Next, PostgresBackends, Refusal, Replies, Requests, Script, Scripts, StatementText,
};
use hardmeter_tpcc::work::{Completion, ConnectionId, Failure, Input, Outcome, StockLevel, TerminalId, Work};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time limit for events that must occur.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The server, which ends with the test.
pub struct Server {
    temporary: tempfile::TempDir,
    pub cluster: Cluster,
}

impl Server {
    /// `None`, with a message, if it cannot be created.
    pub fn new() -> Option<Server> {
        let programs = match Programs::find(Engine::Postgres, &ProgramsWanted::default()) {
            Ok(programs) => programs,
            Err(error) => {
                eprintln!("skipped: {error}");
                return None;
            }
        };
        let temporary = tempfile::tempdir().unwrap();
        fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let folder = ServerFolder::new(temporary.path().join("server"));
        let cluster = Cluster::create(&folder, &programs, &|_| {}).unwrap();
        let mut server = Server { temporary, cluster };
        server.start();
        Some(server)
    }

    pub fn start(&mut self) {
        let settings = ["fsync=off", "autovacuum=off", "restart_after_crash=on"];
        let settings = settings.iter().map(|setting| setting.parse().unwrap()).collect();
        let options = StartOptions { settings, ..StartOptions::default() };
        self.cluster.start(&options, &|_| {}).unwrap();
    }

    pub fn stop(&mut self) {
        self.cluster.stop(&|_| {}).unwrap();
    }

    pub fn sql(&self, sql: &str) -> String {
        self.cluster.query(sql).unwrap().trim().to_owned()
    }

    pub fn target(&self) -> Target {
        let state = self.cluster.state();
        Target::socket(&self.socket_folder(), state.port, &state.user, "postgres")
    }

    pub fn socket_folder(&self) -> PathBuf {
        self.cluster.state().socket_folder.clone()
    }

    /// A target by a connection string; the host and the database are set.
    pub fn target_of(&self, more: &str) -> Target {
        let folder = self.socket_folder();
        Target::parse(&format!("host={} dbname=postgres {more}", folder.display())).unwrap()
    }

    /// Inserts lines at the start of pg_hba.conf.
    pub fn let_in(&self, lines: &str) {
        let path = self.cluster.folder().data().join("pg_hba.conf");
        let others = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{lines}\n{others}")).unwrap();
        self.sql("SELECT pg_reload_conf()");
        // The postmaster reads the file with a delay; the view pg_hba_file_rules shows its current contents.
        poll("the new pg_hba.conf", || {
            let first = lines.split_whitespace().nth(2).unwrap_or_default();
            self.sql("SELECT user_name[1] FROM pg_hba_file_rules ORDER BY line_number LIMIT 1") == first
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.cluster.stop(&|_| {});
    }
}

/// Waits until a condition holds.
pub fn poll(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LIMIT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

type Begin = fn(&Input, &mut Requests<'_>);
type Reply = fn(usize, &Input, &Replies<'_>, &mut Requests<'_>) -> Next;
type Refused = fn(&Refusal) -> Option<Outcome>;

/// Scripts of a test: `reply` gets the number of the answered round trip, from 1.
#[derive(Clone)]
pub struct Plan {
    pub statements: Vec<StatementText>,
    pub settings: &'static str,
    pub begin: Begin,
    pub reply: Reply,
    pub refused: Refused,
}

impl Plan {
    pub fn new(statements: &[&str], begin: Begin, reply: Reply) -> Plan {
        let statements = statements.iter().map(|sql| StatementText::new(*sql)).collect();
        Plan { statements, settings: "", begin, reply, refused: |_| None }
    }

    /// Opens it with this number of connections.
    pub fn open(self, target: Target, connections: u32) -> Driven {
        let clock = Clock::start();
        let backend = PostgresBackends::new(target, self).open(connections, clock);
        let backend = backend.unwrap_or_else(|error| panic!("{error}: {}", error.remedy()));
        Driven { backend, clock }
    }
}

impl Scripts for Plan {
    fn statements(&self) -> &[StatementText] {
        &self.statements
    }

    fn settings(&self) -> &str {
        self.settings
    }

    fn new_script(&self) -> Box<dyn Script> {
        Box::new(Going { plan: self.clone(), round_trips: 0 })
    }

    fn description(&self) -> String {
        "a test".into()
    }
}

struct Going {
    plan: Plan,
    round_trips: usize,
}

impl Script for Going {
    fn begin(&mut self, input: &Input, requests: &mut Requests<'_>) {
        self.round_trips = 0;
        (self.plan.begin)(input, requests);
    }

    fn reply(&mut self, input: &Input, replies: &Replies<'_>, requests: &mut Requests<'_>) -> Next {
        self.round_trips += 1;
        (self.plan.reply)(self.round_trips, input, replies, requests)
    }

    fn refused(&mut self, _input: &Input, refusal: &Refusal) -> Option<Outcome> {
        (self.plan.refused)(refusal)
    }
}

/// Work identified by a number: the warehouse.
pub fn work(number: u32) -> Work {
    let input = Input::StockLevel(StockLevel { warehouse: number, district: 1, threshold: 10 });
    Work { terminal: TerminalId(number), input, due: Micros::ZERO, entered: Micros::ZERO }
}

/// Connections, and their clock.
pub struct Driven {
    pub backend: Box<dyn Backend>,
    pub clock: Clock,
}

impl Driven {
    pub fn submit(&mut self, connection: u32, number: u32) {
        self.backend.submit(ConnectionId(connection), work(number), self.clock.now());
    }

    /// Waits until `count` are done.
    pub fn wait_for(&mut self, count: usize) -> Vec<Completion> {
        let mut done = Vec::new();
        let begin = Instant::now();
        while done.len() < count {
            assert!(begin.elapsed() < LIMIT, "only {done:?} done");
            let until = self.clock.now() + Micros::of_seconds(0.05);
            self.backend.wait(Some(until), &mut done).unwrap();
        }
        done
    }

    /// One piece of work on one connection.
    pub fn run(&mut self, connection: u32, number: u32) -> Outcome {
        self.submit(connection, number);
        let mut done = self.wait_for(1);
        assert_eq!((done.len(), done[0].connection), (1, ConnectionId(connection)));
        assert_eq!(done[0].work, work(number));
        assert!(done[0].dispatched <= done[0].answered);
        done.remove(0).outcome
    }

    /// The same, which fails.
    pub fn fail(&mut self, connection: u32, number: u32) -> Failure {
        match self.run(connection, number) {
            Outcome::Failed(failure) => failure,
            other => panic!("{other:?}"),
        }
    }
}
