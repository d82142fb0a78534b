#![allow(missing_docs)]
//! x
use hardmeter_session::*;
use hardmeter_tpcc::backend::*;
use hardmeter_tpcc::order::*;
use hardmeter_tpcc::time::*;
use hardmeter_tpcc::*;
struct S;
impl Progress for S {
    fn phase(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
}
struct Sc(Box<dyn wire::Scripts>);
impl wire::Scripts for Sc {
    fn statements(&self) -> &[wire::StatementText] {
        self.0.statements()
    }
    fn settings(&self) -> &str {
        self.0.settings()
    }
    fn new_script(&self) -> Box<dyn wire::Script> {
        self.0.new_script()
    }
    fn description(&self) -> String {
        self.0.description()
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let p: u32 = a[2].parse().unwrap();
    let secs: f64 = a[3].parse().unwrap();
    let w: u32 = a.get(4).map_or(4, |x| x.parse().unwrap());
    let client = a.get(5).is_some_and(|x| x == "client");
    let logs = a.get(6).is_some_and(|x| x == "logs");
    let style = if client { Style::Client } else { Style::Procedures };
    let order = RunOrder {
        all_warehouses: w,
        first_warehouse: 1,
        warehouses: w,
        mode: if std::env::var("TERMINALS").is_ok() {
            Mode::Terminals { time_factor: 1.0 }
        } else {
            Mode::Closed { clients: p }
        },
        style,
        connections: p,
        threads: 1,
        queueing: Queueing::Fifo,
        affinity: std::env::var("AFFINITY").is_ok(),
        retries: 5,
        ramp_seconds: 2.0,
        interval_seconds: secs,
        seed: 7,
        constants: random::Constants::for_run(100, 1),
        load_last: None,
        checkpoint_seconds: None,
        start_at: None,
    };
    let stop = Stop::new();
    let target;
    let backends: Box<dyn Backends> = if a[1] == "stub" {
        Box::new(stub::Stub { service: Micros(std::env::var("SERVICE").map_or(0, |x| x.parse().unwrap())) })
    } else {
        target = Target::parse(&a[1]).unwrap();
        transactions::install(&target, &stop).unwrap();
        Box::new(wire::PostgresBackends::new(target, Sc(transactions::scripts(style))))
    };
    if std::env::var("SWEEP").is_ok() {
        let t = Target::parse(&a[1]).unwrap();
        let server = observe::Postgres::open(&t, &stop).unwrap();
        use observe::Server as _;
        let settings = monitor::auto::Settings {
            counts: vec![1, 2, 4, 8, 16, 32, 64],
            rounds: 3,
            leg_seconds: secs,
            ..Default::default()
        };
        let b = std::time::Instant::now();
        let sweep = monitor::auto::sweep(&order, &*backends, server.first_process(), &settings, &stop, &S)
            .unwrap()
            .unwrap();
        println!("{}\n{:?}", sweep.in_words(), b.elapsed());
        for p in &sweep.points {
            println!("{} {:?}", p.connections, p.throughputs);
        }
        std::fs::write("/var/tmp/monitor/knee.svg", sweep.to_svg().unwrap()).unwrap();
        return;
    }
    let logs = if logs {
        monitor::Logs {
            deliveries: Some("/var/tmp/monitor/del".into()),
            successes: Some("/var/tmp/monitor/suc".into()),
        }
    } else {
        Default::default()
    };
    let r = monitor::drive(&order, &*backends, &logs, &stop, &S).unwrap();
    let all: u64 = r.kinds.iter().map(|k| k.completed).sum();
    println!(
        "{:?} NO/min {:.0} tx {} driver us/tx {:.2} cpu/1000NO {:.4} rss {} MiB",
        r.ending,
        r.throughput(),
        all,
        r.drivers[0].cpu_seconds * 1e6 / all as f64,
        r.drivers[0].cpu_seconds * 1e3 / r.of(work::Kind::NewOrder).completed as f64,
        r.drivers[0].resident_bytes >> 20
    );
    for k in &r.kinds {
        println!("{:?} n {} rb {} failed {} retried {} resp p50 {:?} p99 {:?} lag p99 {:?} queued p50 {:?} service p50 {:?}", k.kind,k.completed,k.rolled_back,k.failed,k.retried,k.response.quantile(0.5).map(|x|x.0),k.response.quantile(0.99).map(|x|x.0),k.lag.quantile(0.99).map(|x|x.0),k.queued.quantile(0.5).map(|x|x.0),k.service.quantile(0.5).map(|x|x.0));
    }
    println!(
        "delivery {} {:?} p50 {:?}; errors {:?}",
        r.delivery.count(),
        r.delivery_districts,
        r.delivery.quantile(0.5),
        r.errors
    );
}
