//! Server settings in the form `name=value`.

use crate::error::ServerError;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// One setting of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The server's name for it.
    pub name: String,
    /// Its value, without quotes.
    pub value: String,
}

impl Setting {
    pub(crate) fn new(name: &str, value: impl Into<String>) -> Setting {
        Setting { name: name.to_owned(), value: value.into() }
    }
}

impl FromStr for Setting {
    type Err = ServerError;

    /// Parses `name=value`. A name is a word with optional dots or dashes; a value is one line.
    fn from_str(text: &str) -> Result<Setting, ServerError> {
        let bad = |reason| ServerError::BadSetting { setting: text.to_owned(), reason };
        let (name, value) = text.split_once('=').ok_or_else(|| bad("it has no '='"))?;
        let (name, value) = (name.trim(), value.trim());
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(word) {
            return Err(bad("its name is not a word"));
        }
        if value.contains(['\n', '\r', '\0']) {
            return Err(bad("its value is more than one line"));
        }
        Ok(Setting::new(name, value))
    }
}

/// Later settings replace earlier ones of the same name, compared without case as servers do.
pub(crate) fn merge(settings: &mut Vec<Setting>, later: &[Setting]) {
    for setting in later {
        settings.retain(|earlier| !earlier.name.eq_ignore_ascii_case(&setting.name));
        settings.push(setting.clone());
    }
}

/// Refuses settings that a throwaway server needs as they are.
///
/// # Errors
/// [`ServerError::ReservedSetting`] for the first one that `reserved` lists. A dash counts as an underscore, as MariaDB has it.
pub(crate) fn refuse_reserved(settings: &[Setting], reserved: &[&str]) -> Result<(), ServerError> {
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    match settings.iter().find(|setting| reserved.contains(&plain(&setting.name).as_str())) {
        Some(setting) => Err(ServerError::ReservedSetting { name: setting.name.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_name_and_a_value() {
        assert_eq!("work_mem = 4MB".parse::<Setting>().unwrap(), Setting::new("work_mem", "4MB"));
        assert_eq!("a.b=c=d".parse::<Setting>().unwrap(), Setting::new("a.b", "c=d"));
        assert_eq!("empty=".parse::<Setting>().unwrap(), Setting::new("empty", ""));
        for bad in ["", "work_mem", "=4MB", "1x=2", "a b=c", "a=b\nfsync=off", "a'=b"] {
            let error = bad.parse::<Setting>().unwrap_err();
            assert!(matches!(error, ServerError::BadSetting { .. }), "{bad:?}");
            assert!(error.remedy().contains("--set"));
        }
    }

    #[test]
    fn where_a_server_listens_is_not_for_the_user_to_set() {
        let set = |text: &str| [text.parse::<Setting>().unwrap()];
        let reserved = ["port", "pid_file"];
        assert!(refuse_reserved(&set("work_mem=4MB"), &reserved).is_ok());
        for bad in ["port=5433", "PORT = 1", "pid-file=/tmp/x"] {
            let error = refuse_reserved(&set(bad), &reserved).unwrap_err();
            assert!(matches!(error, ServerError::ReservedSetting { .. }), "{bad}");
        }
    }

    #[test]
    fn the_last_of_a_name_wins() {
        let mut settings = vec![Setting::new("fsync", "on"), Setting::new("port", "5432")];
        merge(&mut settings, &[Setting::new("FSYNC", "off")]);
        assert_eq!(settings, [Setting::new("port", "5432"), Setting::new("FSYNC", "off")]);
    }
}
