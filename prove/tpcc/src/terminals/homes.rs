//! The warehouses of a thread: every n-th one of the driver's.

use crate::order::RunOrder;
use crate::work::TerminalId;
use std::ops::Range;

/// Terminals of a warehouse (clause 4.2.2).
pub const TERMINALS_OF_A_WAREHOUSE: u32 = 10;

/// The warehouses of one thread of the driver, counted from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Homes {
    first_warehouse: u32,
    /// Of the driver.
    warehouses: u32,
    thread: u32,
    threads: u32,
}

impl Homes {
    pub fn of(order: &RunOrder, thread: u32) -> Homes {
        let RunOrder { first_warehouse, warehouses, threads, .. } = *order;
        assert!(thread < threads, "thread {thread} of {threads}");
        Homes { first_warehouse, warehouses, thread, threads }
    }

    /// Number of this thread's warehouses.
    pub fn count(&self) -> u32 {
        self.warehouses.saturating_sub(self.thread).div_ceil(self.threads)
    }

    /// Number of the driver's warehouses.
    pub fn all(&self) -> u32 {
        self.warehouses
    }

    /// W_ID of one of the driver's warehouses, which are counted from 0.
    pub fn warehouse(&self, of_driver: u32) -> u32 {
        self.first_warehouse + of_driver
    }

    /// Whether one of the driver's warehouses is this thread's.
    pub fn has(&self, of_driver: u32) -> bool {
        of_driver < self.warehouses && of_driver % self.threads == self.thread
    }

    /// The driver's number of a terminal of this thread, which are counted from 0.
    pub fn terminal(&self, of_thread: u32) -> TerminalId {
        let (home, district) = (of_thread / TERMINALS_OF_A_WAREHOUSE, of_thread % TERMINALS_OF_A_WAREHOUSE);
        TerminalId((self.thread + home * self.threads) * TERMINALS_OF_A_WAREHOUSE + district)
    }

    /// The inverse of [`Homes::terminal`].
    pub fn of_thread(&self, terminal: TerminalId) -> u32 {
        let (home, district) = (terminal.0 / TERMINALS_OF_A_WAREHOUSE, terminal.0 % TERMINALS_OF_A_WAREHOUSE);
        debug_assert!(self.has(home), "{terminal:?} is of another thread");
        home / self.threads * TERMINALS_OF_A_WAREHOUSE + district
    }

    /// W_ID and D_ID of a terminal.
    pub fn home(&self, terminal: TerminalId) -> (u32, u8) {
        let district = terminal.0 % TERMINALS_OF_A_WAREHOUSE + 1;
        (self.warehouse(terminal.0 / TERMINALS_OF_A_WAREHOUSE), district as u8)
    }

    /// The names of all terminals of the driver, of other threads too.
    pub fn names(&self) -> Range<u64> {
        let first = self.name(TerminalId(0));
        first..first + u64::from(self.warehouses) * u64::from(TERMINALS_OF_A_WAREHOUSE)
    }

    /// The name of a terminal's random streams: the same in all drivers and with any number of threads.
    pub fn name(&self, terminal: TerminalId) -> u64 {
        let (warehouse, district) = self.home(terminal);
        u64::from(warehouse) * u64::from(TERMINALS_OF_A_WAREHOUSE) + u64::from(district)
    }
}
