//! The call paths of both sides in one tree.

use hardmeter_answers::{CubeAnswer, CubeRows};
use serde_json::{json, Value};
use std::collections::HashMap;

/// Paths with less than this part of the larger side are added to their callers.
const LEAST: f64 = 0.001;
/// Deeper frames are added to their callers.
const DEEPEST: usize = 100;

/// A routine on a call path, with the sums of itself and all it called on both sides.
struct Node {
    name: String,
    caller: Option<usize>,
    rates: [f64; 2],
}

/// Routines on call paths; callers have lower numbers.
pub(super) struct Tree(Vec<Node>);

impl Tree {
    /// The paths of an event in all captures of both sides, each side by its work.
    pub(super) fn of(sides: [&[CubeAnswer]; 2], event: &str, work: [f64; 2], same_builds: bool) -> Tree {
        let mut tree = Tree(vec![Node { name: "all".into(), caller: None, rates: [0.0; 2] }]);
        let mut known: HashMap<(usize, String), usize> = HashMap::new();
        for (side, cubes) in sides.into_iter().enumerate() {
            for answer in cubes {
                let Some(index) = answer.heading.events.iter().position(|one| one.name == event) else {
                    continue;
                };
                for (key, sum) in answer.cube.rows.iter().filter(|(key, _)| key.event as usize == index) {
                    let rate = if work[side] > 0.0 { sum.events as f64 / work[side] } else { 0.0 };
                    let mut at = 0;
                    tree.0[0].rates[side] += rate;
                    for name in frames(&answer.cube, key.path, same_builds) {
                        let next = tree.0.len();
                        at = *known.entry((at, name.clone())).or_insert_with(|| {
                            tree.0.push(Node { name, caller: Some(at), rates: [0.0; 2] });
                            next
                        });
                        tree.0[at].rates[side] += rate;
                    }
                }
            }
        }
        tree
    }

    /// The tree as columns, without rare paths; names are numbers into `names`.
    pub(super) fn data(&self, names: &mut Vec<String>) -> Value {
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let known: Vec<String> = names.clone();
        known.iter().enumerate().for_each(|(number, name)| {
            numbers.insert(name, number);
        });
        let larger = |rates: [f64; 2]| rates[0].max(rates[1]);
        let least = larger(self.0[0].rates) * LEAST;
        // A caller has at least the sum of its callees: if it is left out, they are, too.
        let mut place: Vec<Option<usize>> = Vec::with_capacity(self.0.len());
        let (mut name, mut caller, mut a, mut b) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (number, node) in self.0.iter().enumerate() {
            let above = node.caller.and_then(|caller| place[caller]);
            if number > 0 && (above.is_none() || larger(node.rates) < least) {
                place.push(None);
                continue;
            }
            place.push(Some(name.len()));
            name.push(*numbers.entry(&node.name).or_insert_with(|| {
                names.push(node.name.clone());
                names.len() - 1
            }));
            caller.push(above.map_or(-1, |above| above as i64));
            a.push(node.rates[0]);
            b.push(node.rates[1]);
        }
        json!({ "name": name, "caller": caller, "a": a, "b": b, "left_out": self.0.len() - place.iter().flatten().count() })
    }
}

/// The routines of a path, outermost first; a routine directly below one of the same name is merged with it.
fn frames(rows: &CubeRows, path: Option<u32>, same_builds: bool) -> Vec<String> {
    let mut frames: Vec<String> = Vec::new();
    let mut next = path;
    while let Some(path) = next {
        let (caller, frame) = rows.paths[path as usize];
        let frame = &rows.frames[frame as usize];
        let name = name(&frame.routine, same_builds);
        if frame.instruction.is_none() && frames.last() != Some(&name) {
            frames.push(name);
        }
        next = caller;
    }
    frames.reverse();
    frames.truncate(DEEPEST);
    frames
}

/// Other builds may have more static functions between two names: there, those at one place are merged.
fn name(routine: &str, same_builds: bool) -> String {
    let place = routine.strip_prefix("[static function ").filter(|_| !same_builds);
    match place.and_then(|place| place.split_once(' ')) {
        Some((number, place)) if number.parse::<u64>().is_ok() => format!("[static functions {place}"),
        _ => routine.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nameless_functions_are_one_in_other_builds() {
        let text = "[static function 2 before XLogFlush]";
        assert_eq!(name(text, true), text);
        assert_eq!(name(text, false), "[static functions before XLogFlush]");
        assert_eq!(name("[static function]", false), "[static function]");
    }

    /// main calls search 30 to 60 times, and rare once.
    #[test]
    fn rare_paths_are_left_out_and_stay_in_their_callers() {
        let node = |name: &str, caller, rates| Node { name: name.into(), caller, rates };
        let tree = Tree(vec![
            node("all", None, [3000.0, 6001.0]),
            node("main", Some(0), [3000.0, 6001.0]),
            node("search", Some(1), [3000.0, 6000.0]),
            node("rare", Some(1), [0.0, 1.0]),
            node("below", Some(3), [0.0, 1.0]),
        ]);
        let mut names = vec!["main".to_string()];
        let data = tree.data(&mut names);
        assert_eq!(names, ["main", "all", "search"]);
        assert_eq!(data["name"], json!([1, 0, 2]));
        assert_eq!(data["caller"], json!([-1, 0, 1]));
        assert_eq!(data["b"], json!([6001.0, 6001.0, 6000.0]));
        assert_eq!(data["left_out"], 2);
    }
}
