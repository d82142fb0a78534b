//! Converts a plan to places, queues and threads' homes, like libsplit's use of decisions.

use super::parts::{Mask, Placed, Status};
use super::Engine;
use crate::model::{Actuation, Plan};

impl Engine<'_> {
    /// Applies a plan.
    pub fn apply(&mut self, plan: &Plan) {
        let index = |cpu| self.machine.cpus.iter().position(|one| one.id == cpu);
        let mut masks = vec![None; self.scenario.kinds.len()];
        for placement in &plan.placements {
            let Some(kind) = self.scenario.kinds.iter().position(|one| one.kind == placement.kind) else {
                continue;
            };
            if placement.cpus.0.is_empty() || placement.actuation == Actuation::None {
                continue;
            }
            let mask = Mask::of(placement.cpus.0.iter().filter_map(|&cpu| index(cpu)));
            masks[kind] = Some((placement, mask));
        }
        self.placed = masks
            .iter()
            .map(|placed| placed.map(|(one, mask)| Placed { actuation: one.actuation, mask }))
            .collect();
        for app in 0..self.queues.len() {
            let of_app: Vec<_> = masks
                .iter()
                .enumerate()
                .filter(|(kind, _)| self.scenario.kinds[*kind].app == app)
                .filter_map(|(kind, placed)| placed.map(|(one, mask)| (kind, one, mask)))
                .filter(|(_, one, _)| one.actuation == Actuation::Soft)
                .map(|(kind, one, mask)| (kind, one.queue, one.class, mask))
                .collect();
            let cpus = self.cpus.len();
            let homes = self.queues[app].route(&of_app, cpus);
            for (i, thread) in self.queues[app].threads.clone().enumerate() {
                let home = if homes.is_empty() { None } else { Some(homes[i % homes.len()]) };
                self.threads[thread].home = home;
                if self.threads[thread].status == Status::Idle {
                    self.queues[app].idle(thread, home.map(|(queue, _)| queue));
                    self.threads[thread].allowed =
                        self.threads[thread].home.map_or(Mask::ALL, |(_, mask)| mask);
                }
            }
            // Waiting requests may need threads that the new order made idle.
            for (thread, work) in self.queues[app].match_waiting() {
                self.threads[thread].work = Some(work);
                self.wake(thread);
            }
        }
    }
}
