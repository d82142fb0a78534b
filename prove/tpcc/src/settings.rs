//! Settings of a run's connections, chosen by the user: `--set work_mem=64MB`.
//!
//! They belong to the sessions of the run alone: nothing of the server changes, and no other session sees them. A
//! setting that only the whole server can have (`shared_buffers`) is refused with the way to it, before the run.

use crate::error::TpccError;
use crate::observe::shown;
use hardmeter_session::{Session, SessionError, Stop, Target};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Settings by name. As text: `NAME=VALUE[,NAME=VALUE]`; empty: the server's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

/// Settings that Hardmeter's own protocol depends on.
const RESERVED: [&str; 3] = ["search_path", "client_encoding", "application_name"];

impl FromStr for Settings {
    type Err = String;

    /// A comma separates settings where a name and `=` follow it; elsewhere it belongs to the value.
    fn from_str(text: &str) -> Result<Settings, String> {
        let mut parts: Vec<String> = Vec::new();
        for part in text.split(',') {
            match parts.last_mut() {
                Some(last) if !begins_setting(part) => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => parts.push(part.to_owned()),
            }
        }
        let mut settings = BTreeMap::new();
        for part in parts.iter().filter(|part| !part.trim().is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("invalid setting \"{}\": expected NAME=VALUE", part.trim()))?;
            let name = name.trim().to_ascii_lowercase();
            if !is_name(&name) {
                return Err(format!(
                    "\"{name}\" is not the name of a setting: expected letters, digits and _"
                ));
            }
            if RESERVED.contains(&name.as_str()) {
                return Err(format!("{name} cannot be set: Hardmeter's statements depend on its value"));
            }
            if value.contains(['\n', '\r', '\0']) {
                return Err(format!("the value of {name} is more than one line"));
            }
            if settings.insert(name.clone(), value.trim().to_owned()).is_some() {
                return Err(format!("{name} is set twice"));
            }
        }
        Ok(Settings(settings))
    }
}

fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(letter)
}

fn begins_setting(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| is_name(name.trim()))
}

impl fmt::Display for Settings {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str(&in_words(&self.to_show()))
    }
}

/// Settings in words: `jit=on, work_mem=4MB`, or "the server's own".
pub fn in_words(settings: &BTreeMap<String, String>) -> String {
    match settings.is_empty() {
        true => "the server's own".into(),
        false => {
            let pairs: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
            pairs.join(", ")
        }
    }
}

impl Settings {
    /// Adds settings; one that is there already is an error.
    ///
    /// # Errors
    ///
    /// The name that is set twice, as text.
    pub fn add(&mut self, more: &Settings) -> Result<(), String> {
        for (name, value) in &more.0 {
            if self.0.insert(name.clone(), value.clone()).is_some() {
                return Err(format!("{name} is set twice"));
            }
        }
        Ok(())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Name and value, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// For results and reports: values that may be secrets are masked.
    pub fn to_show(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, value)| (name.clone(), shown(name, value))).collect()
    }

    /// The same server and database, whose connections have these settings.
    pub fn on(&self, target: &Target) -> Target {
        match self.is_empty() {
            true => target.clone(),
            false => target.with_options(&self.options()),
        }
    }

    /// As PostgreSQL's startup parameter `options`: `-c jit=on -c work_mem=4MB`. A backslash takes the meaning from
    /// a space and from itself.
    fn options(&self) -> String {
        let escaped = |value: &str| {
            let mut text = String::new();
            for letter in value.chars() {
                if letter.is_ascii_whitespace() || letter == '\\' {
                    text.push('\\');
                }
                text.push(letter);
            }
            text
        };
        let all: Vec<String> =
            self.0.iter().map(|(name, value)| format!("-c {name}={}", escaped(value))).collect();
        all.join(" ")
    }

    /// `SET` statements without those of a setting that the user has chosen.
    pub(crate) fn without_mine(&self, statements: &str) -> String {
        let is_mine = |statement: &str| {
            statement.split_whitespace().nth(1).is_some_and(|name| self.0.contains_key(name))
        };
        let kept: Vec<&str> = statements.split(';').filter(|statement| !is_mine(statement)).collect();
        kept.join(";")
    }

    /// Checks on a server that a session may have these settings, with these values.
    ///
    /// # Errors
    ///
    /// [`TpccError::Setting`] with the cause and the remedy.
    pub fn check(&self, target: &Target, stop: &Stop) -> Result<(), TpccError> {
        if self.is_empty() {
            return Ok(());
        }
        let mut session = Session::open(target, stop)?;
        for (name, value) in self.iter() {
            let sql = format!("SELECT context FROM pg_catalog.pg_settings WHERE lower(name) = '{name}'");
            let context = session.query("asking for settings", &sql)?;
            refuse(name, value, context.single())?;
        }
        let refused = |reason: String| TpccError::Setting {
            reason,
            remedy: "use a value that the server accepts for this user (SHOW NAME, or pg_settings)".into(),
        };
        match Session::open(&self.on(target), stop) {
            Ok(_) => Ok(()),
            // The plain connection was accepted: the settings are the cause.
            Err(SessionError::Connect { reason, .. }) => Err(refused(reason)),
            Err(error) => Err(error.into()),
        }
    }
}

/// An error if a setting of this context (of pg_settings) cannot belong to a session.
fn refuse(name: &str, value: &str, context: Option<&str>) -> Result<(), TpccError> {
    let refused =
        |reason: &str, remedy: String| Err(TpccError::Setting { reason: format!("{name} {reason}"), remedy });
    let for_all = |then: &str| {
        format!(
            "set it for the whole server. One that Hardmeter made: hardmeter server stop --dir DIR, hardmeter server start \
             --dir DIR --set {name}={value}. Another: ALTER SYSTEM SET {name} = '{value}', and {then}. Then leave it out here"
        )
    };
    match context {
        Some("postmaster") => {
            refused("is a setting of the whole server, read when that starts", for_all("restart that server"))
        }
        Some("sighup") => refused("is a setting of the whole server", for_all("SELECT pg_reload_conf()")),
        Some("internal") => refused("cannot be changed in a built server", "leave it out".into()),
        // A name with a dot may belong to an extension, or to the user's own functions.
        None if !name.contains('.') => {
            refused("is not a setting of this server", "check its name: SELECT name FROM pg_settings".into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        text.parse().unwrap()
    }

    #[test]
    fn settings_are_names_and_values() {
        let parsed = settings(" JIT = on,work_mem=64MB ");
        assert_eq!(parsed.iter().collect::<Vec<_>>(), [("jit", "on"), ("work_mem", "64MB")]);
        assert_eq!(parsed.to_string(), "jit=on, work_mem=64MB");
        // A comma within a value.
        let parsed = settings("temp_tablespaces=a,b,jit=off");
        assert_eq!(parsed.iter().collect::<Vec<_>>(), [("jit", "off"), ("temp_tablespaces", "a,b")]);
        assert!(settings("").is_empty());
        assert_eq!(settings("").to_string(), "the server's own");
        assert_eq!(settings("my.token=abc").to_string(), "my.token=(not shown)");
    }

    #[test]
    fn what_is_not_a_setting_is_refused_with_its_reason() {
        for (text, reason) in [
            ("jit", "expected NAME=VALUE"),
            ("a b=1", "not the name of a setting"),
            ("=1", "not the name of a setting"),
            ("jit=on,jit=off", "jit is set twice"),
            ("search_path=x", "depend on its value"),
            ("jit=on\n", "more than one line"),
        ] {
            let error = text.parse::<Settings>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let mut one = settings("jit=on");
        assert_eq!(one.add(&settings("jit=off")).unwrap_err(), "jit is set twice");
    }

    #[test]
    fn options_keep_spaces_and_backslashes() {
        assert_eq!(settings(r"a.b=x y\z,jit=on").options(), r"-c a.b=x\ y\\z -c jit=on");
    }

    #[test]
    fn hardmeters_own_settings_yield_to_the_users() {
        let own = "SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off";
        assert_eq!(
            settings("jit=on").without_mine(own),
            "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off"
        );
        assert_eq!(settings("").without_mine(own), own);
    }

    #[test]
    fn a_setting_of_the_server_is_refused_with_the_way_to_it() {
        let refused = |context| refuse("shared_buffers", "64MB", context).unwrap_err();
        let error = refused(Some("postmaster"));
        assert!(error.to_string().contains("shared_buffers is a setting of the whole server"), "{error}");
        assert!(
            error.remedy().contains("server start --dir DIR --set shared_buffers=64MB"),
            "{}",
            error.remedy()
        );
        assert!(refused(Some("sighup")).remedy().contains("pg_reload_conf"));
        assert!(refused(None).to_string().contains("is not a setting of this server"));
        for context in [Some("user"), Some("superuser"), Some("backend"), Some("superuser-backend")] {
            assert!(refuse("jit", "on", context).is_ok());
        }
        assert!(refuse("mine.pause", "1", None).is_ok());
    }
}
