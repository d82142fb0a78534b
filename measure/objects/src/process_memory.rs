//! The memory of another process, read and never written: bounded, typed reads by `process_vm_readv`, and the
//! list of mappings.
//!
//! Out of scope: copies, and the meaning of the bytes. A process may end, unmap or change anything between
//! two reads; each read reports its own error, and a value is only valid for the moment of the read.

use hardmeter_samples::model::{ByteCount, FileOffset, Pid, VirtualAddress};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why memory could not be read.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The process has ended.
    #[error("process {pid} has ended")]
    Gone {
        /// The process.
        pid: Pid,
    },
    /// The kernel refused the read.
    #[error("no right to read the memory of process {pid}; run as root with CAP_SYS_PTRACE (a container may lack it), or as the server's account, and see kernel.yama.ptrace_scope")]
    Denied {
        /// The process.
        pid: Pid,
    },
    /// No memory is mapped there.
    #[error("process {pid} has no memory at {address}")]
    Unmapped {
        /// The process.
        pid: Pid,
        /// The requested address.
        address: VirtualAddress,
    },
    /// Another error.
    #[error("process {pid} cannot be read: {source}; try again, or record without objects")]
    Io {
        /// The process.
        pid: Pid,
        /// The system's error.
        source: io::Error,
    },
}

/// A range of a process's addresses from `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: VirtualAddress,
    /// First address after it.
    pub end: VirtualAddress,
    /// True if it can be read.
    pub readable: bool,
    /// True if it can be written.
    pub writable: bool,
    /// True if it can be executed.
    pub executable: bool,
    /// Shared with other processes (`MAP_SHARED`).
    pub shared: bool,
    /// Its offset in the file.
    pub offset: FileOffset,
    /// The file's number; 0 for memory without a file.
    pub inode: u64,
    /// The file, or one of the kernel's names such as `[heap]`; empty for anonymous memory.
    pub name: String,
}

impl Mapping {
    /// True if it contains an address.
    pub fn contains(&self, address: VirtualAddress) -> bool {
        self.start <= address && address < self.end
    }

    /// Its size.
    pub fn length(&self) -> ByteCount {
        ByteCount(self.end.0 - self.start.0)
    }

    /// The mapped file, if any, without the kernel's mark of a removed file.
    pub fn file(&self) -> Option<&Path> {
        let name = self.name.strip_suffix(" (deleted)").unwrap_or(&self.name);
        (self.inode != 0 && name.starts_with('/')).then(|| Path::new(name))
    }

    /// One line of `/proc/PID/maps`; `None` for a line of another form.
    fn parse(line: &str) -> Option<Mapping> {
        let mut rest = line;
        let mut word = || {
            rest = rest.trim_start();
            let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = after;
            first
        };
        let (range, flags, offset, _device, inode) = (word(), word(), word(), word(), word());
        let (start, end) = range.split_once('-')?;
        let flags = flags.as_bytes();
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Mapping {
            start: VirtualAddress(number(start)?),
            end: VirtualAddress(number(end)?).max(VirtualAddress(number(start)?)),
            readable: flags.first() == Some(&b'r'),
            writable: flags.get(1) == Some(&b'w'),
            executable: flags.get(2) == Some(&b'x'),
            shared: flags.get(3) == Some(&b's'),
            offset: FileOffset(number(offset)?),
            inode: inode.parse().ok()?,
            name: rest.trim_start().to_string(),
        })
    }
}

/// All mappings of a process, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings(Vec<Mapping>);

impl Mappings {
    /// Reads the text of a `maps` file. Lines of another form are skipped.
    pub fn parse(text: &str) -> Mappings {
        let mut all: Vec<Mapping> = text.lines().filter_map(Mapping::parse).collect();
        all.sort_by_key(|mapping| mapping.start);
        Mappings(all)
    }

    /// The mapping that contains an address.
    pub fn at(&self, address: VirtualAddress) -> Option<&Mapping> {
        let after = self.0.partition_point(|mapping| mapping.start <= address);
        self.0[..after].last().filter(|mapping| mapping.contains(address))
    }

    /// All mappings, in the order of their addresses.
    pub fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.0.iter()
    }
}

/// Limit of retries of a call that a signal interrupted.
const RETRIES: usize = 8;

/// The memory of one process. It needs no descriptor, so there can be one for each of thousands of backends.
#[derive(Clone, Debug)]
pub struct ProcessMemory {
    pid: Pid,
    /// The start time of the process, in ticks: a number is reused, but not with the same start.
    started: u64,
}

impl ProcessMemory {
    /// Opens the memory of a running process.
    ///
    /// # Errors
    ///
    /// [`MemoryError`] if the process is gone, or its memory may not be read.
    pub fn open(pid: Pid) -> Result<ProcessMemory, MemoryError> {
        match start_time(pid) {
            Some(started) => Ok(ProcessMemory { pid, started }),
            None => Err(MemoryError::Gone { pid }),
        }
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// True if it is still the process that was opened. Reads do not check this: the process may end between
    /// the check and the read.
    pub fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }

    /// True if the kernel allows reading it.
    pub fn may_be_read(&self) -> bool {
        // The link needs the same right as reading the memory.
        let link = fs::read_link(format!("/proc/{}/root", self.pid));
        !link.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Fills `into` with the bytes from an address on.
    ///
    /// # Errors
    ///
    /// [`MemoryError`] if a byte of the range is not mapped, or the process is gone.
    pub fn read(&self, at: VirtualAddress, into: &mut [u8]) -> Result<(), MemoryError> {
        let mut done = 0;
        while done < into.len() {
            let address = VirtualAddress(at.0.wrapping_add(done as u64));
            let got = self.read_some(address, &mut into[done..])?;
            if got == 0 {
                return Err(MemoryError::Unmapped { pid: self.pid, address });
            }
            done += got;
        }
        Ok(())
    }

    /// Reads as many bytes as possible from an address into `into`; returns their number.
    pub fn read_part(&self, at: VirtualAddress, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len() {
            match self.read_some(VirtualAddress(at.0.wrapping_add(done as u64)), &mut into[done..]) {
                Ok(got) if got > 0 => done += got,
                _ => break,
            }
        }
        done
    }

    fn read_some(&self, at: VirtualAddress, into: &mut [u8]) -> Result<usize, MemoryError> {
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let remote = libc::iovec { iov_base: at.0 as *mut libc::c_void, iov_len: into.len() };
        for _ in 0..RETRIES {
            // SAFETY: the local vector is `into`, borrowed for the call; the remote one is an address of the other process.
            let got = unsafe { libc::process_vm_readv(self.pid.0, &local, 1, &remote, 1, 0) };
            if got >= 0 {
                return Ok(got as usize);
            }
            let source = io::Error::last_os_error();
            return Err(match source.raw_os_error() {
                Some(libc::EINTR) => continue,
                Some(libc::ESRCH) => MemoryError::Gone { pid: self.pid },
                Some(libc::EPERM | libc::EACCES) => MemoryError::Denied { pid: self.pid },
                Some(libc::EFAULT) => MemoryError::Unmapped { pid: self.pid, address: at },
                _ => MemoryError::Io { pid: self.pid, source },
            });
        }
        Err(MemoryError::Io { pid: self.pid, source: io::ErrorKind::Interrupted.into() })
    }

    /// Reads pieces of `size` bytes at many addresses with few calls: piece `i` is stored at `i * size` of
    /// the result. Pieces that cannot be read are zero, and `false` in the second list.
    pub fn read_pieces(&self, at: &[VirtualAddress], size: usize) -> (Vec<u8>, Vec<bool>) {
        /// UIO_MAXIOV is 1024.
        const MOST: usize = 1024;
        let mut bytes = vec![0; at.len() * size];
        let mut fine = vec![false; at.len()];
        let mut first = 0;
        while first < at.len() && size > 0 {
            let count = (at.len() - first).min(MOST);
            let into = &mut bytes[first * size..(first + count) * size];
            let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
            let remote: Vec<libc::iovec> = at[first..first + count]
                .iter()
                .map(|address| libc::iovec { iov_base: address.0 as *mut libc::c_void, iov_len: size })
                .collect();
            // SAFETY: as in `read_some`; the vector of remote pieces lives until the call returns.
            let got = unsafe {
                libc::process_vm_readv(
                    self.pid.0,
                    &local,
                    1,
                    remote.as_ptr(),
                    remote.len() as libc::c_ulong,
                    0,
                )
            };
            let whole = if got < 0 { 0 } else { got as usize / size };
            fine[first..first + whole].fill(true);
            // The call stops at the first missing piece, which is skipped.
            first += if whole == count { count } else { whole + 1 };
        }
        (bytes, fine)
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    ///
    /// As [`ProcessMemory::read`].
    pub fn bytes<const N: usize>(&self, at: VirtualAddress) -> Result<[u8; N], MemoryError> {
        let mut bytes = [0; N];
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads one byte.
    ///
    /// # Errors
    ///
    /// As [`ProcessMemory::read`].
    pub fn u8(&self, at: VirtualAddress) -> Result<u8, MemoryError> {
        Ok(self.bytes::<1>(at)?[0])
    }

    /// Reads a little-endian integer of 16 bits.
    ///
    /// # Errors
    ///
    /// As [`ProcessMemory::read`].
    pub fn u16(&self, at: VirtualAddress) -> Result<u16, MemoryError> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    /// Reads a little-endian integer of 32 bits.
    ///
    /// # Errors
    ///
    /// As [`ProcessMemory::read`].
    pub fn u32(&self, at: VirtualAddress) -> Result<u32, MemoryError> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    /// Reads a little-endian integer of 64 bits.
    ///
    /// # Errors
    ///
    /// As [`ProcessMemory::read`].
    pub fn u64(&self, at: VirtualAddress) -> Result<u64, MemoryError> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    /// Reads a pointer.
    ///
    /// # Errors
    ///
    /// As [`ProcessMemory::read`].
    pub fn pointer(&self, at: VirtualAddress) -> Result<VirtualAddress, MemoryError> {
        self.u64(at).map(VirtualAddress)
    }

    /// Reads a text that ends with a zero byte, of at most `most` bytes; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    ///
    /// [`MemoryError`] if the first byte cannot be read.
    pub fn text(&self, at: VirtualAddress, most: usize) -> Result<String, MemoryError> {
        let mut bytes = vec![0; most];
        let got = self.read_part(at, &mut bytes);
        if got == 0 && most > 0 {
            // Returns the reason.
            self.u8(at)?;
        }
        bytes.truncate(got);
        Ok(text_of(&bytes))
    }

    /// The current mappings.
    ///
    /// # Errors
    ///
    /// [`MemoryError`] if the process is gone, or `/proc/PID/maps` may not be read.
    pub fn mappings(&self) -> Result<Mappings, MemoryError> {
        let pid = self.pid;
        match fs::read(format!("/proc/{pid}/maps")) {
            Ok(bytes) => Ok(Mappings::parse(&String::from_utf8_lossy(&bytes))),
            Err(error) => Err(match error.kind() {
                io::ErrorKind::NotFound => MemoryError::Gone { pid },
                io::ErrorKind::PermissionDenied => MemoryError::Denied { pid },
                _ if error.raw_os_error() == Some(libc::ESRCH) => MemoryError::Gone { pid },
                _ => MemoryError::Io { pid, source: error },
            }),
        }
    }

    /// The file at a path *of the process*, which may have another root.
    pub fn file(&self, path: &Path) -> PathBuf {
        let relative = path.strip_prefix("/").unwrap_or(path);
        Path::new(&format!("/proc/{}/root", self.pid)).join(relative)
    }
}

/// The text up to the first zero byte.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A field of `/proc/PID/stat`, with the numbers of proc(5), from 4 on; `None` for a process that ended.
fn stat_field(pid: Pid, number: usize) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may contain blanks and parentheses.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(number.checked_sub(4)?)?.parse().ok()
}

fn start_time(pid: Pid) -> Option<u64> {
    stat_field(pid, 22)
}

/// The parent of a process.
pub fn parent_of(pid: Pid) -> Option<Pid> {
    let parent = stat_field(pid, 4)?;
    (parent > 0).then_some(Pid(parent as i32))
}

/// The children of a process.
pub fn children_of(pid: Pid) -> Vec<Pid> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        children.extend(text.split_ascii_whitespace().filter_map(|word| word.parse().ok().map(Pid)));
    }
    children
}

/// The command line of a process as one text; servers write their activity there.
pub fn title_of(pid: Pid) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    Some(text.trim_end().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_memory_is_read_and_a_hole_is_told() {
        let memory = ProcessMemory::open(Pid(std::process::id() as i32)).expect("we run");
        let word: u64 = 0x1122_3344_5566_7788;
        let at = VirtualAddress(&raw const word as u64);
        assert_eq!(memory.u64(at).expect("read"), word);
        assert_eq!(memory.u16(at).expect("read"), 0x7788);
        assert!(matches!(memory.u64(VirtualAddress(8)), Err(MemoryError::Unmapped { .. })));
        assert!(matches!(memory.u64(VirtualAddress(u64::MAX - 3)), Err(MemoryError::Unmapped { .. })));
        let (bytes, fine) = memory.read_pieces(&[at, VirtualAddress(8), VirtualAddress(at.0 + 2)], 2);
        assert_eq!((bytes, fine), (vec![0x88, 0x77, 0, 0, 0x66, 0x55], vec![true, false, true]));
        assert!(memory.is_alive());
        let mappings = memory.mappings().expect("maps");
        assert!(mappings.at(at).is_some_and(|mapping| mapping.readable && mapping.writable));
        assert!(mappings.at(VirtualAddress(8)).is_none());
    }

    #[test]
    fn a_process_that_ended_is_gone() {
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        let pid = Pid(child.id() as i32);
        let memory = ProcessMemory::open(pid);
        child.wait().expect("it ends");
        assert!(memory.map_or(true, |memory| !memory.is_alive() && memory.u64(VirtualAddress(4096)).is_err()));
        assert!(matches!(ProcessMemory::open(pid), Err(MemoryError::Gone { .. })));
    }

    #[test]
    fn lines_of_a_maps_file() {
        let text = "7f12_garbage\n\
            55d0c0a00000-55d0c0acd000 r--p 00001000 fe:01 1234                       /usr/lib/a b/postgres (deleted)\n\
            7f0000000000-7f0008a00000 rw-s 00000000 00:01 2048                       /dev/zero (deleted)\n\
            7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n\
            10000-20000 rw-p 00000000 00:00 0 \n";
        let mappings = Mappings::parse(text);
        assert_eq!(mappings.iter().count(), 4);
        let program = mappings.at(VirtualAddress(0x55d0_c0ac_cfff)).expect("mapped");
        assert_eq!(program.file(), Some(Path::new("/usr/lib/a b/postgres")));
        assert_eq!(program.offset, FileOffset(0x1000));
        let shared = mappings.at(VirtualAddress(0x7f00_0000_0000)).expect("mapped");
        assert!(shared.shared && shared.writable && !shared.executable);
        assert_eq!(shared.length(), ByteCount(0x08a0_0000));
        assert_eq!(mappings.at(VirtualAddress(0x7f00_08a0_0000)), None);
        assert_eq!(mappings.at(VirtualAddress(0x10000)).map(|mapping| mapping.name.as_str()), Some(""));
        let stack = mappings.at(VirtualAddress(0x7ffc_0000_0000)).expect("mapped");
        assert_eq!((stack.name.as_str(), stack.file()), ("[stack]", None));
    }
}
