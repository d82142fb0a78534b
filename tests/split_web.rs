//! mod_split in real Apaches of all kinds: the segment's counts equal the requests, threads get their cores back
//! before they wait for a client, and ids from outside are ignored.

mod common;
#[path = "common/web.rs"]
mod web;

use common::{have, run, stdout, succeeded};
use hardmeter_servers::web::{Mpm, Php};
use hardmeter_split::model::{Actuation, CodeId, CpuId, CpuSet, KindRef};
use hardmeter_split::segment::{monotonic_ns, Decision};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use web::{Connection, Web, PHP, WEB};

const PAGE: (&str, &str) = ("page.php", "<?php usleep(10); echo 'item ', (int)$_GET['item'];");
const ID: (&str, &str) = ("id.php", "<?php echo getenv('SPLIT_CODE_ID') ?: $_SERVER['SPLIT_CODE_ID'] ?? '', ' ', split_code_id(), ' ', $_SERVER['HTTP_SPLIT_ID'] ?? 'none';");
const FILES: [(&str, &str); 4] =
    [("index.html", "home"), ("file.html", "file"), ("error.html", "sorry"), ("closed.html", "closed")];
const BIG: u64 = 40 << 20;

fn site(more: &[(&str, &str)]) -> Option<Web> {
    let web = Web::new(&[&FILES[..], more].concat())?;
    web.page("big.bin", b"");
    fs::File::options().write(true).open(web.documents().join("big.bin")).unwrap().set_len(BIG).unwrap();
    Some(web)
}

/// Requests files in all ways that a client may; returns the expected counts.
fn ask_for_files(web: &Web) -> Vec<(&'static str, u64)> {
    let mut kept = Connection::new(web.address());
    for item in 0..30 {
        assert_eq!(kept.get(&format!("/file.html?item={item}")).text(), "file");
    }
    // Several requests before the first answer is read.
    for _ in 0..5 {
        kept.send("GET", "/file.html", &[], "");
    }
    for _ in 0..5 {
        assert_eq!(kept.answer(false).text(), "file");
    }
    assert_eq!(kept.ask("HEAD", "/file.html", &[], "").status, 200);
    for _ in 0..7 {
        assert_eq!(web.get("/"), (200, "home".into()));
    }
    for item in 0..4 {
        assert_eq!(kept.get(&format!("/missing-{item}")).status, 404);
    }
    // An internal redirect: the section belongs to the error page.
    for _ in 0..2 {
        assert_eq!(kept.get("/closed.html").text(), "sorry");
    }
    // Clients that disconnect: during an answer, during a request.
    for _ in 0..3 {
        let mut impatient = Connection::new(web.address());
        impatient.send("GET", "/big.bin", &[], "");
        impatient.read(1000);
    }
    Connection::new(web.address()).write("GET /file.html HTTP/1.1\r\nHost: shop\r\nX-Half: ");
    vec![("file.html", 36), ("index.html", 7), ("(404)", 4), ("error.html", 2), ("big.bin", 3)]
}

const CLOSED: [&str; 2] =
    ["<Files closed.html>\nRequire all denied\n</Files>", "ErrorDocument 403 /error.html"];

#[test]
fn processes_with_php_inside_count_what_was_asked() {
    let Some(mut web) = site(&[PAGE, ID]) else { return };
    if !web.start(Mpm::Prefork, Php::Module, None, &CLOSED) {
        return;
    }
    let mut expected = ask_for_files(&web);
    let mut kept = Connection::new(web.address());
    for item in 0..20 {
        assert_eq!(kept.get(&format!("/page.php?item={item}")).text(), format!("item {item}"));
    }
    assert_eq!(kept.ask("POST", "/page.php?item=7", &[], "a=1").text(), "item 7");
    expected.push(("page.php", 21));
    web.expect_counts(WEB, &expected);

    // The page has the id of its kind; an id sent by a client is ignored.
    let said = kept.ask("GET", "/id.php", &[("split-id", "1.2")], "").text();
    let id = format!("{WEB}.{}", code(&web, "id.php"));
    assert_eq!(said, format!("{id} {id} none"));
    assert!(!web.segments().join(format!("app-{PHP}.segment")).exists(), "PHP inside Apache is Apache");
}

#[test]
fn threads_before_processes_of_php_count_both() {
    let Some(mut web) = site(&[PAGE, ID]) else { return };
    if !web.start(Mpm::Event, Php::Fpm, None, &CLOSED) {
        return;
    }
    let mut expected = ask_for_files(&web);
    let mut connections: Vec<_> = (0..3).map(|_| Connection::new(web.address())).collect();
    for item in 0..30 {
        let kept = &mut connections[item % 3];
        assert_eq!(kept.get(&format!("/page.php?item={item}")).text(), format!("item {item}"));
    }
    expected.push(("page.php", 30));
    web.expect_counts(WEB, &expected);
    web.expect_counts(PHP, &[("page.php", 30)]);
    let page = web.snapshot(PHP).kinds.into_iter().find(|kind| kind.label.ends_with("/page.php")).unwrap();
    assert_eq!(
        page.related,
        Some(KindRef { app: WEB, code: code(&web, "page.php") }),
        "it was Apache's page"
    );

    // Statements have the id of the outermost tier.
    let said = web.get("/id.php").1;
    let id = format!("{WEB}.{}", code(&web, "id.php"));
    assert_eq!(said, format!("{id} {id} none"));
}

/// WordPress and most frameworks send all addresses to index.php: its pages are kinds of their own, in PHP-FPM, too.
#[test]
fn pages_of_an_entry_script_are_distinguished() {
    let entry = ("index.php", "<?php echo $_SERVER['REQUEST_URI'];");
    for (mpm, php) in [(Mpm::Prefork, Php::Module), (Mpm::Event, Php::Fpm)] {
        let Some(mut web) = Web::new(&[entry, PAGE]) else { return };
        if !web.start(mpm, php, None, &["FallbackResource /index.php"]) {
            return;
        }
        let mut kept = Connection::new(web.address());
        for number in 0..9 {
            for path in
                ["/?s=word-", "/?s=word&paged=", "/?p=", "/2026/11/27/", "/news/?x=", "/page.php?item="]
            {
                assert_eq!(kept.get(&format!("{path}{number}")).status, 200, "{path}");
            }
            assert_eq!(kept.get("/").text(), "/");
        }
        let expected = [
            ("index.php", 9),
            ("index.php /?s", 9),
            ("index.php /?paged&s", 9),
            ("index.php /?p", 9),
            ("index.php /<id>/<id>/<id>/<id>", 9),
            ("index.php /news/?x", 9),
            ("page.php", 9),
        ];
        web.expect_counts(WEB, &expected);
        if php == Php::Fpm {
            web.expect_counts(PHP, &expected);
        }
    }
}

/// Without split.app_id the id is that of split.name: php, php8.2 and php-fpm8.2 are one application.
#[test]
fn programs_of_php_are_one_application_by_their_name() {
    if !have(&["php"]) {
        return;
    }
    let Some(web) = site(&[("code.php", "<?php echo split_code_id();")]) else { return };
    let said = |program: &str, name: &str| {
        let mut php = Command::new("php");
        php.arg0(program)
            .arg("-n")
            .arg("-d")
            .arg(format!("extension={}", web.object("php/split.so").display()));
        php.args(["-d", "split.cli=1", "-d", &format!("split.name={name}")]);
        php.arg("-d").arg(format!("split.directory={}", web.segments().display()));
        stdout(&succeeded(run(php.arg(web.documents().join("code.php")))))
    };
    let first = said("php", "shop");
    let (app, code) = first.split_once('.').unwrap();
    assert!(u32::from_str_radix(app, 16).is_ok_and(|id| id != 0) && !code.is_empty(), "{first}");
    assert_eq!(said("php-fpm8.2", "shop"), first, "another program, the same page of the same application");
    assert!(!said("php", "another").starts_with(&format!("{app}.")));
    assert!(web.segments().join(format!("app-{app}.segment")).exists());
}

#[test]
fn threads_of_a_worker_count_what_was_asked_by_patterns_and_urls() {
    let Some(mut web) = site(&[]) else { return };
    let directives = [
        CLOSED[0],
        CLOSED[1],
        "SplitKey pattern",
        "AliasMatch ^/items/ ${DOCUMENTS}/file.html",
        "SplitTrustHeader On",
    ];
    let documents = web.documents().display().to_string();
    let directives = directives.map(|line| line.replace("${DOCUMENTS}", &documents));
    if !web.start(Mpm::Worker, Php::None, None, &directives.each_ref().map(String::as_str)) {
        return;
    }
    let with_slash = |(name, count): (&'static str, u64)| match name {
        "(404)" => (name.to_owned(), count),
        "index.html" => ("/index.html".to_owned(), count),
        _ => (format!("/{name}"), count),
    };
    let mut expected: Vec<_> = ask_for_files(&web).into_iter().map(with_slash).collect();
    let mut kept = Connection::new(web.address());
    for item in 0..12 {
        assert_eq!(
            kept.ask("GET", &format!("/items/{item}/bids"), &[("split-id", "a7.1b")], "").text(),
            "file"
        );
    }
    expected.push(("/items/<id>/bids".into(), 12));
    let expected: Vec<_> = expected.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    web.expect_counts(WEB, &expected);
    // A trusted front server named the origin.
    let items = web.snapshot(WEB).kinds.into_iter().find(|kind| kind.label.starts_with("/items")).unwrap();
    assert_eq!(items.related.map(|related| related.to_string()).as_deref(), Some("a7.1b"));
}

fn code(web: &Web, page: &str) -> CodeId {
    let kinds = web.snapshot(WEB).kinds;
    let kind = kinds.iter().find(|kind| kind.label.ends_with(&format!("/{page}")));
    kind.map_or(CodeId(0), |kind| kind.code)
}

/// The processors that each thread of these processes may use, from the kernel.
fn allowed(web: &Web) -> BTreeSet<String> {
    let mut allowed = BTreeSet::new();
    for process in web.server().apache_processes() {
        for task in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
            allowed.extend(line.map(str::to_owned));
        }
    }
    allowed
}

#[test]
fn whoever_waits_for_a_slow_client_holds_no_core() {
    for mpm in [Mpm::Prefork, Mpm::Event] {
        let Some(mut web) = site(&[]) else { return };
        if !web.start(mpm, Php::None, None, &[]) {
            return;
        }
        let anywhere = allowed(&web);
        if anywhere.iter().any(|list| !list.contains(['-', ','])) {
            return eprintln!("skipped: there is one processor only");
        }
        // A kind has to be known before it can be placed.
        assert_eq!(Connection::new(web.address()).ask("HEAD", "/big.bin", &[], "").status, 200);
        web.expect_counts(WEB, &[("big.bin", 1)]);
        let first = CpuId(anywhere.first().unwrap().split(['-', ',']).next().unwrap().parse().unwrap());
        let mut application = web.application(WEB);
        let decision = Decision {
            actuation: Actuation::Paper,
            cpus: CpuSet([first].into()),
            expected: hardmeter_samples::model::Cycles(10_000_000),
            ..Decision::default()
        };
        assert!(application.decide(code(&web, "big.bin"), &decision));
        application.beat(monotonic_ns());
        application.place(true, 1);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // The analyzer's part: without its heartbeat, no thread is placed.
            let heart = web.application(WEB);
            scope.spawn(|| {
                let heart = heart;
                while !over.load(Ordering::Relaxed) {
                    heart.beat(monotonic_ns());
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            let before = web.snapshot(WEB).moves;
            let mut slow = Connection::new(web.address());
            slow.send("GET", "/big.bin", &[], "");
            slow.read(1000);
            // It was placed at its begin, and is released although it continues.
            common::wait_until("a free thread", || application.narrowed() == 0 && allowed(&web) == anywhere);
            assert!(web.snapshot(WEB).moves > before, "{mpm:?}: it never was on a core of its own");
            slow.read(BIG as usize / 2);
            assert_eq!(allowed(&web), anywhere);
            over.store(true, Ordering::Relaxed);
        });
        web.expect_counts(WEB, &[("big.bin", 2)]);
    }
}

#[test]
fn a_restart_goes_on_counting() {
    let Some(mut web) = site(&[]) else { return };
    if !web.start(Mpm::Event, Php::None, None, &[]) {
        return;
    }
    web.get("/file.html");
    web.expect_counts(WEB, &[("file.html", 1)]);
    let parent = web.server().apache_processes()[0];
    let children: BTreeSet<_> = web.server().apache_processes().into_iter().skip(1).collect();
    // SAFETY: a process of this test. SIGUSR1 is Apache's graceful restart: modules are unloaded, loaded, and
    // configured again.
    assert_eq!(unsafe { libc::kill(parent.0, libc::SIGUSR1) }, 0);
    common::wait_until("new children", || {
        let now: BTreeSet<_> = web.server().apache_processes().into_iter().skip(1).collect();
        !now.is_empty() && now.is_disjoint(&children)
    });
    web.get("/file.html");
    web.expect_counts(WEB, &[("file.html", 2)]);
}
