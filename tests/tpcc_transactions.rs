//! The five transactions of TPC-C on a real PostgreSQL, in both styles: their effects are compared row by row with
//! a model, and then with each other.
//!
//! Runs as root (the server then runs as `postgres`) and as an ordinary user.

mod common;
#[path = "common/server.rs"]
mod server;
#[path = "common/tpcc_model.rs"]
mod tpcc_model;

use common::{hardmeter, run, succeeded};
use hardmeter_session::{Session, SessionError, Stop, Target};
use hardmeter_tpcc::audit::{audit, Tool, Verdict};
use hardmeter_tpcc::backend::{Backend, Backends, Style};
use hardmeter_tpcc::random::{Part, Stream};
use hardmeter_tpcc::time::Clock;
use hardmeter_tpcc::transactions::{backends, install, Installed};
use hardmeter_tpcc::work::{
    Completion, ConnectionId, Customer, Delivery, Input, NewOrder, OrderLine, OrderStatus, Outcome, Payment,
    StockLevel, TerminalId, Work,
};
use hardmeter_tpcc::TpccError;
use server::ThrowawayServer;
use std::collections::VecDeque;
use tpcc_model::Model;

const WAREHOUSES: u32 = 2;
/// Number of STOCK rows used by the inputs: few, so that they are used repeatedly.
const ITEMS: u32 = 40;

/// A server with a population in the database `tpcc`, which each test copies.
struct Populated {
    server: ThrowawayServer,
}

struct Quiet;

impl hardmeter_session::Progress for Quiet {
    fn phase(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
}

impl Populated {
    fn new() -> Option<Populated> {
        let server = ThrowawayServer::new(&[], &["fsync=off", "autovacuum=off", "log_lock_waits=on"], 1)?;
        let mut load = hardmeter();
        load.args(["tpcc", "load", "--warehouses", &WAREHOUSES.to_string(), "--server"]);
        succeeded(run(load.arg(server.folder().path())));
        Some(Populated { server })
    }

    fn target(&self, database: &str) -> Target {
        let state = self.server.cluster().state().clone();
        Target::socket(&state.socket_folder, state.port, &state.user, database)
    }

    /// A copy of the population.
    fn copy(&self, name: &str) -> Target {
        let mut session = Session::open(&self.target("postgres"), &Stop::new()).unwrap();
        session.execute("copying the database", &format!("CREATE DATABASE {name} TEMPLATE tpcc")).unwrap();
        self.target(name)
    }

    fn backend(&self, target: &Target, style: Style, connections: u32) -> Box<dyn Backend> {
        if style == Style::Procedures {
            install(target, &Stop::new()).unwrap();
        }
        backends(style, None, target.clone()).open(connections, Clock::start()).unwrap()
    }
}

fn query(target: &Target, sql: &str) -> Vec<Vec<Option<String>>> {
    Session::open(target, &Stop::new()).unwrap().query("testing", sql).unwrap().rows
}

fn single(target: &Target, sql: &str) -> String {
    query(target, sql)[0][0].clone().unwrap_or_default()
}

fn work(input: Input) -> Work {
    let now = Clock::start().now();
    Work { terminal: TerminalId(0), input, due: now, entered: now }
}

/// Runs one transaction.
fn run_one(backend: &mut dyn Backend, input: Input) -> Outcome {
    backend.submit(ConnectionId(0), work(input), Clock::start().now());
    let mut done: Vec<Completion> = vec![];
    while done.is_empty() {
        backend.wait(None, &mut done).unwrap();
    }
    done.remove(0).outcome
}

/// Runs all inputs over all connections, as they become free.
fn run_all(backend: &mut dyn Backend, inputs: Vec<Input>) -> Vec<Outcome> {
    let mut waiting: VecDeque<Input> = inputs.into();
    let mut outcomes = vec![];
    let mut done: Vec<Completion> = vec![];
    let mut busy = 0;
    for connection in 0..backend.connections() {
        if let Some(input) = waiting.pop_front() {
            backend.submit(ConnectionId(connection), work(input), Clock::start().now());
            busy += 1;
        }
    }
    while busy > 0 {
        backend.wait(None, &mut done).unwrap();
        for completion in done.drain(..) {
            outcomes.push(completion.outcome);
            busy -= 1;
            if let Some(input) = waiting.pop_front() {
                backend.submit(completion.connection, work(input), Clock::start().now());
                busy += 1;
            }
        }
    }
    outcomes
}

/// Inputs in the mix's proportions, but on few items and customers, so that they depend on earlier ones.
fn inputs(seed: u64, count: usize) -> Vec<Input> {
    let mut stream = Stream::of(seed, Part::Constants, 7);
    (0..count).map(|_| input(&mut stream)).collect()
}

fn input(stream: &mut Stream) -> Input {
    let warehouse = stream.uniform(1..=WAREHOUSES);
    let district = stream.uniform(1..=10) as u8;
    let by_name = stream.uniform(1..=100) <= 60;
    let customer = if by_name {
        Customer::Name(stream.uniform(0..=30) as u16)
    } else {
        Customer::Id(stream.uniform(1..=60) as u16)
    };
    match stream.uniform(1..=23) {
        1..=10 => Input::NewOrder(new_order(warehouse, district, stream)),
        11..=20 => Input::Payment(Payment {
            warehouse,
            district,
            customer_warehouse: if stream.uniform(1..=100) <= 15 { 3 - warehouse } else { warehouse },
            customer_district: stream.uniform(1..=10) as u8,
            customer,
            amount_cents: stream.uniform(100..=500_000),
        }),
        21 => Input::OrderStatus(OrderStatus { warehouse, district, customer }),
        22 => Input::Delivery(Delivery { warehouse, carrier: stream.uniform(1..=10) as u8 }),
        _ => Input::StockLevel(StockLevel { warehouse, district, threshold: stream.uniform(10..=20) as u8 }),
    }
}

fn new_order(warehouse: u32, district: u8, stream: &mut Stream) -> NewOrder {
    let line_count = stream.uniform(5..=15) as u8;
    let mut all_lines = [OrderLine::default(); 15];
    for line in &mut all_lines[..usize::from(line_count)] {
        let remote = stream.uniform(1..=10) == 1;
        *line = OrderLine {
            item: stream.uniform(1..=ITEMS),
            supply: if remote { 3 - warehouse } else { warehouse },
            quantity: stream.uniform(1..=10) as u8,
        };
    }
    // One of twenty, not of a hundred, so that a few hundred inputs include some.
    if stream.uniform(1..=20) == 1 {
        all_lines[usize::from(line_count) - 1].item = 100_001;
    }
    let customer = stream.uniform(1..=60) as u16;
    NewOrder { warehouse, district, customer, line_count, all_lines }
}

fn conditions_hold(target: &Target) {
    let audited = audit(target, Tool::Hardmeter, &Stop::new(), &Quiet).unwrap();
    for condition in audited.conditions {
        assert!(
            matches!(condition.verdict, Verdict::Held | Verdict::NotApplicable),
            "condition {}: {:?}",
            condition.number,
            condition.examples
        );
    }
}

/// All rows without their dates, which come from the clock, as one digest for each table.
fn digests(target: &Target) -> Vec<(&'static str, String)> {
    let tables = [
        ("item", "x.*"),
        ("warehouse", "x.*"),
        ("stock", "x.*"),
        ("district", "x.*"),
        ("customer", "to_jsonb(x) - 'c_since'"),
        ("history", "to_jsonb(x) - 'h_date'"),
        ("orders", "to_jsonb(x) - 'o_entry_d'"),
        ("new_order", "x.*"),
        ("order_line", "to_jsonb(x) - 'ol_delivery_d', ol_delivery_d IS NULL"),
    ];
    let sum = |(table, columns): (&'static str, &str)| {
        let sql = format!(
            "SELECT count(*) || ' ' || sum(hashtextextended(ROW({columns})::text, 0)) FROM {table} x"
        );
        (table, single(target, &sql))
    };
    tables.map(sum).into()
}

#[test]
fn transactions_do_what_the_clauses_say_in_both_styles() {
    let Some(populated) = Populated::new() else { return };
    both_styles_leave_what_the_model_says(&populated);
    nothing_deadlocks_and_the_conditions_hold(&populated);
    districts_run_empty_and_fill_again(&populated);
    procedures_are_installed_once_and_by_those_who_may(&populated);
}

fn both_styles_leave_what_the_model_says(populated: &Populated) {
    let before = populated.target("tpcc");
    let inputs = inputs(42, 500);
    let mut left = vec![];
    for (style, name) in [(Style::Procedures, "procedures"), (Style::Client, "client")] {
        let target = populated.copy(name);
        let mut model = Model::read(&|sql| query(&before, sql));
        let mut backend = populated.backend(&target, style, 1);
        let mut rolled_back = 0;
        for (at, input) in inputs.iter().enumerate() {
            let outcome = run_one(&mut *backend, input.clone());
            rolled_back += u32::from(outcome == Outcome::RolledBack);
            assert_eq!(outcome, model.apply(input), "{name}, input {at}: {input:?}");
        }
        drop(backend);
        assert!(rolled_back >= 5, "{rolled_back} of the inputs were rolled back");
        model.assert_is_left_in(&|sql| query(&target, sql), name);
        conditions_hold(&target);
        left.push(digests(&target));
    }
    assert_eq!(left[0], left[1], "both styles leave the same rows");
    assert_ne!(left[0], digests(&before));
}

fn nothing_deadlocks_and_the_conditions_hold(populated: &Populated) {
    for (style, name) in [(Style::Procedures, "procedures_busy"), (Style::Client, "client_busy")] {
        let target = populated.copy(name);
        let mut backend = populated.backend(&target, style, 8);
        let inputs = inputs(7, 2_000);
        let new_orders = inputs.iter().filter(|input| matches!(input, Input::NewOrder(_))).count();
        let outcomes = run_all(&mut *backend, inputs);
        drop(backend);
        let failed: Vec<&Outcome> =
            outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Failed(_))).collect();
        assert!(failed.is_empty(), "{name}: {} failed: {:?}", failed.len(), failed[0]);
        let ordered = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Ordered { .. })).count();
        let rolled_back = outcomes.iter().filter(|&outcome| *outcome == Outcome::RolledBack).count();
        assert_eq!(ordered + rolled_back, new_orders);
        assert_eq!(single(&target, "SELECT count(*) FROM orders WHERE o_id > 3000"), ordered.to_string());
        conditions_hold(&target);
    }
}

fn districts_run_empty_and_fill_again(populated: &Populated) {
    for (style, name) in [(Style::Procedures, "procedures_empty"), (Style::Client, "client_empty")] {
        let target = populated.copy(name);
        // As if all but two orders of warehouse 1 had been delivered before: rows of three tables, customers'
        // balances.
        let mut session = Session::open(&target, &Stop::new()).unwrap();
        let sql = "CREATE TEMP TABLE gone AS SELECT o_d_id, o_id, o_c_id, sum(ol_amount) AS total
                FROM orders JOIN order_line ON (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id)
                WHERE o_w_id = 1 AND o_id BETWEEN 2101 AND 2998 GROUP BY 1, 2, 3;
            DELETE FROM new_order WHERE no_w_id = 1 AND no_o_id < 2999;
            UPDATE orders SET o_carrier_id = 1 WHERE o_w_id = 1 AND o_id BETWEEN 2101 AND 2998;
            UPDATE order_line SET ol_delivery_d = now() WHERE ol_w_id = 1 AND ol_o_id BETWEEN 2101 AND 2998;
            UPDATE customer SET c_balance = c_balance + total FROM gone
                WHERE c_w_id = 1 AND c_d_id = o_d_id AND c_id = o_c_id";
        session.execute("delivering beforehand", sql).unwrap();
        let mut backend = populated.backend(&target, style, 1);
        let deliver = |backend: &mut dyn Backend| {
            run_one(backend, Input::Delivery(Delivery { warehouse: 1, carrier: 4 }))
        };
        assert_eq!(deliver(&mut *backend), Outcome::Delivered { orders: [2999; 10] });
        assert_eq!(deliver(&mut *backend), Outcome::Delivered { orders: [3000; 10] });
        assert_eq!(deliver(&mut *backend), Outcome::Delivered { orders: [0; 10] }, "nothing is left");
        let mut order = new_order(1, 3, &mut Stream::of(1, Part::Item, 0));
        order.all_lines[usize::from(order.line_count) - 1].item = 5;
        assert_eq!(run_one(&mut *backend, Input::NewOrder(order)), Outcome::Ordered { order: 3001 });
        let mut orders = [0; 10];
        orders[2] = 3001;
        assert_eq!(deliver(&mut *backend), Outcome::Delivered { orders });
        drop(backend);
        conditions_hold(&target);
    }
}

fn procedures_are_installed_once_and_by_those_who_may(populated: &Populated) {
    let target = populated.copy("installed");
    let install = |target: &Target| install(target, &Stop::new());
    assert_eq!(install(&target).unwrap(), Installed::Now);
    assert_eq!(install(&target).unwrap(), Installed::Before);
    // A procedure of another version, with other parameters, is replaced.
    let mut session = Session::open(&target, &Stop::new()).unwrap();
    session
        .execute(
            "making another version",
            "DROP FUNCTION hardmeter_tpcc_stock_level; CREATE FUNCTION hardmeter_tpcc_stock_level(text) RETURNS text \
             LANGUAGE sql AS 'SELECT $1'; COMMENT ON FUNCTION hardmeter_tpcc_stock_level IS 'stored procedures, version 0'",
        )
        .unwrap();
    assert_eq!(install(&target).unwrap(), Installed::Now);
    let functions = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'hardmeter\\_tpcc\\_%'";
    assert_eq!(single(&target, functions), "5");

    // A user who may read and change rows, but create nothing.
    session
        .execute(
            "making a user",
            "REVOKE CREATE ON SCHEMA public FROM public; CREATE ROLE clerk LOGIN; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO clerk; \
             DROP FUNCTION hardmeter_tpcc_stock_level",
        )
        .unwrap();
    let state = populated.server.cluster().state().clone();
    let clerk = Target::socket(&state.socket_folder, state.port, "clerk", "installed");
    let refused = install(&clerk).unwrap_err();
    assert!(matches!(&refused, TpccError::NoRightToInstall { .. }), "{refused}");
    assert!(refused.remedy().contains("GRANT CREATE ON SCHEMA public"), "{}", refused.remedy());
    let nothing = populated.target("postgres");
    assert!(matches!(install(&nothing), Err(TpccError::NoData { .. })));
    let gone = populated.target("nowhere");
    assert!(matches!(install(&gone), Err(TpccError::Session(SessionError::Connect { .. }))));
}
