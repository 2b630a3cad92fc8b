use std::{
    collections::{BTreeMap, VecDeque},
    task::Waker,
};

use super::engine::{Line, StoreId, Ticks};

/// The memory of more receivers in one line is released.
const LONG: usize = 1_024;

/// The receivers that wait, in lines: first in, first woken.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Lines with waiting receivers, and some that are empty now.
    lines: BTreeMap<Line, VecDeque<Waiting>>,
    /// How many receivers wait in all lines together.
    standing: usize,
    /// The wakers of receivers that have left their lines, and are to be woken.
    woken: VecDeque<Waker>,
    last_id: u64,
    /// The receiver that was last taken out of its line to be woken. 0 if it waits again.
    last_woken: u64,
    /// The earliest instant that a waiting receiver has set a timer for, and which receiver.
    timer: Option<(Ticks, u64)>,
    /// The waker of the receiver that has the timer, and has not set it.
    setting: Option<Waker>,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    waker: Waker,
}

impl Waiters {
    /// Returns a number for a receiver that begins to wait. Lines are in the order of these.
    pub(super) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Whether there is nothing to wake, if nothing has arrived: neither for an arrival, nor to set a timer for
    /// `deadline`.
    #[inline]
    pub(super) fn are_quiet(&self, deadline: Option<Ticks>) -> bool {
        !self.has_woken() && (self.standing == 0 || deadline.is_none_or(|deadline| self.has_timer(deadline)))
    }

    /// Whether a receiver is to be woken.
    #[inline]
    pub(super) fn has_woken(&self) -> bool {
        !self.woken.is_empty() || self.setting.is_some()
    }

    fn has_timer(&self, deadline: Ticks) -> bool {
        self.timer.is_some_and(|(earliest, _)| earliest <= deadline)
    }

    /// Waits at the place of its number, which a receiver keeps that was woken in vain. Returns the waker that is
    /// replaced: dropping it runs the user's code.
    pub(super) fn wait(&mut self, line: Line, id: u64, waker: &Waker) -> Option<Waker> {
        let line = self.lines.entry(line).or_default();
        let at = line.partition_point(|waiting| waiting.id < id);
        match line.get_mut(at).filter(|waiting| waiting.id == id) {
            Some(waiting) if waiting.waker.will_wake(waker) => None,
            Some(waiting) => Some(std::mem::replace(&mut waiting.waker, waker.clone())),
            None => {
                line.insert(at, Waiting { id, waker: waker.clone() });
                self.standing += 1;
                if self.last_woken == id {
                    self.last_woken = 0;
                }
                None
            }
        }
    }

    /// Whether a waiting receiver has to set a timer for `deadline`: no other has one that is as early. If so, the
    /// timer is recorded as its own.
    pub(super) fn needs_timer(&mut self, id: u64, deadline: Option<Ticks>) -> Option<Ticks> {
        if self.timer.is_some_and(|(_, owner)| owner == id) {
            self.timer = None;
        }
        let deadline = deadline.filter(|&deadline| !self.has_timer(deadline));
        if let Some(deadline) = deadline {
            self.timer = Some((deadline, id));
        }
        deadline
    }

    /// Leaves the line, and returns the waker that it waited with. `None` if the receiver had been woken, or never
    /// waited.
    pub(super) fn leave(&mut self, line: Line, id: u64) -> Option<Waker> {
        // Most have been woken, and have left the line and the timer with that.
        if id == self.last_woken {
            return None;
        }
        self.forget_timer(id);
        let waiting = self.lines.get_mut(&line)?;
        let at = waiting.binary_search_by_key(&id, |waiting| waiting.id).ok()?;
        let left = waiting.remove(at)?;
        let capacity = waiting.capacity();
        self.standing -= 1;
        self.has_left(line, capacity);
        Some(left.waker)
    }

    /// Takes that many receivers out of a line, to be woken.
    #[inline]
    pub(super) fn owe(&mut self, line: Line, arrivals: usize) {
        let Self { lines, standing, woken, last_woken, timer, .. } = self;
        let Some(waiting) = lines.get_mut(&line) else { return };
        for _ in 0..arrivals {
            let Some(Waiting { id, waker }) = waiting.pop_front() else { break };
            timer.take_if(|(_, owner)| *owner == id);
            *last_woken = id;
            *standing -= 1;
            woken.push_back(waker);
        }
        let capacity = waiting.capacity();
        self.has_left(line, capacity);
    }

    /// Takes all receivers out of their lines, to be woken.
    pub(super) fn owe_everyone(&mut self) {
        let lines: Vec<Line> = self.lines.keys().copied().collect();
        for line in lines {
            self.owe(line, usize::MAX);
        }
    }

    /// Takes all receivers of an entity out of their lines, to be woken.
    pub(super) fn owe_all(&mut self, store: StoreId) {
        for range in Line::all(store) {
            let lines: Vec<Line> = self.lines.range(range).map(|(&line, _)| line).collect();
            for line in lines {
                self.owe(line, usize::MAX);
            }
        }
    }

    /// Gives the timer to one waiting receiver if none is set for `deadline`. It is woken to set it, and keeps its place in its
    /// line: a receiver that waits again before that does not take the timer, and is not woken from it each time.
    #[inline]
    pub(super) fn cover(&mut self, deadline: Option<Ticks>) {
        let Some(deadline) = deadline else { return };
        if self.woken.is_empty()
            && !self.has_timer(deadline)
            && let Some(first) = self.lines.values().find_map(VecDeque::front)
        {
            self.timer = Some((deadline, first.id));
            self.setting = Some(first.waker.clone());
        }
    }

    /// Returns the waker of the next receiver to wake. It has left its line, unless it is woken to set a timer.
    #[inline]
    pub(super) fn next_woken(&mut self) -> Option<Waker> {
        let woken = match self.setting.take() {
            None => self.woken.pop_front(),
            setting => setting,
        };
        if self.woken.is_empty() && self.woken.capacity() > LONG {
            self.woken = VecDeque::new();
        }
        woken
    }

    /// Releases the memory of a line of this capacity that receivers have left. A few empty lines are kept for receivers
    /// that return, which most do.
    #[inline]
    fn has_left(&mut self, line: Line, capacity: usize) {
        const KEPT: usize = 64;
        if self.lines.len() > KEPT || capacity > LONG {
            self.tidy(line);
        }
    }

    #[cold]
    fn tidy(&mut self, line: Line) {
        if self.lines.get(&line).is_some_and(VecDeque::is_empty) {
            self.lines.remove(&line);
        }
    }

    fn forget_timer(&mut self, id: u64) {
        if self.timer.is_some_and(|(_, owner)| owner == id) {
            self.timer = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::engine::Part, *};

    fn line() -> Line {
        Line::Messages(StoreId { serial: 1, index: 0 }, Part::Main)
    }

    #[test]
    fn a_receiver_that_was_woken_in_vain_leaves_its_line() {
        let mut waiters = Waiters::default();
        let id = waiters.new_id();
        waiters.wait(line(), id, Waker::noop());
        waiters.owe(line(), 1);
        assert!(waiters.next_woken().is_some());
        assert!(waiters.leave(line(), id).is_none(), "it has left its line");
        waiters.wait(line(), id, Waker::noop());
        assert!(waiters.leave(line(), id).is_some(), "it waits again");
        assert_eq!(waiters.standing, 0);
    }

    #[test]
    fn the_first_receivers_are_woken_first_and_the_timer_goes_with_its_owner() {
        let mut waiters = Waiters::default();
        let ids = [(); 3].map(|()| waiters.new_id());
        for id in ids {
            waiters.wait(line(), id, Waker::noop());
        }
        assert_eq!(waiters.needs_timer(ids[0], Some(7)), Some(7));
        waiters.owe(line(), 2);
        assert_eq!((waiters.woken.len(), waiters.standing, waiters.timer), (2, 1, None));
        assert!(waiters.leave(line(), ids[2]).is_some());
        assert!(waiters.next_woken().is_some() && waiters.has_woken());
        assert!(waiters.next_woken().is_some() && !waiters.has_woken());
    }
}
