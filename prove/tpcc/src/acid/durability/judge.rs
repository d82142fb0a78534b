//! A kill, and whether what was found afterwards is as it must be.

use super::super::success::Comparison;
use super::super::{Observations, Source, Trial, CONNECTIONS};
use crate::audit::Verdict;
use std::time::Duration;

/// A kill, and what was found afterwards.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Kill {
    /// Number, from 1.
    pub number: u32,
    /// The time.
    pub moment: Moment,
    /// Seconds from the first acknowledged New-Order to the kill.
    pub after_seconds: f64,
    /// New-Orders that the server had acknowledged since it was started.
    pub acknowledged: u64,
    /// The orders whose row of ORDERS is missing.
    pub missing: u64,
    /// The orders without all of their order lines.
    pub incomplete: u64,
    /// Increase of the sum of D_NEXT_O_ID.
    pub growth: u64,
    /// Payments that the server had acknowledged, and rows by which HISTORY grew.
    pub payments: (u64, u64),
    /// Recovery: seconds from the start to the first accepted connection.
    pub recovery_seconds: f64,
    /// The conditions that do not hold, by number.
    pub broken_conditions: Vec<u8>,
    /// Whether all is as it must be.
    pub verdict: Verdict,
    /// The failed checks.
    pub faults: Vec<String>,
}

/// The moment at which a server is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// At an arbitrary time of the load.
    Any,
    /// During a checkpoint, which did not finish: recovery began before it.
    InCheckpoint,
    /// The kill was intended for a checkpoint, which had just finished.
    BehindCheckpoint,
}

/// A position in the server's log. A position read before a checkpoint began is less than the one from which that
/// checkpoint starts recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogPosition(u64);

impl LogPosition {
    /// Parses PostgreSQL's form: two hexadecimal halves.
    pub(super) fn parse(text: &str) -> Option<LogPosition> {
        let (high, low) = text.split_once('/')?;
        let half = |text| u32::from_str_radix(text, 16).ok().map(u64::from);
        Some(LogPosition(half(high)? << 32 | half(low)?))
    }
}

/// A kill that was done.
pub(super) struct Killed {
    pub(super) after: Duration,
    /// The log position before the intended checkpoint.
    pub(super) checkpoint: Option<LogPosition>,
}

impl Killed {
    /// The moment of the kill, from the server's messages during recovery.
    pub(super) fn moment(&self, said: &str) -> Moment {
        match &self.checkpoint {
            None => Moment::Any,
            Some(before) if redo_start(said).is_some_and(|start| start < *before) => Moment::InCheckpoint,
            Some(_) => Moment::BehindCheckpoint,
        }
    }
}

/// The position at which recovery began, from PostgreSQL's message.
fn redo_start(said: &str) -> Option<LogPosition> {
    let (_, behind) = said.split_once("redo starts at ")?;
    behind.split_whitespace().next().and_then(LogPosition::parse)
}

/// Failures other than broken conditions.
pub(super) fn faults(kill: &Kill, found: &Comparison) -> Vec<String> {
    let mut faults = vec![];
    let examples = || found.examples.join("; ");
    if found.acknowledged == 0 {
        faults
            .push("the server acknowledged nothing before it was killed: so this kill proves nothing".into());
    }
    if found.missing > 0 {
        faults.push(format!("{} acknowledged orders are missing: {}", found.missing, examples()));
    }
    if found.incomplete > 0 {
        faults.push(format!("{} acknowledged orders lack order lines: {}", found.incomplete, examples()));
    }
    if found.twice > 0 {
        faults.push(format!("{} order numbers were given out twice", found.twice));
    }
    if kill.growth < found.acknowledged {
        faults.push(format!("D_NEXT_O_ID grew by {}, less than was acknowledged", kill.growth));
    }
    // A commit may have been written without its acknowledgment being read: at most one for each connection.
    if kill.growth > found.acknowledged + u64::from(CONNECTIONS) {
        faults.push(format!("D_NEXT_O_ID grew by {}, more than could be under way", kill.growth));
    }
    let (paid, noted) = kill.payments;
    if noted < paid {
        faults.push(format!("HISTORY grew by {noted} rows, and {paid} payments were acknowledged"));
    }
    faults
}

pub(super) fn sum_up(settings: &[(String, String)], kills: &[Kill]) -> Trial {
    let mut seen = Observations::new();
    let settings: Vec<String> = settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
    seen.note(settings.join(", "));
    let sum = |of: fn(&Kill) -> u64| kills.iter().map(of).sum::<u64>();
    let in_checkpoint = kills.iter().filter(|kill| kill.moment == Moment::InCheckpoint).count();
    seen.note(format!(
        "{} kills by SIGKILL under load, {in_checkpoint} of them in a checkpoint",
        kills.len()
    ));
    let lost = sum(|kill| kill.missing + kill.incomplete);
    let acknowledged = sum(|kill| kill.acknowledged);
    seen.must(lost == 0, format!("of {acknowledged} acknowledged New-Orders {lost} are lost"));
    let (paid, noted) = (sum(|kill| kill.payments.0), sum(|kill| kill.payments.1));
    seen.must(noted >= paid, format!("HISTORY has {noted} rows for {paid} acknowledged Payments"));
    let whole = kills.iter().filter(|kill| kill.broken_conditions.is_empty()).count();
    seen.must(whole == kills.len(), format!("the conditions hold after {whole} of {} kills", kills.len()));
    for kill in kills {
        for fault in &kill.faults {
            seen.must(false, format!("kill {}: {fault}", kill.number));
        }
    }
    Trial {
        clause: "3.5.4",
        name: "the server is killed under load".into(),
        source: Source::Memory,
        verdict: seen.verdict(),
        case: None,
        seen: seen.seen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kill(acknowledged: u64, growth: u64, payments: (u64, u64)) -> Kill {
        Kill {
            number: 1,
            moment: Moment::Any,
            after_seconds: 1.0,
            acknowledged,
            missing: 0,
            incomplete: 0,
            growth,
            payments,
            recovery_seconds: 0.1,
            broken_conditions: vec![],
            verdict: Verdict::Held,
            faults: vec![],
        }
    }

    #[test]
    fn each_kind_of_loss_is_a_fault() {
        let found = |acknowledged| Comparison { acknowledged, ..Comparison::default() };
        let of = |kill: &Kill, found: &Comparison| faults(kill, found).join("; ");
        assert_eq!(of(&kill(100, 103, (90, 91)), &found(100)), "");
        assert!(of(&kill(0, 0, (0, 0)), &found(0)).contains("proves nothing"));
        assert!(of(&kill(100, 99, (90, 90)), &found(100)).contains("less than was acknowledged"));
        assert!(of(&kill(100, 109, (90, 90)), &found(100)).contains("more than could be under way"));
        assert!(of(&kill(100, 100, (90, 89)), &found(100)).contains("HISTORY grew by 89 rows"));
        let missing =
            Comparison { missing: 2, examples: vec!["order 1/2/3: not there".into()], ..found(100) };
        assert!(
            of(&kill(100, 100, (0, 0)), &missing).contains("2 acknowledged orders are missing: order 1/2/3")
        );
        let incomplete = Comparison { incomplete: 1, ..found(100) };
        assert!(of(&kill(100, 100, (0, 0)), &incomplete).contains("lack order lines"));
        let twice = Comparison { twice: 1, ..found(100) };
        assert!(of(&kill(100, 100, (0, 0)), &twice).contains("twice"));
    }

    #[test]
    fn a_checkpoint_that_was_not_finished_is_told_by_where_recovery_began() {
        let log =
            "LOG:  database system was interrupted; last known up at 07:15\nLOG:  redo starts at 0/1A2B3C8\n";
        let killed = |before: &str| {
            Killed { after: Duration::ZERO, checkpoint: LogPosition::parse(before) }.moment(log)
        };
        assert_eq!(killed("0/1A2B3C9"), Moment::InCheckpoint);
        assert_eq!(killed("1/0"), Moment::InCheckpoint, "halves are no words to be compared");
        assert_eq!(killed("0/1A2B3C8"), Moment::BehindCheckpoint);
        let silent = Killed { after: Duration::ZERO, checkpoint: LogPosition::parse("1/0") };
        assert_eq!(silent.moment("nothing of it"), Moment::BehindCheckpoint);
        assert_eq!(Killed { after: Duration::ZERO, checkpoint: None }.moment(log), Moment::Any);
    }

    #[test]
    fn a_sum_with_one_lost_order_is_short() {
        let held = kill(100, 100, (90, 90));
        assert_eq!(sum_up(&[], std::slice::from_ref(&held)).verdict, Verdict::Held);
        let lost = Kill { missing: 1, ..held.clone() };
        let trial = sum_up(&[], &[held, lost]);
        assert_eq!(trial.verdict, Verdict::Short);
        assert!(
            trial.seen.iter().any(|line| line == "NOT SO: of 200 acknowledged New-Orders 1 are lost"),
            "{trial:?}"
        );
    }
}
