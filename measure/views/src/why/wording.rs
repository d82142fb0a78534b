//! Sizes and places in sentences.

use crate::layout::printable;
use hardmeter_answers::why::PlaceCountNamed;
use hardmeter_samples::model::ByteCount;

/// A size as machines have them: `32 KB`, `1.25 MB`.
pub(super) fn bytes(size: ByteCount) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    for (unit, name) in UNITS {
        if size.0 >= unit {
            let value = size.0 as f64 / unit as f64;
            let text = format!("{value:.2}");
            return format!("{} {name}", text.trim_end_matches('0').trim_end_matches('.'));
        }
    }
    format!("{} bytes", size.0)
}

/// `LWLockRelease (lwlock.c:1796)`.
pub(super) fn place_text(place: &PlaceCountNamed) -> String {
    let routine = printable(&place.routine);
    match &place.line {
        Some(line) => {
            let file = line.file.rsplit('/').next().unwrap_or_default();
            format!("{routine} ({}:{})", printable(file), line.line)
        }
        None => routine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_on_a_data_sheet() {
        assert_eq!(bytes(ByteCount(32 << 10)), "32 KB");
        assert_eq!(bytes(ByteCount(5 << 18)), "1.25 MB");
        assert_eq!(bytes(ByteCount(100)), "100 bytes");
        assert_eq!(bytes(ByteCount(1000 << 10)), "1000 KB");
    }
}
