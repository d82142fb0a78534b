//! How a line moves between cores: to and fro between writers, or from one writer to its readers.

use super::replay::TraceAccess;
use crate::estimate::Share;
use serde::Serialize;

/// The way in which a contended line moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MovementKind {
    /// Most of its writes took it from the core that had written it last.
    PingPong,
    /// One core made all of its writes; other cores read it.
    OneWriter,
}

/// How a line moves, and the writes that show it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Movement {
    /// The way.
    pub kind: MovementKind,
    /// Writes that followed another core's write, among the recorded writes that followed any write.
    pub moves: Share,
}

/// With fewer writes no movement is reported.
const LEAST_WRITES: u64 = 10;
/// Share of the writes that make a ping-pong.
const MOST: f64 = 0.5;

/// The way in which a line moves by its trace; `None` if there are too few writes, or no way stands out.
pub(super) fn movement(trace: &[TraceAccess]) -> Option<Movement> {
    let mut writes: Vec<&TraceAccess> = trace.iter().filter(|access| access.writes).collect();
    writes.sort_by_key(|access| access.when);
    let pairs = writes.windows(2);
    let moves = Share {
        count: pairs.clone().filter(|pair| pair[0].core != pair[1].core).count() as u64,
        total: pairs.len() as u64,
    };
    let kind = match moves.count {
        _ if moves.total + 1 < LEAST_WRITES => return None,
        0 => MovementKind::OneWriter,
        _ if moves.fraction() >= MOST => MovementKind::PingPong,
        _ => return None,
    };
    Some(Movement { kind, moves })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::ByteRange;
    use hardmeter_samples::model::Timestamp;

    fn access(when: u64, core: u32, writes: bool) -> TraceAccess {
        let range = ByteRange { start: 0, end: 8 };
        TraceAccess { when: Timestamp(when), core, range, writes, miss: true, verdict: None }
    }

    /// Twelve writes by two cores in turn: each but the first follows the other's. The order of the trace does not
    /// matter.
    #[test]
    fn writers_in_turn_are_a_ping_pong() {
        let mut trace: Vec<_> = (0..12).map(|turn| access(turn, turn as u32 % 2, true)).collect();
        trace.swap(0, 7);
        let found = movement(&trace).expect("enough writes");
        assert_eq!((found.kind, found.moves), (MovementKind::PingPong, Share { count: 11, total: 11 }));
        assert_eq!(movement(&trace[..9]), None, "too few");
    }

    #[test]
    fn readers_do_not_make_a_ping_pong_of_one_writer() {
        let trace: Vec<_> = (0..40).map(|turn| access(turn, turn as u32 % 2, turn % 2 == 0)).collect();
        let found = movement(&trace).expect("enough writes");
        assert_eq!((found.kind, found.moves), (MovementKind::OneWriter, Share { count: 0, total: 19 }));
    }

    /// One core's five writes, then the other's: no way stands out.
    #[test]
    fn writers_that_follow_one_another_once_are_neither() {
        let trace: Vec<_> = (0..20).map(|turn| access(turn, u32::from(turn > 9), true)).collect();
        assert_eq!(movement(&trace), None);
    }
}
