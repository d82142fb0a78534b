//! Records the noise of this machine: the microseconds of blocks of equal work, as JSON lines on standard output.
//!
//! `cargo run -p hardmeter-evidence --release --example record_noise [BLOCKS]`; 4,000 blocks of about 20 ms unless said
//! otherwise.

use std::hint::black_box;
use std::time::Instant;

const BLOCK_MICROS: u128 = 20_000;

/// Work that the compiler cannot remove: a chain of multiplications and a walk over 256 KB.
fn work(rounds: u64, memory: &mut [u64]) {
    let mut value = black_box(1_u64);
    for round in 0..rounds {
        value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ round;
        let at = value as usize % memory.len();
        memory[at] = memory[at].wrapping_add(value);
    }
    black_box(value);
}

fn main() {
    let blocks = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(4000_u32);
    let mut memory = vec![0_u64; 32 * 1024];
    let mut rounds = 1 << 16;
    loop {
        let begin = Instant::now();
        work(rounds, &mut memory);
        if begin.elapsed().as_micros() >= BLOCK_MICROS {
            break;
        }
        rounds += rounds / 4;
    }
    for _ in 0..blocks {
        let begin = Instant::now();
        work(rounds, &mut memory);
        println!("{{\"us\":{:.1}}}", begin.elapsed().as_nanos() as f64 / 1e3);
    }
}
