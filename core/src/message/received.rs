use std::{fmt, num::NonZeroU64};

use crate::time::Timestamp;

/// The number that an entity assigns to a message when it has accepted it: ascending from 1 without gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SequenceNumber(u64);

impl SequenceNumber {
    /// Creates a number from its 64 bits. As a signed long on a wire, numbers from 2^63 on look
    /// negative; they are not.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns its 64 bits.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number that follows. After the last one comes 0.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

impl fmt::Debug for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The name of one lock of one message. The next delivery of the message has another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockToken([u8; 16]);

impl LockToken {
    /// Creates a token from the bytes of a UUID, in network order.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of a UUID, in network order.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Hyphenated, lower case.
impl fmt::Display for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(uuid::Uuid::from_bytes_ref(&self.0), f)
    }
}

impl fmt::Debug for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The state of a message in its entity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MessageState {
    /// It can be received, or is locked by a receiver.
    #[default]
    Active,
    /// It was deferred, and can only be received by its sequence number.
    Deferred,
    /// It waits for its enqueue time.
    Scheduled,
}

/// The broker's properties of a message that was received or peeked. A sender cannot set any of
/// it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// The number that the entity gave.
    pub sequence_number: SequenceNumber,
    /// The number of the first submission, if the message was forwarded; else 0.
    pub enqueued_sequence_number: SequenceNumber,
    /// When the entity accepted the message. A client that does not report it sets the time of receipt.
    /// [`Timestamp::EPOCH`] counts as unknown: no deadline and no expiry is computed from it.
    pub enqueued_time: Timestamp,
    /// When the message expires; [`Timestamp::MAX`] is never.
    pub expires_at: Timestamp,
    /// Until when the lock holds. `None` where there is no lock: peeked, or received and deleted.
    pub locked_until: Option<Timestamp>,
    /// How often it was delivered, this time included: the first delivery reads 1. On a peeked message, how many
    /// deliveries have failed.
    pub delivery_count: u32,
    /// The state of the message.
    pub state: MessageState,
    /// Whether it was read from a dead-letter sub-queue.
    pub dead_lettered: bool,
    /// The partition, on a partitioned entity.
    pub partition_id: Option<i16>,
    /// The delivery tag of AMQP 0-9-1, on RabbitMQ.
    pub delivery_tag: Option<NonZeroU64>,
    #[doc(hidden)]
    pub holding: Holding,
    #[doc(hidden)]
    pub session: SessionKey,
    #[doc(hidden)]
    pub counted: Counted,
}

/// The session of the consumer that delivered a message, by its number in this process; 0 without one. The broker does not set
/// it, so all values are equal.
#[derive(Clone, Copy, Debug, Default)]
#[doc(hidden)]
pub struct SessionKey(pub u32);

impl PartialEq for SessionKey {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SessionKey {}

/// Whether a metric has counted the delivery as consumed. The broker does not set it, so all values are equal.
#[derive(Clone, Copy, Debug, Default)]
#[doc(hidden)]
pub struct Counted(pub bool);

impl PartialEq for Counted {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Counted {}

/// Whether the consumer that delivered a message keeps it if a layer requests it. The broker does not set it, so all
/// values are equal.
#[derive(Clone, Copy, Default)]
#[doc(hidden)]
pub enum Holding {
    /// No consumer delivered it, or one that keeps none.
    #[default]
    No,
    /// It may be kept.
    May,
    /// It was kept, and is handed to the stack again.
    Was,
}

impl PartialEq for Holding {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Holding {}

#[expect(clippy::missing_fields_in_debug, reason = "the broker does not set the rest")]
impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received")
            .field("sequence_number", &self.sequence_number)
            .field("enqueued_sequence_number", &self.enqueued_sequence_number)
            .field("enqueued_time", &self.enqueued_time)
            .field("expires_at", &self.expires_at)
            .field("locked_until", &self.locked_until)
            .field("delivery_count", &self.delivery_count)
            .field("state", &self.state)
            .field("dead_lettered", &self.dead_lettered)
            .field("partition_id", &self.partition_id)
            .field("delivery_tag", &self.delivery_tag)
            .finish()
    }
}

impl Received {
    /// Returns the enqueued time, if it is known.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn known_enqueued_time(&self) -> Option<Timestamp> {
        (self.enqueued_time != Timestamp::EPOCH).then_some(self.enqueued_time)
    }

    /// Creates the properties that every transport sets; the others have their defaults and can be assigned.
    #[must_use]
    pub const fn new(sequence_number: SequenceNumber, enqueued_time: Timestamp, delivery_count: u32) -> Self {
        Self {
            sequence_number,
            enqueued_sequence_number: SequenceNumber::new(0),
            enqueued_time,
            expires_at: Timestamp::MAX,
            locked_until: None,
            delivery_count,
            state: MessageState::Active,
            dead_lettered: false,
            partition_id: None,
            delivery_tag: None,
            holding: Holding::No,
            session: SessionKey(0),
            counted: Counted(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enqueued_time_of_zero_is_not_known() {
        for (time, known) in [(Timestamp::EPOCH, None), (Timestamp::from_millis(5), Some(Timestamp::from_millis(5)))] {
            assert_eq!(Received::new(SequenceNumber::new(1), time, 0).known_enqueued_time(), known);
        }
    }
}
