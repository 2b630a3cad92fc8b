use std::{collections::VecDeque, task::Waker};

use super::engine::Ticks;

/// The receivers that wait at one part of a queue, first come, first woken.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    waiting: VecDeque<(u64, Waker)>,
    last_id: u64,
    /// How many of the first in line are to be woken.
    owed: usize,
    /// The earliest deadline that a waiting receiver has set a timer for, and which receiver.
    timer: Option<(Ticks, u64)>,
}

impl Waiters {
    /// A number for a receiver that may wait.
    pub(super) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Waits, keeping the place in the line if it has one. Returns the waker that is replaced: dropping it runs the
    /// user's code.
    pub(super) fn wait(&mut self, id: u64, waker: &Waker) -> Option<Waker> {
        match self.waiting.iter_mut().find(|(waiting, _)| *waiting == id) {
            Some((_, old)) if old.will_wake(waker) => None,
            Some((_, old)) => Some(std::mem::replace(old, waker.clone())),
            None => {
                self.waiting.push_back((id, waker.clone()));
                None
            }
        }
    }

    /// Notes that a waiting receiver has a timer for `deadline`, and for nothing else.
    pub(super) fn set_timer(&mut self, id: u64, deadline: Option<Ticks>) {
        let deadline = deadline.map(|deadline| (deadline, id));
        let is_covered = |(earliest, owner)| owner != id && deadline.is_none_or(|(deadline, _)| earliest < deadline);
        if !self.timer.is_some_and(is_covered) {
            self.timer = deadline;
        }
    }

    /// Leaves the line with the waker it waited with. `None` if the receiver had been woken, or never waited.
    pub(super) fn leave(&mut self, id: u64) -> Option<Waker> {
        if self.timer.is_some_and(|(_, owner)| owner == id) {
            self.timer = None;
        }
        let at = self.waiting.iter().position(|(waiting, _)| *waiting == id)?;
        self.waiting.remove(at).map(|(_, waker)| waker)
    }

    /// As many waiting receivers as there are new messages are to be woken.
    #[inline]
    pub(super) fn owe(&mut self, arrivals: usize) {
        if !self.waiting.is_empty() {
            self.owed = self.owed.saturating_add(arrivals);
        }
    }

    /// One waiting receiver is to be woken if no timer covers `deadline`, so that it sets one.
    pub(super) fn cover(&mut self, deadline: Option<Ticks>) {
        let Some(deadline) = deadline else { return };
        if self.owed == 0 && self.timer.is_none_or(|(earliest, _)| deadline < earliest) {
            self.owe(1);
        }
    }

    /// The next receiver to wake, which leaves the line.
    pub(super) fn next_woken(&mut self) -> Option<Waker> {
        self.owed = self.owed.checked_sub(1)?;
        let Some((id, waker)) = self.waiting.pop_front() else {
            self.owed = 0;
            return None;
        };
        if self.timer.is_some_and(|(_, owner)| owner == id) {
            self.timer = None;
        }
        Some(waker)
    }
}
