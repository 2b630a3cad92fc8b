use std::time::Duration;

use super::{Driver, Place, send::timestamp};

impl Driver {
    pub(super) fn advance(&mut self, by: u64) {
        self.clock.advance(Duration::from_millis(by));
        self.model.advance(by);
    }

    pub(super) fn pass_little(&mut self) {
        let by = self.rng.u64(0..200);
        self.advance(by);
    }

    /// To just before, at or just after an instant at which something happens by itself; more often the next one.
    pub(super) fn pass_to_edge(&mut self) {
        let mut edges: Vec<u64> = self.model.due().into_iter().map(|(at, ..)| at).collect();
        edges.extend(self.model.entities.values().flat_map(|entity| {
            let window = entity.settings.window;
            entity.ids.iter().filter_map(move |remembered| Some(remembered.first + window?))
        }));
        edges.retain(|&at| at > self.model.now && at < self.model.now + 70_000);
        edges.sort_unstable();
        let last = if self.one_in(6) { edges.len() } else { edges.len().min(3) };
        if last == 0 {
            return self.pass_little();
        }
        let edge = edges[self.rng.usize(0..last)];
        let by = edge - self.model.now + self.rng.u64(0..3) - 1;
        self.advance(by);
    }

    pub(super) fn pass_long(&mut self) {
        let most = if self.world.idle && self.one_in(3) { 420_000 } else { 60_000 };
        let by = self.rng.u64(0..most);
        self.advance(by);
    }

    /// The operating system sets its clock, by an hour at most.
    pub(super) fn step_utc(&mut self) {
        let hour = 3_600_000;
        let mut by = self.rng.i64(-hour..=hour);
        // After a restart UTC is all that tells how long ago a thing was, so there it only goes forward; and a record that
        // is not written yet would have the other time.
        if self.place != Place::Memory {
            #[cfg(feature = "durable")]
            self.broker.flush().wait().unwrap();
            by = by.abs();
        }
        self.model.utc += by;
        self.clock.set_utc(timestamp(self.model.utc));
    }
}
