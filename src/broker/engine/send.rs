use std::time::Duration;

use super::{
    Engine,
    entry::{Entry, NEVER, NIL, Part, Place},
    time::Now,
};
use crate::{
    Message,
    broker::QueueSettings,
    message::Stored,
    settlement::DeadLetter,
    time::Timestamp,
    transport::{ErrorKind, SendError},
};

impl Engine {
    /// Accepts one message, or gives it back and says why not. What is refused consumes no sequence number.
    pub(crate) fn send(&mut self, now: Now, message: Message) -> Result<(), (SendError, Message)> {
        self.advance(now);
        let size = match self.check(now, &message).and_then(|size| self.check_quota(size).map(|()| size)) {
            Ok(size) => size,
            Err(error) => return Err((error, message)),
        };
        self.accept(now, message, size);
        Ok(())
    }

    /// Accepts all messages, or gives them back.
    pub(crate) fn send_batch(&mut self, now: Now, messages: Vec<Message>) -> Result<(), (SendError, Vec<Message>)> {
        self.advance(now);
        let sizes: Result<Vec<_>, _> = messages.iter().map(|message| self.check(now, message)).collect();
        let sizes = match sizes.and_then(|sizes| self.check_quota(sizes.iter().sum()).map(|()| sizes)) {
            Ok(sizes) => sizes,
            Err(error) => return Err((error, messages)),
        };
        for (message, size) in messages.into_iter().zip(sizes) {
            self.accept(now, message, size);
        }
        Ok(())
    }

    fn check(&self, now: Now, message: &Message) -> Result<u64, SendError> {
        message.properties().check()?;
        let size = message.size();
        let limit = self.settings.max_message_size;
        if size > limit {
            let detail = format!("{size} bytes, at most {limit}");
            return Err(SendError::new(ErrorKind::MessageSizeExceeded).with_detail(detail));
        }
        if message.scheduled_enqueue_time().is_some_and(|time| time > now.utc) {
            return Err(SendError::new(ErrorKind::NotSupported).with_detail("a scheduled enqueue time"));
        }
        Ok(size as u64 + QueueSettings::OVERHEAD)
    }

    fn check_quota(&self, size: u64) -> Result<(), SendError> {
        let limit = self.settings.max_size;
        if self.size.saturating_add(size) <= limit {
            return Ok(());
        }
        Err(SendError::new(ErrorKind::QuotaExceeded).with_detail(format!("the queue holds at most {limit} bytes")))
    }

    fn accept(&mut self, now: Now, message: Message, size: u64) {
        let mut message = Stored::new(message);
        self.last_sequence = self.last_sequence.next();
        self.last_enqueued = self.last_enqueued.max(now.utc);
        let ttl = match (message.properties().time_to_live(), self.settings.default_time_to_live) {
            (Some(own), Some(limit)) => Some(own.min(limit)),
            (own, limit) => own.or(limit),
        };
        if let Some(ttl) = ttl.filter(|_| ttl != message.properties().time_to_live()) {
            // The entity's default is positive, and the setter refuses nothing else.
            let _ = message.properties_mut().set_time_to_live(ttl);
        }
        if message.properties().message_id().is_none() {
            let id = uuid::Uuid::new_v4().to_string();
            let _ = message.properties_mut().set_message_id(id);
        }
        strip_broker_properties(&mut message);
        let (expires, expires_at) = ttl.map_or((NEVER, Timestamp::MAX), |ttl| self.expiry(now, ttl));
        let entry = Entry {
            message,
            sequence: self.last_sequence,
            enqueued: self.last_enqueued,
            expires_at,
            expires,
            failures: 0,
            size,
            part: Part::Main,
            place: Place::Ready,
            lock: 0,
            locked_until: 0,
            previous: NIL,
            next: NIL,
        };
        let slot = self.entries.vacant_entry();
        // At 256 bytes and more each, 2^32 messages are more than the largest memory holds.
        let key = u32::try_from(slot.key()).expect("fewer than 2^32 messages in one queue");
        let entry = slot.insert(entry);
        self.main.make_ready(entry, key);
        if expires != NEVER {
            self.expiries.insert((expires, key));
        }
        self.size += size;
    }

    /// In whole milliseconds, so that the expiry that is shown is the one that holds.
    fn expiry(&self, now: Now, ttl: Duration) -> (u64, Timestamp) {
        let ticks = u64::try_from(ttl.as_millis()).map_or(NEVER, |millis| millis.saturating_mul(1_000_000));
        (now.ticks.saturating_add(ticks), self.last_enqueued.saturating_add(ttl))
    }
}

/// A sender cannot say that a message was dead-lettered, and one that is sent again starts without its old trail.
fn strip_broker_properties(message: &mut Stored) {
    for key in [DeadLetter::REASON, DeadLetter::DESCRIPTION, DeadLetter::TRAIL] {
        if message.properties().application().get(key).is_some() {
            message.properties_mut().application_mut().remove(key);
        }
    }
}
