//! Sentences on how lines move between cores, with remedies for developers and administrators.

use crate::number::{grouped, percent};
use hardmeter_answers::{Movement, MovementKind, Share, SharingKind};

/// Above this share of the writes, all lines of a kind count as moving in this way.
const MOST: f64 = 0.5;

/// `ping-pong: ...`, with a remedy in the code and one at the server.
pub(super) fn movement_text(movement: &Movement, sharing: SharingKind) -> String {
    let moves = movement.moves;
    let (total, n) = (grouped(moves.total), grouped(moves.count));
    match (movement.kind, sharing) {
        (MovementKind::PingPong, SharingKind::False) => format!(
            "ping-pong: {n} of n = {total} writes ({}) came after another core's. In the code: a line of its own for each \
             writer (alignas(64)). At the server: fewer processes that run at once",
            percent(moves)
        ),
        (MovementKind::PingPong, _) => format!(
            "ping-pong: {n} of n = {total} writes ({}) came after another core's. In the code: a part for each core that is \
             summed when read, fewer writes (batches), or a test before an atomic write. At the server: fewer processes \
             that run at once, such as a pool of connections",
            percent(moves)
        ),
        (MovementKind::OneWriter, SharingKind::False) => format!(
            "one writer: all n = {total} writes came after the same core's. In the code: move what the others read to another \
             line than what is written"
        ),
        (MovementKind::OneWriter, _) => format!(
            "one writer: all n = {total} writes came after the same core's. In the code: write only what has changed, or less \
             often; readers may keep a copy"
        ),
    }
}

/// The ways in which several lines move.
#[derive(Default)]
pub(super) struct Movements {
    /// Moves of lines in ping-pong, and their writes.
    ping_pong: (u64, u64),
    one_writer: u64,
    writes: u64,
}

impl Movements {
    pub(super) fn add(&mut self, movement: Option<&Movement>) {
        let Some(movement) = movement else { return };
        self.writes += movement.moves.total;
        match movement.kind {
            MovementKind::PingPong => {
                self.ping_pong.0 += movement.moves.count;
                self.ping_pong.1 += movement.moves.total;
            }
            MovementKind::OneWriter => self.one_writer += movement.moves.total,
        }
    }

    /// The way of most writes; `None` if neither is.
    pub(super) fn in_words(&self) -> Option<String> {
        let of = |count| Share { count, total: self.writes }.fraction() > MOST;
        if of(self.ping_pong.1) {
            let share = Share { count: self.ping_pong.0, total: self.ping_pong.1 };
            return Some(format!(
                "ping-pong between writers: {} (n = {} of {}) of their writes came after another core's",
                percent(share),
                grouped(share.count),
                grouped(share.total)
            ));
        }
        of(self.one_writer).then(|| "one core writes, others read".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(kind: MovementKind, count: u64, total: u64) -> Movement {
        Movement { kind, moves: Share { count, total } }
    }

    #[test]
    fn most_writes_name_the_way() {
        let mut movements = Movements::default();
        movements.add(None);
        assert_eq!(movements.in_words(), None);
        movements.add(Some(&moved(MovementKind::PingPong, 30, 40)));
        movements.add(Some(&moved(MovementKind::OneWriter, 0, 30)));
        let said = movements.in_words();
        assert_eq!(
            said.as_deref(),
            Some(
                "ping-pong between writers: 75.00 % (n = 30 of 40) of their writes came after another core's"
            )
        );
        movements.add(Some(&moved(MovementKind::OneWriter, 0, 30)));
        assert_eq!(movements.in_words().as_deref(), Some("one core writes, others read"));
    }

    #[test]
    fn the_remedy_depends_on_who_writes_what() {
        let text = |kind, sharing| movement_text(&moved(kind, 9, 10), sharing);
        assert!(text(MovementKind::PingPong, SharingKind::False).contains("alignas(64)"));
        assert!(text(MovementKind::PingPong, SharingKind::True).contains("pool of connections"));
        assert!(text(MovementKind::OneWriter, SharingKind::False).contains("move what the others read"));
        assert!(text(MovementKind::OneWriter, SharingKind::True).contains("readers may keep a copy"));
    }
}
