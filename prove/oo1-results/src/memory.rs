//! A limit on the memory of one program, its page cache included: a control group of its own.
//!
//! Supports version 1 (a separate hierarchy `memory`) and version 2 (one hierarchy with a delegated controller).
//! The group is created in this process's group, or beside it: version 2 has no processes in inner groups.

use crate::error::Oo1Error;
use std::fs;
use std::path::{Path, PathBuf};

/// A control group; removed on drop.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// Makes a group with this limit in bytes.
    pub(crate) fn new(bytes: u64) -> Result<MemoryGroup, Oo1Error> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let candidates = candidates(&mounts, &own);
        let mut reason = "no hierarchy of control groups with the memory controller is mounted".to_owned();
        for candidate in candidates {
            match candidate.make(bytes) {
                Ok(group) => return Ok(group),
                Err(error) => reason = format!("{}: {error}", candidate.parent.display()),
            }
        }
        let remedy =
            "run it as root, or as a user to whom a group is delegated: systemd-run --user --scope -p \
                      Delegate=yes hardmeter oo1 ..."
                .into();
        Err(Oo1Error::CannotHere { reason: format!("no control group can be made: {reason}"), remedy })
    }

    /// The file into which a process writes its number to enter.
    pub(crate) fn door(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Killed processes may take a moment to disappear.
        for _ in 0..100 {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                _ => return,
            }
        }
    }
}

/// A possible parent group, and the names of its limit files: memory, and memory with swap.
#[derive(Debug, PartialEq)]
struct Candidate {
    parent: PathBuf,
    limit: &'static str,
    swap: &'static str,
}

impl Candidate {
    fn make(&self, bytes: u64) -> std::io::Result<MemoryGroup> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let group = MemoryGroup {
            folder: self.parent.join(format!("hardmeter-oo1-{}-{number}", std::process::id())),
        };
        fs::create_dir(&group.folder)?;
        fs::write(group.folder.join(self.limit), bytes.to_string())?;
        // Without swap in the kernel the file is missing, and no limit is needed.
        let swap = if self.swap == "memory.swap.max" { 0 } else { bytes };
        let _ = fs::write(group.folder.join(self.swap), swap.to_string());
        Ok(group)
    }
}

fn candidates(mounts: &str, own: &str) -> Vec<Candidate> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, root, kind, options, ..] = fields[..] else { continue };
        let (limit, swap, mark) = match kind {
            "cgroup" if options.split(',').any(|option| option == "memory") => {
                ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", ":memory:")
            }
            "cgroup2" => ("memory.max", "memory.swap.max", "0::"),
            _ => continue,
        };
        let path = own.lines().find_map(|line| line.split_once(mark).map(|(_, path)| path)).unwrap_or("/");
        // A container may see the mount but not the path: then the group is created at the visible root.
        let inside = Path::new(root).join(path.trim_start_matches('/'));
        let mut parents = vec![inside.clone()];
        if kind == "cgroup2" {
            parents.extend(inside.parent().filter(|parent| parent.starts_with(root)).map(Path::to_owned));
        }
        parents.push(root.into());
        parents.dedup();
        found.extend(parents.into_iter().map(|parent| Candidate { parent, limit, swap }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,nosuid,memory 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let own = "5:cpu:/x\n4:memory:/a/b\n0::/c\n";
        let found = candidates(mounts, own);
        let parents: Vec<String> = found.iter().map(|one| one.parent.display().to_string()).collect();
        assert_eq!(
            parents,
            [
                "/sys/fs/cgroup/memory/a/b",
                "/sys/fs/cgroup/memory",
                "/sys/fs/cgroup/unified/c",
                "/sys/fs/cgroup/unified"
            ]
        );
        assert_eq!((found[0].limit, found[2].limit), ("memory.limit_in_bytes", "memory.max"));
        assert_eq!(candidates("proc /proc proc rw 0 0\n", own), []);
    }

    #[test]
    fn a_group_limits_who_enters() {
        let group = match MemoryGroup::new(64 << 20) {
            Ok(group) => group,
            Err(error) => {
                eprintln!("skipped: {error}");
                return;
            }
        };
        // 200 MB in 64 MB: the kernel kills it.
        let script = "echo $$ > \"$1\" && exec head -c 200000000 /dev/zero | tail -c 200000000 > /dev/null";
        let door = group.door();
        let status = std::process::Command::new("/bin/sh")
            .args(["-c", script, "sh"])
            .arg(&door)
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(!status.success());
        let folder = group.folder.clone();
        drop(group);
        assert!(!folder.exists());
    }
}
