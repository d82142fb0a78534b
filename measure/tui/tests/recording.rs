//! A running recording: the findings in its growing file, the screen, and how it is stopped.

use hardmeter_tui::ratatui::backend::TestBackend;
use hardmeter_tui::ratatui::crossterm::event::KeyCode;
use hardmeter_tui::ratatui::Terminal;
use hardmeter_tui::{Flow, Glimpse, Recording, Watch};
use std::process::Command;
use std::time::{Duration, Instant};

#[allow(dead_code)]
mod example {
    include!("../../answers/tests/common/capture.rs");

    /// A capture that is being written: 90 conflict misses and 10 cold ones are in the file.
    pub fn unfinished(path: &Path) -> CaptureWriter {
        let mut writer = begin(path);
        for turn in 0..100 {
            let cause = if turn < 10 { COLD } else { CONFLICT };
            writer.append(&load(1, 100 + turn, 3 + turn % 5 * 16, cause, L2_HIT)).expect("written");
        }
        writer.flush().expect("written");
        writer
    }
}

fn frame(watch: &Watch) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(100, 12)).expect("a terminal in memory");
    terminal.draw(|frame| watch.draw(frame)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..buffer.area.height).map(|y| line(y).trim_end().to_string()).collect()
}

#[test]
fn a_file_is_read_while_it_grows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut writer = example::unfinished(&folder.path().join("made.data"));
    let partial = writer.temporary_path().to_path_buf();
    let glimpse = Glimpse::of_file(&partial).expect("readable before its end");
    assert_eq!((glimpse.samples(), glimpse.events.len()), (100, 1), "{glimpse:?}");
    let event = &glimpse.events[0];
    assert_eq!((event.name.as_str(), event.samples), ("l1d-miss", 100));
    assert_eq!(event.causes, ["conflict 90.00 %", "cold 10.00 %"]);
    assert_eq!((event.routines[0].cost.as_str(), event.routines[0].samples), ("100.00 % of 100", 100));
    // Half a record at the end belongs to the next read.
    writer.append_finished_round().expect("written");
    writer.flush().expect("written");
    let file = std::fs::OpenOptions::new().write(true).open(&partial).expect("opened");
    file.set_len(file.metadata().expect("its size").len() - 3).expect("cut");
    assert_eq!(Glimpse::of_file(&partial).expect("readable").samples(), 100);
}

#[test]
fn counts_and_findings_are_shown_until_it_stops() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let writer = example::unfinished(&folder.path().join("made.data"));
    let mut watch = Watch::new("$ hardmeter record -a -- sleep 60", Duration::from_secs(60));
    assert!(frame(&watch)[2].starts_with("no samples yet"), "{:?}", frame(&watch));
    watch.progress(Duration::from_secs(12), 34_500);
    watch.say("hardmeter: source live (no hardware)");
    watch.see(Glimpse::of_file(writer.temporary_path()).expect("readable"), Duration::from_millis(7));
    let shown = frame(&watch);
    assert_eq!(shown[0], "$ hardmeter record -a -- sleep 60");
    assert_eq!(shown[1], "recording 12 of 60 s   100 samples   34 kB");
    assert_eq!(shown[3], "l1d-miss (n = 100): conflict 90.00 %, cold 10.00 %");
    assert!(shown[4].starts_with("  100.00 % of 100  n = 100"), "{shown:#?}");
    assert!(shown[6].contains("reading took 7 ms, at most 5 % of a CPU"), "{shown:#?}");
    assert_eq!(shown[10], "hardmeter: source live (no hardware)");
    assert_eq!(shown[11], "s stops now and opens the result");
    assert_eq!(watch.key(KeyCode::Char('x')), Flow::Continue);
    assert_eq!(watch.key(KeyCode::Char('s')), Flow::Quit);
    assert!(frame(&watch)[11].starts_with("stopping"), "{:?}", frame(&watch));
}

/// A shell in the recorder's place: it says a line, copies a capture to where a recorder would write it, and ends
/// when it is interrupted.
#[test]
fn a_recorder_is_watched_and_stopped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let writer = example::unfinished(&folder.path().join("made.data"));
    let output = folder.path().join("new.data");
    let script = "trap 'echo finished >&2; exit 0' INT; echo begun >&2; cp \"$1\" \"$0.$$-0.partial\"; \
                  while :; do sleep 0.02; done";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(&output).arg(writer.temporary_path());
    let mut recording = Recording::start(command, &output).expect("started");
    let patience = Instant::now();
    let (mut begun, mut seen) = (false, None);
    while !begun || seen.is_none() {
        assert!(patience.elapsed() < Duration::from_secs(60), "begun {begun}, {seen:?}");
        std::thread::sleep(Duration::from_millis(20));
        begun |= recording.next_line().is_some_and(|line| line == "begun");
        seen = recording.next_glimpse().or(seen);
    }
    assert_eq!(seen.expect("seen").0.samples(), 100);
    assert_eq!(recording.bytes(), writer.temporary_path().metadata().expect("its size").len());
    assert!(recording.is_running().expect("known"));
    recording.stop();
    let ended = recording.wait().expect("known");
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(ended.said, ["begun", "finished"]);
}
