//! The heading of a view as text: the conditions of the recording.

use crate::layout::{printable, wrap, Style, Tone};
use crate::number::{counted, duration, grouped, percent, percent_interval, rounded};
use crate::workload::amount;
use hardmeter_answers::{count_interval, AddressCheck, EventHeading, EventTotals, Heading, Share};
use hardmeter_samples::model::{EventSource, GhostNotes, ProcessTime, StallNotes};
use std::fmt::Write;

/// An event as text.
pub(crate) trait EventText {
    /// `n = 89,709 samples, one of every 10,000 events: about 897 M events (95 %: 891 M..903 M)`.
    fn describe(&self) -> String;

    /// The cost per unit of work, for `units` units: events, or CPU time for timer samples.
    fn each(&self, events: u64, units: f64) -> String;
}

impl EventText for EventHeading {
    fn describe(&self) -> String {
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
        if let Some(share) = self.followed_share {
            let all = self.counted.unwrap_or(events.0);
            let _ = write!(
                text,
                ", one of every {} events of the {} that was followed: about {} events",
                grouped(self.period.unwrap_or(1)),
                share_text(share),
                rounded(all)
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

    fn each(&self, events: u64, units: f64) -> String {
        let each = events as f64 / units;
        match self.cpu_time {
            Some(_) => format!("{} us", amount(each / 1e3)),
            None => amount(each),
        }
    }
}

/// A heading as text.
pub(crate) trait HeadingText {
    /// The heading as text, one fact a line, with `more` lines of the view's own: title and value.
    ///
    /// Limits are only counted here, since they are the same for every view and the answer comes first. The view
    /// ends with them ([`closing_text`](crate::closing_text)).
    fn render(&self, style: Style, more: &[(&str, String)]) -> String;

    /// The limits as text, one a line.
    fn render_limits(&self, style: Style) -> String;

    /// The recording in one line, with a view's own facts after the source: `hardmeter.data: simulated; 19,629
    /// samples of 14 processes in 300 ms; pgbench -c 10`.
    fn in_short(&self, facts: &[String]) -> String;
}

impl HeadingText for Heading {
    fn render(&self, style: Style, more: &[(&str, String)]) -> String {
        let mut text = style.paint(Tone::Title, &printable(&self.file));
        let source = match (&self.ghosts, &self.stall) {
            (Some(_), None) => wrap(GHOSTS, style, 2),
            (Some(_), Some(_)) => wrap(&format!("{GHOSTS}; {}", source_text(self.source)), style, 2),
            (None, _) => source_text(self.source).to_string(),
        };
        let _ = writeln!(text, ": {source}");
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
        line("samples", &samples_text(self));
        if let Some(stall) = &self.stall {
            line("loads", &stall_text(stall));
        }
        if let Some(ghosts) = &self.ghosts {
            line("ghosts", &ghosts_text(ghosts));
        }
        if let Some(times) = times_text(&self.times) {
            line("time", &times);
        }
        if let Some(work) = work_text(self) {
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
        for trace in &self.undecoded_traces {
            line("not read", trace);
        }
        for (title, value) in more {
            line(title, value);
        }
        if !self.limits.is_empty() {
            line("limits", &format!("{} of this capture, listed at the end", self.limits.len()));
        }
        text
    }

    fn render_limits(&self, style: Style) -> String {
        if self.limits.is_empty() {
            return String::new();
        }
        let mut text = format!("{}\n", style.paint(Tone::Faint, "limits of this capture"));
        for limit in &self.limits {
            let _ = writeln!(text, "  - {}", wrap(limit, style, 4));
        }
        text
    }

    fn in_short(&self, facts: &[String]) -> String {
        let mut text = format!("{}: {}; ", self.file, source_name(self.source));
        text.extend(facts.iter().map(|fact| format!("{fact}; ")));
        let (samples, processes) = (counted(self.samples(), "sample"), counted(self.processes, "process"));
        let _ = write!(text, "{samples} of {processes}");
        if let Some(nanoseconds) = self.duration_ns {
            let _ = write!(text, " in {}", duration(nanoseconds));
        }
        if let Some(command) = self.command.as_deref().and_then(measured_command) {
            let _ = write!(text, "; {command}");
        }
        text
    }
}

/// The measured command: the part of the command line after ` -- `, if any.
fn measured_command(command: &str) -> Option<&str> {
    command.split_once(" -- ").map(|(_, measured)| measured.trim()).filter(|measured| !measured.is_empty())
}

/// `156,805,060 instructions in 402,064,256 simulated cycles: 0.39 per cycle`.
fn work_text(heading: &Heading) -> Option<String> {
    let (instructions, cycles) = (heading.instructions?, heading.simulated_cycles?);
    let each = instructions as f64 / cycles.0.max(1) as f64;
    Some(format!(
        "{} in {}: {each:.2} per cycle",
        counted(instructions, "instruction"),
        counted(cycles.0, "simulated cycle")
    ))
}

fn samples_text(heading: &Heading) -> String {
    let mut text = format!(
        "{} of {} and {}",
        grouped(heading.samples()),
        counted(heading.processes, "process"),
        counted(heading.threads, "thread")
    );
    if let Some(nanoseconds) = heading.duration_ns {
        let clock = if heading.source == EventSource::Simulated { " of simulated time" } else { "" };
        let _ = write!(text, " in {}{clock}", duration(nanoseconds));
    }
    let _ = write!(text, "; {} in user mode", grouped(heading.user_samples));
    let _ = write!(text, ", {} in the kernel", grouped(heading.kernel_samples));
    text
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

/// `0.52 %`.
fn share_text(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// `99.62 % of n = 4,482 stretches ended as the server did (2 at another call, 15 died: dropped), ...`
pub(crate) fn ghosts_text(ghosts: &GhostNotes) -> String {
    let stretches = ghosts.stretches;
    let (checked, total) = (stretches.checked(), stretches.total());
    if total == 0 {
        return "no stretch was followed: the processes did not run, or could not be followed".to_string();
    }
    let mut text = format!(
        "{} of n = {} stretches ended as the server's did",
        percent(Share { count: stretches.same, total: checked }),
        grouped(checked)
    );
    let thrown = [
        (stretches.other_call, "at another call"),
        (stretches.other_registers, "with other registers"),
        (stretches.died, "died"),
    ];
    let thrown: Vec<String> = thrown
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, how)| format!("{} {how}", grouped(*count)))
        .collect();
    if !thrown.is_empty() {
        let _ = write!(text, " ({}: dropped)", thrown.join(", "));
    }
    let lost = stretches.unsupported + stretches.signal + stretches.unfinished;
    let _ = write!(
        text,
        "; {} unchecked, {} lost; followed {} of {} of the processes' own CPU time, counts are scaled to all of it; pauses \
         p50 {:.2} ms, p99 {:.2}, max {:.2}",
        grouped(stretches.unchecked),
        grouped(lost),
        share_text(ghosts.followed_share()),
        duration(ghosts.stood_for_ns),
        ghosts.pauses.p50_ns as f64 / 1e6,
        ghosts.pauses.p99_ns as f64 / 1e6,
        ghosts.pauses.max_ns as f64 / 1e6
    );
    if ghosts.watchdog > 0 {
        let _ = write!(
            text,
            "; the watchdog had to continue a stopped process {} times",
            grouped(ghosts.watchdog)
        );
    }
    text
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

fn source_name(source: EventSource) -> &'static str {
    match source {
        EventSource::Hardware => "hardware",
        EventSource::Simulated => "simulated",
        EventSource::Live => "live",
        EventSource::Timer => "timer",
        EventSource::Imported => "recorded by another program",
    }
}

const GHOSTS: &str = "misses of ghosts: stretches of running processes, simulated from copies";

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
            followed_share: None,
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
