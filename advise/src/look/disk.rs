//! The device of the server's log, and who writes to it: the kernel's counts at both ends of a look.
//!
//! A sync waits for the writes of all programs on its device, and wakes up threads of the kernel and at last the
//! session, each of which waits for a CPU. Whether syncs are slow, or others are at work, is decided by three
//! figures: the part of the written bytes that the server's processes wrote, the time of a write in the device,
//! and the time in the run queue for each turn on a CPU. A delay that neither the device nor the run queue has is
//! the server's own, whatever others do.

use super::machine::Process;
use super::shares::ratio;
use serde::Serialize;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

/// Writes of a file's sync that follow each other: the data, the file system's journal, the journal's commit. After
/// each a thread waits for a CPU.
const WRITES_A_SYNC: f64 = 3.0;
/// From this part of the bytes on, others load the device.
const MOST_BYTES: f64 = 0.5;
const SECTOR: f64 = 512.0;

/// The device of the log during a look.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Disk {
    /// Its name in the kernel: "nvme0n1p2".
    pub device: String,
    /// The writes that it completed.
    pub writes: f64,
    /// The mean time of a write, waiting in the device's queue included, in milliseconds.
    pub write_ms: f64,
    /// Bytes that were written to it.
    pub bytes: f64,
    /// Those of them that the server's processes wrote, to this device or another.
    pub server_bytes: f64,
}

impl Disk {
    /// The part of the written bytes that other programs wrote.
    pub fn others(&self) -> f64 {
        (1.0 - ratio(self.server_bytes, self.bytes)).clamp(0.0, 1.0)
    }
}

/// The work of others that explains the time of a sync.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Others<'a> {
    sync_ms: f64,
    /// The device, if others write most of the bytes there.
    disk: Option<&'a Disk>,
    /// Time in the run queue for each turn on a CPU.
    turn_wait_ms: f64,
}

impl Others<'_> {
    /// The explanation of this time; `None` if it is longer than what others cause.
    pub(crate) fn of(sync_ms: f64, disk: Option<&Disk>, turn_wait_ms: f64) -> Option<Others<'_>> {
        let disk = disk.filter(|disk| disk.bytes > 0.0 && disk.others() >= MOST_BYTES);
        let explained = (disk.map_or(0.0, |disk| disk.write_ms) + turn_wait_ms) * WRITES_A_SYNC;
        (explained >= sync_ms).then_some(Others { sync_ms, disk, turn_wait_ms })
    }

    /// What is not known while others work, and what would show it.
    pub(crate) fn blind_spot(self) -> String {
        let disk = self.disk.map_or(String::new(), |disk| {
            format!(
                "other programs write {:.0} % of the bytes on {}, a write takes {:.1} ms there, and ",
                disk.others() * 100.0,
                disk.device,
                disk.write_ms
            )
        });
        format!(
            "whether syncs ({:.1} ms) are slow without others: {disk}a session that wakes up waits {:.1} ms for a CPU; look \
             again while the machine is calm",
            self.sync_ms, self.turn_wait_ms
        )
    }
}

/// The kernel's counts so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DiskCounts {
    device: String,
    writes: f64,
    ms: f64,
    bytes: f64,
    server_bytes: f64,
}

impl DiskCounts {
    /// The device of this folder, and what the children of a backend's parent wrote; `None` if the kernel counts
    /// no device of this folder (network and overlay file systems).
    pub(crate) fn of_children(folder: &str, backend: i32) -> Option<DiskCounts> {
        let postmaster = parent(backend)?;
        DiskCounts::read(folder, &|pid| parent(pid) == Some(postmaster))
    }

    /// The same of a server that is one process.
    pub(crate) fn of_process(folder: &str, process: i32) -> Option<DiskCounts> {
        DiskCounts::read(folder, &|pid| pid == process)
    }

    fn read(folder: &str, is_of_server: &dyn Fn(i32) -> bool) -> Option<DiskCounts> {
        let device = fs::metadata(folder).ok()?.dev();
        let device = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
        let name = fs::read_link(&device).ok()?.file_name()?.to_str()?.to_owned();
        let counts = DiskCounts::parse(&fs::read_to_string(device + "/stat").ok()?)?;
        Some(DiskCounts { device: name, server_bytes: written_by(is_of_server)?, ..counts })
    }

    fn parse(stat: &str) -> Option<DiskCounts> {
        let fields: Vec<f64> = stat.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let (writes, sectors, ms) = (*fields.get(4)?, *fields.get(6)?, *fields.get(7)?);
        Some(DiskCounts { writes, ms, bytes: sectors * SECTOR, ..DiskCounts::default() })
    }

    /// The device between an earlier moment and this one. What sessions wrote that ended meanwhile is not in
    /// the counts of processes: the server wrote its log, at least.
    pub(crate) fn since(self, earlier: &DiskCounts, log_bytes: f64) -> Disk {
        let writes = self.writes - earlier.writes;
        Disk {
            device: self.device,
            writes,
            write_ms: ratio(self.ms - earlier.ms, writes),
            bytes: self.bytes - earlier.bytes,
            server_bytes: (self.server_bytes - earlier.server_bytes).max(log_bytes),
        }
    }
}

/// Bytes that some processes wrote so far; `None` if one of them may not be read: its writes would count as those
/// of others.
fn written_by(is_of_server: &dyn Fn(i32) -> bool) -> Option<f64> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut sum = 0.0;
    for pid in pids.filter(|pid| is_of_server(*pid)) {
        match fs::read_to_string(format!("/proc/{pid}/io")) {
            Ok(io) => {
                let written = io.lines().find_map(|line| line.strip_prefix("write_bytes:"))?;
                sum += written.trim().parse::<f64>().ok()?;
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return None,
            Err(_) => {} // has ended
        }
    }
    Some(sum)
}

/// The parent of a process.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    Process::read(pid).map(|process| process.parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counts_are_subtracted() {
        // Reads, merged, sectors, ms; writes, merged, sectors, ms; in flight, busy ms, weighted ms.
        let before = DiskCounts::parse("9 0 72 4 100 7 2000 300 0 250 400 0 0 0 0 50 3").unwrap();
        let mut after = DiskCounts::parse("9 0 72 4 300 7 6000 900 2 450 900 0 0 0 0 90 8").unwrap();
        after.server_bytes = 512_000.0;
        // 4,000 sectors of 512 bytes in 200 writes of 600 ms.
        let disk = after.clone().since(&before, 1000.0);
        assert_eq!((disk.writes, disk.write_ms, disk.bytes), (200.0, 3.0, 2_048_000.0));
        assert_eq!(disk.others(), 0.75);
        // Sessions that ended wrote most of the log.
        assert_eq!(after.since(&before, 1_536_000.0).others(), 0.25);
        assert_eq!(DiskCounts::parse("9 0 72"), None);
    }

    #[test]
    fn others_explain_a_sync_if_they_write_most_and_writes_are_slow() {
        let disk = |write_ms, server_bytes| Disk {
            device: "vda".into(),
            bytes: 100.0,
            write_ms,
            server_bytes,
            ..Disk::default()
        };
        let explained = |disk: Disk, wait_ms| Others::of(6.0, Some(&disk), wait_ms).map(Others::blind_spot);
        // Three writes of 2 ms each.
        let said = explained(disk(2.0, 20.0), 0.0).unwrap();
        assert!(said.contains("80 % of the bytes on vda, a write takes 2.0 ms there"), "{said}");
        assert_eq!(explained(disk(1.0, 20.0), 0.0), None, "the device is fast");
        assert_eq!(explained(disk(2.0, 80.0), 0.0), None, "the server writes most");
        // 1 ms in the device and 1 ms for a CPU, three times.
        assert!(explained(disk(1.0, 20.0), 1.0).is_some());
        let said = Others::of(6.0, None, 2.0).unwrap().blind_spot();
        assert!(said.contains("without others: a session that wakes up waits 2.0 ms for a CPU"), "{said}");
        assert_eq!(Others::of(6.0, None, 1.0), None);
    }

    #[test]
    fn processes_have_parents_and_no_folder_has_no_device() {
        // SAFETY: no preconditions.
        assert_eq!(parent(std::process::id() as i32), Some(unsafe { libc::getppid() }));
        assert_eq!(DiskCounts::of_process("/nowhere", 1), None);
    }
}
