//! The code that the kernel maps into every process. It has no file; this process has a copy of it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// The bytes of this process's vdso: an ELF file.
pub(crate) fn bytes() -> io::Result<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let (start, end) = range_of(&maps).ok_or(io::ErrorKind::NotFound)?;
    let mut memory = File::open("/proc/self/mem")?;
    memory.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    memory.take(end - start).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn range_of(maps: &str) -> Option<(u64, u64)> {
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    (start < end).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_read_from_the_maps() {
        let maps = "7ffd1000-7ffd2000 r--p 00000000 00:00 0    [vvar]\n\
                    7ffd2000-7ffd4000 r-xp 00000000 00:00 0    [vdso]\n";
        assert_eq!(range_of(maps), Some((0x7ffd_2000, 0x7ffd_4000)));
        assert_eq!(range_of("7ffd2000- r-xp 00000000 00:00 0 [vdso]\n"), None);
    }
}
