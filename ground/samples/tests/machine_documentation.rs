//! docs/machines.md describes every built-in machine: its table equals the models.

use hardmeter_samples::machine::{CacheGeometry, Machine, TlbGeometry};
use std::path::Path;

fn size(bytes: u32) -> String {
    match (bytes >> 20, bytes >> 10) {
        (0, kibibytes) => format!("{kibibytes} KiB"),
        _ => format!("{} MiB", f64::from(bytes) / f64::from(1 << 20)),
    }
}

fn cache(cache: Option<CacheGeometry>) -> String {
    cache.map_or("–".into(), |cache| format!("{}, {}", size(cache.size), cache.ways))
}

fn tlb(tlb: Option<TlbGeometry>) -> String {
    tlb.map_or("–".into(), |tlb| format!("{}, {}", tlb.entries, tlb.ways))
}

/// The row of a machine in the table.
fn row(machine: &Machine) -> String {
    let cells = [
        format!("`{}`", machine.name),
        machine.title.clone(),
        cache(Some(machine.l1i)),
        cache(Some(machine.l1d)),
        cache(machine.l2),
        cache(machine.l3),
        tlb(machine.dtlb),
        tlb(machine.stlb),
        machine.memory_latency.to_string(),
        machine.cores.to_string(),
    ];
    format!("| {} |", cells.join(" | "))
}

#[test]
fn the_table_of_the_documentation_is_what_the_models_say() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/machines.md");
    let page = std::fs::read_to_string(page).expect("docs/machines.md");
    let rows: Vec<String> =
        Machine::builtin_names().map(|name| row(&Machine::builtin(name).expect("built in"))).collect();
    let missing: Vec<&String> = rows.iter().filter(|row| !page.lines().any(|line| line == **row)).collect();
    assert!(missing.is_empty(), "put these rows into docs/machines.md:\n{missing:#?}");
    let told = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(told, rows.len(), "docs/machines.md has a row for a machine that is not built in");
}
