//! The success file (clause 3.5.4): a line for each New-Order that the server acknowledged, held against what is there.

use super::rows::Row;
use crate::error::TpccError;
use hardmeter_session::Session;
use std::path::Path;

/// An acknowledged order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Acknowledged {
    pub(super) warehouse: u32,
    pub(super) district: u8,
    pub(super) order: u32,
}

/// Reads a success file: W_ID, D_ID, O_ID, and the rest of each line. A malformed line is an error: no line may be
/// left out of the comparison.
pub(super) fn read(path: &Path) -> Result<Vec<Acknowledged>, TpccError> {
    let unreadable = |reason: String| TpccError::SuccessFile { path: path.to_owned(), reason };
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| parse(line).ok_or_else(|| unreadable(format!("not a line of it: {line}")))).collect()
}

fn parse(line: &str) -> Option<Acknowledged> {
    let mut words = line.split(' ');
    let warehouse = words.next()?.parse().ok()?;
    let district = words.next()?.parse().ok().filter(|district| (1..=10).contains(district))?;
    Some(Acknowledged { warehouse, district, order: words.next()?.parse().ok()? })
}

/// Acknowledged orders compared with the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Orders of the file.
    pub(super) acknowledged: u64,
    /// The lines whose number also occurs in another line.
    pub(super) twice: u64,
    /// The lines that ORDERS lacks.
    pub(super) missing: u64,
    /// The lines with a number of ORDER-LINE rows other than O_OL_CNT.
    pub(super) incomplete: u64,
    /// The first of the missing and incomplete ones.
    pub(super) examples: Vec<String>,
}

/// Looks for each of them.
pub(super) fn compare(session: &mut Session, orders: &[Acknowledged]) -> Result<Comparison, TpccError> {
    let what = "comparing the success file";
    session.execute(
        what,
        "DROP TABLE IF EXISTS acknowledged; CREATE TEMP TABLE acknowledged (w integer, d integer, o integer)",
    )?;
    let mut parts = orders.chunks(4096);
    session.copy_in(what, "COPY acknowledged FROM STDIN", &mut |buffer| {
        let Some(part) = parts.next() else { return false };
        for order in part {
            let Acknowledged { warehouse, district, order } = order;
            buffer.extend_from_slice(format!("{warehouse}\t{district}\t{order}\n").as_bytes());
        }
        true
    })?;
    session.execute(
        what,
        "ANALYZE acknowledged; DROP TABLE IF EXISTS found; CREATE TEMP TABLE found AS \
         SELECT w, d, o, o_ol_cnt AS promised, (SELECT count(*) FROM order_line \
             WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o) AS lines \
         FROM acknowledged LEFT JOIN orders ON o_w_id = w AND o_d_id = d AND o_id = o",
    )?;
    let counts =
        "SELECT count(*), count(*) - count(DISTINCT (w, d, o)), count(*) FILTER (WHERE promised IS NULL), \
                  count(*) FILTER (WHERE promised <> lines) FROM found";
    let row = Row::only(what, session.query(what, counts)?)?;
    let examples =
        "SELECT format('order %s/%s/%s: %s', w, d, o, CASE WHEN promised IS NULL THEN 'not there' \
                    ELSE format('%s of %s lines', lines, promised) END) \
                    FROM found WHERE promised IS NULL OR promised <> lines ORDER BY w, d, o LIMIT 3";
    let examples = session.query(what, examples)?.rows;
    Ok(Comparison {
        acknowledged: row.number(0)?,
        twice: row.number(1)?,
        missing: row.number(2)?,
        incomplete: row.number(3)?,
        examples: examples.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_three_numbers_and_what_else_there_is() {
        let order = Acknowledged { warehouse: 2, district: 10, order: 3001 };
        assert_eq!(parse("2 10 3001 2026-11-22 07:15:01.123456"), Some(order));
        assert_eq!(parse("2 10 3001"), Some(order));
        assert_eq!(parse("2 11 3001"), None);
        assert_eq!(parse("2 10"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_line_that_is_none_is_an_error_and_not_left_out() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# header\n1 2 3001 x\n1 2 3002 x\n").unwrap();
        assert_eq!(read(file.path()).unwrap().len(), 2);
        std::fs::write(file.path(), "# header\n1 2 3001 x\n1 2\n").unwrap();
        let error = read(file.path()).unwrap_err().to_string();
        assert!(error.contains("not a line of it: 1 2"), "{error}");
    }
}
