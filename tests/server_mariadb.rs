//! A throwaway MariaDB from end to end. MariaDB is not part of `make setup`: without it the test prints that.

use hardmeter_servers::{
    Cluster, Engine, Programs, ProgramsWanted, ServerError, ServerFolder, StartOptions, Status, StopOutcome,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_server_answers_on_its_socket_only_and_keeps_its_data() {
    let programs = match Programs::find(Engine::Mariadb, &ProgramsWanted::default()) {
        Ok(programs) => programs,
        Err(error) => return eprintln!("skipped: {error}; {}", error.remedy()),
    };
    let temporary = tempfile::tempdir().unwrap();
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = ServerFolder::new(temporary.path().join("server"));
    let mut cluster = Cluster::create(&folder, &programs, &|_| {}).unwrap();

    let unknown =
        StartOptions { settings: vec!["no_such_setting=1".parse().unwrap()], ..StartOptions::default() };
    let error = cluster.start(&unknown, &|_| {}).unwrap_err();
    assert!(error.to_string().contains("no_such_setting"), "{error}");
    assert_eq!(error.remedy(), "check the name given to --set");

    let pid = cluster.start(&StartOptions::default(), &|_| {}).unwrap();
    assert_eq!(cluster.status(), Status::Running(pid));
    assert_eq!(cluster.processes(), [pid], "one process, many threads");
    assert_eq!(cluster.backends().unwrap(), [pid]);
    assert_eq!(cluster.query("SELECT @@skip_networking, @@port").unwrap(), "1\t0");
    assert_eq!(cluster.query("SELECT @@innodb_buffer_pool_size").unwrap(), (128 << 20).to_string());
    cluster.query("CREATE TABLE kept (n INT) ENGINE=InnoDB; INSERT INTO kept VALUES (42)").unwrap();
    let error = cluster.query("SELECT * FROM no_such_table").unwrap_err();
    assert!(error.to_string().contains("no_such_table"), "{error}");
    assert!(matches!(cluster.load_pgbench(1, &|_| {}), Err(ServerError::Unsupported { .. })));

    assert_eq!(cluster.stop(&|_| {}).unwrap(), StopOutcome::Clean);
    cluster.start(&StartOptions::default(), &|_| {}).unwrap();
    assert_eq!(cluster.query("SELECT n FROM kept").unwrap(), "42");
    assert!(matches!(Cluster::remove(&folder), Err(ServerError::AlreadyRunning { .. })));
    cluster.stop(&|_| {}).unwrap();
    Cluster::remove(&folder).unwrap();
    assert!(!folder.path().exists());
}
