//! Marks the server's code: operators of a plan, phases of a transaction. On the call chain of a sample, the
//! innermost mark of a kind names the operator or phase that was running.
//!
//! A phase is an exported function. An operator is a source file (nodeSeqscan.c), and most of its functions
//! are static: nameless in a stripped program. But the linker places files one after the other, so a nameless
//! function between two exported ones belongs to the file of one of them:
//!
//! ```text
//!   ExecReScanSampleScan   nodeSamplescan.c      its last exported one
//!   ?  ?  ?                                      called by which of the two files?  If by neither, of the second,
//!   ExecInitSeqScan        nodeSeqscan.c         because a file's static functions precede its exported ones
//! ```

mod code;
pub(crate) mod libraries;
mod names;

use crate::program::{Image, Program, SymbolClass};
use code::Functions;
use hardmeter_samples::object_notes::CodeMarkKind;
use names::{OPERATORS, PHASES};
use std::collections::HashMap;
use std::ops::Range;

/// A range of code and its operator or phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Addresses in the image's own numbering.
    pub range: Range<u64>,
    /// Operator or phase.
    pub kind: CodeMarkKind,
    /// Its name.
    pub name: &'static str,
}

/// All marks of a program.
pub(crate) fn of(program: &Program) -> Vec<Mark> {
    let mut marks = phases(&program.image);
    marks.extend(operators(&program.image));
    marks.sort_by_key(|mark| (mark.range.start, mark.range.end));
    marks
}

fn phases(image: &Image) -> Vec<Mark> {
    let mark = |name: &'static str, function: &str| {
        let symbol = image.symbol(function).filter(|symbol| symbol.class == SymbolClass::Function)?;
        let range = symbol.address..symbol.address + symbol.size;
        (!range.is_empty()).then_some(Mark { range, kind: CodeMarkKind::Phase, name })
    };
    PHASES
        .iter()
        .flat_map(|(name, functions)| functions.iter().filter_map(|function| mark(name, function)))
        .collect()
}

/// The operator of a function, by its place in the list, or none.
type Owner = Option<usize>;

fn operators(image: &Image) -> Vec<Mark> {
    let by_name: HashMap<&str, usize> = OPERATORS
        .iter()
        .enumerate()
        .flat_map(|(index, (_, _, functions))| functions.iter().map(move |name| (*name, index)))
        .collect();
    let files: HashMap<&str, usize> =
        OPERATORS.iter().enumerate().map(|(index, (_, file, _))| (*file, index)).collect();
    let functions = Functions::of(image);
    // Known by name, and by file if the program has static names.
    let mut owners: Vec<Option<Owner>> = vec![None; functions.len()];
    for symbol in image.symbols().iter().filter(|symbol| symbol.class == SymbolClass::Function) {
        let Some(index) = functions.index(symbol.address) else { continue };
        let owner = match &symbol.file {
            Some(file) => files.get(file.as_str()).copied(),
            None => by_name.get(symbol.name.as_str()).copied(),
        };
        // Any of several names of a function may be the known one.
        owners[index] = Some(owner.or(owners[index].flatten()));
    }
    let owners = settle(&functions, owners);
    let owned = owners.into_iter().enumerate().filter_map(|(index, owner)| Some((index, owner?)));
    operator_marks(owned.map(|(index, operator)| (functions.range(index), OPERATORS[operator].0)))
}

/// Marks of ranges of code in the order of their addresses; adjacent ones of the same operator are merged.
fn operator_marks(stretches: impl Iterator<Item = (Range<u64>, &'static str)>) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    for (range, name) in stretches {
        match marks.last_mut() {
            Some(last) if last.name == name && last.range.end == range.start => last.range.end = range.end,
            _ => marks.push(Mark { range, kind: CodeMarkKind::Operator, name }),
        }
    }
    marks
}

/// Assigns nameless functions to the file before or after them.
fn settle(functions: &Functions, mut owners: Vec<Option<Owner>>) -> Vec<Owner> {
    /// The number of named functions on either side whose calls are followed, unless an operator limits them.
    const ASKED: usize = 24;
    let mut at = 0;
    while at < owners.len() {
        if owners[at].is_some() {
            at += 1;
            continue;
        }
        let gap = at..(at..owners.len()).find(|index| owners[*index].is_some()).unwrap_or(owners.len());
        at = gap.end;
        let before = gap.start.checked_sub(1).and_then(|index| owners[index]);
        let after = owners.get(gap.end).copied().flatten();
        let (Some(before), Some(after)) = (before, after) else { continue };
        if before == after {
            owners[gap].fill(Some(before));
            continue;
        }
        // The named functions of either file, next to the gap.
        let same = |owner: Owner| {
            let owners = &owners;
            move |index: &usize| owners[*index].is_none_or(|known| known == owner)
        };
        let left: Vec<usize> = (0..gap.start).rev().take_while(same(before)).take(ASKED).collect();
        let right: Vec<usize> = (gap.end..owners.len()).take_while(same(after)).take(ASKED).collect();
        let split = split(functions, &gap, &left, &right);
        owners[gap.start..split].fill(Some(before));
        owners[split..gap.end].fill(Some(after));
    }
    owners.into_iter().map(Option::flatten).collect()
}

/// The position in a gap where the first file ends and the second begins.
fn split(functions: &Functions, gap: &Range<usize>, left: &[usize], right: &[usize]) -> usize {
    let inside = |index: &usize| gap.contains(index);
    // Functions that those of a file call, and their callees.
    let reached = |from: &[usize]| {
        let mut reached: Vec<usize> = Vec::new();
        let mut open: Vec<usize> = from.to_vec();
        while let Some(function) = open.pop() {
            for callee in functions.called_by(function).into_iter().filter(inside) {
                if !reached.contains(&callee) {
                    reached.push(callee);
                    open.push(callee);
                }
            }
        }
        reached
    };
    let (left, right) = (reached(left), reached(right));
    let last_left =
        left.iter().filter(|index| !right.contains(index)).max().map_or(gap.start, |index| index + 1);
    let first_right = right.iter().filter(|index| !left.contains(index)).min().copied().unwrap_or(gap.end);
    last_left.min(first_right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// The same program with and without static names must have the same marks. Needs a program with them.
    #[test]
    fn marks_of_a_stripped_program_are_those_of_the_whole() {
        let Some(folder) = std::env::var_os("HARDMETER_TEST_POSTGRES").map(PathBuf::from) else {
            return eprintln!(
                "skipped: HARDMETER_TEST_POSTGRES names no folder with a postgres that has static names"
            );
        };
        let whole = Image::read(&folder.join("postgres")).expect("a program");
        if !whole.has_static_names {
            return eprintln!("skipped: {} is stripped", folder.display());
        }
        let stripped = tempfile::NamedTempFile::new().expect("a file");
        let strip = |to: &Path| Command::new("strip").arg("-o").arg(to).arg(folder.join("postgres")).status();
        if !strip(stripped.path()).is_ok_and(|status| status.success()) {
            return eprintln!("skipped: no strip");
        }
        let stripped = Image::read(stripped.path()).expect("a program");
        assert!(!stripped.has_static_names);
        let covered = |marks: Vec<Mark>| -> HashSet<(u64, &'static str)> {
            let starts = Functions::of(&whole);
            let all = (0..starts.len()).map(|index| starts.range(index).start);
            let inside = |start: u64| {
                marks.iter().find(|mark| mark.range.contains(&start)).map(|mark| (start, mark.name))
            };
            all.filter_map(inside).collect()
        };
        let (truth, told) = (covered(operators(&whole)), covered(operators(&stripped)));
        let name = |start: u64| whole.symbol_at(start).map_or("?", |symbol| symbol.name.as_str());
        for (start, operator) in told.difference(&truth) {
            println!("{} is said to be {operator}", name(*start));
        }
        for (start, operator) in truth.difference(&told) {
            println!("{} of {operator} is missed", name(*start));
        }
        let right = truth.intersection(&told).count();
        println!("{right} of {} functions right, {} wrong", truth.len(), told.difference(&truth).count());
        assert!(right * 100 >= truth.len() * 97 && truth.len() > 400);
        // Functions that compute a row, all of them static.
        for (function, operator) in
            [("ExecSeqScan", "Seq Scan"), ("ExecModifyTable", "Modify Table"), ("ExecSort", "Sort")]
        {
            let start = whole.symbol(function).expect("named").address;
            assert!(told.contains(&(start, operator)), "{function}");
        }
    }

    #[test]
    fn a_gap_is_split_by_who_calls_whom() {
        // Four functions of 16 bytes: 0 exported by one file, 1 and 2 nameless, 3 exported by another.
        let mut code = vec![0x90u8; 64];
        let mut call = |from: usize, to: i64| {
            code[from] = 0xe8;
            code[from + 1..from + 5].copy_from_slice(&((to - (from as i64 + 5)) as i32).to_le_bytes());
        };
        call(0, 16);
        call(48, 32);
        let functions = Functions::new(0x1000, code.clone(), vec![0x1000, 0x1010, 0x1020, 0x1030]);
        let owners = settle(&functions, vec![Some(Some(7)), None, None, Some(Some(9))]);
        assert_eq!(owners, [Some(7), Some(7), Some(9), Some(9)]);
        // No caller: a file's static functions come first.
        let functions = Functions::new(0x1000, vec![0x90; 64], vec![0x1000, 0x1010, 0x1020, 0x1030]);
        let owners = settle(&functions, vec![Some(Some(7)), None, None, Some(Some(9))]);
        assert_eq!(owners, [Some(7), Some(9), Some(9), Some(9)]);
        // An address in a register: lea rdi, [rip + ...].
        code[..16].fill(0x90);
        code[..3].copy_from_slice(&[0x48, 0x8d, 0x3d]);
        code[3..7].copy_from_slice(&(32i32 - 7).to_le_bytes());
        code[48..64].fill(0x90);
        let functions = Functions::new(0x1000, code, vec![0x1000, 0x1010, 0x1020, 0x1030]);
        let owners = settle(&functions, vec![Some(Some(7)), None, None, Some(None)]);
        assert_eq!(owners, [Some(7), Some(7), Some(7), None]);
    }
}
