//! A throwaway PostgreSQL with SPLiT's extension.

// Each test file uses its part.
#![allow(dead_code)]

use super::split;
use hardmeter_servers::{Cluster, Engine, Programs, ProgramsWanted, ServerFolder, StartOptions, Wrapper};
use hardmeter_split::model::AppId;
use hardmeter_split::segment::Application;
use postgres::{Client, Config, NoTls};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The application of these tests.
pub const APP: AppId = AppId(0xdb2);

/// The server, which ends with the test.
pub struct Server {
    temporary: tempfile::TempDir,
    pub segments: PathBuf,
}

impl Server {
    /// A server with the extension and these settings, and tables `items` and `users` of 1000 rows. `None`, with a
    /// message, if anything is missing.
    pub fn new(settings: &[&str]) -> Option<Server> {
        let (version, module) = split::built_for_postgres()?;
        Server::inside(&version, module, settings, None)
    }

    /// The same with this version and module, inside a wrapper.
    pub fn inside(
        version: &str,
        module: PathBuf,
        settings: &[&str],
        wrapper: Option<Wrapper>,
    ) -> Option<Server> {
        let wanted = ProgramsWanted { version: Some(version.into()), ..ProgramsWanted::default() };
        let programs = match Programs::find(Engine::Postgres, &wanted) {
            Ok(programs) => programs,
            Err(error) => {
                eprintln!("skipped: {error}");
                return None;
            }
        };
        let temporary = tempfile::tempdir().unwrap();
        fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let segments = split::segment_folder(temporary.path());
        let folder = ServerFolder::new(temporary.path().join("server"));
        let mut cluster = Cluster::create(&folder, &programs, &|_| {}).unwrap();
        let libraries = cluster.lend(&module).unwrap().parent().unwrap().to_owned();
        let own = [
            format!("dynamic_library_path={}:$libdir", libraries.display()),
            "shared_preload_libraries=split".into(),
            format!("split.directory={}", segments.display()),
            format!("split.app_id={}", APP.0),
            "fsync=off".into(),
            "autovacuum=off".into(),
        ];
        let settings = own.iter().map(String::as_str).chain(settings.iter().copied());
        let settings = settings.map(|setting| setting.parse().unwrap()).collect();
        cluster.start(&StartOptions { settings, wrapper, ..StartOptions::default() }, &|_| {}).unwrap();
        let server = Server { temporary, segments };
        server
            .connect()
            .batch_execute(
                "CREATE TABLE items (id int PRIMARY KEY, name text, seller int);
                 CREATE TABLE users (id int PRIMARY KEY, name text);
                 INSERT INTO items SELECT i, 'item', i FROM generate_series(1, 1000) i;
                 INSERT INTO users SELECT i, 'user' FROM generate_series(1, 1000) i",
            )
            .unwrap();
        // As CREATE EXTENSION, whose files are where packages are installed.
        let script = include_str!("../../place/modules/postgres/sql/split--0.1.sql");
        let script = script.lines().filter(|line| !line.starts_with('\\')).collect::<Vec<_>>().join("\n");
        server.connect().batch_execute(&script.replace("MODULE_PATHNAME", "split")).unwrap();
        Some(server)
    }

    pub fn cluster(&self) -> Cluster {
        Cluster::open(&ServerFolder::new(self.temporary.path().join("server"))).unwrap()
    }

    pub fn connect(&self) -> Client {
        self.try_connect().unwrap()
    }

    pub fn try_connect(&self) -> Result<Client, postgres::Error> {
        let cluster = self.cluster();
        let state = cluster.state();
        let mut config = Config::new();
        config.host_path(&state.socket_folder).port(state.port).user(&state.user).dbname(&state.database);
        config.connect(NoTls)
    }

    pub fn segment(&self) -> Application {
        split::application(&self.segments, APP)
    }

    pub fn status(&self, name: &str) -> String {
        let row =
            self.connect().query_one("SELECT value FROM split_status WHERE name = $1", &[&name]).unwrap();
        row.get(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.cluster().stop(&|_| {});
    }
}
