//! A running MariaDB, read from outside and queried from inside: `information_schema.innodb_buffer_page` is
//! the reference.

use hardmeter_objects::{attach, Access, AttachError};
use hardmeter_samples::model::{Pid, StateRule, Timestamp, VirtualAddress};
use hardmeter_samples::object_notes::{ObjectFact, ObjectNotes};
use hardmeter_servers::{Cluster, Engine, Programs, ProgramsWanted, ServerFolder, StartOptions};
use std::collections::{BTreeMap, BTreeSet};

/// The server, which is deleted at the end of the test.
struct Throwaway {
    cluster: Cluster,
    pid: Pid,
    folder: tempfile::TempDir,
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        let _ = self.cluster.stop(&|_| {});
        let _ = Cluster::remove(&ServerFolder::new(self.folder.path().join("server")));
    }
}

impl Throwaway {
    /// A running server. `None`, with a message, if it cannot be created.
    fn start() -> Option<Throwaway> {
        Throwaway::start_with(&[])
    }

    /// The same with further settings.
    fn start_with(further: &[&str]) -> Option<Throwaway> {
        let programs = match Programs::find(Engine::Mariadb, &ProgramsWanted::default()) {
            Ok(programs) => programs,
            Err(error) => {
                eprintln!("skipped: {error}; {}", error.remedy());
                return None;
            }
        };
        let folder = tempfile::Builder::new().prefix("hm-objects-").tempdir_in("/var/tmp").expect("a folder");
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), own).expect("opened");
        let server = ServerFolder::new(folder.path().join("server"));
        let mut cluster = Cluster::create(&server, &programs, &|_| {}).expect("made");
        let own = ["innodb_buffer_pool_size=24M"];
        let settings = own.iter().chain(further);
        let settings = settings.map(|setting| setting.parse().expect("a setting")).collect();
        let options = StartOptions { settings, ..StartOptions::default() };
        let pid = cluster.start(&options, &|_| {}).expect("started");
        Some(Throwaway { cluster, pid, folder })
    }

    fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let answer = self.cluster.query(sql).expect("an answer");
        answer.lines().map(|line| line.split('\t').map(str::to_string).collect()).collect()
    }
}

fn path(notes: &ObjectNotes, fact: &ObjectFact) -> [String; 4] {
    let path = fact.path;
    [path.class, path.name, path.instance, path.part].map(|id| notes.text(id).to_string())
}

/// The facts about each page: class, name, number of the page, and whether it is a leaf.
fn said(notes: &ObjectNotes) -> BTreeSet<(String, String, u32, bool)> {
    let of = |fact: &ObjectFact| {
        let [class, name, instance, part] = path(notes, fact);
        let number = instance.strip_prefix("page ")?.parse().ok()?;
        (class != "buffer descriptor").then(|| (class, name, number, part.starts_with("leaf")))
    };
    notes.facts.iter().filter_map(of).collect()
}

#[test]
fn every_page_is_what_the_server_says_of_it() {
    let Some(server) = Throwaway::start() else { return };
    server.rows(
        "CREATE DATABASE bench;
         CREATE TABLE bench.account (id INT PRIMARY KEY, branch INT, note VARCHAR(200), KEY by_branch (branch));
         INSERT INTO bench.account SELECT seq, seq MOD 97, REPEAT('x', seq MOD 150) FROM seq_1_to_30000;
         CREATE TABLE bench.`odd-name$` (a INT PRIMARY KEY, b LONGTEXT);
         INSERT INTO bench.`odd-name$` SELECT seq, REPEAT('y', 40000) FROM seq_1_to_5;
         UPDATE bench.account SET branch = branch + 1 WHERE id < 100",
    );
    let mut objects = attach(server.pid).expect("attached");
    assert!(objects.describe().starts_with("MariaDB 1"), "{}", objects.describe());
    let rule = objects.state_rules().into_iter().find_map(|rule| match rule {
        StateRule::Page { region, size, page, .. } => Some((region.0, size.0, page.0)),
        _ => None,
    });
    let (start, size, page) = rule.expect("a rule for pages");
    assert_eq!(page, 16384);

    // Twice: pages that the query itself reads are there the second time.
    let sql = "SELECT page_type, IFNULL(table_name, ''), IFNULL(index_name, ''), page_number
               FROM information_schema.innodb_buffer_page WHERE page_type <> 'UNKNOWN' AND page_type <> 'MEMORY'";
    server.rows(sql);
    let judged = server.rows(sql);
    // In the records of each page; in other pages, anywhere.
    let accesses: Vec<Access> = (start..start + size)
        .step_by(page as usize)
        .map(|frame| Access {
            pid: server.pid,
            address: VirtualAddress(frame + 8000),
            time: Timestamp(0),
            stack_pointer: None,
            states: Vec::new(),
        })
        .collect();
    objects.see(&accesses);
    let notes = objects.finish(Timestamp(u64::MAX));
    let said = said(&notes);

    let unquoted = |name: &str| name.replace('`', "");
    let mut expected = BTreeSet::new();
    for row in judged.iter().filter(|row| row[0] == "INDEX" && !row[1].is_empty()) {
        let (table, index, number) = (unquoted(&row[1]), &row[2], row[3].parse::<u32>().expect("a number"));
        let clustered = matches!(index.as_str(), "PRIMARY" | "CLUST_IND" | "BASE_IDX" | "GEN_CLUST_INDEX");
        match clustered {
            true => expected.insert(("table".to_string(), table, number)),
            false => expected.insert(("index".to_string(), format!("{table}.{index}"), number)),
        };
    }
    let own = |name: &str| name.starts_with("bench.");
    let ours: BTreeSet<_> = said
        .iter()
        .filter(|(_, name, ..)| own(name))
        .filter(|(_, name, number, _)| {
            // The reference names pages of indexes only.
            expected.iter().any(|(_, known, page)| known == name && page == number)
        })
        .map(|(class, name, number, _)| (class.clone(), name.clone(), *number))
        .collect();
    let theirs: BTreeSet<_> = expected.iter().filter(|(_, name, _)| own(name)).cloned().collect();
    assert!(theirs.len() > 100, "the table and its index: {}", theirs.len());
    assert_eq!(ours, theirs);
    assert!(theirs.contains(&("table".into(), "bench.odd-name$".into(), 3)), "names are those of SQL");

    // Each name must also be the server's: all further ones are blobs and the tablespace's own.
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for row in &judged {
        *kinds.entry(row[0].clone()).or_default() += 1;
    }
    let count = |class: &str| said.iter().filter(|(found, ..)| found == class).count();
    // Purge may have freed or taken one meanwhile, or freed all of them before the test queried the server.
    let (ours, theirs) = (count("undo log"), kinds.get("UNDO_LOG").copied().unwrap_or_default());
    assert!(theirs == 0 || ours.abs_diff(theirs) <= 2, "{ours} {theirs}");
    assert_eq!(said.iter().filter(|(_, name, ..)| name == "transaction system").count(), 1);
    // The root of a tree with levels is not a leaf.
    let root = said
        .iter()
        .find(|(class, name, number, _)| class == "table" && name == "bench.account" && *number == 3);
    assert_eq!(root.map(|(.., leaf)| *leaf), Some(false), "page 3 is the root");
    assert!(notes.remarks.is_empty(), "{:?}", notes.remarks);
}

/// `performance_schema.threads` is the reference: names of threads by the system's numbers.
#[test]
fn threads_are_what_the_server_says_of_them() {
    let Some(server) = Throwaway::start_with(&["performance_schema=ON"]) else { return };
    let objects = attach(server.pid).expect("attached");
    let named =
        server.rows("SELECT thread_os_id, name FROM performance_schema.threads WHERE thread_os_id > 0");
    let notes = objects.finish(Timestamp(u64::MAX));
    let roles: BTreeMap<i32, &str> =
        notes.thread_roles.iter().map(|role| (role.tid.0, notes.text(role.role))).collect();
    assert_eq!(roles.get(&server.pid.0), Some(&"main thread"), "{roles:?}");
    let mut found = BTreeSet::new();
    for row in &named {
        let (tid, name) = (row[0].parse().expect("a number"), row[1].rsplit('/').next().expect("a name"));
        // Threads of the pool come and go.
        let Some(role) = roles.get(&tid).copied() else { continue };
        let expected = match name {
            "page_cleaner_thread" => "page cleaner",
            "thread_pool_thread" => "InnoDB thread pool",
            "one_connection" => "client connection",
            "main" => continue,
            _ => "server thread",
        };
        assert_eq!(role, expected, "{name}: {roles:?} {named:?}");
        found.insert(expected);
    }
    for expected in ["page cleaner", "server thread", "client connection"] {
        assert!(found.contains(expected), "{expected}: {roles:?} {named:?}");
    }
    // Nothing else is called a page cleaner.
    assert_eq!(roles.values().filter(|role| **role == "page cleaner").count(), 1, "{roles:?}");
}

#[test]
fn a_page_that_a_sample_carries_is_named_though_its_frame_holds_another() {
    let Some(server) = Throwaway::start() else { return };
    server.rows(
        "CREATE DATABASE bench; CREATE TABLE bench.t (id INT PRIMARY KEY);
         INSERT INTO bench.t VALUES (1)",
    );
    let sql = "SELECT space, page_number FROM information_schema.innodb_buffer_page
               WHERE table_name = '`bench`.`t`' AND index_name = 'PRIMARY'";
    let rows = server.rows(sql);
    let [space, number] = [&rows[0][0], &rows[0][1]].map(|text| text.parse::<u32>().expect("a number"));
    let index = server.rows(
        "SELECT i.index_id FROM information_schema.innodb_sys_indexes i
         JOIN information_schema.innodb_sys_tables t USING (table_id) WHERE t.name = 'bench/t'",
    );
    let index: u64 = index[0][0].parse().expect("a number");
    let mut objects = attach(server.pid).expect("attached");
    let rule = objects.state_rules().into_iter().find_map(|rule| match rule {
        StateRule::Page { id, region, words, .. } => Some((id, region.0, words)),
        _ => None,
    });
    let (id, start, words) = rule.expect("a rule for pages");
    // The head of that page, as the software PMU would have read it, on a frame with other content.
    let mut head = [0; 94];
    head[4..8].copy_from_slice(&number.to_be_bytes());
    head[34..38].copy_from_slice(&space.to_be_bytes());
    head[24..26].copy_from_slice(&17855u16.to_be_bytes());
    head[66..74].copy_from_slice(&index.to_be_bytes());
    let state = |head: &[u8]| -> Vec<u8> {
        words.iter().flat_map(|at| head[usize::from(*at)..usize::from(*at) + 4].to_vec()).collect()
    };
    let access = |offset: u64, state: Vec<u8>| Access {
        pid: server.pid,
        address: VirtualAddress(start + 16384 * 8 + offset),
        time: Timestamp(5),
        stack_pointer: None,
        states: vec![(id, state)],
    };
    let real = access(64, state(&head));
    // An index that does not exist: no name.
    head[66..74].copy_from_slice(&0x7777_7777_u64.to_be_bytes());
    let wrong = access(64, state(&head));
    objects.see(&[real.clone(), wrong.clone()]);
    let notes = objects.finish(Timestamp(u64::MAX));
    let found = |access: &Access| {
        let state = &access.states[0].1;
        let fact = notes.facts.iter().find(|fact| fact.state.as_ref().is_some_and(|key| key.bytes == *state));
        path(&notes, fact.expect("a fact"))
    };
    assert_eq!(found(&real), ["table", "bench.t", &format!("page {number}"), "leaf"]);
    assert_eq!(found(&wrong), ["buffer", "no page", "", ""]);
}

#[test]
fn a_program_that_is_no_server_is_refused() {
    let error = attach(Pid(std::process::id() as i32)).err().expect("it is not a server");
    assert!(matches!(error, AttachError::Program(_)), "{error}");
    assert!(error.to_string().contains("is not a PostgreSQL or MariaDB server"), "{error}");
}
