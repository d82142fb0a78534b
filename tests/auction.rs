//! `hardmeter auction` end to end: mixes, the paper's scenarios, a site that keeps running, arguments.
//! prove/auction/tests has the pages themselves, and a stalled server.

mod common;

use common::{hardmeter, run, stderr, stdout, succeeded, tests_folder, wait_until};
use hardmeter_auction::{Site, SplitModules};
use hardmeter_servers::web::Php;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Whether the site's servers are installed; prints which is missing.
fn can(php: Php) -> bool {
    match Site::require(php, None) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("skipped: {error}: {}", error.remedy());
            false
        }
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// Runs the command; returns its result.
fn visited(arguments: &[&str]) -> Value {
    let mut command = hardmeter();
    command
        .args(["--quiet", "auction", "--data", "0.01", "--workers", "4", "--format", "json"])
        .args(arguments);
    serde_json::from_str(&stdout(&succeeded(run(&mut command)))).unwrap()
}

fn sum_of(result: &Value, field: &str) -> u64 {
    result["interactions"].as_array().unwrap().iter().map(|one| one[field].as_u64().unwrap()).sum()
}

#[test]
fn visitors_of_a_mix_find_their_way_and_are_counted() {
    if !can(Php::Module) {
        return;
    }
    let folder = folder();
    let file = folder.path().join("result.json");
    let result = visited(&[
        "--mix",
        "bidding",
        "--rate",
        "150",
        "--seconds",
        "4",
        "--warmup",
        "1",
        "--visitors",
        "40",
        "--patience",
        "300",
        "-o",
        file.to_str().unwrap(),
    ]);
    assert_eq!(result, serde_json::from_str::<Value>(&fs::read_to_string(&file).unwrap()).unwrap());
    let requests = result["requests"].as_u64().unwrap();
    // 600 is the mean of a Poisson distribution with a standard deviation of 24.5.
    assert!((480..=720).contains(&requests), "{requests}");
    assert_eq!(
        (result["errors"].as_u64(), result["format"].as_str()),
        (Some(0), Some("hardmeter-auction")),
        "{result:#}"
    );
    assert_eq!(sum_of(&result, "requests"), requests);
    assert!(result["writes"].as_u64().unwrap() > 20, "{}", result["writes"]);
    let names: Vec<&str> =
        result["interactions"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    for name in ["home", "search_category", "item", "put_bid", "store_bid"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    for part in ["apache_us_per_request", "mariadb_us_per_request", "generator_us_per_request"] {
        assert!(result["cpu"][part].as_f64().unwrap() > 1.0, "{part}: {}", result["cpu"]);
    }
    let counted =
        result["histogram_us"].as_array().unwrap().iter().map(|pair| pair[1].as_u64().unwrap()).sum::<u64>();
    assert_eq!(counted, requests);
}

#[test]
fn scenarios_have_the_shape_of_the_paper() {
    if !can(Php::Module) || !can(Php::Fpm) {
        return;
    }
    let accesses = visited(&["--scenario", "accesses", "--scale", "0.006", "--fpm"]);
    let totals = &accesses["totals"];
    assert_eq!((totals["clients"].as_u64(), totals["files"].as_u64()), (Some(6), Some(84)), "{totals}");
    assert_eq!(
        (totals["statements"].as_u64(), accesses["errors"].as_u64()),
        (Some(60), Some(0)),
        "{accesses:#}"
    );
    // Five of ten statements a client read all of 330 items, and no index that would spare it.
    assert!(totals["rows"].as_u64().unwrap() >= 6 * 5 * 330, "{totals}");
    assert_eq!(accesses["paper"]["rows"].as_u64(), Some(184_400_000));
    assert!(accesses["cpu"]["fpm_us_per_request"].as_f64().unwrap() > 1.0);

    let volume = visited(&["--scenario", "volume", "--scale", "0.02"]);
    let totals = &volume["totals"];
    assert_eq!((totals["clients"].as_u64(), totals["files"].as_u64()), (Some(2), Some(26)), "{totals}");
    let catalogues =
        volume["interactions"].as_array().unwrap().iter().find(|one| one["name"] == "catalogue").unwrap();
    assert_eq!(catalogues["requests"].as_u64(), Some(18));
    // One statement per catalogue and three per item; 330 items in 20 categories.
    let items = (totals["statements"].as_u64().unwrap() - 18) / 3;
    assert!((18 * 8..18 * 30).contains(&items), "{items}");
}

fn signal(pid: i32, signal: libc::c_int) {
    // SAFETY: a server that the test started, which runs as long as the test holds it.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Placement's modules and its analyzer with a site: no errors, and each is active.
#[test]
fn placement_looks_on_without_disturbing() {
    let modules = tests_folder().join("../build/place");
    if !can(Php::Module) {
        return;
    }
    if let Err(error) = SplitModules::in_folder(&modules) {
        eprintln!("skipped: {error}: {}", error.remedy());
        return;
    }
    let folder = folder();
    let site = folder.path().join("site");
    let words =
        ["--mix", "browsing", "--rate", "50", "--seconds", "2", "--split", "collect", "--split-build"];
    let paths = [modules.to_str().unwrap(), "--dir", site.to_str().unwrap(), "--patience", "300"];
    let result = visited(&[&words[..], &paths].concat());
    assert_eq!(
        (result["errors"].as_u64(), result["site"]["split"].as_str()),
        (Some(0), Some("collect")),
        "{result:#}"
    );
    assert!(result["cpu"]["seconds"]["analyzer"].as_f64().unwrap() > 0.0, "{}", result["cpu"]);
    // Apache's and MariaDB's kinds in the analyzer's state.
    let state: Value =
        serde_json::from_str(&fs::read_to_string(site.join("split/analyzer-state.json")).unwrap()).unwrap();
    let names: Vec<&str> =
        state["applications"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"web") && names.contains(&"mariadb"), "{names:?}");
    let text = state.to_string();
    assert!(text.contains("categories.php") && text.contains("from categories"), "{text}");
}

#[test]
fn a_site_that_stays_is_visited_and_its_end_is_told() {
    if !can(Php::Module) {
        return;
    }
    let folder = folder();
    let dir = folder.path().join("site");
    let auction = |words: &[&str]| {
        let mut command = hardmeter();
        command.arg("auction").args(words);
        command
    };
    let dir_text = dir.to_str().unwrap();
    let said = stdout(&succeeded(run(&mut auction(&[
        "start",
        "--dir",
        dir_text,
        "--data",
        "0.01",
        "--workers",
        "4",
    ]))));
    assert!(said.starts_with("http://127.0.0.1:"), "{said}");
    let text = stdout(&succeeded(run(&mut auction(&[
        "--at",
        dir_text,
        "--mix",
        "browsing",
        "--clients",
        "2",
        "--seconds",
        "3",
        "--warmup",
        "0",
    ]))));
    assert!(text.contains("closed loop: 2 clients") && text.contains("search_category"), "{text}");
    let again = run(&mut auction(&["start", "--dir", dir_text]));
    assert!(again.status.code() == Some(1) && stderr(&again).contains("not empty"), "{}", stderr(&again));

    let web = hardmeter_servers::web::WebServer::open(&hardmeter_servers::ServerFolder::new(dir.join("web")))
        .unwrap();
    let mut running = auction(&["--at", dir_text, "--mix", "browsing", "--seconds", "60"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = || fs::read_to_string(format!("/proc/{}/net/tcp", running.id())).unwrap_or_default();
    let port = format!("0100007F:{:04X} 01", web.address().port());
    wait_until("a connection to the site", || log().contains(&port));
    signal(web.apache_processes()[0].0, libc::SIGKILL);
    let status = running.wait().unwrap();
    let mut complaint = String::new();
    running.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!(status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("the site's Apache ended") && complaint.contains("remedy:"), "{complaint}");
    succeeded(run(&mut auction(&["stop", "--dir", dir_text])));
    assert!(!dir.exists());
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for (words, status, complaint) in [
        (&["auction"][..], 1, "--mix browsing"),
        (&["auction", "--mix", "bidding", "--scenario", "accesses"], 2, "cannot be used with"),
        (&["auction", "--mix", "bidding", "--rate", "-5"], 2, "unexpected argument"),
        (&["auction", "--mix", "bidding", "--rate", "0"], 1, "more than 0"),
        (&["auction", "--mix", "bidding", "--split", "a;b"], 2, "a policy"),
        (&["auction", "--mix", "bidding", "--data", "0"], 1, "invalid scale"),
        (&["auction", "--at", "/nowhere", "--mix", "bidding"], 1, "cannot read /nowhere/site.json"),
        (
            &["auction", "--mix", "bidding", "--split", "collect", "--split-build", "/nowhere"],
            1,
            "make build-place",
        ),
    ] {
        let output = run(Command::new(env!("CARGO_BIN_EXE_hardmeter")).args(words));
        let text = stderr(&output);
        assert!(output.status.code() == Some(status) && text.contains(complaint), "{words:?}: {text}");
    }
}
