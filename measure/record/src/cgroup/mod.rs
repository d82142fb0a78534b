//! Control groups as targets: by path, or by the container that runs in one. Everything is read from the kernel's file
//! systems, and nothing is asked of a daemon.
//!
//! ```text
//!   --cgroup PATH ────────────────────────> folder in a hierarchy ──> cgroup.procs of it and of all below
//!   --container ID ── names of folders ───────^
//!   --container NAME ── container's files ──> ID
//! ```
//!
//! Version 2 has one hierarchy; version 1 has one for each controller, in which a cgroup has the same path. The first that
//! has it is taken: version 2, then `perf_event`, whose folders the kernel's events may be bound to, then others.

mod containers;

pub use containers::find_container;

use hardmeter_samples::model::Pid;
use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Limit of the folders that are read in search of a name.
const MOST_FOLDERS: usize = 20_000;
/// Names that an error lists.
const NEAREST: usize = 3;

/// The reason why a cgroup cannot be profiled.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// No hierarchy is mounted.
    #[error("no hierarchy of cgroups is mounted here")]
    NotMounted,
    /// No cgroup has this path.
    #[error("there is no cgroup {wanted}{}", in_words(.nearest))]
    NoCgroup {
        /// The path that was given.
        wanted: String,
        /// Those with the most similar names.
        nearest: Vec<String>,
    },
    /// No container has this name or id.
    #[error("no cgroup of a container named {wanted} is found{}", in_words(.nearest))]
    NoContainer {
        /// The name or id that was given.
        wanted: String,
        /// Those that run.
        nearest: Vec<String>,
    },
    /// Several containers have an id that begins with it.
    #[error("{wanted} may be several containers: {}", .found.join(", "))]
    Ambiguous {
        /// The beginning that was given.
        wanted: String,
        /// Their ids.
        found: Vec<String>,
    },
    /// Its processes may not be listed.
    #[error("the processes of {folder} cannot be listed: {source}")]
    Unreadable {
        /// Its folder.
        folder: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// It holds no process.
    #[error("the cgroup {0} holds no process")]
    Empty(PathBuf),
}

fn in_words(nearest: &[String]) -> String {
    match nearest.is_empty() {
        true => String::new(),
        false => format!("; similar: {}", nearest.join(", ")),
    }
}

impl CgroupError {
    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            CgroupError::NotMounted => "run it on the host, or mount one at /sys/fs/cgroup",
            CgroupError::NoCgroup { .. } => {
                "give a path below /sys/fs/cgroup; /proc/PID/cgroup names that of a process"
            }
            CgroupError::NoContainer { .. } => {
                "give the id that the runtime shows (`docker ps`), run it on the host, or name the cgroup with --cgroup"
            }
            CgroupError::Ambiguous { .. } => "give more of the id",
            CgroupError::Unreadable { .. } => "run it as root",
            CgroupError::Empty(_) => "start what shall run in it first, or name one above it",
        }
    }
}

/// One mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    mount: PathBuf,
    /// The cgroup that is mounted there: `/`, except in containers.
    root: PathBuf,
    /// The fields of `/proc/PID/cgroup`: none for version 2.
    controllers: Vec<String>,
}

impl Hierarchy {
    /// The order in which they are searched.
    fn rank(&self) -> u32 {
        let has = |name: &str| self.controllers.iter().any(|controller| controller == name);
        match self.controllers.is_empty() {
            true => 0,
            false if has("perf_event") => 1,
            false if has("cpu") => 2,
            false => 3,
        }
    }
}

/// A cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    folder: PathBuf,
    /// Its path in `/proc/PID/cgroup`.
    path: PathBuf,
    controllers: Vec<String>,
}

impl Cgroup {
    /// The cgroup of this path, absolute or within a hierarchy.
    ///
    /// # Errors
    /// [`CgroupError`] if there is none, with the most similar names.
    pub fn find(wanted: &Path) -> Result<Cgroup, CgroupError> {
        Cgroup::find_in(&hierarchies(), wanted)
    }

    fn find_in(hierarchies: &[Hierarchy], wanted: &Path) -> Result<Cgroup, CgroupError> {
        if hierarchies.is_empty() {
            return Err(CgroupError::NotMounted);
        }
        // No way out of the hierarchy.
        let inside = |path: &Path| -> PathBuf {
            path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
        };
        let given =
            hierarchies.iter().filter_map(|one| Some((one, inside(wanted.strip_prefix(&one.mount).ok()?))));
        let inside = inside(wanted);
        let candidates = given.chain(hierarchies.iter().map(|one| (one, inside.clone())));
        let found: Vec<Cgroup> =
            candidates.filter_map(|(hierarchy, path)| Cgroup::in_hierarchy(hierarchy, &path)).collect();
        // In a hybrid of both versions, a cgroup may exist in one and have its processes in the other.
        let populated = found.iter().find(|cgroup| cgroup.processes().is_ok_and(|pids| !pids.is_empty()));
        populated.or(found.first()).cloned().ok_or_else(|| CgroupError::NoCgroup {
            wanted: wanted.display().to_string(),
            nearest: nearest(&inside, hierarchies),
        })
    }

    fn in_hierarchy(hierarchy: &Hierarchy, path: &Path) -> Option<Cgroup> {
        let folder = hierarchy.mount.join(path);
        folder.join("cgroup.procs").exists().then(|| Cgroup {
            folder,
            path: hierarchy.root.join(path),
            controllers: hierarchy.controllers.clone(),
        })
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it still exists.
    pub fn exists(&self) -> bool {
        self.folder.exists()
    }

    /// Whether its path still leads to this opened folder: a service that is restarted gets another cgroup of the same
    /// path.
    pub fn is_still(&self, opened: &File) -> bool {
        let identity = |found: Metadata| (found.dev(), found.ino());
        let now = std::fs::metadata(&self.folder).map(identity).ok();
        now.is_some() && now == opened.metadata().map(identity).ok()
    }

    /// Its processes, and those of the cgroups below it.
    ///
    /// # Errors
    /// [`CgroupError::Unreadable`] if its own may not be listed. Those below may end meanwhile.
    pub fn processes(&self) -> Result<BTreeSet<Pid>, CgroupError> {
        let unreadable = |source| CgroupError::Unreadable { folder: self.folder.clone(), source };
        let mut pids = listed(&self.folder).map_err(unreadable)?;
        for folder in below(&self.folder) {
            pids.extend(listed(&folder).unwrap_or_default());
        }
        Ok(pids)
    }

    /// Whether a process is in it or below it.
    pub fn holds(&self, pid: Pid) -> bool {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        text.lines().any(|line| self.is_named_by(line))
    }

    /// Whether a line of `/proc/PID/cgroup` names it or one below it: `4:memory:/path`, `0::/path`.
    fn is_named_by(&self, line: &str) -> bool {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return false };
        let controllers = controllers.strip_prefix("name=").unwrap_or(controllers);
        self.controllers.join(",") == controllers && Path::new(path).starts_with(&self.path)
    }
}

fn listed(folder: &Path) -> std::io::Result<BTreeSet<Pid>> {
    let text = std::fs::read_to_string(folder.join("cgroup.procs"))?;
    // Processes of other namespaces are listed as 0.
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 0).map(Pid).collect())
}

/// All folders below one, nearest first.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut next = Some(folder.to_path_buf());
    let mut read = 0;
    while let Some(folder) = next {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        found.extend(folders.map(|entry| entry.path()));
        next = found.get(read).filter(|_| found.len() < MOST_FOLDERS).cloned();
        read += 1;
    }
    found
}

/// The paths of cgroups whose names are most similar.
fn nearest(wanted: &Path, hierarchies: &[Hierarchy]) -> Vec<String> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let sought = name(wanted);
    let mut found: Vec<(usize, String)> = Vec::new();
    for hierarchy in hierarchies {
        for folder in below(&hierarchy.mount) {
            let path = folder.strip_prefix(&hierarchy.mount).unwrap_or(&folder).display().to_string();
            let its = name(&folder);
            let contained = !sought.is_empty() && (its.contains(&sought) || sought.contains(&its));
            let far = if contained { 0 } else { distance(&sought, &its) };
            if far <= sought.len() / 3 && found.iter().all(|(_, known)| *known != path) {
                found.push((far, path));
            }
        }
    }
    found.sort();
    found.into_iter().take(NEAREST).map(|(_, path)| path).collect()
}

/// Letters to change, add or leave out to make one name the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (at, against) in other.iter().enumerate() {
            let change = diagonal + usize::from(letter != *against);
            diagonal = row[at + 1];
            row[at + 1] = change.min(row[at] + 1).min(row[at + 1] + 1);
        }
    }
    row[other.len()]
}

/// The mounted hierarchies, best first.
fn hierarchies() -> Vec<Hierarchy> {
    hierarchies_in(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
}

/// `ID PARENT MAJOR:MINOR ROOT MOUNT OPTIONS [...] - TYPE SOURCE OPTIONS`
fn hierarchies_in(mounts: &[u8]) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = String::from_utf8_lossy(mounts)
        .lines()
        .filter_map(|line| {
            let (mount, file_system) = line.split_once(" - ")?;
            let mut mount = mount.split(' ').skip(3);
            let (root, mount) = (PathBuf::from(mount.next()?), PathBuf::from(mount.next()?));
            let mut file_system = file_system.split(' ');
            let controllers = match file_system.next()? {
                "cgroup2" => Vec::new(),
                "cgroup" => {
                    let general = ["rw", "ro", "noprefix", "clone_children", "xattr"];
                    let options = file_system.nth(1)?.split(',');
                    options
                        .filter(|option| !general.contains(option) && !option.starts_with("release_agent"))
                        .map(|option| option.strip_prefix("name=").unwrap_or(option).to_string())
                        .collect()
                }
                _ => return None,
            };
            Some(Hierarchy { mount, root, controllers })
        })
        .collect();
    found.sort_by_key(Hierarchy::rank);
    found
}

/// A folder's name as text.
fn name_of(folder: &Path) -> String {
    String::from_utf8_lossy(folder.file_name().unwrap_or_default().as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hierarchy of plain folders: a cgroup is one with a file `cgroup.procs`.
    pub(super) fn hierarchy(root: &Path, controllers: &[&str], cgroups: &[(&str, &str)]) -> Hierarchy {
        for (path, processes) in cgroups {
            std::fs::create_dir_all(root.join(path)).expect("a folder");
            std::fs::write(root.join(path).join("cgroup.procs"), processes).expect("written");
        }
        let controllers = controllers.iter().map(|name| name.to_string()).collect();
        Hierarchy { mount: root.to_path_buf(), root: "/".into(), controllers }
    }

    #[test]
    fn hierarchies_come_from_the_mounts() {
        let mounts = b"22 1 0:19 / /proc rw - proc proc rw\n\
            24 23 0:21 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
            25 23 0:22 /docker/ab /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
            26 23 0:23 / /sys/fs/cgroup/perf_event rw - cgroup none rw,perf_event\n\
            27 23 0:24 / /sys/fs/cgroup/unified rw,nosuid shared:3 - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = hierarchies_in(mounts);
        let shown: Vec<(&str, String)> =
            found.iter().map(|one| (one.mount.to_str().expect("text"), one.controllers.join(","))).collect();
        let expected = [
            ("/sys/fs/cgroup/unified", String::new()),
            ("/sys/fs/cgroup/perf_event", "perf_event".to_string()),
            ("/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct".to_string()),
            ("/sys/fs/cgroup/systemd", "systemd".to_string()),
        ];
        assert_eq!(shown, expected);
        assert_eq!(found[3].root, Path::new("/docker/ab"));
        assert!(hierarchies_in(b"rubbish\n1 2 3 - cgroup\n").is_empty());
    }

    #[test]
    fn a_cgroup_is_found_by_its_path_with_all_processes_below_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let cgroups = [("", ""), ("a.slice", "17\n0\n"), ("a.slice/b.service", "18\n19\n"), ("empty", "")];
        let one = hierarchy(folder.path(), &[], &cgroups);
        let all = std::slice::from_ref(&one);
        let pids = |path: &str| {
            let cgroup = Cgroup::find_in(all, Path::new(path)).expect("it exists");
            let pids: Vec<i32> = cgroup.processes().expect("readable").iter().map(|pid| pid.0).collect();
            pids
        };
        assert_eq!(pids("a.slice"), [17, 18, 19]);
        assert_eq!(pids("/a.slice/b.service/"), [18, 19]);
        assert_eq!(pids(folder.path().join("a.slice").to_str().expect("text")), [17, 18, 19]);
        assert_eq!(pids("../../a.slice/b.service"), [18, 19], "no way out");
        assert!(pids("empty").is_empty());
        match Cgroup::find_in(all, Path::new("a.slice/b.servise")) {
            Err(CgroupError::NoCgroup { nearest, .. }) => assert_eq!(nearest, ["a.slice/b.service"]),
            other => panic!("{other:?}"),
        }
        assert!(matches!(Cgroup::find_in(&[], Path::new("a")), Err(CgroupError::NotMounted)));
    }

    #[test]
    fn no_given_path_leaves_the_hierarchy() {
        let folder = tempfile::tempdir().expect("a folder");
        let one = hierarchy(&folder.path().join("mount"), &[], &[("a", "17\n")]);
        hierarchy(&folder.path().join("outside"), &[], &[("", "18\n")]);
        let find = |path: &str| Cgroup::find_in(std::slice::from_ref(&one), &folder.path().join(path));
        assert!(folder.path().join("mount/../outside/cgroup.procs").exists());
        assert!(matches!(find("mount/../outside"), Err(CgroupError::NoCgroup { .. })));
        assert_eq!(find("mount/../a").expect("it exists").folder(), one.mount.join("a"));
    }

    #[test]
    fn a_cgroup_that_was_made_again_is_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let one = hierarchy(folder.path(), &[], &[("a", "17\n")]);
        let cgroup = Cgroup::find_in(std::slice::from_ref(&one), Path::new("a")).expect("it exists");
        let opened = File::open(cgroup.folder()).expect("opens");
        assert!(cgroup.is_still(&opened));
        std::fs::remove_dir_all(cgroup.folder()).expect("removed");
        assert!(!cgroup.is_still(&opened));
        hierarchy(folder.path(), &[], &[("a", "18\n")]);
        assert!(cgroup.exists() && !cgroup.is_still(&opened));
    }

    #[test]
    fn of_a_hybrid_the_hierarchy_with_the_processes_is_taken() {
        let (second, first) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let both = [
            hierarchy(second.path(), &[], &[("a", "")]),
            hierarchy(first.path(), &["cpu", "cpuacct"], &[("a", "5\n")]),
        ];
        let found = Cgroup::find_in(&both, Path::new("a")).expect("it exists");
        assert_eq!(found.folder(), first.path().join("a"));
        assert!(found.is_named_by("4:cpu,cpuacct:/a"));
        assert!(found.is_named_by("4:cpu,cpuacct:/a/below"));
        for other in ["4:cpu,cpuacct:/ab", "0::/a", "4:memory:/a", "4:cpu,cpuacct:/", "", "4:cpu,cpuacct"] {
            assert!(!found.is_named_by(other), "{other}");
        }
    }

    #[test]
    fn this_process_is_in_its_own_cgroup() {
        let own = Pid(std::process::id() as i32);
        let hierarchies = hierarchies();
        match Cgroup::find_in(&hierarchies, Path::new("/")) {
            Ok(root) if root.path == Path::new("/") => assert!(root.holds(own)),
            Ok(_) | Err(CgroupError::NotMounted | CgroupError::NoCgroup { .. }) => {
                println!("skipped: no hierarchy is mounted whole")
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn names_differ_by_letters() {
        assert_eq!(distance("postgres", "postgres"), 0);
        assert_eq!(distance("postgres", "postgers"), 2);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "ab"), 1);
    }
}
