//! Refuses programs that the software PMU cannot run before they are started.

use std::ffi::{CString, OsStr};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Looks up a program in PATH, as the shell does.
pub(super) fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

/// Refuses early, with a reason, what Valgrind would refuse late and cryptically.
pub(super) fn check_program(program: &str) -> Result<(), String> {
    let path = match program.contains('/') {
        true => PathBuf::from(program),
        false => find_in_path(program)
            .ok_or_else(|| "it is not in PATH\n  remedy: give its full path".to_string())?,
    };
    check_file(&path)?;
    match interpreter(&path) {
        None => Ok(()),
        Some(interpreter) if interpreter.is_file() => check_file(&interpreter)
            .map_err(|reason| format!("its interpreter {}: {reason}", interpreter.display())),
        Some(interpreter) => Err(format!(
            "its interpreter {} is not there\n  remedy: install it, or correct the script's first line",
            interpreter.display()
        )),
    }
}

/// The reason why a file cannot be executed on the software PMU.
fn check_file(path: &Path) -> Result<(), String> {
    const ELF_CLASS_32: u8 = 1;
    const MACHINE_X86_64: u16 = 62;
    let head =
        read_head(path).map_err(|error| format!("{error}\n  remedy: check the path and its rights"))?;
    if !is_executable(path) {
        return Err(format!("it is not executable\n  remedy: chmod +x {}", path.display()));
    }
    if head.len() >= 20 && head.starts_with(b"\x7fELF") {
        if head[4] == ELF_CLASS_32 {
            return Err("it is a 32-bit program\n  remedy: use a 64-bit build, or --source timer".into());
        }
        if u16::from_le_bytes([head[18], head[19]]) != MACHINE_X86_64 {
            return Err("it is of another processor\n  remedy: use an x86-64 build".into());
        }
    }
    Ok(())
}

/// The interpreter in a script's first line.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let head = read_head(script).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(word)))
}

/// The beginning of a file: an ELF header, or the part of a script's first line that the kernel reads.
fn read_head(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    std::fs::File::open(path)?.take(256).read_to_end(&mut head)?;
    Ok(head)
}

fn is_executable(path: &Path) -> bool {
    CString::new(path.as_os_str().as_bytes()).is_ok_and(|path| {
        // SAFETY: a string that ends with a NUL.
        unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
    })
}
