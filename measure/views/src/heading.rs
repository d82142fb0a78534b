//! How a capture came to be: shown above every view, because a number without its conditions misleads.

use crate::layout::{printable, wrap, Style, Tone};
use crate::number::{counted, duration, grouped, percent, percent_interval, rounded};
use crate::workload::amount;
use hardmeter_answers::{count_interval, AddressCheck, EventTotals, Share, Totals};
use hardmeter_samples::model::{
    Cycles, EventDescription, EventIndex, EventSource, ProcessTime, StallNotes, OTHER_CPU_EVENT, STALL_EVENT,
};
use serde::Serialize;
use std::fmt::Write;

/// What was recorded of one event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventHeading {
    /// The event as the capture names it.
    pub name: String,
    /// The fixed period, if it was fixed.
    pub period: Option<u64>,
    /// The frequency in Hz, if the kernel adapted the period.
    pub frequency: Option<u64>,
    /// The precision asked for (`precise_ip`).
    pub precise_ip: u8,
    /// How often the event happened in all, sampled or not, where the recorder counted.
    pub counted: Option<u64>,
    /// Of a live recording: its samples, of all samples of CPU time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<Share>,
    /// What was seen.
    #[serde(flatten)]
    pub totals: EventTotals,
}

impl EventHeading {
    /// The heading of an event.
    pub fn new(event: &EventDescription, totals: EventTotals) -> Self {
        EventHeading {
            name: event.name.clone(),
            period: event.period.map(|period| period.0),
            frequency: event.frequency,
            precise_ip: event.precise_ip,
            counted: None,
            cpu_time: None,
            totals,
        }
    }

    /// `n = 89,709 samples, one of every 10,000 events: about 897 M events (95 %: 891 M..903 M)`.
    pub fn describe(&self) -> String {
        let EventTotals { samples, events, .. } = self.totals;
        let mut text = format!("n = {}", counted(samples, "sample"));
        if let (Some(share), Some(period)) = (self.cpu_time, self.period) {
            let _ = write!(
                text,
                " of {:.2} ms of CPU time each: {}, {} of the CPU time (95 %: {})",
                period as f64 / 1e6,
                duration(events.0),
                percent(share),
                percent_interval(share)
            );
            return text;
        }
        match (self.period, self.frequency) {
            (Some(1), _) => return format!("{text}, every event"),
            (Some(period), _) => {
                let _ = write!(text, ", one of every {} events", grouped(period));
            }
            (None, Some(frequency)) => {
                let _ = write!(text, ", {} a second at most", counted(frequency, "sample"));
            }
            (None, None) => {}
        }
        if let Some(counted) = self.counted {
            let _ = write!(text, ": {} events counted", grouped(counted));
        } else if samples > 0 && events.0 > samples {
            let (interval, scale) = (count_interval(samples), events.0 as f64 / samples as f64);
            let end = |value: f64| rounded((value * scale).round() as u64);
            let _ = write!(
                text,
                ": about {} events (95 %: {}..{})",
                rounded(events.0),
                end(interval.low),
                end(interval.high)
            );
        }
        text
    }
}

impl EventHeading {
    /// What each of so many units of work costs: events, or CPU time where samples are of time.
    pub(crate) fn each(&self, events: u64, units: f64) -> String {
        let each = events as f64 / units;
        match self.cpu_time {
            Some(_) => format!("{} us", amount(each / 1e3)),
            None => amount(each),
        }
    }
}

/// How a capture came to be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Heading {
    /// The file.
    pub file: String,
    /// Where its samples came from.
    pub source: EventSource,
    /// The program that recorded it.
    pub recorder: Option<String>,
    /// The machine: host, processor.
    pub machine: Option<String>,
    /// The memory hierarchy: of the machine, or of the simulated one.
    pub geometry: Option<String>,
    /// The command line that recorded it.
    pub command: Option<String>,
    /// Nanoseconds from the first sample to the last; simulated time in simulated captures.
    pub duration_ns: Option<u64>,
    /// Instructions executed while recording, where the recorder counted them.
    pub instructions: Option<u64>,
    /// Cycles that they took on the simulated machine, over all cores.
    pub simulated_cycles: Option<Cycles>,
    /// Processes sampled.
    pub processes: u64,
    /// Threads sampled.
    pub threads: u64,
    /// Samples in user mode.
    pub user_samples: u64,
    /// Samples in the kernel.
    pub kernel_samples: u64,
    /// Samples lost.
    pub lost_samples: u64,
    /// Records lost, samples perhaps among them.
    pub lost_records: u64,
    /// Times an event was throttled.
    pub throttled: u64,
    /// Data addresses computed once more from registers and instructions, where samples have them.
    pub addresses: Option<AddressCheck>,
    /// How loads were found behind samples of time, in a live recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<StallNotes>,
    /// What the processes did with their time, where that was watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<ProcessTime>,
    /// The events.
    pub events: Vec<EventHeading>,
    /// What the source cannot see, in words.
    pub limits: Vec<String>,
}

impl Heading {
    /// Takes over what a pass counted.
    pub fn set_totals(&mut self, events: &[EventDescription], totals: &Totals) {
        self.duration_ns = totals.duration_ns();
        self.processes = totals.processes();
        self.threads = totals.threads();
        self.user_samples = totals.user_samples;
        self.kernel_samples = totals.kernel_samples;
        self.lost_samples = totals.lost_samples;
        self.lost_records = totals.lost_records;
        self.throttled = totals.throttled;
        self.events = events
            .iter()
            .enumerate()
            .map(|(index, event)| EventHeading::new(event, totals.event(EventIndex(index))))
            .collect();
        self.set_cpu_time();
    }

    /// Shares of CPU time, where samples are of time.
    fn set_cpu_time(&mut self) {
        let is_time = |event: &EventHeading| {
            let base = event.name.split(':').next();
            base == Some(STALL_EVENT) || base == Some(OTHER_CPU_EVENT)
        };
        let live = self.source == EventSource::Live;
        let all = self.events.iter().filter(|event| live && is_time(event));
        let total = all.map(|event| event.totals.samples).sum();
        for event in self.events.iter_mut().filter(|event| live && is_time(event)) {
            event.cpu_time = Some(Share { count: event.totals.samples, total });
        }
    }

    /// Samples of all events.
    pub fn samples(&self) -> u64 {
        self.events.iter().map(|event| event.totals.samples).sum()
    }

    /// The heading as text, one fact a line, with `more` lines of the view's own: title and value.
    ///
    /// Limits are only counted here: they are the same above every view, and an answer should be seen first. The
    /// view ends with them ([`closing_text`](crate::closing_text)).
    pub fn render(&self, style: Style, more: &[(&str, String)]) -> String {
        let mut text = style.paint(Tone::Title, &printable(&self.file));
        let _ = writeln!(text, ": {}", source_text(self.source));
        let mut line = |title: &str, value: &str| {
            let title = style.paint(Tone::Faint, &format!("{title:<10}"));
            let _ = writeln!(text, "  {title} {}", wrap(value, style, 13));
        };
        for (title, value) in [
            ("recorder", &self.recorder),
            ("command", &self.command),
            ("machine", &self.machine),
            ("caches", &self.geometry),
        ] {
            if let Some(value) = value {
                line(title, value);
            }
        }
        line("samples", &self.samples_text());
        if let Some(stall) = &self.stall {
            line("loads", &stall_text(stall));
        }
        if let Some(times) = times_text(&self.times) {
            line("time", &times);
        }
        if let Some(work) = self.work_text() {
            line("work", &work);
        }
        if let Some(addresses) = &self.addresses {
            line("addresses", &addresses_text(addresses));
        }
        if [self.lost_samples, self.lost_records, self.throttled] != [0; 3] {
            line(
                "lost",
                &format!(
                    "{}, {}; throttled {}",
                    counted(self.lost_samples, "sample"),
                    counted(self.lost_records, "other record"),
                    counted(self.throttled, "time")
                ),
            );
        }
        for (title, value) in more {
            line(title, value);
        }
        if !self.limits.is_empty() {
            line("limits", &format!("{} of this capture, listed at the end", self.limits.len()));
        }
        text
    }

    /// The limits as text, one a line.
    pub fn render_limits(&self, style: Style) -> String {
        if self.limits.is_empty() {
            return String::new();
        }
        let mut text = format!("{}\n", style.paint(Tone::Faint, "limits of this capture"));
        for limit in &self.limits {
            let _ = writeln!(text, "  - {}", wrap(limit, style, 4));
        }
        text
    }

    /// `156,805,060 instructions in 402,064,256 simulated cycles: 0.39 per cycle`.
    fn work_text(&self) -> Option<String> {
        let (instructions, cycles) = (self.instructions?, self.simulated_cycles?);
        let each = instructions as f64 / cycles.0.max(1) as f64;
        Some(format!(
            "{} in {}: {each:.2} per cycle",
            counted(instructions, "instruction"),
            counted(cycles.0, "simulated cycle")
        ))
    }

    fn samples_text(&self) -> String {
        let mut text = format!(
            "{} of {} and {}",
            grouped(self.samples()),
            counted(self.processes, "process"),
            counted(self.threads, "thread")
        );
        if let Some(nanoseconds) = self.duration_ns {
            let clock = if self.source == EventSource::Simulated { " of simulated time" } else { "" };
            let _ = write!(text, " in {}{clock}", duration(nanoseconds));
        }
        let _ = write!(text, "; {} in user mode", grouped(self.user_samples));
        let _ = write!(text, ", {} in the kernel", grouped(self.kernel_samples));
        text
    }
}

/// `99.80 % (n = 1,950) computed again from registers agree; 50 could not be computed; drawn from 44,930`.
fn addresses_text(check: &AddressCheck) -> String {
    let (agreeing, looked_at) = (check.grades.agreeing(), check.grades.total());
    let mut text = match agreeing.total {
        0 => "none could be computed again from registers".to_string(),
        n => format!("{} (n = {}) computed again from registers agree", percent(agreeing), grouped(n)),
    };
    let rest = looked_at - agreeing.total;
    if rest > 0 && agreeing.total > 0 {
        let _ = write!(text, "; {} could not be computed", grouped(rest));
    }
    if check.of > looked_at {
        let _ = write!(text, "; {} drawn from {}", counted(looked_at, "sample"), grouped(check.of));
    }
    text + " (hardmeter report --quality)"
}

/// `70.1 % of 1,095 samples in programs are right behind a load, 92.3 % of these with its address; ...`
fn stall_text(stall: &StallNotes) -> String {
    let counts = stall.counts;
    let share = |count, total| percent(Share { count, total });
    let tested: u64 = stall.skid.iter().map(|count| count.samples).sum();
    let landed = stall.skid.iter().map(|count| count.samples).max().unwrap_or(0);
    format!(
        "{} of {} in programs are right behind a load, {} of these with its address; self-test: {} of {} land at one \
         instruction; a sample costs {:.1} us",
        share(counts.stalls(), counts.user()),
        counted(counts.user(), "sample"),
        share(counts.with_address, counts.stalls()),
        share(landed, tested),
        grouped(tested),
        stall.sample_cost_ns as f64 / 1e3
    )
}

/// `2 busy processes: running 43.10 % of the time watched, in the run queue 5.20 %, waiting 51.70 % (for a disk 0.00 %)`.
fn times_text(times: &[ProcessTime]) -> Option<String> {
    let busy = || times.iter().filter(|time| time.is_busy());
    let sum = |of: fn(&ProcessTime) -> u64| busy().map(of).sum::<u64>();
    let (ran, queued) = (sum(|time| time.running_ns), sum(|time| time.run_queue_ns));
    // The two clocks differ by what passes between two reads.
    let wall = sum(|time| time.wall_ns).max(ran + queued);
    let share = |count, total| percent(Share { count, total });
    let disk = Share { count: sum(|time| time.looks_on_disk), total: sum(|time| time.looks) };
    (wall > 0).then(|| {
        format!(
            "{}: running {} of the time watched, in the run queue {}, waiting {} (for a disk {})",
            counted(busy().count() as u64, "busy process"),
            share(ran, wall),
            share(queued, wall),
            share(wall.saturating_sub(ran + queued), wall),
            percent(disk)
        )
    })
}

fn source_text(source: EventSource) -> &'static str {
    match source {
        EventSource::Hardware => "sampled by the hardware's performance monitoring unit",
        EventSource::Simulated => "simulated by the software PMU; counts are of the simulated machine",
        EventSource::Live => {
            "sampled by the kernel's timer with registers: time at loads of the running program"
        }
        EventSource::Timer => "sampled by the kernel's timer: where time goes, not where memory stalls",
        EventSource::Imported => "recorded by another program",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_answers::AddressGrades;
    use hardmeter_samples::model::{Period, Pid};

    fn event(samples: u64, period: Option<u64>, frequency: Option<u64>) -> EventHeading {
        let events = Period(samples * period.unwrap_or(7));
        EventHeading {
            name: "l1d-miss".into(),
            period,
            frequency,
            precise_ip: 2,
            counted: None,
            cpu_time: None,
            totals: EventTotals { samples, events, ..EventTotals::default() },
        }
    }

    #[test]
    fn addresses_say_how_many_agree_of_how_many() {
        let grades = AddressGrades { agree: 1946, disagree: 4, overwritten: 50, ..AddressGrades::default() };
        assert_eq!(
            addresses_text(&AddressCheck { grades, of: 44_930 }),
            "99.79 % (n = 1,950) computed again from registers agree; 50 could not be computed; 2,000 samples drawn \
             from 44,930 (hardmeter report --quality)"
        );
        let grades = AddressGrades { overwritten: 3, ..AddressGrades::default() };
        let text = addresses_text(&AddressCheck { grades, of: 3 });
        assert_eq!(text, "none could be computed again from registers (hardmeter report --quality)");
    }

    #[test]
    fn idle_processes_do_not_dilute_the_time_of_busy_ones() {
        let time = |running_ns, run_queue_ns| ProcessTime {
            pid: Pid(1),
            wall_ns: 1_000,
            running_ns,
            run_queue_ns,
            looks: 4,
            looks_on_disk: 1,
        };
        assert_eq!(
            times_text(&[time(400, 100), time(200, 100), time(0, 0)]).as_deref(),
            Some(
                "2 busy processes: running 30.00 % of the time watched, in the run queue 10.00 %, waiting 60.00 % (for a \
                 disk 25.00 %)"
            )
        );
        assert_eq!(times_text(&[time(0, 0)]), None);
    }

    #[test]
    fn samples_of_time_are_shares_of_cpu_time() {
        let cpu_time = Some(Share { count: 500, total: 2000 });
        let stall = EventHeading { cpu_time, ..event(500, Some(3_000_000), None) };
        // Wilson's interval of 500 of 2,000.
        assert_eq!(
            stall.describe(),
            "n = 500 samples of 3.00 ms of CPU time each: 1.5 s, 25.00 % of the CPU time (95 %: 23.15..26.94 %)"
        );
        assert_eq!(stall.each(1_500_000_000, 100_000.0), "15.0 us");
        assert_eq!(event(500, Some(10), None).each(5_000, 100.0), "50.0");
    }

    #[test]
    fn an_event_says_what_a_sample_stands_for() {
        // 89,709 ± 587 by Poisson, times the period of 10,000.
        assert_eq!(
            event(89_709, Some(10_000), None).describe(),
            "n = 89,709 samples, one of every 10,000 events: about 897 M events (95 %: 891 M..903 M)"
        );
        assert_eq!(event(5, Some(1), None).describe(), "n = 5 samples, every event");
        assert_eq!(event(0, Some(100), None).describe(), "n = 0 samples, one of every 100 events");
        assert!(event(10, None, Some(1000)).describe().starts_with("n = 10 samples, 1,000 samples a second"));
    }
}
