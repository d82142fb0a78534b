//! The answers of a server that sends any bytes, for the fuzz target `read_answer`.

use super::answer::Answer;
use super::replies::Replies;

/// Reads what a server sent, in pieces whose sizes its first bytes choose, by every getter; for the fuzz target
/// `read_answer`.
pub fn read_pieces(bytes: &[u8]) {
    let Some((sizes, mut bytes)) = bytes.split_at_checked(4) else { return };
    let mut answer = Answer::new();
    for size in sizes.iter().cycle().map(|size| 1 + usize::from(*size)) {
        let (piece, rest) = bytes.split_at(size.min(bytes.len()));
        bytes = rest;
        let mut piece = piece;
        while !piece.is_empty() {
            let space = answer.space();
            let count = piece.len().min(space.len());
            space[..count].copy_from_slice(&piece[..count]);
            answer.came(count);
            piece = &piece[count..];
        }
        let Ok(status) = answer.scan() else { return };
        let replies = Replies::new(&answer);
        for reply in (0..=replies.len()).filter_map(|place| replies.reply(place).ok()) {
            for row in reply.rows() {
                let mut columns = row.columns();
                while let Ok(value) = columns.value() {
                    let numbers = (value.bool(), value.i16(), value.i32(), value.i64(), value.integer());
                    let _ =
                        std::hint::black_box((numbers, value.text(), value.numeric(2), value.timestamp()));
                    if let Ok(elements) = value.array() {
                        std::hint::black_box(elements.filter(Result::is_ok).count());
                    }
                }
            }
        }
        if status.is_some() {
            answer.next();
        }
        if bytes.is_empty() {
            return;
        }
    }
}
