//! A cpuset for a test: a cgroup (version 1 or 2) below the test's own.

use hardmeter_split::model::CpuSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// It is removed when the test ends; its processes have ended by then.
pub struct Cpuset {
    folder: PathBuf,
    parent: PathBuf,
    delegated: bool,
}

impl Cpuset {
    /// One with these processors, or the reason why not.
    pub fn new(cpus: &CpuSet) -> Result<Cpuset, String> {
        let (parent, second) = parent().ok_or("no cgroup with the cpuset controller is mounted")?;
        let folder = parent.join(format!("hardmeter-split-{}", std::process::id()));
        fs::create_dir(&folder)
            .map_err(|error| format!("no cgroup can be made in {}: {error}", parent.display()))?;
        let delegated = second && fs::write(parent.join("cgroup.subtree_control"), "+cpuset").is_ok();
        let cpuset = Cpuset { folder, parent, delegated };
        if let Ok(memory) = fs::read(cpuset.parent.join("cpuset.mems")) {
            let _ = fs::write(cpuset.folder.join("cpuset.mems"), memory);
        }
        cpuset.try_allow(cpus).map_err(|error| format!("the cpuset cannot be set: {error}"))?;
        Ok(cpuset)
    }

    /// From now on its processes have these processors.
    pub fn allow(&self, cpus: &CpuSet) {
        self.try_allow(cpus).expect("a cpuset that can be set");
    }

    fn try_allow(&self, cpus: &CpuSet) -> std::io::Result<()> {
        fs::write(self.folder.join("cpuset.cpus"), cpus.to_string())
    }

    /// All threads of a process.
    pub fn take(&self, pid: u32) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).expect("a process that can be moved");
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        if self.delegated {
            let _ = fs::write(self.parent.join("cgroup.subtree_control"), "-cpuset");
        }
        // The kernel may need a moment after the last process.
        for _ in 0..400 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The cgroup of this process in the hierarchy with the controller; and whether that is of version 2.
fn parent() -> Option<(PathBuf, bool)> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let (mount, second) = mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let (at, kind, options) = (*words.get(1)?, *words.get(2)?, *words.get(3)?);
        let controllers = || fs::read_to_string(Path::new(at).join("cgroup.controllers")).unwrap_or_default();
        match kind {
            "cgroup" if options.split(',').any(|option| option == "cpuset") => Some((at, false)),
            "cgroup2" if controllers().split_whitespace().any(|name| name == "cpuset") => Some((at, true)),
            _ => None,
        }
    })?;
    let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = cgroups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let ours =
            if second { controllers.is_empty() } else { controllers.split(',').any(|one| one == "cpuset") };
        ours.then_some(path)
    })?;
    Some((Path::new(mount).join(path.trim_start_matches('/')), second))
}
