//! The observer's thread, driven as the recorder drives it.

use super::*;
use hardmeter_samples::model::VirtualAddress;
use hardmeter_samples::perf_data::abi::{attr_flag, sample_type, PerfEventAttr};
use std::sync::atomic::AtomicBool;
use std::sync::Barrier;

const RULE: StateRule = StateRule::Statement { pointer: VirtualAddress(0x1000), last: None };

#[derive(Default)]
struct Witness {
    addresses: Vec<u64>,
    /// Waited for twice at the first batch.
    hold: Option<Arc<Barrier>>,
}

impl SampleObserver for Witness {
    fn state_rules(&self) -> Vec<StateRule> {
        vec![RULE]
    }

    fn see(&mut self, accesses: &[ObservedAccess]) {
        if let Some(hold) = self.hold.take() {
            hold.wait();
            hold.wait();
        }
        assert_ne!(accesses[0].address, VirtualAddress(0xbad), "as a test wants it");
        self.addresses.extend(accesses.iter().map(|access| access.address.0));
    }

    fn tick(&mut self, _now: Timestamp) {}

    fn finish(self: Box<Self>, _now: Timestamp) -> Observations {
        Observations {
            notes: Some(ObjectNotes::new("witness")),
            remarks: Vec::new(),
            workload: self.addresses.iter().map(|address| (format!("{address:#x}"), 1.0)).collect(),
            ..Observations::default()
        }
    }
}

fn events() -> Vec<EventAttributes> {
    let mut attr = PerfEventAttr::new(4, 0);
    attr.sample_type =
        sample_type::IDENTIFIER | sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::ADDR;
    attr.flags = attr_flag::USE_CLOCKID;
    attr.clockid = libc::CLOCK_MONOTONIC;
    vec![EventAttributes { name: "l1d-miss".into(), attr, ids: vec![1] }]
}

fn sample(address: u64) -> Vec<u8> {
    let words = [1, 0x401000, 17, 100, address];
    let mut bytes = record_type::SAMPLE.to_ne_bytes().to_vec();
    bytes.extend([2, 0]);
    bytes.extend(((8 + words.len() * 8) as u16).to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word: &u64| word.to_le_bytes()));
    bytes
}

fn own() -> Pid {
    Pid(std::process::id() as i32)
}

fn observer(witness: Witness) -> Attach {
    let mut witness = Some(witness);
    Box::new(move |_| Attached::Observer(Box::new(witness.take().expect("attached once"))))
}

#[test]
fn what_passes_by_is_seen_and_rules_are_there_before_it_begins() {
    let mut observation =
        Observation::begin(Observed::Running(own()), observer(Witness::default()), &events());
    assert_eq!(observation.rules(), Some(vec![RULE]));
    assert_eq!(observation.rules(), None);
    observation.see(&sample(0x10));
    observation.flush();
    let mut exit = sample(0x30);
    exit[0] = record_type::EXIT as u8;
    observation.see(&exit);
    observation.see(&sample(0x20));
    let observations = observation.finish();
    let seen: Vec<String> = observations.workload.into_iter().map(|(name, _)| name).collect();
    assert_eq!(seen, ["0x10", "0x20"]);
    assert_eq!(observations.notes.map(|notes| notes.server).as_deref(), Some("witness"));
    assert_eq!(observations.remarks, [""; 0]);
}

#[test]
fn a_slow_observer_loses_samples_and_the_loss_is_told() {
    let hold = Arc::new(Barrier::new(2));
    let witness = Witness { hold: Some(hold.clone()), ..Witness::default() };
    let mut observation = Observation::begin(Observed::Running(own()), observer(witness), &events());
    let mut pass = |address| {
        observation.see(&sample(address));
        observation.flush();
    };
    pass(0);
    pass(1);
    hold.wait(); // the thread is busy with the first one with an address; the queue is empty
    (2..2 + QUEUE as u64 + 3).for_each(&mut pass);
    hold.wait();
    let observations = observation.finish();
    assert_eq!(observations.workload.len(), 1 + QUEUE);
    let told = format!("3 of {} samples came faster", 2 + QUEUE + 3);
    assert!(observations.remarks[0].starts_with(&told), "{:?}", observations.remarks);
}

#[test]
fn a_capture_ends_at_once_while_the_queue_of_a_slow_observer_is_full() {
    let hold = Arc::new(Barrier::new(2));
    let mut first = Some(Witness { hold: Some(hold.clone()), ..Witness::default() });
    let attach: Attach = Box::new(move |_| Attached::Observer(Box::new(first.take().unwrap_or_default())));
    let mut observation = Observation::begin(Observed::Running(own()), attach, &events());
    let mut pass = |address| {
        observation.see(&sample(address));
        observation.flush();
    };
    pass(0);
    pass(1);
    hold.wait(); // the thread is busy; the queue is empty
    (2..2 + QUEUE as u64 + 1).for_each(&mut pass);
    let ended = observation.next_capture(); // waits for ever if it needs the thread
    observation.see(&sample(0x77));
    hold.wait();
    let observations = ended.wait();
    assert_eq!(observations.workload.len(), 1 + QUEUE);
    assert!(observations.remarks[0].starts_with("1 of 67 samples"), "{:?}", observations.remarks);
    let next = observation.finish();
    assert_eq!((next.workload.len(), next.remarks.len()), (1, 0), "the next capture's own");
}

#[test]
fn samples_of_a_simulated_program_wait_for_the_observer() {
    let hold = Arc::new(Barrier::new(2));
    let witness = Witness { hold: Some(hold.clone()), ..Witness::default() };
    let mut observation = Observation::begin(Observed::Running(own()), observer(witness), &events());
    observation.drop_nothing();
    // More than the queue holds, while the thread is busy with the first one.
    let batches = 2 * QUEUE as u64;
    let passing = std::thread::spawn(move || {
        (0..batches).for_each(|address| {
            observation.see(&sample(address));
            observation.flush();
        });
        observation.finish()
    });
    hold.wait();
    hold.wait();
    let observations = passing.join().expect("it ends");
    assert_eq!((observations.workload.len() as u64, observations.remarks.len()), (batches - 1, 0));
}

#[test]
fn an_observer_that_fails_is_a_remark() {
    let mut observation =
        Observation::begin(Observed::Running(own()), observer(Witness::default()), &events());
    observation.see(&sample(0xbad));
    observation.flush();
    let observations = observation.finish();
    assert!(observations.notes.is_none());
    assert!(observations.remarks[0].contains("the observer failed"), "{:?}", observations.remarks);
}

#[test]
fn a_process_that_is_no_server_is_worth_a_remark_only_if_it_was_named() {
    let nobody = || -> Attach { Box::new(|_| Attached::NotAServer) };
    let observations = Observation::begin(Observed::Running(own()), nobody(), &events()).finish();
    assert!(observations.remarks[0].contains("is not a known server"), "{:?}", observations.remarks);
    let observation = Observation::begin(Observed::Command(own()), nobody(), &events());
    observation.released();
    assert_eq!(observation.finish().remarks, [""; 0]);
}

#[test]
fn a_command_is_looked_at_until_it_is_a_server() {
    let (ready, looked) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
    let (is_ready, first_look) = (ready.clone(), looked.clone());
    let mut looks = 0;
    let attach: Attach = Box::new(move |_| {
        looks += 1;
        match (looks, is_ready.load(Ordering::Acquire)) {
            (1, _) => {
                first_look.wait();
                Attached::NotReady("it is starting".into())
            }
            (_, true) => Attached::Observer(Box::new(Witness::default())),
            (_, false) => Attached::NotAServer,
        }
    });
    let observation = Observation::begin(Observed::Command(own()), attach, &events());
    assert_eq!(observation.rules(), None);
    observation.released();
    looked.wait();
    ready.store(true, Ordering::Release);
    assert_eq!(observation.rules.recv(), Ok(vec![RULE]));
    assert_eq!(observation.finish().remarks, [""; 0]);
}
