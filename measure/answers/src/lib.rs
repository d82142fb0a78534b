//! Questions about a capture, and their answers. Plain data out, which any program can use or serialize.
//!
//! ```text
//!  Answers ── opens ──> Capture (a file, its header, its side files)
//!     └─ walk ── records ──> Pass ──┬──> Top ─────> tables: count, share, latency, by any columns
//!                                   ├──> Why, ObjectCount, QueryCount, LineStudy, PageFold, PlaceCounts, Quality
//!                                   ├──> Stacks ──> folded stacks, call trees
//!                                   └──> Totals ──> what was recorded, what was lost, what has a name
//! ```
//!
//! [`Answers`] is the entry point: it opens a capture, finds names and drives the walk; several questions
//! share one. Behind it, a [`Pass`] sees every record once, in order of time. It keeps the processes' names,
//! drops what the [`Filter`] excludes and says where each sample lies; the accumulators count. These are
//! generic over the [`CodeMap`], so that they are tested without files; [`SymbolNames`] is the map of real
//! captures.
//!
//! What this crate is *not* for: it parses no file format (`ground/samples`), reads no symbol table
//! (`measure/symbols`) and prints nothing (`measure/views`).
//!
//! # Design constraints
//!
//! * *Millions of samples, thousands of places.* A sample is counted under the place of its instruction, an
//!   (image, address) pair, so that memory grows with the distinct places and a name is looked up once for
//!   each.
//! * *A percentage has its n.* Every share is built from a [`Share`], which carries both counts and its
//!   interval.
//! * *Deterministic.* The same capture gives the same rows in the same order: by count, then by address.
//! * *No figure from a sentence.* Numbers come from typed fields of a capture and its side files; notes,
//!   limits and warnings are passed on as text.

mod annotate;
mod ask;
mod capture;
mod code;
mod column;
mod compare;
mod cube;
mod data_names;
mod error;
mod estimate;
mod filter;
mod grading;
mod heading;
mod instructions;
mod key_table;
mod latency;
mod objects;
mod pages;
mod pass;
mod quality;
mod queries;
mod ranking;
mod registers;
mod remark;
mod routine_code;
mod routine_search;
mod sharing;
mod stacks;
mod statement_spans;
mod statements;
mod symbols;
mod tally;
mod top;
mod totals;
pub mod why;
mod workload;

#[cfg(test)]
mod testing;

pub use annotate::{
    annotate, AnnotatedInstruction, Annotation, EventShare, InstructionText, PlaceCount, PlaceCounts,
    RoutineBody,
};
pub use ask::{
    AccessReport, AnnotateAnswer, AnnotateQuestion, Answer, Answers, CodeName, CubeAnswer, CubeQuestion,
    FightReport, GroupReport, LineReport, ObjectsAnswer, ObjectsQuestion, PagesAnswer, PagesQuestion,
    QualityAnswer, QueriesAnswer, QueriesQuestion, Question, SharingAnswer, SharingQuestion, TopAnswer,
    TopQuestion, WhyAnswer, WhyQuestion,
};
pub use capture::{Capture, Visitor, Walk, WalkOptions};
pub use code::{CodeMap, Image, ImageAddress, ImageId, Place, Routine, SourceLine};
pub use column::{Dimension, Measure, Shown, SortBy, UnknownColumn};
pub use compare::{
    CompareColumn, CompareRun, ComparedEvent, ComparedRow, ComparedTable, Comparison, Incomparable, Label,
    Per, RunEvent, RunRow, RunSum, Side, UnknownPer, DISCOVERY, JUDGED,
};
pub use cube::{Coarsening, Cube, CubeFrame, CubeKey, CubeObject, CubeRows, CubeSum, CubeTime};
pub use error::AnswersError;
pub use estimate::{count_interval, Interval, Share};
pub use filter::{Filter, ModeFilter};
pub use heading::{EventHeading, Heading};
pub use instructions::Instructions;
pub use latency::{Latencies, LatencySummary, StallShare};
pub use objects::{
    Besides, BesidesKind, CodeMarks, DataArea, DataMap, Formula, FormulaError, Object, ObjectCount,
    ObjectCoverage, ObjectFinding, ObjectIndex, ObjectLevel, ObjectRow, ObjectSource, ObjectTable,
    OperandField,
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
    Activity, EventSum, QueryColumn, QueryCount, QueryCoverage, QueryRow, QueryTable, SideBySide,
    SideBySideRow,
};
pub use ranking::Ranking;
pub use registers::{RegisterRecord, RegisterRecords, REGISTER_ORDER};
pub use remark::Remark;
pub use routine_search::RoutineWanted;
pub use sharing::{
    Basis, ByteRange, Effect, Evidence, Fight, GroupKind, InstructionAccess, LayoutGroup, LineAccess,
    LineCensus, LineCounts, LineDetail, LineId, LineStudy, LineVerdict, Movement, MovementKind, OtherSide,
    Role, Roles, SharingKind,
};
pub use stacks::{StackCount, StackId, Stacks};
pub use statement_spans::{Executions, Running, StatementSpans};
pub use statements::Statements;
pub use symbols::SymbolNames;
pub use top::{RoutineSum, Row, Table, Top, TopOptions, Value};
pub use totals::{EventTotals, NamedShare, Totals};
pub use workload::{singular, Workload};
