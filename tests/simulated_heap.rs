//! `record --heap`: samples of the software PMU have their heap block, and its allocation site.

mod common;

use common::{
    can_simulate, compile, hardmeter, hexadecimal, printed, record, run, stderr, stdout, succeeded,
};
use hardmeter_samples::model::{HeapBlock, Record, SimulatedDetail};
use hardmeter_samples::perf_data::{CaptureReader, RecordOrder};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::process::Command;

/// Blocks of 512 KiB from calloc and from realloc, and a page of posix_memalign; each swept more than once. Freed
/// memory is no longer a block, and its address may be reused.
const BLOCKS_C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#define WORDS 65536ul
#define OWN __attribute__((noinline, noclone))
OWN static long *zeroed(void) { long *made = calloc(WORDS, 8); __asm__ volatile("" ::: "memory"); return made; }
OWN static long *grown(void) { long *made = realloc(malloc(64), WORDS * 8); __asm__ volatile("" ::: "memory"); return made; }
OWN static long *aligned(void) { void *made; if (posix_memalign(&made, 4096, 4096)) abort(); return made; }
static long plain[WORDS];
int main(void) {
    free(malloc(100));
    free(NULL);
    volatile long *blocks[] = {zeroed(), grown(), plain}, *page = aligned();
    long sum = 0;
    for (int round = 0; round < 3; round++)
        for (int block = 0; block < 3; block++)
            for (unsigned long i = 0; i < WORDS; i += 8) { blocks[block][i] += 1; page[i % 512] += 1; }
    for (int block = 0; block < 3; block++) sum += blocks[block][8];
    printf("zeroed=%p grown=%p plain=%p page=%p sum=%ld\n", (void *)blocks[0], (void *)blocks[1], (void *)plain, (void *)page, sum - blocks[1][8]);
    return 0;
}
"#;

#[test]
fn blocks_are_told_with_their_call_sites() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "blocks", &["-no-pie", "-Wno-maybe-uninitialized"], BLOCKS_C, None);
    let capture = folder.path().join("blocks.data");
    let output = record(&capture, &["--heap", "-e", "l1d-miss/period=7/"], &[&program]);
    let address = |name: &str| printed(&output, name)[0];
    assert_eq!(printed(&output, "sum"), [6], "calloc gives zeroes, and the program runs as ever");

    // Start and end of each function.
    let symbols = stdout(&succeeded(run(Command::new("nm").args(["-S", "--defined-only"]).arg(&program))));
    let function = |name: &str| -> std::ops::Range<u64> {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}"))).expect("a symbol");
        let words: Vec<&str> = line.split(' ').collect();
        hexadecimal(words[0])..hexadecimal(words[0]) + hexadecimal(words[1])
    };
    let mut samples: BTreeMap<&str, u64> = BTreeMap::new();
    let reader = CaptureReader::open(&capture).expect("readable");
    reader
        .for_each(RecordOrder::File, &mut |record| {
            let Record::Sample(sample) = record else { return ControlFlow::Continue(()) };
            let at = sample.address.expect("an address").0;
            let block = SimulatedDetail::decode(sample.raw.expect("a detail")).expect("ours").heap_block;
            let within = |name: &str, size: u64| (address(name)..address(name) + size).contains(&at);
            for (name, size, by) in
                [("zeroed", 524_288, "zeroed"), ("grown", 524_288, "grown"), ("page", 4096, "aligned")]
            {
                if within(name, size) {
                    let HeapBlock { start, size: told, site } = block.expect("a heap block");
                    assert_eq!((start.0, told.0), (address(name), size), "{at:#x}");
                    assert!(function(by).contains(&site.0), "{site} is in {by}");
                    *samples.entry(name).or_default() += 1;
                }
            }
            if within("plain", 524_288) {
                assert_eq!(block, None, "a variable is in no block");
                *samples.entry("plain").or_default() += 1;
            }
            ControlFlow::Continue(())
        })
        .expect("read");
    // Three sweeps over 8192 lines, every seventh miss; the load misses first, the store after it hits.
    for name in ["zeroed", "grown", "plain"] {
        assert!((3 * 8192 / 7 - 50..=3 * 8192 / 7 + 50).contains(&samples[name]), "{samples:?}");
    }
}

#[test]
fn a_heap_is_recorded_of_a_command_on_the_software_pmu_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(hardmeter()
        .current_dir(folder.path())
        .args(["record", "--source", "timer", "--heap", "--", "true"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("remedy: add --source simulated"), "{}", stderr(&output));
    assert!(!folder.path().join("hardmeter.data").exists());
}
