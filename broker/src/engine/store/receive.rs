use std::collections::HashSet;

use consign_core::{
    Message,
    message::{MessageState, Received, SequenceNumber},
    time::Timestamp,
    transport::{ErrorKind, ReceiveError},
};

use super::{
    Arrival, Effects, Entry, FIXED_LANES, Now, Part, Place, Store,
    entry::{EXPIRES, MOVED},
    numbers,
};
#[cfg(feature = "durable")]
use super::{Ticks, changes::LEADS, entry::AWAY};

/// One locked message and the data to settle it.
pub(crate) struct Locked {
    pub(crate) message: Message,
    pub(crate) key: u32,
    pub(crate) lock: u64,
    pub(crate) lock_millis: u32,
}

/// The source of a receiver's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Part(Part),
    /// A session, by its lane and the number of its lock.
    Session {
        lane: u32,
        lock: u64,
    },
}

impl Source {
    pub(crate) fn part(self) -> Part {
        match self {
            Self::Part(part) => part,
            Self::Session { .. } => Part::Main,
        }
    }

    pub(super) fn lane(self) -> u32 {
        match self {
            Self::Part(part) => part.lane(),
            Self::Session { lane, .. } => lane,
        }
    }
}

impl Store {
    /// Whether `source` can be received from at all.
    #[inline]
    pub(in super::super) fn check_source(&self, source: Source) -> Result<(), ReceiveError> {
        match source {
            Source::Part(Part::Main) if self.sessions.is_some() => Err(needs_a_session()),
            Source::Part(_) => Ok(()),
            Source::Session { lane, lock } if self.is_held(lane, lock) => Ok(()),
            Source::Session { .. } => Err(session_lock_lost()),
        }
    }

    /// Locks up to `max` messages in order and passes them to `out`.
    #[inline]
    pub(in super::super) fn receive(
        &mut self,
        now: Now,
        source: Source,
        max: usize,
        fx: &mut Effects,
        mut out: impl FnMut(Locked),
    ) -> usize {
        if self.quirks.lazy_expiry {
            self.expire_lazily(now, fx);
        }
        let (mut taken, max) = (0, self.at_most(source, max));
        while taken < max {
            let Some(key) = self.take(source, fx) else { break };
            out(self.lock(now, key, Place::Locked, fx));
            taken += 1;
        }
        taken
    }

    /// Removes up to `max` messages in order and passes them to `out`.
    pub(in super::super) fn receive_and_delete(
        &mut self,
        now: Now,
        source: Source,
        max: usize,
        fx: &mut Effects,
        mut out: impl FnMut(Message),
    ) -> usize {
        if self.quirks.lazy_expiry {
            self.expire_lazily(now, fx);
        }
        let (mut taken, max) = (0, self.at_most(source, max));
        while taken < max {
            let Some(key) = self.take(source, fx) else { break };
            let entry = &self.entries[key as usize];
            out(delivered(entry, None, self.apart(key, entry)));
            // The delivery has its message too.
            drop(self.remove(key, fx));
            self.totals.delivered += 1;
            taken += 1;
        }
        taken
    }

    /// Whether a message that is stored now would be the next one of the only receiver, and is kept nowhere once it is
    /// completed.
    pub(in super::super) fn passes(&self) -> bool {
        let tally = &self.tally[Part::Main as usize];
        tally.ready == 0
            && tally.locked == 0
            && self.waiting <= 1
            && self.sessions.is_none()
            && self.duplicates.is_none()
            && !self.settings.partitioned
            && self.settings.status.allows_receive()
    }

    /// Accepts, delivers and completes a message, and returns it as its receiver sees it.
    pub(in super::super) fn pass(&mut self, now: Now, arrival: Arrival) -> Message {
        let number = self.number(now, &arrival.message);
        self.totals.arrived += 1;
        self.totals.delivered += 1;
        self.totals.completed += 1;
        let mut received = Received::new(number.sequence, number.enqueued, 1);
        if let Some(ttl) = arrival.message.properties().time_to_live() {
            received.expires_at = number.enqueued.saturating_add(ttl);
        }
        received.locked_until = Some(self.lock.shown_from(now));
        arrival.message.into_message().with_received(received)
    }

    /// Returns how many of up to `max` messages there are, or `max` where that is not known.
    #[inline]
    fn at_most(&self, source: Source, max: usize) -> usize {
        match source {
            Source::Part(part) => max.min(self.tally[part as usize].ready),
            Source::Session { .. } => max,
        }
    }

    /// Takes the first message of a source.
    #[expect(clippy::inline_always, reason = "a call for each message takes as long as the rest")]
    #[inline(always)]
    fn take(&mut self, source: Source, fx: &mut Effects) -> Option<u32> {
        let (lane, part) = match source {
            Source::Part(Part::Main) if self.settings.partitioned => (self.first_partition()?, Part::Main),
            Source::Part(part) => (part.lane(), part),
            Source::Session { lane, .. } => (lane, Part::Main),
        };
        let key = self.lanes.get_mut(lane as usize)?.ready.pop(&self.entries, lane)?;
        #[cfg(feature = "durable")]
        if self.entries[key as usize].marks & (AWAY | LEADS) != 0 && !self.is_here(lane, key, fx) {
            return None;
        }
        let _ = &fx;
        self.tally[part as usize].ready -= 1;
        Some(key)
    }

    /// Returns the lane of the partition that has the first message of all.
    #[inline(never)]
    fn first_partition(&mut self) -> Option<u32> {
        let lanes = FIXED_LANES..FIXED_LANES + u32::from(numbers::PARTITIONS);
        let first = lanes.filter_map(|lane| Some((self.lanes[lane as usize].ready.first(&self.entries, lane)?, lane)));
        first.min().map(|(_, lane)| lane)
    }

    /// Locks deferred messages by their numbers: all of them, or none.
    pub(in super::super) fn receive_deferred(
        &mut self,
        now: Now,
        source: Source,
        numbers: &[SequenceNumber],
        max_bytes: u64,
        fx: &mut Effects,
    ) -> Result<Vec<Locked>, ReceiveError> {
        self.check_source(source)?;
        let mut keys = Vec::new();
        let mut bytes = 0;
        let mut requested = HashSet::new();
        for &number in numbers {
            let key = self.deferred_in(self.lane_of_deferred(source, number), number);
            let found = key.filter(|&key| self.expiry(key).ticks > now.ticks && requested.insert(key));
            let Some(key) = found else {
                let detail = format!("{number} is not deferred here");
                return Err(ReceiveError::new(ErrorKind::MessageNotFound).with_detail(detail));
            };
            bytes += self.entries[key as usize].size();
            keys.push(key);
        }
        if bytes > max_bytes && keys.len() > 1 {
            let detail = format!("the messages have {bytes} bytes, and {max_bytes} bytes are requested at most");
            return Err(ReceiveError::new(ErrorKind::MessageSizeExceeded).with_detail(detail));
        }
        let lock = |key| {
            self.take_aside(key);
            self.lock(now, key, Place::DeferredLocked, fx)
        };
        Ok(keys.into_iter().map(lock).collect())
    }

    fn lane_of_deferred(&self, source: Source, number: SequenceNumber) -> u32 {
        match source {
            Source::Session { lane, .. } => lane,
            Source::Part(Part::Main) if self.settings.partitioned => {
                FIXED_LANES + u32::from(numbers::partition_of(number))
            }
            Source::Part(part) => part.lane(),
        }
    }

    #[inline]
    fn lock(&mut self, now: Now, key: u32, place: Place, fx: &mut Effects) -> Locked {
        let lock = fx.next_lock();
        let (until, shown) = if self.is_in_session(key) {
            let until = self.session_until(self.entries[key as usize].lane);
            (until, now.utc.saturating_add(std::time::Duration::from_nanos(until.saturating_sub(now.ticks))))
        } else {
            let until = now.ticks.saturating_add(self.lock.ticks);
            self.arm(until, fx);
            (until, self.lock.shown_from(now))
        };
        self.lock_changed(key, fx);
        let apart = self.apart(key, &self.entries[key as usize]);
        let (locks, entries) = self.locks_of(key);
        let entry = locks.push(entries, key, until);
        entry.place = place;
        entry.lock = lock;
        let (message, part) = (delivered(entry, Some(shown), apart), entry.part);
        self.tally[part as usize].locked += 1;
        self.totals.delivered += 1;
        Locked { message, key, lock, lock_millis: self.lock.millis }
    }
}

#[cfg(feature = "durable")]
impl Store {
    /// Locks a message without a holder, such as one that was locked before a restart.
    pub(super) fn hold(&mut self, key: u32, until: Ticks, place: Place, fx: &mut Effects) {
        let lock = fx.next_lock();
        self.arm(until, fx);
        let (locks, entries) = self.locks_of(key);
        let entry = locks.push(entries, key, until);
        (entry.place, entry.lock) = (place, lock);
        let part = entry.part;
        self.tally[part as usize].locked += 1;
    }
}

#[cold]
fn session_lock_lost() -> ReceiveError {
    ReceiveError::new(ErrorKind::SessionLockLost)
}

#[cold]
fn needs_a_session() -> ReceiveError {
    ReceiveError::new(ErrorKind::InvalidOperation)
        .with_detail("the entity requires sessions: accept a session, as a `SessionConsumer` does")
}

impl Store {
    /// Returns what is kept apart from an entry.
    #[inline]
    pub(super) fn apart(&self, key: u32, entry: &Entry) -> Apart {
        let mut apart =
            Apart { expires_at: Timestamp::MAX, origin: entry.sequence, partitioned: self.settings.partitioned };
        if entry.marks & (EXPIRES | MOVED) != 0 {
            apart.expires_at = self.expiry_of(key, entry).shown;
            apart.origin = self.origin_of(key, entry);
        }
        apart
    }
}

/// What a receiver sees of a message beside its entry.
#[derive(Clone, Copy)]
pub(super) struct Apart {
    expires_at: Timestamp,
    origin: SequenceNumber,
    partitioned: bool,
}

/// Returns the message as a receiver sees it.
#[inline]
fn delivered(entry: &Entry, locked_until: Option<Timestamp>, apart: Apart) -> Message {
    let mut received = seen(entry, entry.failures.saturating_add(1), apart);
    received.locked_until = locked_until;
    entry.message.deliver(received)
}

/// Returns the broker's data of a message.
#[inline]
pub(super) fn seen(entry: &Entry, delivery_count: u32, apart: Apart) -> Received {
    let mut received = Received::new(entry.sequence, entry.enqueued, delivery_count);
    received.expires_at = apart.expires_at;
    received.dead_lettered = entry.part != Part::Main;
    if entry.is_deferred() {
        received.state = MessageState::Deferred;
    }
    if entry.hops() > 0 {
        received.enqueued_sequence_number = apart.origin;
    }
    if apart.partitioned {
        received.partition_id = entry.partition_id();
    }
    received
}
