//! State rules: what the software PMU reads from a profiled server's memory at each sample, such as the statement,
//! or the block in a buffer. The rules are plain data, made by the crate that knows the server (`measure/objects`)
//! and executed by the source of the samples; neither depends on the other.
//!
//! Addresses are those of the server's first process. Processes forked from it share them; in a process where a
//! rule's memory is not mapped, the rule returns nothing.

use super::units::{ByteCount, VirtualAddress};
use serde::{Deserialize, Serialize};

/// Number by which a rule's result is recognised in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateId(pub u32);

impl StateId {
    /// The server's own id of the statement, eight bytes, 0 if it has none: PostgreSQL's query id, as in
    /// `pg_stat_statements`.
    pub const SERVERS_STATEMENT: StateId = StateId(0xffff_ff01);
    /// When the server began the statement, eight bytes: microseconds since 2000-01-01 UTC by the wall clock.
    /// Source `live` uses it to tell whether a statement is the sample's or a later one.
    pub const STATEMENT_START: StateId = StateId(0xffff_ff02);
}

/// The place of the text of the latest statement: `*(*base + offset)` is its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LastStatement {
    /// Address of the pointer to the containing structure.
    pub base: VirtualAddress,
    /// Offset of the text's address from there.
    pub offset: ByteCount,
}

/// The statement being executed: `*pointer` is the address of its text (NUL-terminated), or null. The text is
/// normalised (`ground/statement`, PostgreSQL's dialect), and the sample gets its `StatementId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateRule {
    /// Address of the pointer.
    Statement {
        /// The latest statement, used while that pointer is null.
        pointer: VirtualAddress,
        /// Where to look for the statement executed last, while that pointer is null.
        last: Option<LastStatement>,
    },
    /// A word of up to eight bytes: at `base`, or, with `offset`, at `*base + offset`.
    Word {
        /// The id of the result.
        id: StateId,
        /// Address of the word, or of the pointer to its structure.
        base: VirtualAddress,
        /// Offset from what `base` points to.
        offset: Option<ByteCount>,
        /// Size in bytes: 1, 2, 4 or 8.
        length: u32,
    },
    /// The first `length` bytes of the table entry for the sampled data address: `table[(address - region) /
    /// stride]`. Nothing if the address lies outside the region.
    Entry {
        /// The id of the result.
        id: StateId,
        /// First byte of the region.
        region: VirtualAddress,
        /// Its size.
        size: ByteCount,
        /// Bytes of the region per entry of the table.
        stride: ByteCount,
        /// First entry of the table.
        table: VirtualAddress,
        /// Bytes per entry.
        table_stride: ByteCount,
        /// Bytes copied of an entry, up to 32.
        length: u32,
    },
    /// The statement of a server whose sessions are threads: `*(thread pointer + session)` is the address of the
    /// thread's session, and there, at `text`, lie address and length of its statement. The thread pointer is the base
    /// of `%fs`. A session without a statement is between two: its last one counts, and is over.
    /// The text is normalised as MariaDB reads it.
    ThreadStatement {
        /// Distance of the pointer to the session from the thread pointer.
        session: i64,
        /// Offset in the session of the text's address, which its length follows.
        text: ByteCount,
        /// Offset in the session of the connection's number, eight bytes: sessions are used again.
        connection: ByteCount,
    },
    /// Words of four bytes, one after another, from the page that holds the sampled data address. None if the
    /// address lies outside the region, which begins with a page.
    Page {
        /// By which number the result is known.
        id: StateId,
        /// First byte of the region.
        region: VirtualAddress,
        /// Its size.
        size: ByteCount,
        /// Bytes of a page.
        page: ByteCount,
        /// Offsets of the words in a page.
        words: [u16; StateRule::PAGE_WORDS],
    },
}

impl StateRule {
    /// Maximum number of rules of a capture.
    pub const MOST: usize = 8;
    /// How many words of a page a rule reads.
    pub const PAGE_WORDS: usize = 6;
}
