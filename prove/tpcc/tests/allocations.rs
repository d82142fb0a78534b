//! The recorder is on the driver's hot path: it allocates only when a time exceeds all earlier ones.

use hardmeter_tpcc::measure::{Measured, Recorder};
use hardmeter_tpcc::time::Micros;
use hardmeter_tpcc::work::{Customer, Input, Kind, Payment};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's duties are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_transaction_that_is_recorded_takes_no_memory() {
    let mut recorder = Recorder::new(Micros::ZERO..Micros::seconds(600));
    let input = Input::Payment(Payment {
        warehouse: 1,
        district: 2,
        customer_warehouse: 1,
        customer_district: 2,
        customer: Customer::Id(3),
        amount_cents: 100,
    });
    let mut record = |number: u64, longest: u64| {
        let due = Micros(number * 5_000);
        let entered = due + Micros(number % longest);
        let dispatched = entered + Micros(number % longest);
        let answered = dispatched + Micros(number * 7 % longest);
        let kind = Kind::Payment;
        recorder
            .completed(&Measured { kind, due, entered, dispatched, answered, rolled_back: false }, &input);
        recorder.paused(due, (kind, Micros(number % longest)), Some((kind, Micros(number % longest))));
        recorder.waiting(due, 3);
    };
    // The histograms grow to the longest times.
    (0..10_000).for_each(|number| record(number, 1_000_000));
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (10_000..110_000).for_each(|number| record(number, 900_000));
    let taken = ALLOCATIONS.load(Ordering::Relaxed) - before;
    // The harness may print meanwhile; a hundred thousand transactions did not allocate.
    assert!(taken < 10, "{taken} allocations");
}
