//! Single records of an instruction with their registers, as the paper lists PEBS records; in 64 bits, and with
//! data address and latency, which the hardware of 2003 did not record.

use crate::layout::{Column, Style, TextTable, Tone};
use crate::number::counted;
use hardmeter_answers::{RegisterRecord, RegisterRecords, REGISTER_ORDER};
use hardmeter_samples::model::Register;
use std::fmt::Write;

/// The listing as text. Wider than a terminal, and never cut: an incomplete register is useless.
pub(crate) fn render(registers: &RegisterRecords, style: Style) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}",
        style.paint(
            Tone::Title,
            &format!("first {} of {}", registers.records.len(), counted(registers.total, "record"))
        )
    );
    if !registers.records.iter().any(RegisterRecord::has_registers) {
        text.push_str(
            "  the capture holds no registers: a timer records none; record a memory event (hardmeter events)\n",
        );
        return text;
    }
    let names: Vec<&str> = REGISTER_ORDER.iter().map(|register| register.name()).collect();
    let _ = writeln!(text, "# each record is: {{{}, data address, latency, level}}", names.join(", "));
    let _ = writeln!(text, "# rip is the address that the process saw; those above are the image's own");
    let mut columns = vec![Column::left("event")];
    columns.extend(names.iter().map(|name| Column::right(*name)));
    columns.extend(["data address", "latency"].map(Column::right));
    columns.push(Column::left("level"));
    let mut grid = TextTable::new(columns);
    let cell = |text: String| (text, Tone::Plain);
    let hex = |value: Option<u64>, digits: usize| {
        cell(value.map_or("-".to_string(), |value| format!("{value:0digits$x}")))
    };
    for record in &registers.records {
        let mut row = vec![cell(record.event.to_string())];
        row.extend(
            REGISTER_ORDER
                .iter()
                .zip(record.registers)
                .map(|(register, value)| hex(value, if *register == Register::Rflags { 8 } else { 16 })),
        );
        row.push(hex(record.data_address, 16));
        row.push(cell(record.latency.map_or("-".to_string(), |latency| latency.to_string())));
        row.push(cell(record.level.to_string()));
        grid.row(row);
    }
    text.push_str(&grid.render(Style { width: None, ..style }, 2));
    text
}
