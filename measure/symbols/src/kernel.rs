//! Kernel names from `/proc/kallsyms`: they are those of the kernel that runs now, on this boot.

use crate::build_id::BuildId;
use std::path::Path;

/// The reason why the kernel's names cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KernelError {
    #[error("{path} cannot be read: {source}")]
    Unreadable { path: String, source: std::io::Error },
    #[error("the kernel hides its addresses")]
    Hidden,
    #[error("another boot: {symbol} was at {recorded:#x}, now it is at {now:#x}")]
    OtherBoot { symbol: String, recorded: u64, now: u64 },
    #[error("the capture is of kernel build {recorded}, but build {running} is running")]
    OtherBuild { recorded: BuildId, running: BuildId },
}

impl KernelError {
    /// What the user can do about it.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            KernelError::Unreadable { .. } => "make it readable, or report on the machine of the capture",
            KernelError::Hidden => "run `sudo sysctl kernel.kptr_restrict=0`, or report as root",
            KernelError::OtherBoot { .. } => "report kernel samples before the machine is restarted",
            KernelError::OtherBuild { .. } => "report on the machine of the capture, under its kernel",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KernelSymbol {
    start: u64,
    name_start: u32,
    name_end: u32,
    /// Length of the module's name, which follows the symbol's as "\t[module]"; 0 for the core kernel.
    module_length: u16,
    function: bool,
}

/// A kernel symbol that covers an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelRoutine<'a> {
    pub(crate) name: &'a str,
    pub(crate) module: Option<&'a str>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) function: bool,
}

/// All kernel symbols, by address.
#[derive(Debug)]
pub(crate) struct KernelSymbols {
    text: String,
    symbols: Vec<KernelSymbol>,
}

/// Maximum size of a module's last symbol. kallsyms has no sizes: a symbol ends at the next one, which may be in
/// another module, gigabytes away.
const LAST_OF_MODULE: u64 = 64 << 10;

impl KernelSymbols {
    /// Reads the table and checks that it fits the capture.
    pub(crate) fn read(
        path: &Path,
        reference: Option<&(String, u64)>,
        recorded_build: Option<&BuildId>,
    ) -> Result<KernelSymbols, KernelError> {
        let bytes = std::fs::read(path)
            .map_err(|source| KernelError::Unreadable { path: path.display().to_string(), source })?;
        let symbols = KernelSymbols::parse(String::from_utf8_lossy(&bytes).into_owned())?;
        if let (Some(recorded), Some(running)) = (recorded_build, running_build_id()) {
            if !recorded.is_same_build(&running) {
                return Err(KernelError::OtherBuild { recorded: recorded.clone(), running });
            }
        }
        if let Some((symbol, recorded)) = reference {
            if let Some(now) = symbols.address_of(symbol) {
                if now != *recorded {
                    return Err(KernelError::OtherBoot { symbol: symbol.clone(), recorded: *recorded, now });
                }
            }
        }
        Ok(symbols)
    }

    /// Lines are `ffffffff81000000 T _text`; a module's symbols end in a tab and `[ext4]`.
    fn parse(text: String) -> Result<KernelSymbols, KernelError> {
        let mut symbols = Vec::new();
        let base = text.as_ptr() as usize;
        let position = |part: &str| u32::try_from(part.as_ptr() as usize - base).ok();
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let (Some(address), Some(kind), Some(rest)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let Ok(start) = u64::from_str_radix(address, 16) else { continue };
            let (name, module) = rest.split_once('\t').unwrap_or((rest, ""));
            let module = module.trim_matches(['[', ']']);
            // Per-CPU symbols are absolute and near zero: they are not addresses.
            if start < 1 << 32 || kind.eq_ignore_ascii_case("a") {
                continue;
            }
            let (Some(name_start), Ok(module_length)) = (position(name), u16::try_from(module.len())) else {
                continue;
            };
            let function = matches!(kind, "t" | "T" | "w" | "W");
            let name_end = name_start + name.len() as u32;
            symbols.push(KernelSymbol { start, name_start, name_end, module_length, function });
        }
        if symbols.is_empty() {
            return Err(KernelError::Hidden);
        }
        // Of several names of one address, keep functions before data, then the first in the file.
        symbols.sort_by_key(|symbol| (symbol.start, !symbol.function));
        symbols.dedup_by_key(|symbol| symbol.start);
        Ok(KernelSymbols { text, symbols })
    }

    /// The symbol that covers an address.
    pub(crate) fn find(&self, address: u64) -> Option<KernelRoutine<'_>> {
        let position = self.symbols.partition_point(|symbol| symbol.start <= address).checked_sub(1)?;
        let symbol = self.symbols[position];
        let module = self.module(&symbol);
        let end = match self.symbols.get(position + 1) {
            Some(next) if self.module(next) == module => next.start,
            Some(next) => next.start.min(symbol.start.saturating_add(LAST_OF_MODULE)),
            None => symbol.start.saturating_add(LAST_OF_MODULE),
        };
        let name = &self.text[symbol.name_start as usize..symbol.name_end as usize];
        let function = symbol.function;
        (address < end).then_some(KernelRoutine { name, module, start: symbol.start, end, function })
    }

    fn module(&self, symbol: &KernelSymbol) -> Option<&str> {
        // "name\t[module]"
        let start = symbol.name_end as usize + 2;
        (symbol.module_length > 0).then(|| &self.text[start..start + symbol.module_length as usize])
    }

    fn address_of(&self, name: &str) -> Option<u64> {
        let text =
            |symbol: &&KernelSymbol| &self.text[symbol.name_start as usize..symbol.name_end as usize] == name;
        // Several symbols may share the address; the table may have another name than `_text` or `_stext` there.
        let wanted = format!(" {name}\n");
        self.symbols.iter().find(text).map(|symbol| symbol.start).or_else(|| {
            let line_end = self.text.find(&wanted)?;
            let line_start = self.text[..line_end].rfind('\n').map_or(0, |newline| newline + 1);
            u64::from_str_radix(self.text[line_start..line_end].split(' ').next()?, 16).ok()
        })
    }
}

/// The build id of the running kernel, from its ELF notes.
fn running_build_id() -> Option<BuildId> {
    let notes = std::fs::read("/sys/kernel/notes").ok()?;
    build_id_of_notes(&notes)
}

/// Notes are {name size, content size, type} and name and content, each padded to 4 bytes.
fn build_id_of_notes(mut notes: &[u8]) -> Option<BuildId> {
    const GNU_BUILD_ID: u32 = 3;
    while notes.len() >= 12 {
        let word = |index: usize| u32::from_ne_bytes(notes[index * 4..][..4].try_into().expect("four bytes"));
        let (name_size, content_size, kind) = (word(0) as usize, word(1) as usize, word(2));
        let content_start = 12 + name_size.next_multiple_of(4);
        let next = content_start.checked_add(content_size.next_multiple_of(4))?;
        let name = notes.get(12..12 + name_size)?;
        let content = notes.get(content_start..content_start + content_size)?;
        if kind == GNU_BUILD_ID && name == b"GNU\0" {
            return BuildId::new(content);
        }
        notes = notes.get(next..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "0000000000001000 A per_cpu_thing\n\
        ffffffff81000000 T _text\n\
        ffffffff81000000 T _stext\n\
        ffffffff81000040 t early_setup\n\
        ffffffff81000100 D jiffies\n\
        ffffffffc0a01000 t ext4_find\t[ext4]\n\
        ffffffffc0a01080 t ext4_last\t[ext4]\n\
        ffffffffc0f00000 t nfs_read\t[nfs]\n";

    #[test]
    fn each_symbol_reaches_to_the_next() {
        let symbols = KernelSymbols::parse(TABLE.to_owned()).expect("a table");
        let name = |address| symbols.find(address).map(|found| (found.name, found.module, found.function));
        assert_eq!(name(0xffff_ffff_8100_003f), Some(("_text", None, true)));
        assert_eq!(name(0xffff_ffff_8100_0040), Some(("early_setup", None, true)));
        assert_eq!(name(0xffff_ffff_8100_0108), Some(("jiffies", None, false)));
        assert_eq!(name(0xffff_ffff_c0a0_107f), Some(("ext4_find", Some("ext4"), true)));
        // The gap between modules and addresses below all symbols have no name.
        assert_eq!(name(0xffff_ffff_c0a0_1080 + LAST_OF_MODULE), None);
        assert_eq!(name(0xffff_ffff_80ff_ffff), None);
        assert_eq!(name(0x1000), None);
        assert_eq!(symbols.address_of("_stext"), Some(0xffff_ffff_8100_0000));
    }

    #[test]
    fn hidden_addresses_and_another_boot_are_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("kallsyms");
        std::fs::write(&path, "0000000000000000 T _text\n0000000000000000 t other\n").expect("written");
        assert!(matches!(KernelSymbols::read(&path, None, None), Err(KernelError::Hidden)));
        std::fs::write(&path, TABLE).expect("written");
        let moved = ("_text".to_owned(), 0xffff_ffff_9900_0000);
        assert!(matches!(KernelSymbols::read(&path, Some(&moved), None), Err(KernelError::OtherBoot { .. })));
        let same = ("_text".to_owned(), 0xffff_ffff_8100_0000);
        assert!(KernelSymbols::read(&path, Some(&same), None).is_ok());
    }

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let mut notes = Vec::new();
        for (name, kind, content) in [(&b"Xen\0"[..], 6u32, &[1u8, 2, 3][..]), (b"GNU\0", 3, &[0xab, 0xcd])] {
            notes.extend((name.len() as u32).to_ne_bytes());
            notes.extend((content.len() as u32).to_ne_bytes());
            notes.extend(kind.to_ne_bytes());
            notes.extend(name);
            notes.extend(content);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(build_id_of_notes(&notes), BuildId::new(&[0xab, 0xcd]));
        assert_eq!(build_id_of_notes(&[0xff; 64]), None);
    }
}
