//! The rights that remain after giving up root, to observe another user's server.
//!
//! The recorder gives root up once the events are open. Reading the memory of another user's server needs
//! `CAP_SYS_PTRACE` at every read, because its processes come and go; its files need `CAP_DAC_READ_SEARCH`. So the
//! observing threads, which run no command and write no file, keep these two capabilities and no others:
//!
//! ```text
//!   recorder's threads    root ──── setresuid (all threads) ────────────────> the user, no capabilities
//!   observer, readers     root, "keep permitted capabilities" ── the same ──> the user, the two capabilities
//! ```

use rustix::thread::{capabilities, set_capabilities, set_keep_capabilities, CapabilitySet, CapabilitySets};

const KEPT: CapabilitySet = CapabilitySet::SYS_PTRACE.union(CapabilitySet::DAC_READ_SEARCH);

/// The rights of the thread that made it.
pub(crate) struct KeptRights {
    is_root: bool,
}

impl KeptRights {
    /// Keeps the calling thread's capabilities over the following change of user.
    pub(crate) fn keep() -> KeptRights {
        // SAFETY: no memory is passed.
        let is_root = unsafe { libc::geteuid() == 0 };
        if is_root {
            // The setting is per thread and ends with it. If it is refused, `limit` has nothing to keep.
            let _ = set_keep_capabilities(true);
        }
        KeptRights { is_root }
    }

    /// Drops all capabilities except the two, after the change. A capability that the thread never had cannot be
    /// kept; reads will then fail, which the reader reports.
    pub(crate) fn limit(&mut self) {
        if !std::mem::take(&mut self.is_root) {
            return;
        }
        let Ok(sets) = capabilities(None) else { return };
        let kept = sets.permitted & KEPT;
        let _ = set_capabilities(
            None,
            CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privileges::{Identity, CAP_SYS_PTRACE};

    /// `linux/capability.h`
    const CAP_DAC_READ_SEARCH: u32 = 2;

    /// The effective capabilities of the calling thread.
    fn effective() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("readable");
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("a mask");
        u64::from_str_radix(mask.trim(), 16).expect("a number")
    }

    #[test]
    fn only_the_two_rights_to_read_are_left_and_only_in_that_thread() {
        let two = 1 << CAP_SYS_PTRACE | 1 << CAP_DAC_READ_SEARCH;
        // SAFETY: no preconditions.
        if unsafe { libc::geteuid() } != 0 || effective() & two != two {
            println!("skipped: needs root");
            return;
        }
        // In a separate process, since the rights cannot be regained: this test executes itself.
        const CHILD: &str = "HARDMETER_TEST_RIGHTS";
        if std::env::var_os(CHILD).is_none() {
            let own = std::env::current_exe().expect("a path");
            let name = "kept_rights::tests::only_the_two_rights_to_read_are_left_and_only_in_that_thread";
            let output = std::process::Command::new(own)
                .args(["--exact", name, "--nocapture"])
                .env(CHILD, "1")
                .output()
                .expect("runs");
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
            return;
        }
        let (dropped, wait) = std::sync::mpsc::channel();
        let (ready, kept) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut rights = KeptRights::keep();
            ready.send(()).expect("waited for");
            wait.recv().expect("told");
            rights.limit();
            effective()
        });
        kept.recv().expect("kept");
        let nobody = Identity { uid: 65534, gid: 65534, groups: vec![65534], name: "nobody".into() };
        nobody.drop_privileges().expect("root may");
        dropped.send(()).expect("waited for");
        assert_eq!(thread.join().expect("ended"), two);
        assert_eq!(effective(), 0);
    }
}
