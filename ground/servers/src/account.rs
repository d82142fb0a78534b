//! The account of a server: an unprivileged one if Hardmeter runs as root, else the current user.

use crate::error::{io_error, ServerError};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The account as which a server and its helpers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    name: String,
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<libc::gid_t>,
    home: PathBuf,
}

/// True if this process may change its user.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

impl Account {
    /// The account for a throwaway server: for root the first of `preferred` that exists, else the current user.
    ///
    /// # Errors
    ///
    /// [`ServerError::Unsupported`] if none of the accounts exists.
    pub fn for_server(preferred: &[&str]) -> Result<Account, ServerError> {
        if !is_root() {
            // SAFETY: geteuid has no preconditions and cannot fail.
            let uid = unsafe { libc::geteuid() };
            return Ok(Account::of_uid(uid).unwrap_or_else(|| Account::nameless(uid)));
        }
        preferred.iter().find_map(|name| Account::of_name(name)).ok_or_else(|| ServerError::Unsupported {
            what: format!(
                "a server must not run as root, and none of the accounts {} exists",
                preferred.join(", ")
            ),
            remedy: "create one (adduser --system nobody), or run hardmeter as an ordinary user".into(),
        })
    }

    /// The account of a name, when there is one.
    pub fn of_name(name: &str) -> Option<Account> {
        let name = CString::new(name).ok()?;
        // SAFETY: `name` is a C string, and the other pointers are those that `lookup` made.
        lookup(|entry, buffer, length, result| unsafe {
            libc::getpwnam_r(name.as_ptr(), entry, buffer, length, result)
        })
    }

    fn of_uid(uid: libc::uid_t) -> Option<Account> {
        // SAFETY: the pointers are those that `lookup` made.
        lookup(|entry, buffer, length, result| unsafe {
            libc::getpwuid_r(uid, entry, buffer, length, result)
        })
    }

    /// A user without an entry in the password file, as in many containers.
    fn nameless(uid: libc::uid_t) -> Account {
        // SAFETY: getegid has no preconditions and cannot fail.
        let gid = unsafe { libc::getegid() };
        Account { name: uid.to_string(), uid, gid, groups: vec![gid], home: PathBuf::from("/") }
    }

    /// The account's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its user and primary group.
    pub fn ids(&self) -> (libc::uid_t, libc::gid_t) {
        (self.uid, self.gid)
    }

    /// Whether it is the account as which this process runs.
    fn is_current(&self) -> bool {
        // SAFETY: geteuid has no preconditions and cannot fail.
        unsafe { libc::geteuid() == self.uid }
    }

    /// Makes `command` run as this account: ids, groups, home and name, a folder that it can enter; removes
    /// environment variables that database clients would use.
    pub fn apply(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            let bytes = name.as_bytes();
            if bytes.starts_with(b"PG") || bytes.starts_with(b"MYSQL_") || bytes.starts_with(b"MARIADB_") {
                command.env_remove(name);
            }
        }
        command.env("LC_ALL", "C.UTF-8").current_dir("/").stdin(Stdio::null());
        if self.is_current() {
            return;
        }
        command.env("HOME", &self.home).env("USER", &self.name).env("LOGNAME", &self.name);
        command.env_remove("XDG_RUNTIME_DIR");
        let (uid, gid, groups) = (self.uid, self.gid, self.groups.clone());
        // SAFETY: between fork and exec only these three system calls are made, on memory allocated before. Groups
        // come first: after setuid they can no longer be changed.
        unsafe {
            command.pre_exec(move || {
                check(libc::setgroups(groups.len(), groups.as_ptr()))?;
                check(libc::setgid(gid))?;
                check(libc::setuid(uid))
            });
        }
    }

    /// Gives a file or folder to this account.
    pub(crate) fn own(&self, path: &Path) -> Result<(), ServerError> {
        if self.is_current() {
            return Ok(());
        }
        std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid)).map_err(io_error("give away", path))
    }

    /// Whether this account can read and traverse `path`, by access(2) and so with all access lists.
    pub fn can_reach(&self, path: &Path) -> bool {
        let test = if path.is_dir() { "-x" } else { "-r" };
        let mut command = Command::new("/usr/bin/test");
        command.args([OsStr::new(test), path.as_os_str()]);
        self.apply(&mut command);
        command.status().is_ok_and(|status| status.success())
    }

    /// Fails with the name of the folder that stops this account on its way to `path`.
    pub(crate) fn require_reach(&self, path: &Path) -> Result<(), ServerError> {
        if self.can_reach(path) {
            return Ok(());
        }
        let barrier =
            path.ancestors().collect::<Vec<_>>().into_iter().rev().find(|folder| !self.can_reach(folder));
        let path = barrier.unwrap_or(path).to_owned();
        Err(ServerError::Unreachable { account: self.name.clone(), path })
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Calls one of the `getpw*_r` functions with a buffer that grows until the result fits.
fn lookup(
    call: impl Fn(*mut libc::passwd, *mut libc::c_char, usize, *mut *mut libc::passwd) -> libc::c_int,
) -> Option<Account> {
    let mut buffer: Vec<libc::c_char> = vec![0; 1024];
    loop {
        // SAFETY: passwd is a plain C structure, for which all zeroes is a value.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut result = std::ptr::null_mut();
        match call(&mut entry, buffer.as_mut_ptr(), buffer.len(), &mut result) {
            libc::ERANGE if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 2, 0),
            0 if !result.is_null() => {
                // SAFETY: the call succeeded, so both are C strings inside `buffer`, which is still alive.
                let (name, home) = unsafe { (CStr::from_ptr(entry.pw_name), CStr::from_ptr(entry.pw_dir)) };
                return Some(Account {
                    groups: groups_of(name, entry.pw_gid),
                    name: name.to_string_lossy().into_owned(),
                    uid: entry.pw_uid,
                    gid: entry.pw_gid,
                    home: PathBuf::from(OsStr::from_bytes(home.to_bytes())),
                });
            }
            _ => return None,
        }
    }
}

/// All groups of an account, including its primary one.
fn groups_of(name: &CStr, gid: libc::gid_t) -> Vec<libc::gid_t> {
    let mut groups = vec![gid; 64];
    let mut count = groups.len() as libc::c_int;
    // SAFETY: `groups` has space for `count` ids.
    let found = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
    // More than 64 groups: the primary one suffices for a throwaway server.
    groups.truncate(if found < 0 { 1 } else { count as usize });
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superuser_is_found_by_name_and_number() {
        let root = Account::of_name("root").unwrap();
        assert_eq!((root.uid, root.name()), (0, "root"));
        assert_eq!(Account::of_uid(0).unwrap(), root);
        assert!(Account::of_name("no-such-account-here").is_none());
        assert!(Account::of_name("nul\0byte").is_none());
    }

    #[test]
    fn a_command_runs_as_the_account_with_its_groups_only() {
        if !is_root() {
            eprintln!("skipped: only root can become somebody else");
            return;
        }
        let nobody = Account::of_name("nobody").unwrap();
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "id -u; id -G; echo $HOME; echo $PGHOST"])
            .env("PGHOST", "kept: set by the caller");
        nobody.apply(&mut command);
        let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(lines[0], "65534");
        assert!(!lines[1].split(' ').any(|group| group == "0"), "root's group is gone: {output}");
        assert_eq!(lines[2], "/nonexistent");
    }

    #[test]
    fn the_barrier_on_the_way_is_named() {
        if !is_root() {
            eprintln!("skipped: only root has somebody else to ask for");
            return;
        }
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let closed = folder.path().join("closed");
        std::fs::create_dir_all(closed.join("inner")).unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
        let nobody = Account::of_name("nobody").unwrap();
        assert!(nobody.require_reach(folder.path()).is_ok());
        match nobody.require_reach(&closed.join("inner")) {
            Err(error @ ServerError::Unreachable { .. }) => {
                assert!(
                    error.remedy().contains(&format!("chmod o+x {}", closed.display())),
                    "{}",
                    error.remedy()
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
