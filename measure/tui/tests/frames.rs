//! Frames of the browser and of the choice, drawn into memory: what a user sees after these keys.

use hardmeter_tui::ratatui::backend::TestBackend;
use hardmeter_tui::ratatui::crossterm::event::KeyCode;
use hardmeter_tui::ratatui::Terminal;
use hardmeter_tui::{Browser, Chapters, Choice, Chooser, Flow, RoutineRow};

/// Three chapters: a text of forty lines, two routines, and a text that says its width.
struct Three {
    rows: Vec<RoutineRow>,
}

impl Chapters for Three {
    fn title(&self) -> String {
        "made.data".into()
    }

    fn names(&self) -> Vec<String> {
        ["Findings", "Routines", "Width"].map(String::from).to_vec()
    }

    fn text(&mut self, chapter: usize, width: usize) -> String {
        match chapter {
            0 => (1..=40).map(|line| format!("line {line}\n")).collect(),
            _ => format!("{width} columns"),
        }
    }

    fn routines(&self, chapter: usize) -> Option<&[RoutineRow]> {
        (chapter == 1).then_some(&self.rows)
    }

    fn annotate(&mut self, routine: &str, _: usize) -> Result<String, String> {
        match routine {
            "hot_routine" => Ok("75.00 %  mov (%rax),%rbx".into()),
            _ => Err("its code is missing".into()),
        }
    }
}

fn browser() -> Browser<Three> {
    let row = |routine: &str, cost: &str, samples: &str| RoutineRow {
        event: "l2-miss".into(),
        cost: cost.into(),
        samples: samples.into(),
        routine: routine.into(),
        image: "/bin/program".into(),
    };
    Browser::new(Three {
        rows: vec![row("hot_routine", "75.00 %", "30"), row("cold_routine", "25.00 %", "10")],
    })
}

/// The frame as lines of text, without blanks at their ends.
fn frame<C: Chapters>(browser: &mut Browser<C>, width: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, 8)).expect("a terminal in memory");
    terminal.draw(|frame| browser.draw(frame)).expect("drawn");
    lines(&terminal)
}

fn lines(terminal: &Terminal<TestBackend>) -> Vec<String> {
    let buffer = terminal.backend().buffer();
    let area = buffer.area;
    let line = |y| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..area.height).map(|y| line(y).trim_end().to_string()).collect()
}

#[test]
fn chapters_scroll_and_are_searched() {
    let mut browser = browser();
    let first = frame(&mut browser, 90);
    assert_eq!(first[0], " 1 Findings  2 Routines  3 Width   made.data");
    assert_eq!((first[1].as_str(), first[6].as_str()), ("line 1", "line 6"));
    assert!(first[7].starts_with("1-6 of 40   up/down scroll"), "{first:?}");
    browser.key(KeyCode::Down);
    assert_eq!(frame(&mut browser, 90)[1], "line 2");
    browser.key(KeyCode::End);
    assert_eq!(frame(&mut browser, 90)[6], "line 40");
    browser.key(KeyCode::PageUp);
    assert_eq!(frame(&mut browser, 90)[1], "line 30");
    for key in [KeyCode::Char('/'), KeyCode::Char('E'), KeyCode::Char(' '), KeyCode::Char('7')] {
        browser.key(key);
    }
    assert_eq!(frame(&mut browser, 90)[7], "search: E 7_   Enter finds, Esc leaves");
    browser.key(KeyCode::Enter);
    assert_eq!(frame(&mut browser, 90)[1], "line 7");
    for key in [KeyCode::Char('/'), KeyCode::Char('x'), KeyCode::Enter] {
        browser.key(key);
    }
    assert_eq!(frame(&mut browser, 90)[7], "\"x\" is not in this chapter");
}

#[test]
fn a_routine_leads_to_its_code_and_back() {
    let mut browser = browser();
    frame(&mut browser, 90);
    browser.key(KeyCode::Tab);
    let list = frame(&mut browser, 90);
    assert!(list[1].starts_with("event    cost     samples  routine"), "{list:?}");
    assert!(list[2].starts_with("l2-miss  75.00 %  30       hot_routine"), "{list:?}");
    assert!(list[7].starts_with("1 of 2   up/down scroll  left/right chapter  Enter code"), "{list:?}");
    browser.key(KeyCode::Enter);
    let code = frame(&mut browser, 90);
    assert_eq!(code[1], "75.00 %  mov (%rax),%rbx");
    assert!(code[0].contains(" hot_routine ") && code[7].contains("Esc back"), "{code:?}");
    browser.key(KeyCode::Esc);
    browser.key(KeyCode::Down);
    browser.key(KeyCode::Enter);
    assert_eq!(frame(&mut browser, 90)[7], "its code is missing");
    assert_eq!(browser.key(KeyCode::Char('q')), Flow::Quit);
}

#[test]
fn texts_are_fitted_to_a_new_width_and_the_keys_are_listed() {
    let mut browser = browser();
    browser.key(KeyCode::Char('3'));
    assert_eq!(frame(&mut browser, 90)[1], "90 columns");
    assert_eq!(frame(&mut browser, 60)[1], "60 columns");
    browser.key(KeyCode::Char('?'));
    assert_eq!(frame(&mut browser, 60)[1], "Keys");
    browser.key(KeyCode::Esc);
    assert_eq!(frame(&mut browser, 60)[1], "60 columns");
}

fn chooser() -> Chooser {
    let choice = |label: &str, words: &[&str], possible| Choice {
        label: label.into(),
        about: format!("about {label}"),
        words: words.iter().map(ToString::to_string).collect(),
        possible,
    };
    Chooser::new(
        vec![choice("PostgreSQL 4711", &["--server", "/data"], true), choice("whole machine", &["-a"], true)],
        vec![
            choice("hardware", &["--source", "hardware"], false),
            choice("live", &["--source", "live"], true),
            choice("simulated", &["--source", "simulated"], true),
        ],
        vec![choice("l1d-miss", &[], true), choice("l2-miss", &[], true), choice("l3-miss", &[], true)],
        &["l1d-miss", "l2-miss"],
    )
}

fn screen(chooser: &Chooser) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(80, 18)).expect("a terminal in memory");
    terminal.draw(|frame| chooser.draw(frame)).expect("drawn");
    lines(&terminal)
}

#[test]
fn what_is_possible_is_chosen_first() {
    let chooser = chooser();
    let shown = screen(&chooser);
    for line in [
        "  (o) PostgreSQL 4711        about PostgreSQL 4711",
        "  ( ) whole machine          about whole machine",
        "   -  hardware               about hardware",
        "  (o) live                   about live",
        "Events (this source samples time)",
        "  [x] l2-miss                about l2-miss",
        "  [ ] l3-miss                about l3-miss",
    ] {
        assert!(shown.iter().any(|shown| shown == line), "{line}: {shown:#?}");
    }
}

#[test]
fn the_choice_becomes_arguments_of_record() {
    let mut live = chooser();
    assert_eq!(live.key(KeyCode::Enter), Flow::Quit);
    let picked = live.picked().expect("chosen");
    assert_eq!(picked.arguments, ["--server", "/data", "--source", "live"], "it samples time: no events");
    assert_eq!(picked.seconds, 10);
    let mut simulated = chooser();
    // The whole machine; past `live` to `simulated`; l1d-miss off, l3-miss on; 20 seconds.
    for key in "j j j ".chars().map(KeyCode::Char) {
        simulated.key(key);
    }
    simulated.key(KeyCode::Tab);
    for key in " jj +r".chars().map(KeyCode::Char) {
        simulated.key(key);
    }
    let picked = simulated.picked().expect("chosen");
    assert_eq!(picked.arguments, ["-a", "--source", "simulated", "-e", "l2-miss,l3-miss"]);
    assert_eq!(picked.seconds, 20);
}

#[test]
fn without_events_or_after_quitting_nothing_is_recorded() {
    let mut chooser = chooser();
    for key in "jjj ".chars().map(KeyCode::Char) {
        chooser.key(key);
    }
    chooser.key(KeyCode::Tab);
    for key in " j ".chars().map(KeyCode::Char) {
        chooser.key(key);
    }
    assert_eq!(chooser.key(KeyCode::Enter), Flow::Continue);
    assert_eq!(screen(&chooser)[17], "choose an event with the space bar");
    assert_eq!(chooser.key(KeyCode::Char('q')), Flow::Quit);
    assert_eq!(chooser.picked(), None);
}
