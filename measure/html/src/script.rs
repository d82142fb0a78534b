//! The script and the style sheet of the report, compiled in: sources and shipped text are the same files.

use base64::{engine::general_purpose::STANDARD, Engine};
use sha2::{Digest, Sha256};

/// Rules of the report's own elements.
pub(crate) const STYLE: &str = include_str!("../web/report.css");

/// The script: one function around all files, so that nothing becomes global.
pub(crate) const CODE: &str = concat!(
    "(() => {\n\"use strict\";\n",
    include_str!("../web/page.js"),
    include_str!("../web/cube.js"),
    include_str!("../web/filter.js"),
    include_str!("../web/boxes.js"),
    include_str!("../web/treemap.js"),
    include_str!("../web/flame.js"),
    include_str!("../web/crosstab.js"),
    include_str!("../web/timeline.js"),
    include_str!("../web/sets.js"),
    include_str!("../web/main.js"),
    "})();\n"
);

/// The script of the page of a comparison.
pub(crate) const DIFFERENCE: &str = concat!(
    "(() => {\n\"use strict\";\n",
    include_str!("../web/page.js"),
    include_str!("../web/boxes.js"),
    include_str!("../web/difference.js"),
    "})();\n"
);

/// The base64 of the report's script's SHA-256, for the page's policy.
pub(crate) fn sha256() -> String {
    sha256_of(CODE)
}

/// The same of another script.
pub(crate) fn sha256_of(code: &str) -> String {
    STANDARD.encode(Sha256::digest(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Constructs that could turn a name into markup, fetch something, or end the script.
    #[test]
    fn the_script_makes_no_markup_of_text_and_asks_for_nothing() {
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "fetch(",
            "XMLHttpRequest",
            "WebSocket",
            "import(",
            "new Image",
            "sendBeacon",
            "</script",
            "localStorage",
        ] {
            assert!(!CODE.contains(forbidden) && !DIFFERENCE.contains(forbidden), "{forbidden}");
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }

    #[test]
    fn the_hash_is_that_of_a_policy() {
        assert_eq!(sha256().len(), 44);
        assert!(sha256().ends_with('='));
    }
}
