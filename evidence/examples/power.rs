//! The power of a trial: prints how often a planted effect is found, by noise, effect and number of rounds.
//!
//! `cargo run -p hardmeter-evidence --example power [TRIALS]`; 500 trials a line unless said otherwise.

#[path = "../tests/noise/mod.rs"]
mod noise;

use noise::{tally, Noise};

const ROUNDS: [u32; 4] = [10, 20, 40, 80];

fn main() {
    let trials = std::env::args().nth(1).map_or(Ok(500), |word| word.parse());
    let Ok(trials) = trials else {
        eprintln!("power: expected a number of trials");
        std::process::exit(2);
    };
    println!("ABBA rounds, level 5 %, minimum effect 2 %, {trials} trials a line; in per cent of the trials");
    println!(
        "{:<24} {:>7} {:>7} {:>7} {:>6} {:>6} {:>10} {:>8}",
        "noise", "effect", "rounds", "better", "worse", "same", "undecided", "median"
    );
    for noise in Noise::ALL {
        for effect in [0.0, 0.02, 0.05, 0.10] {
            for rounds in ROUNDS {
                let tally = tally(noise, trials, effect, rounds);
                let [better, worse, same, undecided] =
                    [tally.better, tally.worse, tally.same, tally.undecided]
                        .map(|count| format!("{:.1}", count as f64 / trials.max(1) as f64 * 100.0));
                let median = tally.median_rounds.map_or("-".into(), |rounds| rounds.to_string());
                let effect = format!("{:.0} %", effect * 100.0);
                println!("{:<24} {effect:>7} {rounds:>7} {better:>7} {worse:>6} {same:>6} {undecided:>10} {median:>8}", noise.name());
            }
        }
    }
    println!("median: rounds until the verdict, of the trials that came to one");
}
