//! Ctrl-C and other signals: remote work of a workload (statements on a server, a program) is stopped first.

use std::mem::MaybeUninit;

/// Calls `stop` at the first terminating signal. A second signal ends it at once.
///
/// A thread waits for the signals, and all others block them, because `stop` may do what a signal handler must not,
/// such as connecting to a server. Must be called before other threads are started.
pub(super) fn watch(stop: impl Fn() + Send + 'static) {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initializes the set that the others use; none of them can fail for these arguments.
    let signals = unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            if !is_ignored(signal) {
                libc::sigaddset(signals.as_mut_ptr(), signal);
            }
        }
        let signals = signals.assume_init();
        libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut());
        signals
    };
    std::thread::spawn(move || {
        wait_for(&signals);
        stop();
        let signal = wait_for(&signals);
        std::process::exit(128 + signal);
    });
}

/// Whether a signal is ignored, as after nohup; then it stays ignored.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null pointer for the new action sigaction only reads the present one.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

fn wait_for(signals: &libc::sigset_t) -> libc::c_int {
    let mut signal = 0;
    // SAFETY: both pointers are to living variables.
    while unsafe { libc::sigwait(signals, &mut signal) } != 0 {}
    signal
}
