//! The activity of a server's process at a sample: the operator of the plan and the phase of the transaction.

use crate::code::{CodeMap, Place};
use crate::objects::CodeMarks;
use crate::pass::{Located, Pass};
use crate::stacks::callers;
use hardmeter_samples::model::{Frame, Sample, VirtualAddress};
use hardmeter_samples::object_notes::TextId;
use rustc_hash::FxHashMap;

/// Finds the marked code on call chains; each place is looked up once.
#[derive(Debug)]
pub struct Activity {
    marks: CodeMarks,
    marked: FxHashMap<Place, (Option<TextId>, Option<TextId>)>,
    frames: Vec<Frame>,
}

impl Activity {
    /// Finds operators and phases by `marks`.
    pub fn new(marks: CodeMarks) -> Activity {
        Activity { marks, marked: FxHashMap::default(), frames: Vec::new() }
    }

    /// The innermost operator and the outermost phase on the sample's call chain, in the numbering of the pass's
    /// objects.
    pub fn of_sample<M: CodeMap>(
        &mut self,
        sample: &Sample<'_>,
        located: Located,
        pass: &mut Pass<M>,
    ) -> (Option<TextId>, Option<TextId>) {
        if self.marks.is_empty() {
            return (None, None);
        }
        let (mut operator, mut phase) = (None, None);
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        frames.extend(callers(sample));
        let inner = located.place.into_iter();
        let outer = frames.iter().map(|frame| {
            // A return address follows the call: one byte before it lies inside the call.
            (VirtualAddress(frame.address.0.saturating_sub(1)), frame.mode)
        });
        for place in inner {
            (operator, phase) = self.marked(place, pass);
        }
        for (address, mode) in outer {
            let place = pass.place(sample.pid, address, mode);
            let (here, phase_here) = self.marked(place, pass);
            operator = operator.or(here);
            phase = phase_here.or(phase);
        }
        self.frames = frames;
        (operator, phase)
    }

    fn marked<M: CodeMap>(&mut self, place: Place, pass: &mut Pass<M>) -> (Option<TextId>, Option<TextId>) {
        if let Some(known) = self.marked.get(&place) {
            return *known;
        }
        let marked = match pass.map().image(place.image) {
            Some(image) => {
                let address = pass.map().address(place);
                self.marks.at(&image.path, address, pass.objects())
            }
            None => (None, None),
        };
        self.marked.insert(place, marked);
        marked
    }
}
