use std::{
    collections::{BTreeMap, VecDeque},
    task::Waker,
};

use super::engine::{Line, StoreId, Ticks};

/// The receivers that wait, in lines: first in, first woken.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Lines with waiting receivers, and some that are empty now.
    lines: BTreeMap<Line, VecDeque<Waiting>>,
    /// How many receivers wait in all lines together.
    standing: usize,
    /// Lines whose first receivers are to be woken, and how many.
    owed: Vec<(Line, usize)>,
    last_id: u64,
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
        self.owed.is_empty()
            && self.setting.is_none()
            && (self.standing == 0 || deadline.is_none_or(|deadline| self.has_timer(deadline)))
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
        self.forget_timer(id);
        let waiting = self.lines.get_mut(&line)?;
        let at = waiting.binary_search_by_key(&id, |waiting| waiting.id).ok()?;
        let left = waiting.remove(at)?;
        let capacity = waiting.capacity();
        self.has_left(line, capacity);
        Some(left.waker)
    }

    /// Marks that many receivers in a line to be woken.
    #[inline]
    pub(super) fn owe(&mut self, line: Line, arrivals: usize) {
        if self.lines.get(&line).is_none_or(VecDeque::is_empty) {
            return;
        }
        match self.owed.last_mut() {
            Some((last, count)) if *last == line => *count += arrivals,
            _ => self.owed.push((line, arrivals)),
        }
    }

    /// Marks all receivers to be woken.
    pub(super) fn owe_everyone(&mut self) {
        let waiting = self.lines.iter().filter(|(_, waiting)| !waiting.is_empty());
        self.owed.extend(waiting.map(|(&line, waiting)| (line, waiting.len())));
    }

    /// Marks all receivers of an entity to be woken.
    pub(super) fn owe_all(&mut self, store: StoreId) {
        for lines in Line::all(store) {
            let waiting = self.lines.range(lines).filter(|(_, waiting)| !waiting.is_empty());
            self.owed.extend(waiting.map(|(&line, waiting)| (line, waiting.len())));
        }
    }

    /// Gives the timer to one waiting receiver if none is set for `deadline`. It is woken to set it, and keeps its place in its
    /// line: a receiver that waits again before that does not take the timer, and is not woken from it each time.
    #[inline]
    pub(super) fn cover(&mut self, deadline: Option<Ticks>) {
        let Some(deadline) = deadline else { return };
        if self.owed.is_empty()
            && !self.has_timer(deadline)
            && let Some(first) = self.lines.values().find_map(VecDeque::front)
        {
            self.timer = Some((deadline, first.id));
            self.setting = Some(first.waker.clone());
        }
    }

    /// Returns the waker of the next receiver to wake, which leaves its line unless it is woken to set a timer.
    #[inline]
    pub(super) fn next_woken(&mut self) -> Option<Waker> {
        if let Some(setting) = self.setting.take() {
            return Some(setting);
        }
        while let Some((line, count)) = self.owed.last_mut() {
            let line = *line;
            *count -= 1;
            let is_last = *count == 0;
            let Some(waiting) = self.lines.get_mut(&line) else {
                self.owed.pop();
                continue;
            };
            if is_last {
                self.owed.pop();
            }
            if let Some(Waiting { id, waker }) = waiting.pop_front() {
                let capacity = waiting.capacity();
                self.has_left(line, capacity);
                self.forget_timer(id);
                return Some(waker);
            }
        }
        None
    }

    /// Records that a receiver has left a line of this capacity. A few empty lines are kept for receivers that
    /// return, which most do.
    #[inline]
    fn has_left(&mut self, line: Line, capacity: usize) {
        const KEPT: usize = 64;
        const LONG: usize = 1_024;
        self.standing -= 1;
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
