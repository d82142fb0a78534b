//! Least privilege: root keeps the capabilities needed for other users' segments and drops the rest.

use rustix::thread::{capabilities, set_capabilities, set_no_new_privs, CapabilitySet, CapabilitySets};

/// Opening files of servers that run as other users; removing dead ones from a folder like /tmp; keeping the probe's pages in memory.
const KEPT: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::FOWNER).union(CapabilitySet::IPC_LOCK);

/// Drops the capabilities that the analyzer does not need, for this thread and those that it will start. It must be
/// called before other threads exist. A process without capabilities keeps none.
///
/// # Errors
///
/// The system's error if a right cannot be dropped.
pub fn drop_rights() -> std::io::Result<()> {
    set_no_new_privs(true)?;
    let kept = capabilities(None)?.permitted & KEPT;
    set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_gone() {
        // Capabilities belong to a thread: the test harness's thread keeps its own.
        let lines = std::thread::spawn(|| {
            drop_rights().expect("given up");
            std::fs::read_to_string("/proc/thread-self/status").expect("read")
        });
        let status = lines.join().expect("joined");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            u64::from_str_radix(line.trim(), 16).expect("hexadecimal")
        };
        // Capabilities 1, 3 and 14: 0x4002 + 8.
        assert_eq!(field("CapPrm:") & !0x400a, 0);
        assert_eq!(field("CapEff:") & !0x400a, 0);
        assert_eq!(field("NoNewPrivs:"), 1);
    }
}
