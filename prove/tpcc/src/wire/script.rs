//! Scripts: the requests of a transaction and the processing of its answers, independent of sockets.

use super::refusal::Refusal;
use super::replies::{Replies, Unexpected};
use super::requests::Requests;
use crate::origin::Origin;
use crate::work::{Input, Kind, Outcome};

/// A statement that every connection prepares once. It is executed by its index in [`Scripts::statements`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementText {
    /// SQL, with parameters `$1`, `$2`... Exactly one statement.
    pub sql: String,
    /// The types of the first parameters, as OIDs of pg_type (see [`types`]); the server infers the rest. 0: infer it.
    pub parameters: Vec<u32>,
}

impl StatementText {
    /// A statement whose parameter types the server infers.
    pub fn new(sql: impl Into<String>) -> StatementText {
        StatementText { sql: sql.into(), parameters: Vec::new() }
    }

    /// A statement with these parameter types.
    pub fn typed(sql: impl Into<String>, parameters: &[u32]) -> StatementText {
        StatementText { sql: sql.into(), parameters: parameters.to_vec() }
    }

    /// The same, with a comment that names a transaction of this kind as origin.
    pub fn signed(mut self, origin: Option<Origin>, kind: Kind) -> StatementText {
        if let Some(origin) = origin {
            self.sql += &origin.comment(kind);
        }
        self
    }
}

/// OIDs of the types that transactions use, from PostgreSQL's pg_type.dat.
#[allow(missing_docs)] // each is the type of that name
pub mod types {
    pub const BOOL: u32 = 16;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT4: u32 = 23;
    pub const TEXT: u32 = 25;
    pub const INT2_ARRAY: u32 = 1005;
    pub const INT4_ARRAY: u32 = 1007;
    pub const TEXT_ARRAY: u32 = 1009;
    pub const INT8_ARRAY: u32 = 1016;
    pub const VARCHAR: u32 = 1043;
    pub const TIMESTAMP: u32 = 1114;
    pub const NUMERIC_ARRAY: u32 = 1231;
    pub const NUMERIC: u32 = 1700;
}

/// What follows the answers of a round trip.
pub type Next = Result<Step, Unexpected>;

/// The state of a transaction after a round trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It has written the requests of another round trip.
    More,
    /// It has ended. Its commit has been acknowledged: the replies include COMMIT's.
    Done(Outcome),
}

/// A transaction on one connection. It is reused for one transaction after another, so that its state between two
/// round trips is allocated once.
///
/// Each call of [`Script::begin`] and each [`Step::More`] is one round trip: all of its requests are sent by one
/// write, followed by one Sync; the next call comes when all are answered. Requests outside of BEGIN and COMMIT
/// form one transaction per round trip, which commits at its end. A transaction block that is still open when the
/// script is done or refused is rolled back before the connection is free.
pub trait Script {
    /// Writes the first round trip's requests. Nothing is left over from the last transaction that counts.
    fn begin(&mut self, input: &Input, requests: &mut Requests<'_>);

    /// Reads the answers, none of which is an error, and either finishes or writes the next requests.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if an answer does not have the form that the transaction requires.
    fn reply(&mut self, input: &Input, replies: &Replies<'_>, requests: &mut Requests<'_>) -> Next;

    /// The server refused a request, and with it all later ones of the round trip; none of them has an effect.
    /// `Some`: the intended end of the transaction, such as a procedure that raises its own error to roll New-Order
    /// back. `None`: a failure.
    fn refused(&mut self, _input: &Input, _refusal: &Refusal) -> Option<Outcome> {
        None
    }
}

/// The scripts of a style: statements, and the scripts that execute them.
pub trait Scripts: Send + Sync {
    /// Statements, prepared by each connection when it is opened.
    fn statements(&self) -> &[StatementText];

    /// SQL that each connection runs when it is opened, before statements are prepared: `SET ...; SET ...`. May be empty.
    fn settings(&self) -> &str {
        ""
    }

    /// The object of one connection.
    fn new_script(&self) -> Box<dyn Script>;

    /// The style in words: "procedures", "client SQL".
    fn description(&self) -> String;
}

/// For callers that choose a style at run time.
impl Scripts for Box<dyn Scripts> {
    fn statements(&self) -> &[StatementText] {
        (**self).statements()
    }

    fn settings(&self) -> &str {
        (**self).settings()
    }

    fn new_script(&self) -> Box<dyn Script> {
        (**self).new_script()
    }

    fn description(&self) -> String {
        (**self).description()
    }
}
