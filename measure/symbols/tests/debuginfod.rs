//! Debug files from debuginfod: only when the user allows it and names a server. A script that records its
//! arguments replaces the client, since tests have no network; its files must still be of the right build.
//!
//! One test, alone in its process: it changes the environment.

mod common;

use common::{address_of, compile, lookup, options, text, tool};
use hardmeter_symbols::{RoutineKind, Symbolizer, SymbolizerOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const PROGRAM: &str = "__attribute__((noinline)) static int hidden(int n) { return n * VALUE; }\n\
                       int main(int argc, char **argv) { return hidden(argc); }";

#[test]
fn debuginfod_is_asked_only_when_allowed() {
    let directory = tempfile::tempdir().expect("a directory");
    let build = |name: &str, value: &str| {
        compile(
            directory.path(),
            name,
            PROGRAM,
            &["-O1", "-g", "-Wl,--build-id", &format!("-DVALUE={value}")],
        )
    };
    let path = build("program", "3");
    let other = build("other", "5");
    let hidden = address_of(&path, "hidden").address;
    let debug = directory.path().join("fetched.debug");
    tool("objcopy", &["--only-keep-debug", text(&path), text(&debug)]);
    tool("strip", &[text(&path)]);

    let client_directory = directory.path().join("bin");
    std::fs::create_dir(&client_directory).expect("made");
    let asked = directory.path().join("asked");
    let answer_with = |file: &Path| {
        let client = client_directory.join("debuginfod-find");
        let script = format!("#!/bin/sh\necho \"$1\" >> {}\necho {}\n", text(&asked), text(file));
        std::fs::write(&client, script).expect("written");
        std::fs::set_permissions(&client, std::fs::Permissions::from_mode(0o755)).expect("executable");
    };
    let path_variable = std::env::var("PATH").expect("a PATH");
    std::env::set_var("PATH", format!("{}:{path_variable}", text(&client_directory)));
    let kind = |allow_debuginfod: bool| {
        let mut symbolizer = Symbolizer::new(SymbolizerOptions { allow_debuginfod, ..options(&[]) });
        common::load(&mut symbolizer, &path);
        lookup(&mut symbolizer, hidden).0
    };

    answer_with(&debug);
    std::env::set_var("DEBUGINFOD_URLS", "https://debuginfod.example");
    assert_eq!(kind(false).kind, RoutineKind::StaticFunction);
    std::env::remove_var("DEBUGINFOD_URLS");
    assert_eq!(kind(true).kind, RoutineKind::StaticFunction);
    assert!(!asked.exists(), "the server was asked without leave");

    std::env::set_var("DEBUGINFOD_URLS", "https://debuginfod.example");
    assert_eq!(kind(true).name, "hidden");
    assert_eq!(std::fs::read_to_string(&asked).expect("asked"), "debuginfo\n");

    answer_with(&other);
    assert_eq!(kind(true).kind, RoutineKind::StaticFunction, "another build's names were used");
}
