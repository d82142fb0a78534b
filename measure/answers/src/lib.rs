//! From samples to answers: counting, ranking, estimating. Plain data in, plain data out.
//!
//! ```text
//!  records ──> Pass ──┬──> Top ─────> tables: count, share, latency, by any columns
//!   (of a capture)    ├──> Stacks ──> folded stacks, call trees
//!                     └──> Totals ──> what was recorded, what was lost, what has a name
//! ```
//!
//! A [`Pass`] receives every record once, in order of time. It keeps the processes' names, drops what the
//! [`Filter`] excludes and locates each sample; the accumulators behind it count.
//!
//! Out of scope: opening files (`ground/samples`), reading symbol tables (`measure/symbols`, behind the [`CodeMap`]
//! trait), printing (`measure/views`).
//!
//! # Design constraints
//!
//! * *Millions of samples, thousands of places.* A sample is counted under the place of its instruction, an
//!   (image, address) pair, so that memory grows with the distinct places and a name is looked up once for each.
//! * *A percentage has its n.* Every share is built from a [`Share`], which carries both counts and its interval.
//! * *Deterministic.* The same capture gives the same rows in the same order: by count, then by address.
//!
//! ```
//! use hardmeter_answers::Share;
//!
//! let share = Share { count: 5, total: 10 };
//! let interval = share.interval().expect("there are samples");
//! assert_eq!(share.fraction(), 0.5);
//! assert!((interval.low - 0.2366).abs() < 1e-4 && (interval.high - 0.7634).abs() < 1e-4);
//! ```

mod annotate;
mod code;
mod column;
mod estimate;
mod filter;
mod key_table;
mod latency;
mod objects;
mod pages;
mod pass;
mod quality;
mod queries;
mod remark;
mod sharing;
mod stacks;
mod statement_spans;
mod statement_text;
mod statements;
mod tally;
mod top;
mod totals;
pub mod why;

#[cfg(test)]
mod testing;

pub use annotate::{
    annotate, AnnotatedInstruction, Annotation, EventShare, InstructionText, PlaceCount, PlaceCounts,
    RoutineBody,
};
pub use code::{CodeMap, Image, ImageAddress, ImageId, Place, Routine, SourceLine};
pub use column::{Dimension, Measure, SortBy, UnknownColumn};
pub use estimate::{count_interval, Interval, Share};
pub use filter::{Filter, ModeFilter};
pub use latency::{Latencies, LatencySummary};
pub use objects::{
    CodeMarks, DataArea, DataMap, Formula, FormulaError, Object, ObjectCount, ObjectCoverage, ObjectFinding,
    ObjectIndex, ObjectLevel, ObjectRow, ObjectSource, ObjectTable, OperandField,
};
pub use pages::{
    find_relation, relations, FoldedPage, PageFold, PageLine, PagePart, Relation, RelationError,
};
pub use pass::{Located, Pass, ProcessNameId};
pub use quality::{
    AddressCheck, AddressGrade, AddressGrades, BlockCounts, EventQuality, Quality, Shadowing, Skid,
    UnevenBlock, Ungraded,
};
pub use queries::{
    EventSum, QueryColumn, QueryCount, QueryCoverage, QueryRow, QueryTable, SideBySide, SideBySideRow,
};
pub use remark::Remark;
pub use sharing::{
    Basis, ByteRange, Effect, Evidence, Fight, GroupKind, InstructionAccess, LayoutGroup, LineAccess,
    LineCensus, LineCounts, LineDetail, LineId, LineStudy, LineVerdict, OtherSide, Role, Roles, SharingKind,
};
pub use stacks::{StackCount, StackId, Stacks};
pub use statement_spans::{Executions, Running, StatementSpans};
pub use statement_text::{statement_hash, without_constants};
pub use statements::Statements;
pub use top::{Row, Table, Top, TopOptions, Value};
pub use totals::{EventTotals, NamedShare, Totals};
