//! The self-test at the start of a live recording: where samples land, and the cost of one.

use super::at_sample::{thread_time, Readers};
use super::chase::{places, Chase};
use super::state::StatementRules;
use crate::pmu::attributes::{self, Common, Modes, Rate};
use crate::pmu::encoding::Encoding;
use crate::pmu::open::{self, OpenError};
use crate::pmu::syscall::{self, Place};
use crate::rings::{Ring, RingError, RingWatch};
use hardmeter_samples::model::{Architecture, Landing, Period, Pid, SkidCount, StateRule, VirtualAddress};
use hardmeter_samples::perf_data::abi::{attr_flag, record_type, PerfEventAttr};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Nanoseconds between two samples of the self-test.
const TEST_PERIOD: u64 = 100_000;
/// The CPU time of the measurement of the skid, and the longest wait for it on a busy machine.
const SKID_TIME: Duration = Duration::from_millis(200);
const LONGEST_SKID: Duration = Duration::from_secs(10);
/// Larger than every second-level cache: each load waits.
const SKID_BYTES: usize = 24 << 20;
/// Number of loads between two readings of the clock.
const CHUNK: u64 = 20_000;
/// With fewer samples there is no result.
const LEAST_SAMPLES: u64 = 100;
/// The share of samples that must be at one place.
const LEAST_SHARE: f64 = 0.90;
/// Rounds of the cost's measurement, each with and without samples; and loads of a round, in L1.
const COST_ROUNDS: usize = 7;
const COST_LOADS: u64 = 5_000_000;
/// What samples may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// The share of a busy CPU, 0 to 1.
    share: f64,
    /// Bounds of the period, in nanoseconds.
    periods: (u64, u64),
}

impl Budget {
    /// For one recording.
    pub const ONCE: Budget = Budget { share: 0.007, periods: (1_000_000, 20_000_000) };
    /// For recordings that go on for days.
    pub const ALWAYS: Budget = Budget { share: 0.002, periods: (2_000_000, 100_000_000) };

    /// The period in nanoseconds at which samples of this cost, in nanoseconds, keep within the budget.
    pub fn period(&self, cost_ns: u64) -> u64 {
        ((cost_ns as f64 / self.share) as u64).clamp(self.periods.0, self.periods.1)
    }
}

/// The assumed cost of a sample where it cannot be measured: that on a virtual machine, in nanoseconds.
const UNKNOWN_COST: f64 = 20_000.0;
/// The least assumed cost of a sample, in nanoseconds: noise may hide it.
const LEAST_COST: f64 = 3_000.0;

/// The results of the self-test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calibration {
    /// Where samples land.
    pub landing: Landing,
    /// Samples by their distance from the load, nearest first.
    pub skid: Vec<SkidCount>,
    /// The time that a sample costs the interrupted process, in nanoseconds.
    pub sample_cost_ns: u64,
    /// True if a reader reads the process at each sample, which is part of the cost.
    pub with_readers: bool,
}

impl Calibration {
    /// The share of the self-test's samples at the place where they land, 0 to 1.
    pub fn share(&self) -> f64 {
        let all: u64 = self.skid.iter().map(|count| count.samples).sum();
        let most = self.skid.iter().map(|count| count.samples).max().unwrap_or(0);
        most as f64 / all.max(1) as f64
    }
}

/// The reason why loads cannot be sampled here.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The processor's architecture is not supported.
    #[error("stall samples are read on x86-64 and AArch64 only, this is {}", std::env::consts::ARCH)]
    Architecture,
    /// An event could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The ring of the self-test.
    #[error("the self-test's samples cannot be read: {0}")]
    Ring(String),
    /// The machine is too busy for a test.
    #[error("the self-test got only {samples} samples in {} seconds: other programs use the processors", LONGEST_SKID.as_secs())]
    Busy {
        /// Samples in the loop.
        samples: u64,
    },
    /// The kernel takes too few samples.
    #[error("the self-test got only {samples} samples in {} ms of CPU time: the kernel holds samples back", SKID_TIME.as_millis())]
    Few {
        /// Samples in the loop.
        samples: u64,
    },
    /// Samples do not land at one place.
    #[error(
        "the self-test found only {share:.0} % of {samples} samples at one distance from the load that was waited for: \
         loads cannot be identified from samples on this machine"
    )]
    Skid {
        /// Samples in the loop.
        samples: u64,
        /// Percent of them at the most common place.
        share: f64,
    },
}

impl LiveError {
    /// The remedy for the user.
    pub fn remedy(&self) -> String {
        match self {
            LiveError::Architecture | LiveError::Skid { .. } => {
                "use --source timer to see where time goes, or --source simulated".to_string()
            }
            LiveError::Busy { .. } => {
                "run it with a higher priority (nice -n -10), or at a calmer time; --source timer needs no test".into()
            }
            LiveError::Few { .. } => {
                "sudo sysctl kernel.perf_event_max_sample_rate=100000 kernel.perf_cpu_time_max_percent=25; or use \
                 --source timer"
                    .into()
            }
            LiveError::Open(error) => error.remedy.clone(),
            LiveError::Ring(_) => "see `hardmeter doctor`; or use --source timer".to_string(),
        }
    }
}

/// Nanoseconds that a sample of the timer costs the interrupted process, without registers and readers: measured
/// where that is possible.
pub fn cost_of_timer_sample() -> u64 {
    let attr = attribute(TEST_PERIOD, open::kernel_features(), false);
    let own = Place { thread: Some(0), cpu: None, cgroup: None };
    let mut of_programs = attr;
    of_programs.flags |= attr_flag::EXCLUDE_KERNEL | attr_flag::EXCLUDE_HV;
    let measured = syscall::open(&of_programs, own).ok().map(|event| cost(&event, false));
    // The least cost is what is returned without an answer.
    measured.filter(|cost| *cost > LEAST_COST).unwrap_or(UNKNOWN_COST) as u64
}

/// Tests that loads can be sampled here: the right to sample CPUs, where samples land, and the cost of one,
/// with or without a reader of the process at each sample. Takes a third of a second.
///
/// # Errors
/// Names what is missing; [`LiveError::remedy`] has the remedy.
pub fn calibrate(with_readers: bool) -> Result<Calibration, LiveError> {
    if Architecture::HOST.is_none() {
        return Err(LiveError::Architecture);
    }
    let kernel = open::kernel_features();
    let attr = attribute(TEST_PERIOD, kernel, with_readers);
    let cpu = crate::pmu::sysfs::online_cpus().first().copied();
    let everything = Place { thread: None, cpu, cgroup: None };
    let explain = |place, error: std::io::Error| {
        OpenError::explain("stall", &attr, place, error.raw_os_error().unwrap_or(libc::EIO))
    };
    drop(syscall::open(&attr, everything).map_err(|error| explain(everything, error))?);
    let own = Place { thread: Some(0), cpu: None, cgroup: None };
    let mut of_programs = attr;
    of_programs.flags |= attr_flag::EXCLUDE_KERNEL | attr_flag::EXCLUDE_HV;
    let event = syscall::open(&of_programs, own).map_err(|error| explain(own, error))?;
    let (landing, skid) = skid(&event)?;
    let cost = cost(&event, with_readers).max(LEAST_COST);
    Ok(Calibration { landing, skid, sample_cost_ns: cost as u64, with_readers })
}

/// The event's attribute, for all modes.
fn attribute(period: u64, kernel: attributes::KernelFeatures, with_readers: bool) -> PerfEventAttr {
    let common = Common {
        callchains: false,
        inherit: false,
        enable_on_exec: false,
        wakeup_watermark: (!with_readers).then_some(1 << 16),
        kernel,
    };
    let clock = Encoding { event_type: 1, config: 0, ..Encoding::default() };
    let mut attr = attributes::sampling(&clock, Rate::Period(Period(period)), Modes::BOTH, &common);
    attributes::record_user_registers(&mut attr);
    attr
}

/// Measures the position of samples in a loop that waits for one load.
fn skid(event: &OwnedFd) -> Result<(Landing, Vec<SkidCount>), LiveError> {
    let broken = LiveError::Ring;
    let mut ring = Ring::map(event.as_fd(), 1 << 19).map_err(|error| broken(error.to_string()))?;
    let mut chase = Chase::new(SKID_BYTES).ok_or_else(|| broken("no memory for it".to_string()))?;
    let started = Instant::now();
    syscall::enable(event.as_fd()).map_err(|error| broken(error.to_string()))?;
    let before = thread_time();
    let used = || Duration::from_nanos(thread_time().saturating_sub(before));
    while used() < SKID_TIME && started.elapsed() < LONGEST_SKID {
        chase.run(CHUNK);
    }
    let _ = syscall::disable(event.as_fd()); // closed soon, whether or not this succeeds
    let places = places();
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    ring.drain(|record| -> Result<(), RingError> {
        let kind = record.first_chunk::<4>().map(|kind| u32::from_ne_bytes(*kind));
        let ip = record.get(16..24).map(|ip| u64::from_ne_bytes(ip.try_into().expect("eight bytes")));
        if let (Some(record_type::SAMPLE), Some(ip)) = (kind, ip) {
            if (places.load..places.end).contains(&ip) {
                *counts.entry(ip.wrapping_sub(places.load) as i64).or_default() += 1;
            }
        }
        Ok(())
    })
    .map_err(|error| broken(error.to_string()))?;
    let behind = places.behind.wrapping_sub(places.load) as i64;
    let landing = judge(&counts, behind, used() < SKID_TIME)?;
    let skid = counts.into_iter().map(|(offset, samples)| SkidCount { offset, samples }).collect();
    Ok((landing, skid))
}

/// The place where samples land, if it is a single one; `short` if the loop had not enough CPU time.
fn judge(counts: &BTreeMap<i64, u64>, behind: i64, short: bool) -> Result<Landing, LiveError> {
    let samples: u64 = counts.values().sum();
    let (offset, most) = counts.iter().max_by_key(|(_, samples)| **samples).unwrap_or((&0, &0));
    let share = *most as f64 / samples.max(1) as f64;
    let landing = match *offset {
        0 => Some(Landing::At),
        offset if offset == behind => Some(Landing::Behind),
        _ => None,
    };
    if samples < LEAST_SAMPLES {
        return Err(if short { LiveError::Busy { samples } } else { LiveError::Few { samples } });
    }
    landing.filter(|_| share >= LEAST_SHARE).ok_or(LiveError::Skid { samples, share: share * 100.0 })
}

/// Nanoseconds of CPU time that a sample costs: a loop in L1 with and without samples alternately, including
/// the reader that reads this process at each sample.
fn cost(event: &OwnedFd, with_readers: bool) -> f64 {
    let Some(mut loop_in_l1) = Chase::new(1) else { return LEAST_COST };
    let text: &std::ffi::CStr = c"SELECT abalance FROM pgbench_accounts WHERE aid = $1";
    let pointer = Box::new(text.as_ptr() as u64);
    let rule = StateRule::Statement { pointer: VirtualAddress(&raw const *pointer as u64), last: None };
    // Both must live until the end: the reader watches the ring.
    let ring = Ring::map(event.as_fd(), 1 << 19);
    let reader =
        ring.as_ref().ok().filter(|_| with_readers).and_then(|ring| reader(event, ring, &[rule]).ok());
    let mut timed = || {
        let before = thread_time();
        loop_in_l1.run(COST_LOADS);
        thread_time().saturating_sub(before)
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..COST_ROUNDS {
        without.push(timed());
        if syscall::enable(event.as_fd()).is_err() {
            return LEAST_COST;
        }
        with.push(timed());
        let _ = syscall::disable(event.as_fd());
    }
    // The fastest rounds were disturbed least by other load.
    let fastest = |times: &[u64]| times.iter().copied().min().unwrap_or(0) as f64;
    let (with, without) = (fastest(&with), fastest(&without));
    let of_reader = reader.map_or(0.0, |reader| reader.cost_of_a_look());
    (with - without).max(0.0) / (with / TEST_PERIOD as f64).max(1.0) + of_reader
}

/// A reader of this process.
fn reader(event: &OwnedFd, ring: &Ring, rules: &[StateRule]) -> std::io::Result<Readers> {
    // SAFETY: no preconditions.
    let cpu = unsafe { libc::sched_getcpu() };
    let readers = Readers::start(vec![(cpu.max(0) as u32, RingWatch::new(event.as_fd(), ring)?)])?;
    readers.set_rules(StatementRules::choose(rules));
    readers.set_target([Pid(std::process::id() as i32)].into_iter());
    Ok(readers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_to_have_nine_of_ten_samples() {
        let of = |counts: &[(i64, u64)], short| judge(&counts.iter().copied().collect(), 4, short);
        let held_back = of(&[(4, 50)], false).expect_err("few").to_string();
        assert!(held_back.contains("50 samples in 200 ms of CPU time"), "{held_back}");
        let judge = |counts: &[(i64, u64)]| of(counts, true);
        let said = |counts: &[(i64, u64)]| judge(counts).expect_err("no place").to_string();
        assert!(said(&[(4, 50)]).contains("only 50 samples in 10 seconds"), "{}", said(&[(4, 50)]));
        assert!(said(&[(4, 890), (0, 110)]).contains("only 89 % of 1000 samples"));
        let judge = |counts: &[(i64, u64)]| judge(counts).ok();
        assert_eq!(judge(&[(4, 980), (0, 20)]), Some(Landing::Behind));
        assert_eq!(judge(&[(4, 20), (0, 980)]), Some(Landing::At));
        assert_eq!(judge(&[(4, 890), (0, 110)]), None, "89 %");
        assert_eq!(judge(&[(8, 1000)]), None, "far behind the load");
        assert_eq!(judge(&[(4, 50)]), None, "too few");
        assert_eq!(judge(&[]), None);
    }

    #[test]
    fn the_period_keeps_samples_within_the_budget() {
        // 20 us every 10 ms are 0.2 %.
        assert_eq!(Budget::ALWAYS.period(20_000), 10_000_000);
        assert_eq!(Budget::ONCE.period(70_000), 10_000_000);
        assert_eq!(Budget::ONCE.period(10), 1_000_000, "the bounds");
        assert_eq!(Budget::ALWAYS.period(1_000_000_000), 100_000_000);
    }

    #[test]
    fn samples_of_this_machine_land_at_one_place() {
        match calibrate(true) {
            Ok(calibration) => {
                assert!(calibration.share() >= LEAST_SHARE, "{calibration:?}");
                assert!(calibration.sample_cost_ns >= LEAST_COST as u64, "{calibration:?}");
            }
            Err(error @ (LiveError::Open(_) | LiveError::Busy { .. })) => println!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}
