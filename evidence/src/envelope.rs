//! The JSON envelope: every JSON result of a command is an object with `format` (`hardmeter-VIEW`) and `version`,
//! and the fields of the view. `docs/json.md` lists the formats.
//!
//! A version is raised when a field is removed or changes its meaning; fields may be added at any time.
//!
//! ```
//! use hardmeter_evidence::envelope::envelope;
//!
//! let printed = envelope("queries", 1, serde_json::json!({ "tables": [] }));
//! assert_eq!(printed["format"], "hardmeter-queries");
//! assert_eq!(printed["version"], 1);
//! assert!(printed["tables"].is_array());
//! ```

use serde_json::{json, Value};

/// The fields of a view in the envelope. A value that is not an object becomes the field `data`. A `format` among
/// the fields is kept, with its version; another `version` among them is kept, too, and the format's is then
/// `format_version`.
pub fn envelope(view: &str, version: u64, fields: Value) -> Value {
    let mut fields = match fields {
        Value::Object(fields) => fields,
        other => [("data".to_string(), other)].into_iter().collect(),
    };
    if !fields.contains_key("format") {
        let key = if fields.contains_key("version") { "format_version" } else { "version" };
        fields.insert(key.into(), json!(version));
        fields.insert("format".into(), json!(format!("hardmeter-{view}")));
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stay_where_they_are() {
        let own = json!({ "format": "hardmeter-tpch", "version": 3, "queries": 22 });
        assert_eq!(envelope("tpch-run", 1, own.clone()), own);
        let server = envelope("server", 1, json!({ "version": "15.20" }));
        assert_eq!(server, json!({ "format": "hardmeter-server", "format_version": 1, "version": "15.20" }));
        let list = envelope("list", 1, json!([1, 2]));
        assert_eq!(list, json!({ "format": "hardmeter-list", "version": 1, "data": [1, 2] }));
    }
}
