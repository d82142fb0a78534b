//! Gives up root after the events are open.
//!
//! Opening events of other users' processes may need root; reading the rings, running the command and writing the
//! file do not. Started by sudo or as a setuid program, the recorder returns to the calling user as early as
//! possible, so that the command runs with that user's rights and the file belongs to that user.

use std::ffi::CStr;
use std::io;

/// A user to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups.
    pub groups: Vec<u32>,
    /// The user's name, or the number of a user without a name.
    pub name: String,
}

/// The calling user, when the process runs as root through sudo.
pub fn invoking_user() -> Option<Identity> {
    // SAFETY: no preconditions.
    let (real, effective, group) = unsafe { (libc::getuid(), libc::geteuid(), libc::getgid()) };
    let variable = |name: &str| std::env::var(name).ok();
    let (uid, gid) =
        caller(real, effective, group, variable("SUDO_UID").as_deref(), variable("SUDO_GID").as_deref())?;
    Some(identity(uid, gid))
}

/// The caller by user ids and environment: the real user of a setuid program, or the one that sudo names.
fn caller(
    real: u32,
    effective: u32,
    group: u32,
    sudo_uid: Option<&str>,
    sudo_gid: Option<&str>,
) -> Option<(u32, u32)> {
    if effective != 0 {
        return None; // no rights to give up
    }
    if real != 0 {
        return Some((real, group));
    }
    let uid: u32 = sudo_uid?.parse().ok()?;
    let gid: u32 = sudo_gid?.parse().ok()?;
    (uid != 0).then_some((uid, gid))
}

fn identity(uid: u32, gid: u32) -> Identity {
    // SAFETY: the record is copied out before any other call could overwrite it.
    let name = unsafe {
        let entry = libc::getpwuid(uid);
        (!entry.is_null()).then(|| CStr::from_ptr((*entry).pw_name).to_owned())
    };
    let mut groups = vec![gid];
    if let Some(name) = &name {
        let mut room = vec![0 as libc::gid_t; 1024];
        let mut count = room.len() as libc::c_int;
        // SAFETY: `count` is the capacity.
        let found = unsafe { libc::getgrouplist(name.as_ptr(), gid, room.as_mut_ptr(), &mut count) };
        if found >= 0 {
            room.truncate(count as usize);
            groups = room;
        }
    }
    Identity {
        uid,
        gid,
        groups,
        name: name.map_or_else(|| uid.to_string(), |name| name.to_string_lossy().into_owned()),
    }
}

impl Identity {
    /// Becomes this user permanently; `false` with `errno` set if the system refuses.
    ///
    /// Makes only system calls, since it also runs between fork and exec.
    pub(crate) fn assume(&self) -> bool {
        // SAFETY: the list outlives the call. Groups are set first, while the process still has the right to.
        unsafe {
            libc::setgroups(self.groups.len(), self.groups.as_ptr()) == 0
                && libc::setresgid(self.gid, self.gid, self.gid) == 0
                && libc::setresuid(self.uid, self.uid, self.uid) == 0
        }
    }

    /// Changes to this user permanently, and verifies that root cannot be regained.
    ///
    /// # Errors
    ///
    /// The system's error if the user cannot be changed, or one that says that root could be regained.
    pub fn drop_privileges(&self) -> io::Result<()> {
        if !self.assume() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: no preconditions.
        if unsafe { libc::setuid(0) } == 0 {
            return Err(io::Error::other("root came back after it was given up"));
        }
        Ok(())
    }
}

/// Whether this process holds a capability, by its number in `linux/capability.h`.
pub fn has_capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> number & 1 == 1)
}

/// `CAP_SYS_ADMIN`.
pub const CAP_SYS_ADMIN: u32 = 21;
/// `CAP_SYS_PTRACE`.
pub const CAP_SYS_PTRACE: u32 = 19;
/// `CAP_PERFMON`, since Linux 5.8.
pub const CAP_PERFMON: u32 = 38;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_for_somebody_else_goes_back() {
        assert_eq!(caller(1000, 1000, 1000, None, None), None);
        assert_eq!(caller(0, 0, 0, None, None), None); // root itself
        assert_eq!(caller(0, 0, 0, Some("1000"), Some("100")), Some((1000, 100))); // sudo
        assert_eq!(caller(0, 0, 0, Some("0"), Some("0")), None); // root by sudo
        assert_eq!(caller(1000, 0, 100, None, None), Some((1000, 100))); // setuid
        assert_eq!(caller(1000, 1000, 100, Some("0"), Some("0")), None); // a false value in the environment
        assert_eq!(caller(0, 0, 0, Some("-1"), Some("x")), None);
    }

    #[test]
    fn root_cannot_be_had_back() {
        // SAFETY: no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: needs root");
            return;
        }
        let nobody = identity(65534, 65534);
        // SAFETY: the child makes system calls only, and leaves by _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let dropped = nobody.drop_privileges().is_ok();
            // SAFETY: as above.
            unsafe {
                libc::_exit(if dropped && libc::geteuid() == 65534 && libc::setuid(0) != 0 { 0 } else { 1 })
            };
        }
        let mut status = 0;
        // SAFETY: our own child.
        unsafe { libc::waitpid(pid, &mut status, 0) };
        assert_eq!(status, 0);
    }
}
