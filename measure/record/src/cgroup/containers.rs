//! The cgroup of a container, by the names that runtimes give their folders.
//!
//! | runtime | folder |
//! |---|---|
//! | docker | `docker-ID.scope`, `docker/ID` |
//! | podman | `libpod-ID.scope`, `libpod-ID` |
//! | containerd, Kubernetes | `cri-containerd-ID.scope`, `kubepods/.../ID`, `NAMESPACE/ID` |
//! | CRI-O | `crio-ID.scope` |
//! | systemd-nspawn | `systemd-nspawn@NAME.service`, `machine-NAME.scope` |
//! | LXC, Incus | `lxc/NAME`, `lxc.payload.NAME`, `lxc.payload/NAME` |
//!
//! Docker's and podman's names are not part of a path: they are in files of theirs, which root may read.

use super::{below, hierarchies, name_of, Cgroup, CgroupError, Hierarchy, NEAREST};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Digits of an id.
const ID_LENGTH: usize = 64;
/// Digits of the beginning of an id that suffice, as with `docker`.
const LEAST_LENGTH: usize = 3;

/// The cgroup of a running container, by its name, its id, or the beginning of its id.
///
/// # Errors
/// [`CgroupError`] if none is found, or several are.
pub fn find_container(wanted: &str) -> Result<Cgroup, CgroupError> {
    find_in(&hierarchies(), wanted, &ids_by_name(Path::new("/var/lib")))
}

fn find_in(
    hierarchies: &[Hierarchy],
    wanted: &str,
    ids: &BTreeMap<String, BTreeSet<String>>,
) -> Result<Cgroup, CgroupError> {
    if hierarchies.is_empty() {
        return Err(CgroupError::NotMounted);
    }
    // The same path in each hierarchy is one container.
    let mut all: BTreeMap<String, PathBuf> = BTreeMap::new();
    for hierarchy in hierarchies {
        for folder in below(&hierarchy.mount) {
            let path = folder.strip_prefix(&hierarchy.mount).unwrap_or(&folder).to_path_buf();
            if let Some(container) = container_of(&path) {
                // The folder nearest to the root holds all of the container.
                all.entry(container).or_insert(path);
            }
        }
    }
    let mut wanted_ids = ids.get(wanted).cloned().unwrap_or_default();
    wanted_ids.insert(wanted.to_string());
    let exact: Vec<&String> = all.keys().filter(|name| wanted_ids.contains(*name)).collect();
    let begins = |name: &&String| {
        wanted.len() >= LEAST_LENGTH && is_id(name) && name.starts_with(&wanted.to_lowercase())
    };
    let found = if exact.is_empty() { all.keys().filter(begins).collect() } else { exact };
    match found[..] {
        [] => {
            let mut nearest: Vec<String> = all.keys().map(|name| short(name)).collect();
            nearest.truncate(NEAREST);
            Err(CgroupError::NoContainer { wanted: wanted.to_string(), nearest })
        }
        [container] => Cgroup::find_in(hierarchies, &all[container]),
        _ => Err(CgroupError::Ambiguous {
            wanted: wanted.to_string(),
            found: found.into_iter().map(|name| short(name)).collect(),
        }),
    }
}

/// The beginning of an id, as runtimes show it.
fn short(name: &str) -> String {
    match is_id(name) {
        true => name[..12].to_string(),
        false => name.to_string(),
    }
}

fn is_id(name: &str) -> bool {
    name.len() == ID_LENGTH && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The id or name of the container whose cgroup has this path.
fn container_of(path: &Path) -> Option<String> {
    let (name, above) = (name_of(path), path.parent().map(name_of).unwrap_or_default());
    for prefix in ["docker-", "libpod-", "cri-containerd-", "crio-"] {
        if let Some(rest) = name.strip_prefix(prefix) {
            let id = rest.strip_suffix(".scope").unwrap_or(rest);
            return is_id(id).then(|| id.to_string()); // libpod-conmon-ID is podman's own process
        }
    }
    if let Some(machine) = name.strip_prefix("systemd-nspawn@").and_then(|rest| rest.strip_suffix(".service"))
    {
        return Some(unescaped(machine));
    }
    if let Some(machine) = name.strip_prefix("machine-").and_then(|rest| rest.strip_suffix(".scope")) {
        return Some(unescaped(machine));
    }
    if let Some(container) = name.strip_prefix("lxc.payload.") {
        return Some(container.to_string());
    }
    let known = matches!(above.as_str(), "lxc" | "lxc.payload" | "docker" | "default" | "k8s.io");
    (is_id(&name) || (known && !name.contains('.'))).then_some(name)
}

/// A name in a unit of systemd: `a\x2db` is `a-b`.
fn unescaped(name: &str) -> String {
    let mut plain = Vec::new();
    let mut rest = name.as_bytes();
    while let [first, behind @ ..] = rest {
        let code = rest.strip_prefix(b"\\x").and_then(|code| code.get(..2));
        let byte = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        plain.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &rest[4..] } else { behind };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// The ids of docker's and podman's containers by name, from their files.
fn ids_by_name(library: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let read = |path: &Path| -> Option<serde_json::Value> {
        serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
    };
    let mut add = |name: &serde_json::Value, id: &serde_json::Value| {
        if let (Some(name), Some(id)) = (name.as_str(), id.as_str()) {
            let name = name.trim_start_matches('/').to_string();
            ids.entry(name).or_default().insert(id.to_string());
        }
    };
    for entry in std::fs::read_dir(library.join("docker/containers")).into_iter().flatten().flatten() {
        if let Some(container) = read(&entry.path().join("config.v2.json")) {
            add(&container["Name"], &container["ID"]);
        }
    }
    let containers = read(&library.join("containers/storage/overlay-containers/containers.json"));
    for container in containers.iter().filter_map(serde_json::Value::as_array).flatten() {
        for name in container["names"].as_array().into_iter().flatten() {
            add(name, &container["id"]);
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::super::tests::hierarchy;
    use super::*;

    fn id(digit: char) -> String {
        digit.to_string().repeat(ID_LENGTH)
    }

    #[test]
    fn each_runtime_s_folders_are_known() {
        let (a, name) = (id('a'), |text: &str| Some(text.to_string()));
        for (path, container) in [
            (format!("system.slice/docker-{a}.scope"), Some(a.clone())),
            (format!("docker/{a}"), Some(a.clone())),
            (format!("machine.slice/libpod-{a}.scope"), Some(a.clone())),
            (format!("machine.slice/libpod-conmon-{a}.scope"), None),
            (format!("kubepods.slice/kubepods-pod1.slice/cri-containerd-{a}.scope"), Some(a.clone())),
            (format!("kubepods/besteffort/pod1/{a}"), Some(a.clone())),
            (format!("kubepods.slice/crio-{a}.scope"), Some(a.clone())),
            (format!("kubepods.slice/crio-conmon-{a}.scope"), None),
            ("default/redis".to_string(), name("redis")),
            ("machine.slice/systemd-nspawn@web.service".to_string(), name("web")),
            ("machine.slice/machine-my\\x2dbox.scope".to_string(), name("my-box")),
            ("lxc.payload.db".to_string(), name("db")),
            ("lxc/db".to_string(), name("db")),
            ("system.slice/ssh.service".to_string(), None),
            ("docker/buildkit.slice".to_string(), None),
            (String::new(), None),
        ] {
            assert_eq!(container_of(Path::new(&path)), container, "{path}");
        }
    }

    #[test]
    fn a_container_is_found_by_id_beginning_and_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let (a, b) = (id('a'), format!("aaaa{}", "b".repeat(60)));
        let (first, second) = (format!("docker/{a}"), format!("docker/{b}"));
        let below_first = format!("{first}/init");
        let cgroups = [(first.as_str(), "5\n"), (below_first.as_str(), "6\n"), (second.as_str(), "7\n")];
        let hierarchies = [hierarchy(&folder.path().join("cgroup"), &[], &cgroups)];
        let library = folder.path().join("lib");
        for (id, name) in [(&a, "/web"), (&b, "/db")] {
            let folder = library.join("docker/containers").join(id);
            std::fs::create_dir_all(&folder).expect("a folder");
            let text = serde_json::json!({ "ID": id, "Name": name, "State": {} }).to_string();
            std::fs::write(folder.join("config.v2.json"), text).expect("written");
        }
        let podman = library.join("containers/storage/overlay-containers");
        std::fs::create_dir_all(&podman).expect("a folder");
        let text = serde_json::json!([{ "id": b, "names": ["other"] }]).to_string();
        std::fs::write(podman.join("containers.json"), text).expect("written");
        let ids = ids_by_name(&library);
        let pids = |wanted: &str| {
            let cgroup =
                find_in(&hierarchies, wanted, &ids).unwrap_or_else(|error| panic!("{wanted}: {error}"));
            cgroup.processes().expect("readable").iter().map(|pid| pid.0).collect::<Vec<i32>>()
        };
        assert_eq!(pids(&a), [5, 6]);
        assert_eq!(pids("aaaab"), [7]);
        assert_eq!(pids("web"), [5, 6]);
        assert_eq!(pids("db"), [7]);
        assert_eq!(pids("other"), [7]);
        assert!(
            matches!(find_in(&hierarchies, "aaa", &ids), Err(CgroupError::Ambiguous { found, .. }) if found.len() == 2)
        );
        for unknown in ["aa", "bbb", "we", ""] {
            assert!(
                matches!(find_in(&hierarchies, unknown, &ids), Err(CgroupError::NoContainer { .. })),
                "{unknown}"
            );
        }
    }
}
