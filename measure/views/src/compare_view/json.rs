//! A comparison as JSON.

use super::CompareReport;
use crate::top_view::remark_json;
use hardmeter_answers::{ComparedEvent, ComparedRow, ComparedTable, DISCOVERY};
use hardmeter_evidence::envelope::envelope;
use serde_json::{json, Value};

impl CompareReport {
    /// The comparison as JSON. An infinite change (from nothing) is null.
    pub fn json(&self) -> Value {
        envelope(
            "compare",
            1,
            json!({
                "a": self.a,
                "b": self.b,
                "source": self.source,
                "filter": self.filter,
                "per": self.per,
                "between_runs": self.between_runs,
                "false_discovery": DISCOVERY,
                "sentences": self.sentences(),
                "events": self.events.iter().map(event).collect::<Vec<_>>(),
                "notes": self.notes,
                "remarks": self.remarks.iter().map(remark_json).collect::<Vec<_>>(),
                "unread": self.unread,
            }),
        )
    }
}

fn event(event: &ComparedEvent) -> Value {
    json!({
        "name": event.name,
        "kind": event.kind,
        "unit": if event.time { "ns" } else { "events" },
        "total": figures(&event.total),
        "tables": event.tables.iter().map(table).collect::<Vec<_>>(),
    })
}

fn table(table: &ComparedTable) -> Value {
    let row = |row: &ComparedRow| {
        let mut object = figures(row);
        for (column, name) in table.columns.iter().zip(&row.names) {
            object[column.name()] = json!(name);
        }
        object["adjusted_p"] = json!(row.adjusted_p);
        object["different"] = json!(row.different);
        object
    };
    json!({
        "columns": table.columns,
        "judged": table.judged,
        "different": table.different,
        "rows": table.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn figures(row: &ComparedRow) -> Value {
    let side = |side: usize| json!({ "samples": row.samples[side], "rate": row.rates[side], "cycles": row.cycles[side] });
    json!({
        "a": side(0),
        "b": side(1),
        "difference": row.difference(),
        "change": row.change.map(|change| json!({
            "value": change.value,
            "interval_95": change.interval,
            "p": change.p,
        })),
    })
}
