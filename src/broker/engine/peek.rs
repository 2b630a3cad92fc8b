use super::{
    Engine,
    entry::{Entry, Part, Place},
    time::Now,
};
use crate::{
    Message,
    message::{MessageState, Received, SequenceNumber},
};

impl Engine {
    /// Up to `max` messages from sequence number `from` on, in order, without locking any.
    pub(crate) fn peek(&mut self, now: Now, part: Part, from: SequenceNumber, max: usize) -> Vec<Message> {
        self.advance(now);
        let indexes = match part {
            Part::Main => &self.main,
            Part::DeadLetter => &self.dead,
        };
        let keys = indexes.ascending(&self.entries, from, max);
        keys.into_iter().map(|key| peeked(&self.entries[key as usize])).collect()
    }
}

fn peeked(entry: &Entry) -> Message {
    let mut received = Received::new(entry.sequence, entry.enqueued, entry.failures);
    received.expires_at = entry.expires_at;
    received.dead_lettered = entry.part == Part::DeadLetter;
    if matches!(entry.place, Place::Deferred | Place::DeferredLocked) {
        received.state = MessageState::Deferred;
    }
    entry.message.deliver(received)
}
