//! Symbol tables, flattened for searching: every address belongs to at most one symbol.
//!
//! Symbols overlap: aliases share a range, entry points lie inside others, labels have no size. Flattening
//! once makes each later lookup one binary search:
//!
//! ```text
//!   symbols     [outer...........................]   [f.......]
//!                      [inner....]                   [alias_of_f]
//!   flat        [outer][inner....][outer.........]   [f.......]
//! ```

use super::bytes::ImageBytes;
use super::unwind::UnwindRanges;
use object::elf;
use object::{Object, ObjectSection, ObjectSymbol, SymbolFlags};
use std::ops::Range;
use std::sync::Arc;

/// Which table a symbol is in. Tables other than `.dynsym` name static functions too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// `.symtab`, of the image, its debug file or its mini debug info.
    Full,
    /// `.dynsym`: exported names only.
    Dynamic,
}

/// One symbol, its name still inside the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    pub start: u64,
    pub end: u64,
    name_offset: u64,
    name_length: u32,
    /// Position in [`SymbolTable::sources`].
    source: u16,
    /// Lower is the better name for a range with several.
    rank: u8,
}

/// A piece of the flat table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    start: u64,
    end: u64,
    symbol: u32,
}

/// A searchable set of symbols.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    sources: Vec<Arc<ImageBytes>>,
    symbols: Vec<Symbol>,
    pieces: Vec<Piece>,
}

impl SymbolTable {
    /// The symbol that covers an address.
    pub(crate) fn find(&self, address: u64) -> Option<&Symbol> {
        let position = self.pieces.partition_point(|piece| piece.start <= address).checked_sub(1)?;
        let piece = self.pieces[position];
        (address < piece.end).then(|| &self.symbols[piece.symbol as usize])
    }

    /// The first symbol that begins at or behind an address.
    pub(crate) fn next(&self, address: u64) -> Option<&Symbol> {
        let position = self.symbols.partition_point(|symbol| symbol.start < address);
        self.symbols.get(position)
    }

    /// The last symbol that begins before an address.
    pub(crate) fn previous(&self, address: u64) -> Option<&Symbol> {
        let position = self.symbols.partition_point(|symbol| symbol.start < address);
        self.symbols.get(position.checked_sub(1)?)
    }

    /// The linker's name of a symbol.
    pub(crate) fn name(&self, symbol: &Symbol) -> String {
        let start = symbol.name_offset as usize;
        let bytes = &self.sources[symbol.source as usize][start..start + symbol.name_length as usize];
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// Collects functions and variables of several tables.
#[derive(Debug, Default)]
pub(crate) struct SymbolCollector {
    sources: Vec<Arc<ImageBytes>>,
    functions: Vec<Symbol>,
    variables: Vec<Symbol>,
    /// Function symbols without a size, with the end of their section and whether their table is full.
    unsized_functions: Vec<(Symbol, u64, TableKind)>,
}

impl SymbolCollector {
    /// Adds the symbols of one table of a file.
    pub(crate) fn add(&mut self, bytes: &Arc<ImageBytes>, kind: TableKind) {
        let Ok(file) = object::File::parse(&***bytes) else { return };
        let source = self.sources.len() as u16;
        self.sources.push(Arc::clone(bytes));
        let sections = SectionEnds::new(&file);
        let base = bytes.as_ptr() as usize;
        let symbols = match kind {
            TableKind::Full => file.symbols(),
            TableKind::Dynamic => file.dynamic_symbols(),
        };
        for symbol in symbols {
            let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
            let Some(section) = symbol.section_index().and_then(|index| sections.get(index.0)) else {
                continue;
            };
            let Ok(name) = symbol.name_bytes() else { continue };
            // Mapping symbols of Arm ($x, $d) and compiler labels name no routine.
            if name.is_empty() || name[0] == b'$' || name.starts_with(b".L") {
                continue;
            }
            let name_offset = (name.as_ptr() as usize).wrapping_sub(base) as u64;
            if name_offset.saturating_add(name.len() as u64) > bytes.len() as u64 {
                continue;
            }
            let start = symbol.address();
            let entry = Symbol {
                start,
                end: start.saturating_add(symbol.size()),
                source,
                name_offset,
                name_length: name.len() as u32,
                rank: rank(name, st_info.st_bind()),
            };
            match st_info.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC if entry.end > start => self.functions.push(entry),
                elf::STT_FUNC | elf::STT_GNU_IFUNC => {
                    self.unsized_functions.push((entry, section.end, kind));
                }
                elf::STT_NOTYPE if section.executable && entry.end > start => self.functions.push(entry),
                elf::STT_NOTYPE if section.executable && section.contains(start) => {
                    self.unsized_functions.push((entry, section.end, kind));
                }
                elf::STT_OBJECT | elf::STT_COMMON if entry.end > start => self.variables.push(entry),
                _ => {}
            }
        }
    }

    /// The tables of functions and of variables.
    pub(crate) fn finish(mut self, unwind: &UnwindRanges) -> (SymbolTable, SymbolTable) {
        self.bound_unsized_functions(unwind);
        let functions = flatten(self.sources.clone(), self.functions);
        let variables = flatten(self.sources, self.variables);
        (functions, variables)
    }

    /// Determines the end of symbols without a size (hand-written assembler).
    ///
    /// The unwind range that covers the symbol bounds it; so do the next symbol and the next unwind range. Without
    /// a covering range, a symbol of a full table extends to the next symbol, since that table names all functions;
    /// a symbol of `.dynsym` covers only its first byte, since an unnamed static function may follow.
    fn bound_unsized_functions(&mut self, unwind: &UnwindRanges) {
        let mut starts: Vec<u64> = self.functions.iter().map(|symbol| symbol.start).collect();
        starts.extend(self.unsized_functions.iter().map(|(symbol, ..)| symbol.start));
        starts.sort_unstable();
        for (mut symbol, section_end, kind) in std::mem::take(&mut self.unsized_functions) {
            let next = starts.partition_point(|start| *start <= symbol.start);
            let next_symbol = starts.get(next).copied().unwrap_or(u64::MAX);
            let bound = match (unwind.find(symbol.start), kind) {
                (Some(range), _) => range.end,
                (None, TableKind::Full) => {
                    unwind.next_start(symbol.start).unwrap_or(u64::MAX).min(section_end)
                }
                (None, TableKind::Dynamic) => symbol.start.saturating_add(1),
            };
            symbol.end = bound.min(next_symbol);
            if symbol.end > symbol.start {
                self.functions.push(symbol);
            }
        }
    }
}

/// Global before weak before local; then fewer leading underscores (`memcpy` before `__memcpy`).
fn rank(name: &[u8], binding: elf::SymbolBind) -> u8 {
    let binding = match binding {
        elf::STB_GLOBAL | elf::STB_GNU_UNIQUE => 0,
        elf::STB_WEAK => 1,
        _ => 2,
    };
    let underscores = name.iter().take_while(|byte| **byte == b'_').count().min(7) as u8;
    binding << 3 | underscores
}

#[derive(Clone, Copy)]
struct SectionEnd {
    start: u64,
    end: u64,
    executable: bool,
}

impl SectionEnd {
    fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }
}

/// Sections by their index.
struct SectionEnds(Vec<Option<SectionEnd>>);

impl SectionEnds {
    fn new(file: &object::File<'_>) -> SectionEnds {
        let mut ends = Vec::new();
        for section in file.sections() {
            let index = section.index().0;
            if index >= ends.len() {
                ends.resize(index + 1, None);
            }
            let executable = super::is_executable_section(&section);
            let start = section.address();
            ends[index] = Some(SectionEnd { start, end: start.saturating_add(section.size()), executable });
        }
        SectionEnds(ends)
    }

    fn get(&self, index: usize) -> Option<SectionEnd> {
        *self.0.get(index)?
    }
}

/// Builds the flat table. The innermost symbol (the last to start) owns an address; of several with one range, the
/// best ranked, then the longest, then the alphabetically first: as in perf.
fn flatten(sources: Vec<Arc<ImageBytes>>, mut symbols: Vec<Symbol>) -> SymbolTable {
    let name = |symbol: &Symbol| -> &[u8] {
        let start = symbol.name_offset as usize;
        &sources[symbol.source as usize][start..start + symbol.name_length as usize]
    };
    symbols.sort_by(|a, b| {
        let range = a.start.cmp(&b.start).then(b.end.cmp(&a.end));
        range
            .then(a.rank.cmp(&b.rank))
            .then(b.name_length.cmp(&a.name_length))
            .then_with(|| name(a).cmp(name(b)))
    });
    symbols.dedup_by_key(|symbol| (symbol.start, symbol.end));
    symbols.shrink_to_fit();

    let mut pieces: Vec<Piece> = Vec::with_capacity(symbols.len());
    let mut push = |range: Range<u64>, symbol: u32| {
        if range.start < range.end {
            pieces.push(Piece { start: range.start, end: range.end, symbol });
        }
    };
    // Symbols that have begun but not ended; the last is the innermost. `done`: everything before it is emitted.
    let mut open: Vec<u32> = Vec::new();
    let mut done = 0u64;
    for (index, symbol) in symbols.iter().enumerate() {
        close_until(&symbols, &mut open, &mut done, symbol.start, &mut push);
        if let Some(outer) = open.last() {
            push(done..symbol.start, *outer);
        }
        done = symbol.start;
        open.push(index as u32);
    }
    close_until(&symbols, &mut open, &mut done, u64::MAX, &mut push);
    pieces.shrink_to_fit();
    SymbolTable { sources, symbols, pieces }
}

/// Emits the rest of all symbols that end at or before `limit`, innermost first.
fn close_until(
    symbols: &[Symbol],
    open: &mut Vec<u32>,
    done: &mut u64,
    limit: u64,
    push: &mut impl FnMut(Range<u64>, u32),
) {
    while let Some(&top) = open.last() {
        let end = symbols[top as usize].end;
        if end > limit {
            break;
        }
        push(*done..end, top);
        *done = (*done).max(end);
        open.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symbols named by consecutive letters of one text.
    fn table(ranges: &[(u64, u64)]) -> SymbolTable {
        let source = Arc::new(ImageBytes::Owned(b"abcdefgh".to_vec()));
        let symbols = ranges
            .iter()
            .enumerate()
            .map(|(index, (start, end))| Symbol {
                start: *start,
                end: *end,
                source: 0,
                name_offset: index as u64,
                name_length: 1,
                rank: 0,
            })
            .collect();
        flatten(vec![source], symbols)
    }

    fn owners(table: &SymbolTable, addresses: Range<u64>) -> String {
        addresses
            .map(|address| table.find(address).map_or("-".to_owned(), |found| table.name(found)))
            .collect()
    }

    #[test]
    fn the_innermost_symbol_owns_an_address() {
        // a: 1..9, b inside it: 3..5, c inside at its very end: 7..9, d apart.
        let table = table(&[(1, 9), (3, 5), (7, 9), (11, 12)]);
        assert_eq!(owners(&table, 0..13), "-aabbaacc--d-");
    }

    #[test]
    fn symbols_that_cross_and_aliases() {
        // a: 0..4 and b: 2..6 cross; c is an alias of b.
        let table = table(&[(0, 4), (2, 6), (2, 6)]);
        assert_eq!(owners(&table, 0..8), "aabbbb--");
        let crossing = super::tests::table(&[(0, 9), (2, 5), (3, 4)]);
        assert_eq!(owners(&crossing, 0..10), "aabcbaaaa-");
        // A symbol that extends beyond its successor continues after it.
        let returning = super::tests::table(&[(0, 8), (2, 9), (4, 6)]);
        assert_eq!(owners(&returning, 0..10), "aabbccbbb-");
    }

    #[test]
    fn neighbours_of_an_address() {
        // a: 1..9, b inside it: 3..5, c: 11..12.
        let table = table(&[(1, 9), (3, 5), (11, 12)]);
        let start = |symbol: Option<&Symbol>| symbol.map(|symbol| symbol.start);
        assert_eq!(
            [0, 1, 9, 11, 12].map(|at| start(table.next(at))),
            [Some(1), Some(1), Some(11), Some(11), None]
        );
        assert_eq!([1, 2, 11, 12].map(|at| start(table.previous(at))), [None, Some(1), Some(3), Some(11)]);
    }

    #[test]
    fn better_names_first() {
        assert!(rank(b"memcpy", elf::STB_GLOBAL) < rank(b"__memcpy", elf::STB_GLOBAL));
        assert!(rank(b"__memcpy", elf::STB_GLOBAL) < rank(b"memcpy", elf::STB_WEAK));
        assert!(rank(b"memcpy", elf::STB_WEAK) < rank(b"a", elf::STB_LOCAL));
    }
}
