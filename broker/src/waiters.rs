use std::{
    collections::{BTreeMap, VecDeque},
    task::Waker,
};

use super::engine::{Line, NEVER, StoreId, Ticks};

/// The memory of more receivers in one line is released.
const LONG: usize = 1_024;

/// The receivers that wait, in lines: first in, first woken.
#[derive(Debug)]
pub(super) struct Waiters {
    /// Lines with waiting receivers, and some that are empty now.
    lines: BTreeMap<Line, VecDeque<Waiting>>,
    /// How many receivers wait in all lines together.
    standing: usize,
    /// The wakers of receivers that are to be woken: they have left their lines, or are to make the timer.
    woken: VecDeque<Waker>,
    last_id: u64,
    /// The receiver that was last taken out of its line to be woken. 0 if it waits again.
    last_woken: u64,
    /// The timer fires at this instant. `NEVER` if it is not set, and 0 if a receiver makes it.
    timer: Ticks,
    has_timer: bool,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    waker: Waker,
}

impl Default for Waiters {
    fn default() -> Self {
        Self {
            lines: BTreeMap::new(),
            standing: 0,
            woken: VecDeque::new(),
            last_id: 0,
            last_woken: 0,
            timer: NEVER,
            has_timer: false,
        }
    }
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
        !self.has_woken() && self.is_covered(deadline)
    }

    /// Whether a receiver is to be woken.
    #[inline]
    pub(super) fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Whether the timer fires in time for those that wait.
    #[inline]
    fn is_covered(&self, deadline: Option<Ticks>) -> bool {
        self.standing == 0 || self.timer <= deadline.unwrap_or(NEVER)
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

    /// Whether a receiver that waits has to make the timer.
    #[inline]
    pub(super) fn makes_timer(&mut self, deadline: Option<Ticks>) -> bool {
        if self.has_timer {
            return false;
        }
        // Those that were woken to make it may have gone.
        self.timer = if deadline.is_some() { 0 } else { NEVER };
        deadline.is_some()
    }

    /// Records that the timer is set for `deadline`, and returns it. `None` if no receiver waits for it.
    pub(super) fn arm_timer(&mut self, deadline: Option<Ticks>) -> Option<Ticks> {
        let deadline = deadline.filter(|_| self.standing > 0);
        (self.timer, self.has_timer) = (deadline.unwrap_or(NEVER), true);
        deadline
    }

    pub(super) fn timer_has_fired(&mut self) {
        self.timer = NEVER;
    }

    pub(super) fn timer_has_ended(&mut self) {
        (self.timer, self.has_timer) = (NEVER, false);
    }

    /// Leaves the line, and returns the waker that it waited with. `None` if the receiver had been woken, or never
    /// waited.
    pub(super) fn leave(&mut self, line: Line, id: u64) -> Option<Waker> {
        // Most have been woken, and have left the line with that.
        if id == self.last_woken {
            return None;
        }
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
        let Self { lines, standing, woken, last_woken, .. } = self;
        let Some(waiting) = lines.get_mut(&line) else { return };
        for _ in 0..arrivals {
            let Some(Waiting { id, waker }) = waiting.pop_front() else { break };
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

    /// Returns whether the timer has to be set for `deadline`. If there is none, every waiting receiver is woken to make it, and
    /// keeps its place in its line: one that is not polled for long delays no other.
    #[inline]
    pub(super) fn cover(&mut self, deadline: Option<Ticks>) -> bool {
        if self.is_covered(deadline) {
            return false;
        }
        if !self.has_timer {
            self.timer = 0;
            self.woken.extend(self.lines.values().flatten().map(|waiting| waiting.waker.clone()));
        }
        self.has_timer
    }

    /// Returns the waker of the next receiver to wake.
    #[inline]
    pub(super) fn next_woken(&mut self) -> Option<Waker> {
        let woken = self.woken.pop_front();
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
    fn the_first_receivers_are_woken_first() {
        let mut waiters = Waiters::default();
        let ids = [(); 3].map(|()| waiters.new_id());
        for id in ids {
            waiters.wait(line(), id, Waker::noop());
        }
        waiters.owe(line(), 2);
        assert_eq!((waiters.woken.len(), waiters.standing), (2, 1));
        assert!(waiters.leave(line(), ids[2]).is_some());
        assert!(waiters.next_woken().is_some() && waiters.has_woken());
        assert!(waiters.next_woken().is_some() && !waiters.has_woken());
    }

    #[test]
    fn all_that_wait_are_woken_to_make_the_timer_and_none_to_set_it() {
        let mut waiters = Waiters::default();
        assert!(!waiters.cover(Some(7)), "no receiver waits for it");
        for _ in 0..3 {
            let id = waiters.new_id();
            waiters.wait(line(), id, Waker::noop());
        }
        assert!(!waiters.are_quiet(Some(7)) && !waiters.cover(Some(7)));
        assert_eq!((waiters.woken.len(), waiters.standing), (3, 3));
        waiters.woken.clear();
        assert!(waiters.are_quiet(Some(6)) && waiters.makes_timer(Some(6)));
        assert_eq!(waiters.arm_timer(Some(6)), Some(6));
        assert!(waiters.are_quiet(Some(6)) && !waiters.makes_timer(Some(5)) && waiters.cover(Some(5)));
        waiters.timer_has_fired();
        assert!(waiters.cover(Some(9)) && waiters.woken.is_empty());
    }

    #[test]
    fn a_timer_that_was_not_made_is_asked_for_again() {
        let mut waiters = Waiters::default();
        let (gone, stays) = (waiters.new_id(), waiters.new_id());
        waiters.wait(line(), gone, Waker::noop());
        assert!(!waiters.cover(Some(7)) && waiters.next_woken().is_some());
        waiters.leave(line(), gone);
        waiters.wait(line(), stays, Waker::noop());
        assert!(!waiters.makes_timer(None));
        assert!(!waiters.are_quiet(Some(9)) && !waiters.cover(Some(9)) && waiters.has_woken());
    }
}
