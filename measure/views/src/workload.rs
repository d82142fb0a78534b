//! The counters of a server during the recording, as sentences.

use crate::number::{counted, grouped};
use hardmeter_answers::{singular, Workload};

/// The counters as sentences; `None` if there are none.
pub(crate) fn text(workload: &Workload) -> Option<String> {
    let number = |name: &str| workload.figures.get(name).map(|number| grouped(number.round() as u64));
    let mut parts = Vec::new();
    for name in workload.figures.keys().filter(|name| name.ends_with("transactions")) {
        // The transactions that wrote are among all of them, and those counts are of all databases.
        if name == "transactions" || number("transactions").is_none() {
            let count = workload.figures[name].round() as u64;
            let noun = if count == 1 { singular(name) } else { name.clone() };
            let mut text = format!("{} {noun}", grouped(count));
            let back =
                number("transactions rolled back").filter(|back| name == "transactions" && back != "0");
            text.extend(back.map(|back| format!(" ({back} rolled back)")));
            parts.push(text);
        }
    }
    parts.extend(number("rows returned").map(|count| format!("{count} rows returned")));
    parts.extend(number("rows fetched").map(|count| format!("{count} rows fetched by an index")));
    parts.extend(number("rows written").map(|count| {
        let of = ["inserted", "updated", "deleted"]
            .map(|kind| number(&format!("rows {kind}")).map(|count| format!("{count} {kind}")));
        let of = of.into_iter().collect::<Option<Vec<String>>>().filter(|_| count != "0");
        format!("{count} rows written{}", of.map_or(String::new(), |of| format!(" ({})", of.join(", "))))
    }));
    let other = workload.figures.keys().filter(|name| *name == "rows" || name.starts_with("rows_"));
    parts.extend(other.filter_map(|name| Some(format!("{} {name}", number(name)?))));
    let of = match workload.databases.as_slice() {
        [] => String::new(),
        [one] => format!(", in database {one}"),
        several => format!(", in databases {}", several.join(", ")),
    };
    (!parts.is_empty()).then(|| parts.join(", ") + &of)
}

/// `3,013 transactions`, if they were counted.
pub(crate) fn transactions(workload: &Workload) -> Option<String> {
    let count = workload.figures.get("transactions")?.round() as u64;
    Some(counted(count, "transaction"))
}

/// A figure per transaction or row: three digits that count.
pub(crate) fn amount(number: f64) -> String {
    match number {
        n if n >= 1000.0 => grouped(n.round() as u64),
        n if n >= 10.0 => format!("{n:.1}"),
        n if n >= 1.0 => format!("{n:.2}"),
        n => format!("{n:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[(&str, f64)], databases: &[&str]) -> Option<String> {
        let mut workload =
            Workload::new(list.iter().map(|(name, number)| (name.to_string(), *number)).collect());
        workload.databases = databases.iter().map(|name| name.to_string()).collect();
        text(&workload)
    }

    #[test]
    fn transactions_and_rows_in_words() {
        let all = [
            ("rows deleted", 0.0),
            ("rows fetched", 1281.0),
            ("rows inserted", 200.0),
            ("rows returned", 3687.0),
            ("rows updated", 600.0),
            ("rows written", 800.0),
            ("transactions", 207.0),
            ("transactions rolled back", 3.0),
            ("writing transactions", 200.0),
        ];
        assert_eq!(
            words(&all, &["bank"]).as_deref(),
            Some(
                "207 transactions (3 rolled back), 3,687 rows returned, 1,281 rows fetched by an index, 800 rows \
                 written (200 inserted, 600 updated, 0 deleted), in database bank"
            )
        );
        let reading = [("transactions", 207.0), ("rows returned", 9.0), ("rows written", 0.0)];
        let expected = "207 transactions, 9 rows returned, 0 rows written";
        assert_eq!(words(&reading, &[]).as_deref(), Some(expected));
        let old = [("writing transactions", 200.0), ("writing transactions finished", 199.0)];
        assert_eq!(words(&old, &[]).as_deref(), Some("200 writing transactions"));
        assert_eq!(words(&[], &[]), None);
    }

    #[test]
    fn figures_read_well() {
        assert_eq!([1234.4, 12.34, 1.234, 0.1234].map(amount), ["1,234", "12.3", "1.23", "0.123"]);
    }
}
