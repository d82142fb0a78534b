//! Variants: named lists of settings, each for a separate session.

use crate::error::TpchError;
use hardmeter_session::Session;
use std::str::FromStr;

/// A named list of settings.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Variant {
    /// Its name, for the report.
    pub name: String,
    /// The statements that make it.
    pub statements: Vec<String>,
}

impl FromStr for Variant {
    type Err = TpchError;

    /// Parses `NAME=SETTINGS`. Settings are separated by semicolons, each `load:LIBRARY` or `parameter=value`,
    /// applied in this order. None: the session unchanged.
    fn from_str(text: &str) -> Result<Variant, TpchError> {
        let bad = |reason: String| TpchError::BadVariant { text: text.to_owned(), reason };
        let (name, settings) = text.split_once('=').ok_or_else(|| bad("it has no '='".into()))?;
        let name = name.trim();
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
        if name.is_empty() || !name.chars().all(word) {
            return Err(bad("its name is not a word".into()));
        }
        let settings = settings.split(';').map(str::trim).filter(|setting| !setting.is_empty());
        let statements = settings.map(|setting| statement(setting).map_err(bad)).collect::<Result<_, _>>()?;
        Ok(Variant { name: name.to_owned(), statements })
    }
}

/// The SQL statement for a setting.
///
/// # Errors
///
/// The error in the setting, as text.
pub fn statement(setting: &str) -> Result<String, String> {
    if let Some(library) = setting.strip_prefix("load:") {
        let library = library.trim();
        if library.is_empty() {
            return Err("load: names no library".into());
        }
        return Ok(format!("LOAD {}", literal(library)));
    }
    let (name, value) = setting
        .split_once('=')
        .ok_or_else(|| format!("'{setting}' is neither load:LIBRARY nor name=value"))?;
    let name = name.trim();
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(letters) {
        return Err(format!("'{name}' is not the name of a parameter"));
    }
    Ok(set(name, value.trim()))
}

/// The statement for a setting. `SET` would take a quoted list such as search_path's for one name; set_config
/// parses the value as the configuration file does.
fn set(name: &str, value: &str) -> String {
    format!("SELECT pg_catalog.set_config('{name}', {}, false)", literal(value))
}

fn literal(text: &str) -> String {
    // An E'' string is independent of standard_conforming_strings.
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Settings of the session that all variants share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Low cost of random pages: favours nested loops over indexes.
    IndexFriendly,
    /// Default cost of random pages, without bitmap scans: favours sequential scans and hash joins.
    Default,
    /// The server's settings.
    Server,
}

impl Preset {
    /// Its settings.
    pub fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Preset::IndexFriendly => &[
                ("random_page_cost", "1.1"),
                ("work_mem", "1GB"),
                ("jit", "off"),
                ("max_parallel_workers_per_gather", "0"),
            ],
            Preset::Default => &[
                ("random_page_cost", "4"),
                ("work_mem", "256MB"),
                ("enable_bitmapscan", "off"),
                ("jit", "off"),
                ("max_parallel_workers_per_gather", "0"),
            ],
            Preset::Server => &[],
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Preset::IndexFriendly => "index-friendly",
            Preset::Default => "default",
            Preset::Server => "server",
        }
    }

    /// Applies its settings to a session.
    ///
    /// # Errors
    ///
    /// [`TpchError`] if the server refuses a setting.
    pub fn apply(self, session: &mut Session) -> Result<(), TpchError> {
        for (name, value) in self.settings() {
            session.execute(&format!("setting {name}"), &set(name, value))?;
        }
        Ok(())
    }
}

impl Variant {
    /// Applies its settings to a session.
    ///
    /// # Errors
    ///
    /// [`TpchError`] if the server refuses a setting.
    pub fn apply(&self, session: &mut Session) -> Result<(), TpchError> {
        for statement in &self.statements {
            session.execute(&format!("making the variant {}: {statement}", self.name), statement)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_names_and_statements() {
        let variant: Variant = "ccopt= load:ccopt; ccopt.enabled = on ;work_mem=64MB;".parse().unwrap();
        assert_eq!(variant.name, "ccopt");
        let statements = [
            "LOAD E'ccopt'",
            "SELECT pg_catalog.set_config('ccopt.enabled', E'on', false)",
            "SELECT pg_catalog.set_config('work_mem', E'64MB', false)",
        ];
        assert_eq!(variant.statements, statements);
        let stock: Variant = "stock=".parse().unwrap();
        assert_eq!((stock.name.as_str(), stock.statements.len()), ("stock", 0));
    }

    #[test]
    fn a_value_stays_a_value() {
        let variant: Variant = r"odd=search_path='a'\".parse().unwrap();
        assert_eq!(variant.statements, [r"SELECT pg_catalog.set_config('search_path', E'\'a\'\\', false)"]);
    }

    #[test]
    fn what_is_no_variant_is_refused_with_its_reason() {
        for (text, reason) in [
            ("stock", "no '='"),
            ("=jit=off", "not a word"),
            ("a b=", "not a word"),
            ("x=jit", "neither"),
            ("x=load:", "names no library"),
            ("x=jit=on; DROP TABLE orders=1", "not the name of a parameter"),
        ] {
            let error = text.parse::<Variant>().unwrap_err();
            assert!(error.to_string().contains(reason), "{text}: {error}");
        }
    }
}
