//! What is left of root's rights where a server of another user is looked into.
//!
//! The recorder gives root up once the events are open. Reading the memory of another user's server needs
//! `CAP_SYS_PTRACE` at every look, because its processes come and go. So this one thread, which runs no command and opens
//! no file of the user's, keeps this one capability and nothing else:
//!
//! ```text
//!   recorder's threads    root ──── setresuid (all threads) ────────────────> the user, no capabilities
//!   observer's thread     root, "keep permitted capabilities" ── the same ──> the user, CAP_SYS_PTRACE only
//! ```

use crate::privileges::CAP_SYS_PTRACE;

/// The rights of the thread that made it.
pub(super) struct KeptRights {
    is_root: bool,
}

/// `linux/capability.h`, version 3: two words of bits.
const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Bits {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

impl KeptRights {
    /// Lets the calling thread keep what it may do through the coming change of user.
    pub(super) fn keep() -> KeptRights {
        // SAFETY: no memory is passed.
        let is_root = unsafe { libc::geteuid() == 0 };
        if is_root {
            // SAFETY: as above; the setting is this thread's and ends with it.
            unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) };
        }
        KeptRights { is_root }
    }

    /// Gives up all but the one right, after the change. Refused where the right was never there; then reading is, too, which
    /// whoever reads will tell.
    pub(super) fn limit(&mut self) {
        if !std::mem::take(&mut self.is_root) {
            return;
        }
        let mut bits = [Bits::default(); 2];
        bits[0].effective = 1 << CAP_SYS_PTRACE;
        bits[0].permitted = 1 << CAP_SYS_PTRACE;
        let header = Header { version: VERSION_3, pid: 0 };
        let set = |bits: &[Bits; 2]| {
            // SAFETY: both structures are as the kernel wants them, for the calling thread.
            unsafe { libc::syscall(libc::SYS_capset, &raw const header, bits.as_ptr()) == 0 }
        };
        if !set(&bits) {
            set(&[Bits::default(); 2]);
        }
    }
}
