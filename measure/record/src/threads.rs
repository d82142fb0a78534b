//! Shared by the recorder's own threads.

/// Blocks all signals in the calling thread, so that the recorder's first thread, which waits for them, receives
/// them.
pub(crate) fn block_signals() {
    // SAFETY: plain structures in and out.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}
