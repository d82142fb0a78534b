//! A simulated run for tests: the specification's terminals and a server that answers in about 20 ms, in virtual
//! time.

use crate::measure::{
    self, testing, Checkpoint, Condition, Ending, Measured, Recorder, Run, RunResult, ServerCost,
};
use crate::random::{Part, Stream};
use crate::report::verdicts::{keying_seconds, think_mean};
use crate::time::Micros;
use crate::work::{
    Customer, Delivery, Input, Kind, NewOrder, OrderLine, OrderStatus, Payment, StockLevel, MAX_LINES,
};

/// A run of `warehouses` warehouses.
pub fn run(warehouses: u32, ramp: f64, interval: f64, seed: u64) -> RunResult {
    part(1, warehouses, warehouses, ramp, interval, seed)
}

/// Runs a driver's warehouses, `first` to `first + warehouses - 1`, of all.
pub fn part(first: u32, warehouses: u32, all: u32, ramp: f64, interval: f64, seed: u64) -> RunResult {
    let mut order = testing::order(ramp, interval);
    (order.all_warehouses, order.first_warehouse, order.warehouses, order.seed) =
        (all, first, warehouses, seed);
    let span = measure::interval(&order);
    let mut recorder = Recorder::new(span.clone());
    for warehouse in first..first + warehouses {
        for district in 1..=10 {
            terminal(&mut recorder, warehouse, district, all, seed, span.end);
        }
    }
    let mut driver = testing::driver(first, warehouses);
    driver.cpu_seconds = 0.5;
    let started_at = 1_795_331_624_000_000;
    driver.started_at = started_at;
    let mut result = Run { order: &order, started_at, ended: span.end, ending: Ending::Complete, driver }
        .result([recorder]);
    result.checkpoints = vec![Checkpoint { at: ramp + interval / 2.0, requested: true }];
    result.server = Some(ServerCost { cpu_seconds: 12.5 });
    result.conditions = (1..=12)
        .map(|number| Condition {
            number,
            rule: format!("rule {number}"),
            held: Some(true),
            examples: vec![],
        })
        .collect();
    result.environment.hardmeter = "0.1.0".into();
    result.environment.system = "a server of a test, procedures".into();
    result.environment.settings.insert("shared_buffers".into(), "128MB".into());
    result
}

fn terminal(recorder: &mut Recorder, warehouse: u32, district: u8, all: u32, seed: u64, end: Micros) {
    let mut stream = Stream::of(seed * 1000 + u64::from(district), Part::Constants, warehouse);
    let uniform =
        |stream: &mut Stream| (f64::from(stream.uniform(0..=u32::MAX - 1)) + 0.5) / f64::from(u32::MAX);
    let mut at = Micros::of_seconds(uniform(&mut stream) * 21.0);
    let mut before = None;
    let mut deck = Vec::new();
    loop {
        if deck.is_empty() {
            // 45/43/4/4/4, so that 12.86 per minute are possible.
            let cards = stream.permutation(0..=99);
            deck = cards
                .iter()
                .map(|card| match card {
                    0..45 => Kind::NewOrder,
                    45..88 => Kind::Payment,
                    88..92 => Kind::OrderStatus,
                    92..96 => Kind::Delivery,
                    _ => Kind::StockLevel,
                })
                .collect();
        }
        let kind = deck.pop().expect("just filled");
        let keying = Micros::of_seconds(keying_seconds(kind));
        let due = at + keying;
        if due >= end {
            return;
        }
        recorder.paused(due, (kind, keying), before);
        let input = input(&mut stream, kind, warehouse, district, all);
        let entered = due + Micros(u64::from(stream.uniform(100..=500)));
        let dispatched = entered + Micros(u64::from(stream.uniform(10..=2_000)));
        let answered = dispatched + Micros(5_000 + (-uniform(&mut stream).ln() * 15_000.0) as u64);
        let rolled_back = matches!(&input, Input::NewOrder(order) if order.is_rolled_back());
        let measured = Measured { kind, due, entered, dispatched, answered, rolled_back };
        recorder.completed(&measured, &input);
        if kind == Kind::Delivery {
            recorder.delivered(answered, answered + Micros(50_000), &[7; 10]);
        }
        let mean = think_mean(kind);
        let think = Micros::of_seconds((-uniform(&mut stream).ln() * mean).min(10.0 * mean));
        before = Some((kind, think));
        at = answered + think;
    }
}

fn input(stream: &mut Stream, kind: Kind, warehouse: u32, district: u8, all: u32) -> Input {
    let percent = |stream: &mut Stream, share: u32| stream.uniform(1..=100) <= share;
    let other = |stream: &mut Stream| match all {
        1 => 1,
        _ => (warehouse - 1 + stream.uniform(1..=all - 1)) % all + 1,
    };
    let by_name = |stream: &mut Stream| if percent(stream, 60) { Customer::Name(7) } else { Customer::Id(7) };
    match kind {
        Kind::NewOrder => {
            let line_count = stream.uniform(5..=15) as u8;
            let mut all_lines = [OrderLine::default(); MAX_LINES];
            for line in &mut all_lines[..usize::from(line_count)] {
                let supply = if percent(stream, 1) { other(stream) } else { warehouse };
                *line = OrderLine { item: stream.uniform(1..=100_000), supply, quantity: 5 };
            }
            if percent(stream, 1) {
                all_lines[usize::from(line_count) - 1].item = 100_001;
            }
            let district = stream.uniform(1..=10) as u8;
            Input::NewOrder(NewOrder { warehouse, district, customer: 3, line_count, all_lines })
        }
        Kind::Payment => {
            let customer_warehouse = if percent(stream, 15) { other(stream) } else { warehouse };
            let customer = by_name(stream);
            Input::Payment(Payment {
                warehouse,
                district,
                customer_warehouse,
                customer_district: 1,
                customer,
                amount_cents: 100,
            })
        }
        Kind::OrderStatus => {
            let customer = by_name(stream);
            Input::OrderStatus(OrderStatus { warehouse, district, customer })
        }
        Kind::Delivery => Input::Delivery(Delivery { warehouse, carrier: 1 }),
        Kind::StockLevel => Input::StockLevel(StockLevel { warehouse, district, threshold: 10 }),
    }
}
