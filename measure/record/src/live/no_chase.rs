//! For architectures without the self-test's loop: [`calibrate`](super::calibrate) returns an error before it
//! uses this.

/// Addresses in the loop's code.
pub(super) struct Loop {
    /// The load.
    pub(super) load: u64,
    /// The instruction after it.
    pub(super) behind: u64,
    /// The end of the loop.
    pub(super) end: u64,
}

/// Not available.
pub(super) fn places() -> Loop {
    Loop { load: 0, behind: 0, end: 0 }
}

/// No ring exists.
pub(super) struct Chase;

impl Chase {
    /// Always `None`.
    pub(super) fn new(_bytes: usize) -> Option<Chase> {
        None
    }

    /// Does nothing.
    pub(super) fn run(&mut self, _loads: u64) {}
}
