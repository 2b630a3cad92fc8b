#[cfg(feature = "durable")]
use super::changes::EXPIRED;
use super::{Part, Place, Source, Store, receive::seen, session::Session};
#[cfg(feature = "durable")]
use consign_core::message::Received;
use consign_core::{
    Message,
    message::{MessageState, SequenceNumber},
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

impl Store {
    /// Returns up to `max` messages from sequence number `from` on, in order, without locking any.
    pub(in super::super) fn peek(&self, source: Source, from: SequenceNumber, max: usize) -> Vec<Peeked> {
        if let Source::Session { lane, lock } = source
            && !self.is_held(lane, lock)
        {
            return Vec::new();
        }
        let mut found = self.found(source, from, max);
        found.sort_unstable_by_key(|&key| {
            let entry = &self.entries[key as usize];
            (entry.sequence, entry.order)
        });
        found.truncate(max);
        found.into_iter().map(|key| self.peeked(key)).collect()
    }

    /// Returns at least the first `max` from `from` on.
    fn found(&self, source: Source, from: SequenceNumber, max: usize) -> Vec<u32> {
        let part = source.part();
        let is_wanted = |key: u32| {
            let entry = &self.entries[key as usize];
            entry.part == part && entry.sequence >= from
        };
        let lane = match source {
            Source::Session { lane, .. } => lane,
            Source::Part(Part::Main) if self.lanes.len() > super::FIXED_LANES as usize => return self.all(is_wanted),
            Source::Part(part) => part.lane(),
        };
        // A scheduled message is in no lane yet.
        let id = self.lanes.get(lane as usize).and_then(|lane| lane.session.as_deref()).map(Session::id);
        let is_of_session =
            |key: u32| id.is_some() && self.entries[key as usize].message.properties().session_id() == id;
        if self.numbers.jump() {
            return self.all(|key| {
                let entry = &self.entries[key as usize];
                is_wanted(key) && (entry.lane == lane || entry.place == Place::Scheduled && is_of_session(key))
            });
        }
        let Some(at) = self.lanes.get(lane as usize) else { return Vec::new() };
        let mut found: Vec<u32> = at.ready.from(&self.entries, lane, from.get(), max).collect();
        found.extend(at.deferred.from(from, max, |_| true));
        let locks = at.session.as_ref().map_or(&self.locks, |session| &session.locks);
        found.extend(locks.iter(&self.entries).filter(|&key| is_wanted(key)));
        match source {
            Source::Part(Part::Main) => found.extend(self.scheduled.by_number.from(from, max, |_| true)),
            Source::Session { .. } => {
                found.extend(self.scheduled.by_number.from(from, max, is_of_session));
            }
            Source::Part(_) => {}
        }
        found
    }

    fn all(&self, is_wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let keys = self.entries.iter().map(|(key, _)| u32::try_from(key).unwrap_or(u32::MAX));
        keys.filter(|&key| is_wanted(key)).collect()
    }

    fn peeked(&self, key: u32) -> Peeked {
        let entry = &self.entries[key as usize];
        let mut received = seen(entry, entry.failures, self.settings.partitioned);
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
        Peeked::Here(entry.message.deliver(received))
    }

    /// Removes up to `max` messages that are neither locked nor scheduled, the oldest first.
    pub(in super::super) fn delete(
        &mut self,
        part: Part,
        max: usize,
        before: Option<Timestamp>,
        fx: &mut super::Effects,
    ) -> usize {
        let is_wanted = |key: u32| {
            let entry = &self.entries[key as usize];
            let is_free = matches!(entry.place, Place::Ready | Place::Deferred);
            is_free && entry.part == part && before.is_none_or(|before| entry.enqueued < before)
        };
        let mut keys = self.found(Source::Part(part), SequenceNumber::new(0), max);
        keys.retain(|&key| is_wanted(key));
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
