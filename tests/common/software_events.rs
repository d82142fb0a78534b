//! Software events, which every kernel counts, recorded and read by perf.

// Each test file uses its part.
#![allow(dead_code)]

use crate::common::{self, hardmeter, run, stdout, succeeded};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Prints why a test is skipped.
macro_rules! skip {
    ($($reason:tt)*) => {{
        println!("skipped: {}", format!($($reason)*));
        return;
    }};
}
pub(crate) use skip;

/// Whether the kernel allows counting; containers often forbid the system call.
pub fn kernel_counts() -> bool {
    let output = run(hardmeter().args(["stat", "-q", "-e", "page-faults:u", "--", "true"]));
    output.status.success()
}

pub fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The samples of a capture as perf prints them, one line each.
pub fn perf_script(capture: &Path, fields: &str) -> Vec<String> {
    let output = succeeded(run(Command::new("perf")
        .args(["script", "-F", fields, "-i"])
        .arg(capture)
        .stdin(Stdio::null())));
    stdout(&output).lines().map(|line| line.trim().to_string()).filter(|line| !line.is_empty()).collect()
}

/// Compiles a C program, position-dependent so that its variables have the addresses that `nm` prints.
pub fn compile(folder: &Path, name: &str, source: &str) -> PathBuf {
    common::compile(folder, name, &["-no-pie"], source, None)
}

/// Accesses as many fresh pages as its argument says, in an area whose address it prints.
pub const TOUCH: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
    (void)argc;
    long pages = atol(argv[1]);
    size_t length = (pages + 1) * 4096;
    volatile char *area = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)area, length, MADV_NOHUGEPAGE);
    for (long page = 0; page < pages; page++) area[page * 4096 + 24] = 1;
    printf("%p\n", (void *)area);
    return 0;
}
"#;
