//! Placement on the site: whether, which policy, and which modules.

use crate::error::AuctionError;
use crate::site::{setting, APP_IDS};
use hardmeter_servers::web::{Php, WebSetup};
use hardmeter_servers::Setting;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Whether placement is on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// Stock servers without modules.
    #[default]
    Off,
    /// The modules measure; the analyzer observes (policy `observe`) and moves nothing.
    Collect,
    /// The analyzer places by a policy of this name.
    Policy(String),
}

impl Split {
    /// Whether modules are loaded.
    pub fn is_on(&self) -> bool {
        *self != Split::Off
    }

    /// The analyzer's policy; `None` if it does not run.
    pub fn policy(&self) -> Option<&str> {
        match self {
            Split::Off => None,
            Split::Collect => Some("observe"),
            Split::Policy(name) => Some(name),
        }
    }
}

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Split, String> {
        match text {
            "off" => Ok(Split::Off),
            "collect" => Ok(Split::Collect),
            name if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') => {
                Ok(Split::Policy(name.to_owned()))
            }
            _ => Err("off, collect, or a policy of hardmeter split analyze".into()),
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Split::Off => "off",
            Split::Collect => "collect",
            Split::Policy(name) => name,
        })
    }
}

/// The folder of placement's modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitModules {
    /// `mod_split.so`.
    pub apache: PathBuf,
    /// `split.so` of PHP, then `split_mysqlnd.so`, which needs it.
    pub php: [PathBuf; 2],
    /// `split.so` of MariaDB.
    pub mariadb: PathBuf,
}

impl SplitModules {
    /// The modules in the output folder of `make build-place`.
    ///
    /// # Errors
    ///
    /// [`AuctionError::Missing`] if a module was not built.
    pub fn in_folder(build: &Path) -> Result<SplitModules, AuctionError> {
        let there = |name: &str| {
            let path = build.join(name);
            path.exists().then(|| std::path::absolute(&path).unwrap_or(path)).ok_or_else(|| {
                AuctionError::Missing {
                    what: format!("there is no {} in {}", name, build.display()),
                    remedy: "make build-place (apt-get install apache2-dev php8.2-dev libmariadbd-dev), or name its folder \
                             with --split-build"
                        .into(),
                }
            })
        };
        Ok(SplitModules {
            apache: there("apache/mod_split.so")?,
            php: [there("php/split.so")?, there("php/split_mysqlnd.so")?],
            mariadb: there("mariadb/split.so")?,
        })
    }

    /// The modules that the web server loads.
    pub(crate) fn web_files(&self, _php: Php) -> Vec<&Path> {
        vec![&self.apache, &self.php[0], &self.php[1]]
    }

    /// MariaDB's settings; `plugin` is a path at which its account can read the plugin.
    pub(crate) fn database_settings(&self, segments: &Path, plugin: &Path) -> Vec<Setting> {
        let folder = plugin.parent().unwrap_or(Path::new("/"));
        [
            ("plugin-dir", folder.to_string_lossy().into_owned()),
            ("plugin-maturity", "experimental".into()),
            ("plugin-load-add", "split".into()),
            ("split-directory", segments.to_string_lossy().into_owned()),
            ("split-app-id", APP_IDS[2].to_string()),
            ("split-related-app-id", APP_IDS[0].to_string()),
        ]
        .map(|(name, value)| setting(name, &value))
        .to_vec()
    }

    /// Apache's and PHP's part.
    pub(crate) fn set_up_web(&self, setup: &mut WebSetup, segments: &Path) {
        let segments = segments.to_string_lossy();
        setup.modules.push(("split_module".into(), self.apache.clone()));
        setup.directives.push("SplitEngine On".into());
        setup.directives.push(format!("SplitDirectory \"{segments}\""));
        setup.directives.push(format!("SplitAppId {}", APP_IDS[0]));
        setup.extensions.extend(self.php.iter().cloned());
        setup.ini.push(setting("split.directory", &segments));
        setup.ini.push(setting("split.app_id", &APP_IDS[1].to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_off_collect_or_a_policy() {
        assert_eq!("off".parse(), Ok(Split::Off));
        assert_eq!("collect".parse::<Split>().unwrap().policy(), Some("observe"));
        assert_eq!("soft".parse::<Split>().unwrap().policy(), Some("soft"));
        assert!("a;b".parse::<Split>().is_err() && "".parse::<Split>().is_err());
        assert!(!Split::Off.is_on() && Split::Collect.is_on());
        assert_eq!(Split::Policy("lazy".into()).to_string(), "lazy");
    }

    #[test]
    fn missing_modules_say_what_builds_them() {
        let folder = tempfile::tempdir().unwrap();
        let error = SplitModules::in_folder(folder.path()).unwrap_err();
        assert!(error.remedy().contains("make build-place"), "{error}");
    }
}
