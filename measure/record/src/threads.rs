//! What the recorder's own threads have in common.

/// Leaves all signals to the recorder's first thread, which waits for them: one that came to the calling thread would end
/// the process.
pub(crate) fn block_signals() {
    // SAFETY: plain structures in and out.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}
