//! `why` names the pattern of misses: each routine of a small program has a known one.

mod common;

use common::{can_simulate, compile, hardmeter, record, run, succeeded};
use serde_json::Value;
use std::path::Path;

/// A list of 2 MB in the order of a linear congruence, a transposition of 512 x 512 doubles (rows of 4,096 bytes), three
/// sums of 4 MB, and random reads of the same.
const PATTERNS_C: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#define OWN __attribute__((noinline, noclone))
struct node { struct node *next; char rest[56]; };
#define NODES 32768u
static struct node nodes[NODES] __attribute__((aligned(64)));
double from[512 * 512], to[512 * 512];
long numbers[1 << 19];
OWN static long chase(struct node *node, long steps) {
    long sum = 0;
    while (steps--) { node = node->next; sum += (long)node & 64; }
    return sum;
}
OWN static void transpose(void) {
    for (int i = 0; i < 512; i++)
        for (int j = 0; j < 512; j++) to[i * 512 + j] = from[j * 512 + i];
}
OWN static long stream(void) {
    long sum = 0;
    for (long i = 0; i < 1 << 19; i++) sum += numbers[i];
    return sum;
}
OWN static long probe(long count) {
    uint64_t random = 88172645463325252u;
    long sum = 0;
    while (count--) {
        random ^= random << 13; random ^= random >> 7; random ^= random << 17;
        sum += numbers[random % (1 << 19)];
    }
    return sum;
}
int main(int count, char **words) {
    long sum = 0;
    if (count < 2) return 1;
    switch (words[1][0]) {
        case 'c':
            for (uint32_t i = 0, next; i < NODES; i++) { next = (i * 5 + 12345) % NODES; nodes[i].next = &nodes[next]; }
            sum = chase(nodes, 200000);
            break;
        case 't': transpose(); transpose(); sum = (long)to[5]; break;
        case 's': sum = stream() + stream() + stream(); break;
        case 'o': sum = stream(); break;
        case 'p': sum = probe(200000); break;
    }
    printf("sum=%ld\n", sum);
    return 0;
}
"#;

/// The patterns of the misses in a routine, over all causes: samples of the pattern, of all, and of the stride.
fn patterns(folder: &Path, program: &Path, mode: &str) -> (Value, String) {
    let capture = folder.join(format!("{mode}.data"));
    let words = [program.to_str().expect("a name"), mode];
    record(&capture, &["--machine", "skylake-sp", "-e", "l1d-miss/period=101/"], &words);
    let why = succeeded(run(hardmeter().args(["why", "--format", "json", "-i"]).arg(&capture)));
    let why: Value = serde_json::from_slice(&why.stdout).expect("JSON");
    let sentences = why["sentences"].to_string();
    (why["events"][0]["causes"].clone(), sentences)
}

/// A routine's leading pattern and the stride of it, where the routine has most misses of a cause.
fn leading(causes: &Value, routine: &str) -> (String, i64) {
    let of_routine = |cause: &&Value| cause["patterns"][0]["place"]["routine"] == routine;
    let most = |cause: &&Value| cause["patterns"][0]["count"].as_u64();
    let causes = causes.as_array().expect("causes");
    let cause = causes.iter().filter(of_routine).max_by_key(most).unwrap_or_else(|| panic!("{causes:?}"));
    let pattern = &cause["patterns"][0];
    let stride = pattern["stride"][0].as_i64().unwrap_or(0);
    (pattern["pattern"].as_str().expect("a name").to_string(), stride)
}

fn of_cause(causes: &Value, name: &str) -> Value {
    let causes = causes.as_array().expect("causes");
    causes.iter().find(|cause| cause["cause"] == name).unwrap_or_else(|| panic!("{causes:?}")).clone()
}

#[test]
fn each_routine_has_the_pattern_that_its_source_says() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "patterns", &["-no-pie"], PATTERNS_C, None);
    let of = |mode: &str| patterns(folder.path(), &program, mode);

    let (causes, said) = of("c");
    assert_eq!(leading(&causes, "chase").0, "chase", "{causes:#}");
    assert!(said.contains("a pointer chase (each address came from the load before)"), "{said}");
    let remedies = causes.to_string();
    assert!(remedies.contains("shorten the chain in chase"), "{remedies}");
    // Nodes are used for the first time when they are linked; six rounds follow.
    let cold = of_cause(&causes, "cold");
    let part = cold["cold_start"]["part"].as_f64().unwrap_or_else(|| panic!("{cold:#}"));
    assert!(part < 0.2, "{cold:#}");
    assert!(said.contains("a cold start: "), "{said}");
    let remedy = cold["remedy"].as_str().expect("a remedy");
    assert!(remedy.starts_with("nothing in the code") && remedy.contains("--delay"), "{remedy}");

    let (causes, said) = of("t");
    assert_eq!(leading(&causes, "transpose"), ("stride".into(), 4096), "{causes:#}");
    assert!(said.contains("at a stride of 4,096 bytes"), "{said}");
    assert!(causes.to_string().contains("it uses 1 of the 64 sets"), "{causes:#}");

    // The misses of one sum continue to the end.
    let (causes, said) = of("o");
    assert!(of_cause(&causes, "cold")["cold_start"].is_null(), "{causes:#}");
    assert!(!said.contains("a cold start"), "{said}");

    let (causes, _) = of("s");
    assert_eq!(leading(&causes, "stream"), ("stride".into(), 64), "{causes:#}");

    let (causes, said) = of("p");
    assert_eq!(leading(&causes, "probe"), ("scattered".into(), 0), "{causes:#}");
    assert!(said.contains("at scattered addresses"), "{said}");
}
