//! A throwaway MariaDB with SPLiT's plugin.

// Each test file uses its part.
#![allow(dead_code)]

use super::split;
use hardmeter_servers::{Cluster, Engine, Programs, ProgramsWanted, ServerFolder, StartOptions, Wrapper};
use hardmeter_split::model::AppId;
use hardmeter_split::segment::Application;
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The application of these tests.
pub const APP: AppId = AppId(0xdb1);

/// The server, which ends with the test.
pub struct Server {
    temporary: tempfile::TempDir,
    pub segments: PathBuf,
}

impl Server {
    /// A server with the plugin and these settings, and tables `items` and `users` of three rows. `None`, with a
    /// message, if anything is missing.
    pub fn new(settings: &[&str]) -> Option<Server> {
        Server::inside(split::built("mariadb/split.so")?, settings, None)
    }

    /// The same with this module, inside a wrapper.
    pub fn inside(module: PathBuf, settings: &[&str], wrapper: Option<Wrapper>) -> Option<Server> {
        let programs = match Programs::find(Engine::Mariadb, &ProgramsWanted::default()) {
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
        let plugins = cluster.lend(&module).unwrap().parent().unwrap().to_owned();
        let own = [
            format!("plugin_dir={}", plugins.display()),
            "plugin_load_add=split.so".into(),
            "plugin_maturity=experimental".into(),
            format!("split_directory={}", segments.display()),
            format!("split_app_id={}", APP.0),
            "innodb_flush_log_at_trx_commit=0".into(),
        ];
        let settings = own.iter().map(String::as_str).chain(settings.iter().copied());
        let settings = settings.map(|setting| setting.parse().unwrap()).collect();
        cluster.start(&StartOptions { settings, wrapper, ..StartOptions::default() }, &|_| {}).unwrap();
        let server = Server { temporary, segments };
        let mut connection = server.connect();
        for sql in [
            "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(50), seller INT)",
            "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(50))",
            "INSERT INTO users VALUES (1, 'ann'), (2, 'bob'), (3, 'cy')",
            "INSERT INTO items VALUES (1, 'ant', 1), (2, 'bee', 2), (3, 'cat', 3)",
        ] {
            connection.query_drop(sql).unwrap();
        }
        Some(server)
    }

    pub fn cluster(&self) -> Cluster {
        Cluster::open(&ServerFolder::new(self.temporary.path().join("server"))).unwrap()
    }

    pub fn connect(&self) -> Conn {
        let options = OptsBuilder::new()
            .socket(Some(self.cluster().socket().display().to_string()))
            .user(Some("root"))
            .db_name(Some("test"));
        Conn::new(options).unwrap()
    }

    pub fn pid(&self) -> i32 {
        self.cluster().processes()[0].0
    }

    pub fn segment(&self) -> Application {
        split::application(&self.segments, APP)
    }

    pub fn status(&self, name: &str) -> String {
        let (_, value): (String, String) =
            self.connect().query_first(format!("SHOW STATUS LIKE '{name}'")).unwrap().unwrap();
        value
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.cluster().stop(&|_| {});
    }
}
