//! Passwords from libpq's password file, which keeps them out of command lines.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The connection whose password is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// A name, or the folder of a unix socket.
    pub host: &'a str,
    pub port: u16,
    pub database: &'a str,
    pub user: &'a str,
}

/// The password of `PGPASSFILE`, or of `.pgpass` in the home folder. As with libpq a file that others may read does not count.
pub(crate) fn from_file(wanted: Wanted) -> Option<String> {
    let named = std::env::var_os("PGPASSFILE").map(PathBuf::from);
    let usual = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".pgpass"));
    in_file(&named.or_else(usual)?, wanted)
}

fn in_file(path: &Path, wanted: Wanted) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o077 != 0 {
        return None;
    }
    fs::read_to_string(path).ok()?.lines().find_map(|line| of_line(line, wanted))
}

/// `host:port:database:user:password`; `*` matches any, `\` escapes a colon or itself.
fn of_line(line: &str, wanted: Wanted) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            // The password is all that is left, colons and all.
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut()?.extend(characters.next()),
            other => fields.last_mut()?.push(other),
        }
    }
    let [host, port, database, user, password] = fields.try_into().ok()?;
    // libpq calls its own socket folders localhost.
    let usual_socket = ["/var/run/postgresql", "/run/postgresql", "/tmp"].contains(&wanted.host);
    let fits = |field: &str, value: &str| field == "*" || field == value;
    let same = (fits(&host, wanted.host) || (usual_socket && host == "localhost"))
        && fits(&port, &wanted.port.to_string())
        && fits(&database, wanted.database)
        && fits(&user, wanted.user);
    same.then_some(password)
}

/// Whether a connection string, or a URL, has a password in it.
pub fn holds_password(connection: &str) -> bool {
    without_password(connection) != connection
}

/// A connection string without its password, for messages.
pub(crate) fn without_password(text: &str) -> String {
    // postgresql://user:password@host/...
    if let Some((scheme, rest)) = text.split_once("://") {
        let authority = rest.find(['/', '?']).unwrap_or(rest.len());
        if let Some((user, _)) = rest[..authority].rsplit_once('@').and_then(|(who, _)| who.split_once(':')) {
            let behind = &rest[rest[..authority].rfind('@').unwrap_or(0)..];
            return without_password(&format!("{scheme}\u{0}{user}:...{behind}")).replace('\u{0}', "://");
        }
    }
    // A value goes up to a blank, or to the end of its quotes; in a URL up to the next parameter.
    let is_key = |&(at, _): &(usize, &str)| {
        let before = text[..at].chars().next_back().is_none_or(|before| " &?\t\n".contains(before));
        before && text[at + "password".len()..].trim_start().starts_with('=')
    };
    let Some((at, _)) = text.match_indices("password").find(is_key) else { return text.to_owned() };
    let behind = at + "password".len();
    let value = behind + text[behind..].len() - text[behind..].trim_start_matches([' ', '=']).len();
    let rest = &text[value..];
    let end = match rest.strip_prefix('\'') {
        Some(quoted) => quoted.find('\'').map_or(rest.len(), |end| end + 2),
        None => rest.find([' ', '&']).unwrap_or(rest.len()),
    };
    format!("{}=...{}", &text[..behind], without_password(&rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted = Wanted { host: "db1", port: 5432, database: "tpcc", user: "me" };

    #[test]
    fn the_first_line_that_fits_is_taken() {
        assert_eq!(of_line("db1:5432:tpcc:me:secret", WANTED).unwrap(), "secret");
        assert_eq!(of_line("*:*:*:me:a\\:b\\\\c:d", WANTED).unwrap(), "a:b\\c:d");
        for other in ["db2:5432:tpcc:me:x", "db1:5433:*:*:x", "#*:*:*:*:x", "db1:5432:tpcc:me", ""] {
            assert_eq!(of_line(other, WANTED), None, "{other}");
        }
        let socket = Wanted { host: "/var/run/postgresql", ..WANTED };
        assert_eq!(of_line("localhost:*:*:*:x", socket).unwrap(), "x");
        assert_eq!(of_line("localhost:*:*:*:x", WANTED), None);
    }

    #[test]
    fn a_file_that_others_may_read_does_not_count() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "*:*:*:you:no\n*:*:*:me:yes\n*:*:*:me:later\n").unwrap();
        assert_eq!(in_file(file.path(), WANTED).unwrap(), "yes");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(in_file(file.path(), WANTED), None);
        assert_eq!(in_file(Path::new("/nonexistent"), WANTED), None);
    }

    #[test]
    fn messages_have_no_passwords() {
        for (text, shown) in [
            ("host=a password=secret user=b", "host=a password=... user=b"),
            ("password = 'my secret' host=a", "password=... host=a"),
            ("host=a nonsense=1", "host=a nonsense=1"),
            ("dbname=password_tests host=a", "dbname=password_tests host=a"),
            ("dbname=passwords password=x", "dbname=passwords password=..."),
            ("postgresql://me:secret@db1/tpcc", "postgresql://me:...@db1/tpcc"),
            ("postgresql://me:p@ss@db1/tpcc?x=1", "postgresql://me:...@db1/tpcc?x=1"),
            (
                "postgresql://db1/tpcc?user=me&password=secret&x=1",
                "postgresql://db1/tpcc?user=me&password=...&x=1",
            ),
        ] {
            assert_eq!(without_password(text), shown);
        }
    }
}
