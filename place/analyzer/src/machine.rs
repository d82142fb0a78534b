//! The processors that this process may use, and their caches, from hwloc.
//!
//! hwloc is called through a C shim (`machine.c`), not through a crate: only one flat table is needed, and
//! the one maintained crate (hwlocality) is an alpha version with a dozen dependencies.

use crate::model::{Cpu, CpuId, CpuSet, Machine};
use std::ffi::CString;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawCpu {
    id: u32,
    core: u32,
    l2: u32,
    l3: u32,
    node: u32,
}

#[repr(C)]
#[derive(Default)]
struct RawCaches {
    l2_bytes: u64,
    l3_bytes: u64,
}

extern "C" {
    fn split_machine_read(
        synthetic: *const libc::c_char,
        cpus: *mut RawCpu,
        room: libc::c_uint,
        caches: *mut RawCaches,
    ) -> libc::c_int;
}

const ROOM: usize = 1024;

/// The reason why the machine could not be read.
#[derive(Debug, thiserror::Error)]
#[error("hwloc cannot list this machine's processors: is /sys mounted?")]
pub struct MachineError;

/// This machine, restricted to what this process may use.
///
/// # Errors
///
/// [`MachineError`] if hwloc cannot describe the machine.
pub fn read() -> Result<Machine, MachineError> {
    let mut machine = unbound(|| by_hwloc(None))?;
    let allowed = allowed();
    machine.cpus.retain(|cpu| allowed.0.contains(&cpu.id));
    if machine.cpus.is_empty() {
        return Err(MachineError);
    }
    Ok(machine)
}

/// hwloc moves this thread over all processors, and finally binds it to those that it could use before. The kernel
/// keeps that binding: when the cpuset grows, the thread would not get the new processors. So a thread that was not
/// bound before is bound to all processors again, which the kernel reduces to the existing ones.
fn unbound<T>(look: impl FnOnce() -> T) -> T {
    // SAFETY: a set of bits; all are set.
    let all = unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        (0..ROOM).for_each(|cpu| libc::CPU_SET(cpu, &mut all));
        all
    };
    let before = affinity();
    bind(&all);
    // SAFETY: reads both sets.
    let nobody_bound_it = unsafe { libc::CPU_EQUAL(&affinity(), &before) };
    if !nobody_bound_it {
        bind(&before);
    }
    let seen = look();
    if nobody_bound_it {
        bind(&all);
    }
    seen
}

fn bind(set: &libc::cpu_set_t) {
    // SAFETY: reads the set. If it fails, the thread's affinity is unchanged.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
}

/// A machine in hwloc's synthetic notation, "package:2 l3:1 l2:4 core:1 pu:2".
///
/// # Errors
///
/// [`MachineError`] if the notation is not valid.
pub fn synthetic(notation: &str) -> Result<Machine, MachineError> {
    by_hwloc(Some(&CString::new(notation).map_err(|_| MachineError)?))
}

fn by_hwloc(notation: Option<&CString>) -> Result<Machine, MachineError> {
    let mut cpus = vec![RawCpu::default(); ROOM];
    let mut caches = RawCaches::default();
    let notation_or_null = notation.map_or(std::ptr::null(), |notation| notation.as_ptr());
    // SAFETY: `cpus` has room for ROOM entries; the notation ends with a zero.
    let count =
        unsafe { split_machine_read(notation_or_null, cpus.as_mut_ptr(), ROOM as libc::c_uint, &mut caches) };
    let count = usize::try_from(count).map_err(|_| MachineError)?;
    cpus.truncate(count);
    let mut cpus: Vec<Cpu> = cpus
        .iter()
        .map(|raw| Cpu { id: CpuId(raw.id), core: raw.core, l2: raw.l2, l3: raw.l3, node: raw.node })
        .collect();
    cpus.sort_by_key(|cpu| cpu.id);
    let source = notation.map_or("hwloc".into(), |notation| format!("hwloc: {}", notation.to_string_lossy()));
    Ok(Machine { source, cpus, l2_bytes: caches.l2_bytes, l3_bytes: caches.l3_bytes })
}

/// The processors that this process may run on now: its affinity, within its cpuset, without those that are
/// offline. Cheap: read before every decision, because cpusets and processors change.
pub fn allowed() -> CpuSet {
    let set = affinity();
    // SAFETY: within the set's size.
    (0..ROOM).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).map(|cpu| CpuId(cpu as u32)).collect()
}

fn affinity() -> libc::cpu_set_t {
    // SAFETY: a set of bits; the kernel fills in as many as it has.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    }
}

/// "2 CPUs (0-1), 2 L2 caches of 2 MB, 1 L3 cache of 480 MB".
pub fn describe(machine: &Machine) -> String {
    let caches = |of: fn(&Cpu) -> u32, bytes: u64, name: &str| {
        let count = machine.cpus.iter().map(of).collect::<std::collections::BTreeSet<_>>().len();
        let plural = if count == 1 { "" } else { "s" };
        match bytes {
            0 => format!("{count} {name} cache{plural} of unknown size"),
            bytes if bytes < 1 << 20 => format!("{count} {name} cache{plural} of {} KB", bytes >> 10),
            bytes => format!("{count} {name} cache{plural} of {} MB", bytes >> 20),
        }
    };
    format!(
        "{} CPU{} ({}), {}, {}",
        machine.cpus.len(),
        if machine.cpus.len() == 1 { "" } else { "s" },
        machine.cpus.iter().map(|cpu| cpu.id).collect::<CpuSet>(),
        caches(|cpu| cpu.l2, machine.l2_bytes, "L2"),
        caches(|cpu| cpu.l3, machine.l3_bytes, "L3"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_machine_with_threads_and_two_packages() {
        let machine =
            synthetic("package:2 l3:1(size=8388608) l2:2(size=262144) core:1 pu:2").expect("a machine");
        let cpus: Vec<_> = machine.cpus.iter().map(|cpu| (cpu.id.0, cpu.core, cpu.l2, cpu.l3)).collect();
        assert_eq!(
            cpus,
            [
                (0, 0, 0, 0),
                (1, 0, 0, 0),
                (2, 1, 1, 0),
                (3, 1, 1, 0),
                (4, 2, 2, 1),
                (5, 2, 2, 1),
                (6, 3, 3, 1),
                (7, 3, 3, 1)
            ]
        );
        assert_eq!((machine.l2_bytes, machine.l3_bytes), (256 << 10, 8 << 20));
        assert_eq!(describe(&machine), "8 CPUs (0-7), 4 L2 caches of 256 KB, 2 L3 caches of 8 MB");
        assert!(synthetic("nonsense").is_err());
    }

    /// Reads the kernel's own files without hwloc: the processors that share the cache of a level.
    fn shared_by_sysfs(cpu: CpuId, level: &str) -> Option<String> {
        (0..10).find_map(|index| {
            let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
            let read = |file: &str| std::fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
            (read("level").trim() == level).then(|| read("shared_cpu_list").trim().to_owned())
        })
    }

    #[test]
    fn this_machine_is_as_the_kernel_says() {
        let machine = read().expect("a machine");
        let ours: BTreeSet<_> = machine.cpus.iter().map(|cpu| cpu.id).collect();
        assert_eq!(ours, allowed().0);
        let mut by_kernel: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for cpu in &machine.cpus {
            let Some(shared) = shared_by_sysfs(cpu.id, "2") else {
                eprintln!("skipped: the kernel says nothing of L2 caches");
                return;
            };
            by_kernel.entry(shared).or_default().insert(cpu.l2);
        }
        let distinct: BTreeSet<_> = machine.cpus.iter().map(|cpu| cpu.l2).collect();
        assert!(by_kernel.values().all(|l2| l2.len() == 1), "{by_kernel:?}");
        assert_eq!(by_kernel.len(), distinct.len());
    }
}
