//! Converts the linker's name to the programmer's.

use cpp_demangle::{DemangleOptions, ParseOptions};

/// Maximum nesting: malicious names could exhaust the stack. Real names are far below.
const DEEPEST: u32 = 96;
/// Longer names are not demangled: the result may be exponentially larger.
const LONGEST: usize = 8 << 10;

/// The readable form of a C++ or Rust symbol; other names only lose their version (`memcpy@@GLIBC_2.14` gives
/// `memcpy`).
pub fn demangle(name: &str) -> String {
    let name = match name.find('@') {
        Some(position) if position > 0 => &name[..position],
        _ => name,
    };
    if name.len() > LONGEST {
        return name.to_owned();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // The alternate form omits the hash: `alloc::vec::Vec<T>::push`, not `...::h1234567890abcdef`.
        return format!("{rust:#}");
    }
    if name.starts_with("_Z") || name.starts_with("__Z") {
        return demangle_cpp(name).unwrap_or_else(|| name.to_owned());
    }
    name.to_owned()
}

fn demangle_cpp(name: &str) -> Option<String> {
    // gcc's clones (`.part.0`, `.cold`, `.isra.1`) keep their suffix: it prints as "[clone .cold]".
    let options = ParseOptions::default().recursion_limit(DEEPEST);
    let symbol = cpp_demangle::BorrowedSymbol::new_with_options(name.as_bytes(), &options).ok()?;
    let text = symbol.demangle_with_options(&DemangleOptions::default().recursion_limit(DEEPEST)).ok()?;
    (text.len() <= 16 * LONGEST).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_language() {
        // The C++ forms are those that c++filt prints.
        let cases = [
            ("LWLockAcquire", "LWLockAcquire"),
            ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back(int&&)"),
            ("_ZN3foo3barEv", "foo::bar()"),
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("_Znotmangled", "_Znotmangled"),
            ("", ""),
        ];
        for (raw, readable) in cases {
            assert_eq!(demangle(raw), readable, "{raw}");
        }
    }

    #[test]
    fn hostile_names_come_back() {
        let deep = format!("_Z1f{}", "P".repeat(100_000));
        assert!(!demangle(&deep).is_empty());
        let nested = format!("_ZN{}E", "1a".repeat(3_000));
        assert!(!demangle(&nested).is_empty());
    }
}
