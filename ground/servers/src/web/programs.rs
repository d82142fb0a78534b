//! Locates Apache and PHP on this machine.

use super::setup::{Mpm, Php};
use crate::error::ServerError;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders where distributions install Apache's modules, best first.
const MODULE_FOLDERS: [&str; 3] =
    ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/local/apache2/modules"];
const PROGRAM_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/apache2/bin"];

/// The programs and modules of a web server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebPrograms {
    /// Apache's program.
    pub apache: PathBuf,
    /// The folder of its modules.
    pub modules: PathBuf,
    /// PHP as a module of Apache, where it is installed.
    pub php_module: Option<PathBuf>,
    /// PHP-FPM, where it is installed.
    pub fpm: Option<PathBuf>,
}

impl WebPrograms {
    /// Finds Apache, and PHP if it is installed.
    ///
    /// # Errors
    ///
    /// [`ServerError::ProgramsMissing`] if Apache is not installed.
    pub fn find() -> Result<WebPrograms, ServerError> {
        let apache = programs_named(|name| name == "apache2" || name == "httpd").pop();
        let modules = MODULE_FOLDERS.iter().map(PathBuf::from).find(|folder| folder.is_dir());
        let (Some(apache), Some(modules)) = (apache, modules) else {
            return Err(missing(
                "Apache 2.4",
                &[&PROGRAM_FOLDERS[..], &MODULE_FOLDERS[..]].concat(),
                "apache2-bin",
            ));
        };
        let php_module =
            newest(entries(&modules, |name| name.starts_with("libphp") && name.ends_with(".so")));
        let fpm = newest(programs_named(|name| name.starts_with("php-fpm")));
        Ok(WebPrograms { apache, modules, php_module, fpm })
    }

    /// A module of Apache's own.
    pub(super) fn module(&self, file: &str) -> Result<PathBuf, ServerError> {
        let path = self.modules.join(file);
        match path.exists() {
            true => Ok(path),
            false => Err(missing("Apache module", &[&path.to_string_lossy()], "apache2-bin")),
        }
    }

    /// Fails, naming the package, where what a server of this kind needs is not installed.
    ///
    /// # Errors
    ///
    /// [`ServerError`] with the package to install, or if `php` cannot run in `mpm`.
    pub fn require(&self, mpm: Mpm, php: Php) -> Result<(), ServerError> {
        self.module(&format!("mod_mpm_{}.so", mpm.name()))?;
        match php {
            Php::None => Ok(()),
            Php::Module if mpm != Mpm::Prefork => Err(ServerError::Unsupported {
                what: format!("Apache's PHP module is not thread-safe, and {} uses threads", mpm.name()),
                remedy: "use prefork with it, or PHP-FPM".into(),
            }),
            Php::Module => match &self.php_module {
                Some(_) => require_mysqli(),
                None => Err(missing(
                    "PHP for Apache",
                    &[&self.modules.to_string_lossy()],
                    "libapache2-mod-php8.2 php8.2-mysql",
                )),
            },
            Php::Fpm => match &self.fpm {
                Some(_) => require_mysqli(),
                None => Err(missing("PHP-FPM", &PROGRAM_FOLDERS, "php8.2-fpm php8.2-mysql")),
            },
        }
    }
}

/// PHP loads its extensions itself; check first, because its own error appears only in the log.
fn require_mysqli() -> Result<(), ServerError> {
    let folder = Path::new("/usr/lib/php");
    // Another distribution's folder: rely on PHP's own error.
    let unknown = !folder.is_dir();
    let found = entries(folder, |_| true).iter().any(|folder| folder.join("mysqli.so").exists());
    match unknown || found {
        true => Ok(()),
        false => Err(missing("mysqli for PHP", &["/usr/lib/php"], "php8.2-mysql")),
    }
}

fn missing(engine: &'static str, searched: &[&str], package: &str) -> ServerError {
    ServerError::ProgramsMissing { engine, searched: searched.join(", "), package: package.to_owned() }
}

fn programs_named(fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    PROGRAM_FOLDERS.iter().flat_map(|folder| entries(Path::new(folder), &fits)).collect()
}

fn entries(folder: &Path, fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(&fits)).map(|entry| entry.path()).collect()
}

/// `libphp8.10.so` is newer than `libphp8.2.so`.
fn newest(found: Vec<PathBuf>) -> Option<PathBuf> {
    found.into_iter().max_by_key(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let numbers = name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse::<u32>().ok());
        numbers.collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_by_number() {
        let found = ["/m/libphp8.2.so", "/m/libphp8.10.so", "/m/libphp7.4.so"].map(PathBuf::from).to_vec();
        assert_eq!(newest(found), Some(PathBuf::from("/m/libphp8.10.so")));
        assert_eq!(newest(vec![]), None);
    }

    #[test]
    fn what_is_missing_has_its_package_and_threads_take_no_module() {
        let modules = tempfile::tempdir().unwrap();
        let programs =
            WebPrograms { apache: "/a".into(), modules: modules.path().into(), php_module: None, fpm: None };
        let error = programs.require(Mpm::Event, Php::None).unwrap_err();
        assert_eq!(error.remedy(), "apt-get install apache2-bin");
        for mpm in ["prefork", "event"] {
            fs::write(modules.path().join(format!("mod_mpm_{mpm}.so")), "").unwrap();
        }
        assert!(programs.require(Mpm::Event, Php::None).is_ok());
        let error = programs.require(Mpm::Prefork, Php::Module).unwrap_err();
        assert_eq!(error.remedy(), "apt-get install libapache2-mod-php8.2 php8.2-mysql");
        assert!(programs.require(Mpm::Event, Php::Fpm).unwrap_err().remedy().contains("php8.2-fpm"));
        let error = programs.require(Mpm::Event, Php::Module).unwrap_err();
        assert!(error.remedy().contains("use prefork"), "{error}");
    }
}
