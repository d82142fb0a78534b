//! Derives source lists from the machine's package lists, without changing these.
//!
//! Debian writes its lists in two ways, one line an entry (`deb URI SUITE COMPONENT...`) and as stanzas of fields
//! (deb822). Both have one word for "binary packages"; the copy has that for "source packages".

/// One-line entries for source packages, of each entry for binary ones.
pub(super) fn of_lines(text: &str) -> String {
    let entries = text.lines().map(str::trim).filter_map(|line| line.strip_prefix("deb"));
    let entries = entries.filter(|rest| rest.starts_with([' ', '\t']) && rest.contains("debian"));
    entries.map(|rest| format!("deb-src{rest}\n")).collect()
}

/// Stanzas for source packages, of each stanza for binary ones that is not switched off.
pub(super) fn of_stanzas(text: &str) -> String {
    let mut stanzas: Vec<String> = Vec::new();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    for stanza in lines.collect::<Vec<_>>().split(|line| line.trim().is_empty()) {
        let field = |name: &str| {
            stanza.iter().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim())
            })
        };
        let binary = field("Types").is_some_and(|types| types.split_whitespace().any(|word| word == "deb"));
        let off = field("Enabled").is_some_and(|value| value.eq_ignore_ascii_case("no"));
        if !binary || off || !field("URIs").is_some_and(|uris| uris.contains("debian")) {
            continue;
        }
        let is_types =
            |line: &&str| line.split_once(':').is_some_and(|(key, _)| key.eq_ignore_ascii_case("Types"));
        let rest = stanza.iter().filter(|line| !is_types(line)).map(|line| format!("{line}\n"));
        stanzas.push(format!("Types: deb-src\n{}", rest.collect::<String>()));
    }
    stanzas.join("\n")
}

/// The versions of a source package in what `apt-cache showsrc` prints, newest first.
pub(super) fn versions(text: &str) -> Vec<String> {
    let mut versions: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("Version: "))
        .map(|version| version.trim().into())
        .collect();
    versions.sort_by_key(|version| {
        let numbers = version.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
        std::cmp::Reverse(numbers.collect::<Vec<u64>>())
    });
    versions.dedup();
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_newest_first() {
        let text = "Package: postgresql-15\nVersion: 15.9-0+deb12u1\n\nPackage: postgresql-15\n\
                    Version: 15.20-0+deb12u1\n\nVersion: 15.9-0+deb12u1\n";
        assert_eq!(versions(text), ["15.20-0+deb12u1", "15.9-0+deb12u1"]);
        assert!(versions("W: Unable to locate package").is_empty());
    }

    #[test]
    fn lines_ask_for_sources() {
        let text = "# deb http://commented.out/debian bookworm main\n\
                    deb http://deb.debian.org/debian bookworm main contrib\n\
                    deb [signed-by=/usr/share/keyrings/k.gpg] http://deb.debian.org/debian-security bookworm-security main\n\
                    deb-src http://deb.debian.org/debian bookworm main\n\
                    deb https://packages.example.org/apt stable main\n";
        let expected = "deb-src http://deb.debian.org/debian bookworm main contrib\n\
                        deb-src [signed-by=/usr/share/keyrings/k.gpg] http://deb.debian.org/debian-security bookworm-security main\n";
        assert_eq!(of_lines(text), expected, "one of each entry of Debian's, none of others'");
    }

    #[test]
    fn stanzas_ask_for_sources_and_keep_their_keys() {
        let text = "Types: deb\n# a remark\nURIs: http://deb.debian.org/debian\nSuites: bookworm bookworm-updates\n\
                    Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n\
                    Types: deb-src\nURIs: http://deb.debian.org/debian\nSuites: bookworm\nComponents: main\n\n\
                    Enabled: no\nTypes: deb\nURIs: http://deb.debian.org/debian\nSuites: sid\nComponents: main\n";
        let expected =
            "Types: deb-src\nURIs: http://deb.debian.org/debian\nSuites: bookworm bookworm-updates\n\
                        Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n";
        assert_eq!(of_stanzas(text), expected);
    }
}
