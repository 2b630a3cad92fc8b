#[cfg(feature = "durable")]
use super::changes::EXPIRED;
use super::{Entry, Part, Place, Source, Store, receive::seen, session::Session};
use consign_core::{
    Message,
    message::{MessageState, PropertyValue, Received, SequenceNumber, Stored},
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
};

/// A message that was peeked.
#[derive(Debug)]
pub(crate) enum Peeked {
    Here(Message),
    /// It is on the disk only.
    #[cfg(feature = "durable")]
    Away {
        serial: u64,
        order: u64,
        received: Box<Received>,
        /// Its record does not show that yet.
        has_expired: bool,
    },
}

impl Peeked {
    pub(crate) fn sequence_number(&self) -> Option<SequenceNumber> {
        match self {
            Self::Here(message) => message.received().map(|received| received.sequence_number),
            #[cfg(feature = "durable")]
            Self::Away { received, .. } => Some(received.sequence_number),
        }
    }
}

/// Returns a message that is peeked, with its failed deliveries. An entry has those before the delivery that dead-lettered
/// its message, which has failed too if it was the last one.
pub(crate) fn show(message: &Stored, mut received: Received) -> Message {
    if received.dead_lettered {
        let reason = message.properties().application_properties().get(DeadLetter::REASON);
        let is_last = reason.and_then(PropertyValue::as_str) == DeadLetterReason::MaxDeliveryCountExceeded.code();
        received.delivery_count = received.delivery_count.saturating_add(u32::from(is_last));
    }
    message.deliver(received)
}

impl Store {
    /// Returns up to `max` messages from sequence number `from` on, in order, without locking any.
    pub(in super::super) fn peek(&self, source: Source, from: SequenceNumber, max: usize) -> Vec<Peeked> {
        if !self.may_see(source) {
            return Vec::new();
        }
        let mut found = self.found(source, from, max, |_| true);
        found.sort_unstable_by_key(|&key| {
            let entry = &self.entries[key as usize];
            (entry.sequence, entry.order)
        });
        found.truncate(max);
        found.into_iter().map(|key| self.peeked(key)).collect()
    }

    /// Whether a session is still locked by its receiver. Without the lock, its lane may be that of another session.
    fn may_see(&self, source: Source) -> bool {
        match source {
            Source::Session { lane, lock } => self.is_held(lane, lock),
            Source::Part(_) => true,
        }
    }

    /// Returns at least the first `max` from `from` on that are selected, if there are as many.
    fn found(
        &self,
        source: Source,
        from: SequenceNumber,
        max: usize,
        is_selected: impl Fn(&Entry) -> bool + Copy,
    ) -> Vec<u32> {
        let is_selected = |key: u32| is_selected(&self.entries[key as usize]);
        let (part, lane) = (source.part(), source.lane());
        if let (Source::Part(part), Some(index)) = (source, &self.index) {
            return index.from(part, from, max, is_selected).collect();
        }
        let Some(at) = self.lanes.get(lane as usize) else { return Vec::new() };
        let is_from = |key: u32| {
            let entry = &self.entries[key as usize];
            entry.part == part && entry.sequence >= from && is_selected(key)
        };
        // A time that is selected grows with the order, so the first `max` of those that can be received are enough.
        // Where the numbers jump, the order says nothing about them.
        let (order, most) = if self.numbers.jump() { (0, usize::MAX) } else { (from.get(), max) };
        let mut found: Vec<u32> = at.ready.from(&self.entries, lane, order, most).filter(|&key| is_from(key)).collect();
        found.extend(at.deferred.from(from, max, is_selected));
        let locks = at.session.as_ref().map_or(&self.locks, |session| &session.locks);
        found.extend(locks.iter(&self.entries).filter(|&key| is_from(key)));
        match source {
            Source::Part(Part::Main) => found.extend(self.scheduled.by_number.from(from, max, is_selected)),
            // A scheduled message is in no lane yet.
            Source::Session { .. } => {
                let id = at.session.as_deref().map(Session::id);
                let session = |key: u32| self.entries[key as usize].message.properties().session_id();
                let is_of_session = |key| id.is_some() && session(key) == id && is_selected(key);
                found.extend(self.scheduled.by_number.from(from, max, is_of_session));
            }
            Source::Part(_) => {}
        }
        found
    }

    fn peeked(&self, key: u32) -> Peeked {
        let entry = &self.entries[key as usize];
        let mut received = seen(entry, entry.failures, self.apart(key, entry));
        if entry.place == Place::Scheduled {
            received.state = MessageState::Scheduled;
        }
        #[cfg(feature = "durable")]
        if entry.is_away() {
            let has_expired = entry.marks & EXPIRED != 0;
            return Peeked::Away {
                serial: self.id.serial,
                order: entry.order,
                received: Box::new(received),
                has_expired,
            };
        }
        Peeked::Here(show(&entry.message, received))
    }

    /// Removes up to `max` messages that are neither locked nor scheduled, the oldest first.
    pub(in super::super) fn delete(
        &mut self,
        source: Source,
        max: usize,
        before: Option<Timestamp>,
        fx: &mut super::Effects,
    ) -> usize {
        if !self.may_see(source) {
            return 0;
        }
        let is_wanted = |entry: &Entry| {
            let is_free = matches!(entry.place, Place::Ready | Place::Deferred);
            is_free && before.is_none_or(|before| entry.enqueued < before)
        };
        let mut keys = self.found(source, SequenceNumber::new(0), max, is_wanted);
        keys.sort_unstable_by_key(|&key| self.entries[key as usize].order);
        keys.truncate(max);
        for &key in &keys {
            match self.entries[key as usize].place {
                Place::Deferred => self.take_aside(key),
                _ => self.take_ready(key),
            }
            let removed = self.remove(key, fx);
            fx.note().dropped.push(removed.message);
        }
        keys.len()
    }
}
