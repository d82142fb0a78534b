//! The place of data in PostgreSQL or MariaDB.

use super::place::{opened, refuse_password, Place, Workload};
use super::workload::remark;
use super::{CommandError, Globals};
use hardmeter_servers::{
    servers_folder, shard_folder, shard_folders, Cluster, Engine, Programs, ProgramsWanted, ServerError,
    ServerFolder, Setting, StartOptions, Status,
};
use hardmeter_session::Target;
use hardmeter_tpcc::mariadb;
use std::path::PathBuf;

/// A kind of server on the command line.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineName {
    Postgres,
    Mariadb,
}

/// The place of data of a workload that supports several engines.
#[derive(clap::Args, Debug)]
pub(super) struct EnginePlace {
    /// The kind of server [default: that of --server or --connection, else postgres].
    #[arg(long, value_enum, value_name = "ENGINE", help_heading = "Where")]
    engine: Option<EngineName>,
    #[command(flatten)]
    place: Place,
}

/// The place of data, by engine.
#[derive(Debug)]
pub(super) enum Data {
    Postgres(Box<Target>),
    Mariadb(mariadb::Target),
}

impl Data {
    /// The database and the server, as text.
    pub(super) fn description(&self) -> &str {
        match self {
            Data::Postgres(target) => target.description(),
            Data::Mariadb(target) => target.description(),
        }
    }
}

/// The parameters of a throwaway server to be created.
pub(super) struct Making<'a> {
    /// Its settings, by engine.
    pub(super) settings: &'a dyn Fn(Engine) -> Vec<(&'static str, String)>,
    /// Number of data nodes that hold the warehouses; MariaDB only.
    pub(super) shards: u32,
}

impl EnginePlace {
    /// Finds loaded data. A stopped server of Hardmeter is started, with its data nodes.
    pub(super) fn find(&self, workload: &Workload, globals: &Globals) -> Result<Data, CommandError> {
        match self.engine(workload)? {
            Engine::Postgres => Ok(Data::Postgres(Box::new(self.place.find(workload, globals)?))),
            Engine::Mariadb => match self.connected()? {
                Some(target) => Ok(Data::Mariadb(target)),
                None => {
                    let folder = self.folder(workload);
                    let cluster = opened(&folder, self.place.server.is_some(), || {
                        CommandError::new(
                            format!("there is no throwaway MariaDB for {} yet", workload.title),
                            format!(
                                "make one with data in it (hardmeter {} load --engine mariadb), or name yours: \
                                 --server DIR, --connection 'mysql://USER@HOST/DATABASE'",
                                workload.name
                            ),
                        )
                    })?;
                    self.serving(cluster, workload, globals)
                }
            },
        }
    }

    /// Finds the place for data. A missing throwaway server is created, with its data nodes.
    pub(super) fn find_or_make(
        &self,
        workload: &Workload,
        making: &Making,
        globals: &Globals,
    ) -> Result<Data, CommandError> {
        match self.engine(workload)? {
            Engine::Postgres if making.shards > 0 => Err(CommandError::new(
                "several servers behind one are made with MariaDB and Spider only",
                "add --engine mariadb, or leave --shards out",
            )),
            Engine::Postgres => {
                let settings = (making.settings)(Engine::Postgres);
                Ok(Data::Postgres(Box::new(self.place.find_or_make(workload, &settings, globals)?)))
            }
            Engine::Mariadb => match self.connected()? {
                Some(target) => Ok(Data::Mariadb(target)),
                None => {
                    let folder = self.folder(workload);
                    if making.shards == 0 {
                        let head = open_or_make(&folder, self.place.server.is_none(), making, globals)?;
                        return self.serving(head, workload, globals);
                    }
                    require_spider()?;
                    let ran = running(&folder, making.shards);
                    let spread = self.spread(&folder, workload, making, globals);
                    if spread.is_err() {
                        stop_all_but(&ran, &folder, making.shards);
                    }
                    spread
                }
            },
        }
    }

    /// A head with servers behind it, all running.
    fn spread(
        &self,
        folder: &ServerFolder,
        workload: &Workload,
        making: &Making,
        globals: &Globals,
    ) -> Result<Data, CommandError> {
        let head = open_or_make(folder, self.place.server.is_none(), making, globals)?;
        for number in 1..=making.shards {
            open_or_make(&shard_folder(folder, number), true, making, globals)?;
        }
        let data = self.serving(head, workload, globals)?;
        name_shards(folder, making.shards, self.database(workload))?;
        Ok(data)
    }

    /// The kind of server. If it is given twice, both must agree.
    fn engine(&self, workload: &Workload) -> Result<Engine, CommandError> {
        let wanted = self.engine.map(|name| match name {
            EngineName::Postgres => Engine::Postgres,
            EngineName::Mariadb => Engine::Mariadb,
        });
        let named = match (&self.place.connection, &self.place.server) {
            (Some(text), _) if mariadb::Target::is_meant_by(text) => Some(Engine::Mariadb),
            (Some(_), _) => Some(Engine::Postgres),
            // Later users of the folder report its errors.
            (None, Some(folder)) => {
                Cluster::open(&ServerFolder::new(folder)).ok().map(|cluster| cluster.state().engine)
            }
            (None, None) => None,
        };
        match (wanted, named) {
            (Some(wanted), Some(named)) if wanted != named => Err(CommandError::new(
                format!(
                    "--engine is {}, but the server named for {} is {}",
                    wanted.title(),
                    workload.title,
                    named.title()
                ),
                "leave --engine out; MariaDB is reached by a URL: mysql://USER@HOST/DATABASE",
            )),
            (wanted, named) => Ok(wanted.or(named).unwrap_or(Engine::Postgres)),
        }
    }

    fn connected(&self) -> Result<Option<mariadb::Target>, CommandError> {
        let Some(text) = &self.place.connection else { return Ok(None) };
        refuse_password(text, "give it in MYSQL_PWD")?;
        let target = mariadb::Target::parse(text)?;
        Ok(Some(match &self.place.database {
            Some(name) => target.with_database(name),
            None if target.database().is_empty() => target.with_database("tpcc"),
            None => target,
        }))
    }

    fn folder(&self, workload: &Workload) -> ServerFolder {
        match &self.place.server {
            Some(folder) => ServerFolder::new(folder),
            None => ServerFolder::new(servers_folder().join(format!("{}-mariadb", workload.name))),
        }
    }

    fn database<'a>(&'a self, workload: &'a Workload) -> &'a str {
        self.place.database.as_deref().unwrap_or(workload.name)
    }

    fn serving(
        &self,
        mut head: Cluster,
        workload: &Workload,
        globals: &Globals,
    ) -> Result<Data, CommandError> {
        for folder in shard_folders(head.folder()) {
            ensure_running(&mut Cluster::open(&folder)?, globals)?;
        }
        ensure_running(&mut head, globals)?;
        let target = mariadb::Target::socket(&head.socket(), &head.state().user, self.database(workload));
        Ok(Data::Mariadb(target))
    }
}

fn open_or_make(
    folder: &ServerFolder,
    may_make: bool,
    making: &Making,
    globals: &Globals,
) -> Result<Cluster, CommandError> {
    match Cluster::open(folder) {
        Err(ServerError::NoServer { .. }) if may_make => {
            let programs = Programs::find(Engine::Mariadb, &ProgramsWanted::default())?;
            remark(globals, &format!("making a throwaway server in {}", folder.path().display()));
            let mut cluster = Cluster::create(folder, &programs, &|_| {})?;
            let settings = (making.settings)(Engine::Mariadb)
                .into_iter()
                .map(|(name, value)| Setting { name: name.into(), value })
                .collect();
            cluster.start(&StartOptions { settings, ..StartOptions::default() }, &|_| {})?;
            Ok(cluster)
        }
        other => Ok(other?),
    }
}

fn ensure_running(cluster: &mut Cluster, globals: &Globals) -> Result<(), CommandError> {
    if !matches!(cluster.status(), Status::Running(_)) {
        remark(globals, &format!("starting the server in {}", cluster.folder().path().display()));
        cluster.start(&StartOptions::default(), &|_| {})?;
    }
    Ok(())
}

/// Refuses before any server is made where Spider's plugin is not installed.
fn require_spider() -> Result<(), CommandError> {
    const PLUGIN: &str = "ha_spider.so";
    let programs = Programs::find(Engine::Mariadb, &ProgramsWanted::default())?;
    match programs.plugin_folder() {
        Some(folder) if !folder.join(PLUGIN).exists() => Err(CommandError::new(
            format!("Spider cannot be loaded: there is no {PLUGIN} in {}", folder.display()),
            "install it (Debian: apt-get install mariadb-plugin-spider)",
        )),
        _ => Ok(()),
    }
}

/// The folders of a head and of the servers behind it.
fn all_folders(head: &ServerFolder, shards: u32) -> Vec<ServerFolder> {
    std::iter::once(head.clone()).chain((1..=shards).map(|number| shard_folder(head, number))).collect()
}

/// The folders whose servers run.
fn running(head: &ServerFolder, shards: u32) -> Vec<PathBuf> {
    let runs = |folder: &ServerFolder| {
        Cluster::open(folder).is_ok_and(|cluster| matches!(cluster.status(), Status::Running(_)))
    };
    let folders = all_folders(head, shards).into_iter().filter(runs);
    folders.map(|folder| folder.path().to_owned()).collect()
}

/// After a failure: stops the servers that did not run before.
fn stop_all_but(ran: &[PathBuf], head: &ServerFolder, shards: u32) {
    for folder in
        all_folders(head, shards).iter().filter(|folder| !ran.iter().any(|path| path == folder.path()))
    {
        if let Ok(mut cluster) = Cluster::open(folder) {
            // Report the earlier failure.
            let _ = cluster.stop(&|_| {});
        }
    }
}

/// Configures the head for its data nodes: Spider's plugin, and their addresses.
fn name_shards(folder: &ServerFolder, shards: u32, database: &str) -> Result<(), CommandError> {
    let mut head = Cluster::open(folder)?;
    if head.query("SELECT 1 FROM information_schema.engines WHERE engine = 'SPIDER'")?.is_empty() {
        head.query("INSTALL PLUGIN IF NOT EXISTS spider SONAME 'ha_spider'").map_err(|error| {
            CommandError::new(
                format!("Spider cannot be loaded: {error}"),
                "install it (Debian: apt-get install mariadb-plugin-spider)",
            )
        })?;
        // Spider 10.11 identifies the members of a two-phase commit by host alone (error 12606 otherwise), which is
        // the same here; the port, unused with a socket, distinguishes them.
        head.query(
            "ALTER TABLE mysql.spider_xa_member DROP KEY idx1, ADD KEY idx1 (data, format_id, gtrid_length, host, port)",
        )?;
        // Two-phase commit needs a log that a server opens only if it starts with the plugin.
        head.stop(&|_| {})?;
        head.start(&StartOptions::default(), &|_| {})?;
    }
    for number in 1..=shards {
        let shard = Cluster::open(&shard_folder(folder, number))?;
        // Folder names are Hardmeter's, database names the user's: only the latter may need quoting.
        head.query(&format!(
            "CREATE OR REPLACE SERVER {} FOREIGN DATA WRAPPER mysql \
             OPTIONS (HOST 'localhost', PORT {number}, SOCKET '{}', USER '{}', DATABASE '{}')",
            mariadb::server_name(number),
            shard.socket().display(),
            shard.state().user,
            database.replace('\\', "\\\\").replace('\'', "''"),
        ))?;
    }
    Ok(())
}

/// Settings of a throwaway MariaDB for this number of warehouses: transactions wait for the disk as on a production
/// server, but not for checkpoints of a small log.
pub(super) fn mariadb_settings(warehouses: u32, memory_mb: u64) -> Vec<(&'static str, String)> {
    let wanted = 256 + 120 * u64::from(warehouses);
    vec![
        ("innodb_buffer_pool_size", format!("{}M", wanted.min(memory_mb / 4).max(128))),
        ("innodb_log_file_size", "1G".into()),
        ("max_connections", "200".into()),
    ]
}
