//! A program in C, compiled against the header, drives a trial to its end through the shared library.

use std::path::Path;
use std::process::Command;

#[test]
fn a_trial_from_c() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The test runs in target/PROFILE/deps, which contains this build's library; Cargo links it in the parent
    // folder.
    let program = std::env::current_exe().unwrap();
    let deps = program.parent().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let made = scratch.path().join("trial");
    let library = [deps, deps.parent().unwrap()]
        .map(|folder| folder.join("libhmevidence.so"))
        .into_iter()
        .find(|path| path.exists())
        .expect("libhmevidence.so beside the test");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here.join("include"))
        .arg(here.join("tests/trial.c"))
        .arg(&library)
        .arg("-o")
        .arg(&made)
        .output()
        .expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&made).env("LD_LIBRARY_PATH", library.parent().unwrap()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
