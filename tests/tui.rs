//! `hardmeter tui` in a pseudo terminal: it draws, takes keys, and leaves the terminal as it was. What the frames show
//! is tested in memory (measure/tui/tests).

#[path = "report/bench.rs"]
mod bench;
mod common;

use bench::{hardmeter, made_capture, Bench};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// A pseudo terminal of 100 columns and 24 rows: the user's side and the program's side.
fn terminal() -> (File, File) {
    let (mut user, mut program) = (0, 0);
    let size = libc::winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    let none = std::ptr::null_mut();
    // SAFETY: the two numbers and the size are valid variables; name and settings may be null.
    let status = unsafe { libc::openpty(&mut user, &mut program, none, std::ptr::null(), &size) };
    assert_eq!(status, 0, "openpty: {}", std::io::Error::last_os_error());
    // SAFETY: openpty has opened both, and no one else owns them.
    unsafe { (File::from_raw_fd(user), File::from_raw_fd(program)) }
}

#[test]
fn it_draws_takes_keys_and_restores_the_terminal() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let (mut user, program) = terminal();
    let end = || Stdio::from(program.try_clone().expect("a copy"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_hardmeter"))
        .args(["--quiet", "tui", &capture])
        .env("TERM", "xterm-256color")
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .expect("it starts");
    drop(program);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reader = {
        let (seen, mut user) = (seen.clone(), user.try_clone().expect("a copy"));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The kernel reports an error once the program's end is closed.
            while let Ok(read @ 1..) = user.read(&mut bytes) {
                seen.lock().expect("no panic").extend_from_slice(&bytes[..read]);
            }
        })
    };
    let text = || String::from_utf8_lossy(&seen.lock().expect("no panic")).into_owned();
    common::wait_until("the first frame", || text().contains("Statements"));
    assert!(text().contains("\u{1b}[?1049h"), "a screen of its own: {:?}", text());
    // Routines, the code of the first one, the keys, back, and the end.
    user.write_all(b"2\r?\x7fq").expect("typed");
    let status = child.wait().expect("it ends");
    reader.join().expect("read to the end");
    assert!(status.success(), "{status}: {}", text());
    assert!(text().ends_with("\u{1b}[?25h") || text().contains("\u{1b}[?1049l"), "restored: {:?}", text());
}

#[test]
fn without_a_terminal_it_names_the_other_views() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let output = hardmeter(&["tui", &capture]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("needs a terminal") && said.contains("hardmeter report"), "{said}");
}
