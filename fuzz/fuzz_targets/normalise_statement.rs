//! Any bytes at all, normalised as a statement of either dialect: no read or write out of bounds, an id for all that
//! is not empty, and statements one by one are all of the text.
#![no_main]

use hardmeter_statement::{cut, normalise, normalise_first, Dialect, StatementId, LONGEST};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for dialect in [Dialect::Postgres, Dialect::MariaDb] {
        let plain = normalise(dialect, bytes);
        assert!(plain.len() <= LONGEST);
        assert_eq!(StatementId::of_normalised(&plain).0 == 0, plain.is_empty());
        assert!(cut(&plain, 100).len() <= 100);
        let mut rest = bytes;
        loop {
            let (first, next) = normalise_first(dialect, rest);
            assert!(first.len() <= LONGEST);
            let Some(next) = next else { break };
            rest = &rest[next..];
        }
    }
});
