//! Least privilege: root keeps what reaching other users' segments needs, and gives the rest up.

/// Opening files of servers that run as other users; removing dead ones from a folder like /tmp; keeping the probe's pages in memory.
const KEPT: [u32; 3] = [CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_IPC_LOCK];
const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_FOWNER: u32 = 3;
const CAP_IPC_LOCK: u32 = 14;
const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives up what the analyzer does not need, for this thread and those that it will start: to be called before there are others.
/// Whoever has nothing keeps nothing.
pub fn drop_rights() -> std::io::Result<()> {
    let header = Header { version: VERSION_3, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: both structures are as linux/capability.h has them for version 3.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::syscall(libc::SYS_capget, &header, sets.as_mut_ptr()) != 0
        {
            return Err(std::io::Error::last_os_error());
        }
    }
    let kept = KEPT.iter().fold(0, |bits, capability| bits | 1 << capability);
    let sets = [
        Sets { effective: sets[0].permitted & kept, permitted: sets[0].permitted & kept, inheritable: 0 },
        Sets::default(),
    ];
    // SAFETY: as above.
    if unsafe { libc::syscall(libc::SYS_capset, &header, sets.as_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_gone() {
        // Rights are a thread's own: that of the test harness keeps its.
        let lines = std::thread::spawn(|| {
            drop_rights().expect("given up");
            std::fs::read_to_string("/proc/thread-self/status").expect("read")
        });
        let status = lines.join().expect("joined");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            u64::from_str_radix(line.trim(), 16).expect("hexadecimal")
        };
        // 1, 3 and 14: 0x4002 + 8.
        assert_eq!(field("CapPrm:") & !0x400a, 0);
        assert_eq!(field("CapEff:") & !0x400a, 0);
        assert_eq!(field("NoNewPrivs:"), 1);
    }
}
