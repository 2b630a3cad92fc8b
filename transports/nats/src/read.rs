//! A message of JetStream as it is read.

use async_nats::{HeaderMap, Subject, jetstream};
use bytes::Bytes;
use consign_core::{Message, time::Timestamp, transport::ErrorKind};

use crate::{
    error::Fault,
    wire::{self, Malformed, name},
};

/// The server's facts of a delivery, in the subject at which it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) deliveries: u64,
    pub(crate) number: u64,
    /// How many the consumer has delivered by then.
    pub(crate) delivered: u64,
    pub(crate) stored: Timestamp,
}

impl Facts {
    /// `$JS.ACK.stream.consumer.deliveries.number.of-consumer.nanoseconds.pending`, or with domain and account behind `ACK`.
    pub(crate) fn read(reply: &str) -> Option<Self> {
        let tokens: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
        let tokens = match tokens.len() {
            7 => &tokens[2..],
            9.. => &tokens[4..],
            _ => return None,
        };
        let nanos: i64 = tokens[3].parse().ok()?;
        Some(Self {
            deliveries: tokens[0].parse().ok()?,
            number: tokens[1].parse().ok()?,
            delivered: tokens[2].parse().ok()?,
            stored: Timestamp::from_millis(nanos / 1_000_000),
        })
    }
}

/// Whether a stored message has facts of its original in headers. Any client can write these headers, so they are read only
/// where this transport writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin<'a> {
    /// It is no copy.
    Itself,
    /// It is no copy, and was published to this subject of another program, which selects its handler if no header does.
    Subject(&'a str),
    /// It is the copy of a subscription, with the enqueued time.
    Topic,
    /// It is a dead letter or a deferred message, with the number, the enqueued time and the delivery count.
    Beside,
}

/// A message that was read from a stream, and what copies have in their headers.
pub(crate) struct Read {
    pub(crate) message: Message,
    pub(crate) number: u64,
    pub(crate) enqueued: Timestamp,
    /// Deliveries when the copy was made.
    pub(crate) count: u32,
    pub(crate) malformed: Option<Malformed>,
    /// Headers of other clients, which are written to copies of the message.
    pub(crate) foreign: HeaderMap,
}

impl Read {
    /// Compares the session of a message with that of its subject. A message without one gets it.
    pub(crate) fn in_session(&mut self, id: &str) {
        let is_of_it = match self.message.session_id() {
            _ if self.malformed.is_some() => return,
            Some(own) => own == id,
            None => self.message.properties_mut().set_session_id(id.to_owned()).is_ok(),
        };
        if !is_of_it {
            self.malformed = Some(Malformed::Session(id.to_owned()));
        }
    }
}

pub(crate) fn read(
    origin: Origin<'_>,
    headers: Option<&HeaderMap>,
    payload: Bytes,
    number: u64,
    stored: Timestamp,
    stream: &str,
) -> Read {
    let said = |name, by: &[Origin<'_>]| {
        let headers = headers.filter(|_| by.contains(&origin))?;
        headers.get(name)?.as_str().parse::<i64>().ok()
    };
    let beside = &[Origin::Beside];
    let number = said(name::SEQUENCE_NUMBER, beside).and_then(|number| u64::try_from(number).ok()).unwrap_or(number);
    let enqueued = said(name::ENQUEUED_TIME, &[Origin::Topic, Origin::Beside]).map_or(stored, Timestamp::from_millis);
    let count = said(name::DELIVERY_COUNT, beside).and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let (mut message, mut malformed) = wire::decode_readable(headers, payload);
    if let (Origin::Subject(subject), None) = (origin, message.subject()) {
        message.properties_mut().set_subject(subject.to_owned());
    }
    if message.properties_mut().fit() {
        malformed.get_or_insert(Malformed::TooLarge);
    }
    if message.message_id().is_none() {
        let id = format!("{stream}-{number}");
        // A name that is too long for an id has an end that is not.
        let start = id.len().saturating_sub(128);
        let _ = message.properties_mut().stamp_message_id(id.get(start..).unwrap_or_default().to_owned());
    }
    let mut foreign = HeaderMap::new();
    wire::foreign(headers, &mut foreign);
    Read { message, number, enqueued, count, malformed, foreign }
}

/// Returns the facts of a delivery, and the subject at which it is acknowledged.
pub(crate) fn facts(message: &async_nats::Message) -> Result<(Facts, Subject), Fault> {
    let reply = message.reply.clone();
    let facts = reply.as_ref().and_then(|reply| Facts::read(reply));
    match (facts, reply) {
        (Some(facts), Some(reply)) => Ok((facts, reply)),
        _ => Err(Fault::new(ErrorKind::General, "the server delivered something that cannot be acknowledged")),
    }
}

/// Returns when a message that was read from a stream was stored.
pub(crate) fn stored_at(message: &jetstream::message::StreamMessage) -> Timestamp {
    let nanos = message.time.unix_timestamp_nanos();
    Timestamp::from_millis(i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_an_acknowledgement_are_read() {
        let facts = Facts { deliveries: 3, number: 7, delivered: 9, stored: Timestamp::from_millis(1_700_000_000_123) };
        let (old, new) = (
            "$JS.ACK.stream.consumer.3.7.9.1700000000123456789.0",
            "$JS.ACK._.account.stream.consumer.3.7.9.1700000000123456789.0.token",
        );
        assert_eq!((Facts::read(old), Facts::read(new)), (Some(facts), Some(facts)));
        for bad in ["", "$JS.ACK.a.b.c", "$JS.ACK.stream.consumer.x.7.9.1.0", "other.stream.consumer.3.7.9.1.0"] {
            assert_eq!(Facts::read(bad), None, "{bad}");
        }
    }
}
