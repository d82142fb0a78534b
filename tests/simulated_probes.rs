//! Breakpoints that another program has the kernel set in a file's code (uprobes) do not reach simulated programs.

mod common;

use common::{can_simulate, compile, is_root, recorder, run, stderr, stdout, succeeded};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the file in its argument, if any; then calls `probed` a hundred times, itself and in a child.
const PROBED: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long turns;
__attribute__((noinline)) static long probed(long n) { turns++; return n * 3 + turns; }
static long all(void) {
    long sum = 0;
    for (long n = 0; n < 100; n++) sum += probed(n);
    return sum;
}
int main(int argc, char **argv) {
    if (argc > 1) {
        puts("waiting");
        fflush(stdout);
        while (access(argv[1], F_OK) != 0) usleep(1000);
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        long sum = all();
        _exit(sum == 19900 ? 7 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("sum %ld, child %d, signal %d\n", all(), WEXITSTATUS(status), WTERMSIG(status));
    return 0;
}
"#;

/// Sets a uprobe of all processes at FILE, OFFSET until it is killed; prints "set" or the error.
const PROBER: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (argc < 3) return 2;
    FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
    unsigned type = 0;
    if (file == NULL || fscanf(file, "%u", &type) != 1) { puts("no uprobe PMU"); return 1; }
    for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
        struct perf_event_attr attr;
        memset(&attr, 0, sizeof attr);
        attr.size = sizeof attr;
        attr.type = type;
        attr.uprobe_path = (unsigned long)argv[1];
        attr.probe_offset = strtoul(argv[2], NULL, 0);
        if (syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0) < 0) {
            printf("refused: %s\n", strerror(errno));
            return 1;
        }
    }
    puts("set");
    fflush(stdout);
    pause();
    return 0;
}
"#;

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill(); // has ended already
        let _ = self.0.wait();
    }
}

/// File offset of a function: its address, minus its section's.
fn offset_of(program: &Path, function: &str) -> u64 {
    let lines =
        |tool: &str, option: &str| stdout(&succeeded(run(Command::new(tool).arg(option).arg(program))));
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
    let symbols = lines("nm", "--defined-only");
    let symbol = symbols.lines().find(|line| line.ends_with(&format!(" {function}"))).expect("a symbol");
    let sections = lines("readelf", "-SW");
    let text = sections.lines().find(|line| line.contains(" .text ")).expect("a section");
    // `[15] .text PROGBITS ADDRESS OFFSET ...`
    let fields: Vec<&str> = text.split(" .text ").nth(1).expect("fields").split_whitespace().collect();
    hexadecimal(&symbol[..16]) - hexadecimal(fields[1]) + hexadecimal(fields[2])
}

/// Starts the prober and reads its first line. `None`, with a message, if no uprobe can be set.
fn probe(prober: &Path, program: &Path, offset: u64) -> Option<Running> {
    let mut child = Command::new(prober)
        .arg(program)
        .arg(offset.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = [0; 4];
    let set = child.stdout.as_mut().expect("a pipe").read_exact(&mut line).is_ok() && &line == b"set\n";
    let running = Running(child);
    if !set {
        eprintln!("skipped: the kernel sets no uprobe here");
        return None;
    }
    Some(running)
}

const DONE: &str = "sum 19900, child 7, signal 0";

#[test]
fn a_probe_of_another_program_does_not_end_a_simulated_one() {
    if !can_simulate() {
        return;
    }
    if !is_root() {
        eprintln!("skipped: only root may probe all processes");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "probed", &["-no-pie"], PROBED, None);
    let prober = compile(folder.path(), "prober", &[], PROBER, None);
    let offset = offset_of(&program, "probed");
    let original = std::fs::read(&program).unwrap();

    // Set before the program starts.
    let Some(probing) = probe(&prober, &program, offset) else { return };
    let capture = folder.path().join("before.data");
    let output = run(recorder(&capture, &["-e", "l1d-miss"]).arg("--").arg(&program));
    assert_eq!(stdout(&output).trim(), DONE, "{}", stderr(&output));
    assert!(output.status.success(), "{}", stderr(&output));
    drop(probing);

    // Set while it runs, before it reaches the probed code.
    let (capture, go) = (folder.path().join("during.data"), folder.path().join("go"));
    let mut recording = Running(
        recorder(&capture, &["-e", "l1d-miss"])
            .arg("--")
            .arg(&program)
            .arg(&go)
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts"),
    );
    let mut printed = recording.0.stdout.take().expect("a pipe");
    let mut line = [0; 8];
    printed.read_exact(&mut line).expect("a line");
    assert_eq!(&line, b"waiting\n");
    let Some(probing) = probe(&prober, &program, offset) else { return };
    std::fs::write(&go, "").unwrap();
    let mut rest = String::new();
    printed.read_to_string(&mut rest).unwrap();
    assert_eq!(rest.trim(), DONE);
    assert!(recording.0.wait().expect("ends").success());
    drop(probing);
    assert_eq!(std::fs::read(&program).unwrap(), original, "the file is as it was");
}

/// A breakpoint in the file is the program's own: it gets its signal.
#[test]
fn a_breakpoint_of_the_program_itself_stays() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = r#"
        #include <signal.h>
        #include <stdio.h>
        static volatile int traps;
        static void trapped(int signal) { (void)signal; traps++; }
        int main(void) {
            signal(SIGTRAP, trapped);
            for (int turn = 0; turn < 3; turn++) __asm__ volatile("int3");
            printf("%d traps\n", traps);
            return 0;
        }
    "#;
    let program = compile(folder.path(), "traps", &[], source, None);
    let capture = folder.path().join("traps.data");
    let output = succeeded(run(recorder(&capture, &["-e", "l1d-miss"]).arg("--").arg(&program)));
    assert_eq!(stdout(&output).trim(), "3 traps");
}
