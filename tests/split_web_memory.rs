//! mod_split and PHP's extensions under Valgrind's memcheck, in a real Apache under a short load: no error.

mod common;
#[path = "common/web.rs"]
mod web;

use common::{have, wait_until};
use hardmeter_servers::web::{Mpm, Php};
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ExitStatus};
use web::{Connection, Web, WEB};

const PAGES: [(&str, &str); 3] = [
    ("index.html", "home"),
    ("closed.html", "closed"),
    ("id.php", "<?php echo split_code_id() === getenv('SPLIT_CODE_ID') ? 'same' : 'other';"),
];

/// PHP compares strings eight bytes at a time and reads the rest of the last eight; the result does not depend on
/// them.
const OF_PHP_ITSELF: &str = "{\n   strings\n   Memcheck:Cond\n   fun:zend_string_equal_val\n}\n";

#[test]
fn a_load_under_memcheck_has_no_error() {
    if !have(&["valgrind"]) {
        return;
    }
    // Not event: as a slow single process, Apache 2.4.71 sometimes crashes at its end with it, also without the
    // modules.
    for (mpm, php) in [(Mpm::Worker, Php::None), (Mpm::Prefork, Php::Module)] {
        let Some(mut web) = Web::new(&PAGES) else { return };
        web.page("big.txt", &vec![b'x'; 4 << 20]);
        if !web.configure(mpm, php, &["<Files closed.html>\nRequire all denied\n</Files>"]) {
            return;
        }
        let suppressions = web.segments().join("php.supp");
        fs::write(&suppressions, OF_PHP_ITSELF).unwrap();
        let log = web.segments().join("memcheck.log");
        let tool = [
            "valgrind".into(),
            "--quiet".into(),
            "--vgdb=no".into(),
            "--error-exitcode=99".into(),
            format!("--suppressions={}", suppressions.display()),
            format!("--log-file={}", log.display()),
        ];
        let mut server = Ended(web.run_inside(&tool));
        wait_until("the server", || {
            assert_eq!(server.0.try_wait().unwrap(), None, "{}", said(&log));
            TcpStream::connect(web.address()).is_ok()
        });
        for round in 0..5 {
            let mut kept = Connection::new(web.address());
            assert_eq!(kept.get("/").text(), "home");
            assert_eq!(kept.get(&format!("/missing-{round}")).status, 404);
            assert_eq!(kept.ask("GET", "/closed.html", &[("split-id", "a.b")], "").status, 403);
            if php != Php::None {
                assert_eq!(kept.ask("POST", "/id.php", &[], "a=1").text(), "same");
            }
            // One process has one connection.
            drop(kept);
            let mut impatient = Connection::new(web.address());
            impatient.send("GET", "/big.txt", &[], "");
            impatient.read(1000);
        }
        assert_eq!(Connection::new(web.address()).get("/big.txt").body.len(), 4 << 20);
        let mut expected = vec![("index.html", 5), ("(404)", 5), ("(403)", 5), ("big.txt", 6)];
        if php != Php::None {
            expected.push(("id.php", 5));
        }
        web.expect_counts(WEB, &expected);
        let status = server.end();
        assert!(status.success() && said(&log).is_empty(), "{mpm:?}: {status}\n{}", said(&log));
    }
}

fn said(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}

/// A server that ends with the test.
struct Ended(Child);

impl Ended {
    fn end(&mut self) -> ExitStatus {
        // SAFETY: a child of the test that was not waited for yet. SIGTERM is Apache's orderly end.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        self.0.wait().unwrap()
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
