//! Compiles the C parts: the table of processors (hwloc) and the probe's discovery, whose timing loops are
//! libsplit's.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=src/machine.c");
    cc::Build::new()
        .file("src/machine.c")
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .compile("split_machine");
    println!("cargo:rustc-link-lib=hwloc");
    probe();
}

/// The probe measures cycles, so it is optimized in every profile.
fn probe() {
    let placement = Path::new("..");
    let sources = placement.join("libsplit/src");
    let kernels = placement.join("sections");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&sources)
        .expect("place/libsplit/src is part of the repository")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("probe") && name.ends_with(".c")
        })
        .collect();
    files.sort();
    files.extend([kernels.join("kernels.c"), PathBuf::from("src/probe.c")]);
    println!("cargo:rerun-if-changed=src/probe.c");
    for folder in [&sources, &kernels] {
        println!("cargo:rerun-if-changed={}", folder.display());
    }
    cc::Build::new()
        .files(&files)
        .include(&sources)
        .include(&kernels)
        .std("c11")
        .define("_GNU_SOURCE", None)
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .compile("split_probe");
}
