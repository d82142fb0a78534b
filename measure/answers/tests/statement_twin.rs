//! The lexer of statements exists twice: here for captures of the kernel, and in C inside the processes that the software
//! PMU simulates. Both must agree to the byte, or one statement would have two hashes.

use hardmeter_answers::{statement_hash, without_constants};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Reads statements, each with its length before it, and writes what is left of them likewise, and the hash.
const MAIN: &str = r#"
#include <stdio.h>
#include "statement.h"
int main(void) {
  static char text[1 << 16], out[HM_STATEMENT_TEXT + 8];
  uint32_t length;
  while (fread(&length, 4, 1, stdin) == 1 && fread(text, 1, length, stdin) == length) {
    uint32_t plain = hm_statement_normalise(text, length, out);
    uint64_t hash = hm_statement_hash(out, plain);
    fwrite(&plain, 4, 1, stdout);
    fwrite(out, 1, plain, stdout);
    fwrite(&hash, 8, 1, stdout);
  }
  return 0;
}
"#;

/// Statements to compare on: the vectors, and what becomes of them when pieces change places.
fn statements() -> Vec<Vec<u8>> {
    let vectors = include_str!("../../../tests/vectors/statements.txt");
    let seeds: Vec<&[u8]> =
        vectors.lines().filter(|line| !line.starts_with('#')).map(str::as_bytes).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64; // xorshift: the same every time
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    const ODD: &[u8] = b"'\"`$()-+,./*\\ \n0159eExX_a;[\xc3\xa9";
    let mut all: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.to_vec()).collect();
    for _ in 0..20_000 {
        let (first, second) = (seeds[random(seeds.len())], seeds[random(seeds.len())]);
        let mut statement = first[..random(first.len() + 1)].to_vec();
        statement.extend(&second[random(second.len() + 1)..]);
        for _ in 0..random(4) {
            let at = random(statement.len() + 1);
            statement.insert(at, ODD[random(ODD.len())]);
        }
        all.push(statement);
    }
    all.push(b"SELECT a".repeat(200));
    all.push("SELECT é".repeat(200).into_bytes());
    all
}

#[test]
fn both_lexers_agree_to_the_byte() {
    let room = Path::new(env!("CARGO_MANIFEST_DIR")).join("../simulate");
    let folder = std::env::temp_dir().join(format!("hardmeter-statement-twin-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("main.c"), MAIN).expect("written");
    let program = folder.join("twin");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-o"])
        .arg(&program)
        .args([folder.join("main.c"), room.join("tool/statement.c")])
        .args([format!("-I{}", room.join("tool").display()), format!("-I{}", room.join("sim").display())])
        .status();
    match compiled {
        Err(error) => println!("skipped: no C compiler ({error})"),
        Ok(status) => {
            assert!(status.success(), "measure/simulate/tool/statement.c does not compile");
            compare(&program);
        }
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}

fn compare(program: &Path) {
    let statements = statements();
    let mut twin =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut input = twin.stdin.take().expect("piped");
    let sent = statements.clone();
    let writer = std::thread::spawn(move || {
        for statement in sent {
            input.write_all(&(statement.len() as u32).to_ne_bytes()).expect("taken");
            input.write_all(&statement).expect("taken");
        }
    });
    let told = twin.wait_with_output().expect("ends").stdout;
    writer.join().expect("all was sent");
    let mut rest = told.as_slice();
    let mut take = |length: usize| {
        let (head, tail) = rest.split_at(length);
        rest = tail;
        head.to_vec()
    };
    for statement in &statements {
        let length = u32::from_ne_bytes(take(4).try_into().expect("four bytes"));
        let theirs = take(length as usize);
        let hash = u64::from_ne_bytes(take(8).try_into().expect("eight bytes"));
        let ours = without_constants(statement);
        let readable = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        assert_eq!(
            ours,
            theirs,
            "{}: {} here, {} there",
            readable(statement),
            readable(&ours),
            readable(&theirs)
        );
        assert_eq!(statement_hash(&ours).0, hash, "{}", readable(&ours));
    }
}
