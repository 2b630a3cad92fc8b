//! Conversions between messages and the properties, headers and payload of [`lapin`].
//!
//! They are for a program that publishes and consumes by lapin itself and puts a stack around its loop. The mapping is
//! that of the [senders and receivers](crate#property-mapping) of this crate, and messages of
//! [other clients](crate#properties-of-other-clients) are read as they read them.
//!
//! ```
//! use consign::Message;
//! use consign_rabbitmq::{convert, lapin::types::ShortString};
//!
//! # fn run() -> Result<(), tower::BoxError> {
//! let order = Message::builder().message_id("order-7").subject("order.placed").content_type("text/plain").build("42")?;
//! let (properties, payload) = convert::to_lapin(&order)?;
//! assert_eq!(properties.kind().as_ref().map(ShortString::as_str), Some("order.placed"));
//!
//! let read = convert::from_lapin(&properties, payload)?;
//! assert_eq!((read.message_id(), read.payload()), (Some("order-7"), Some(&b"42"[..])));
//! # Ok(())
//! # }
//! # run().unwrap();
//! ```
//!
//! A converted message differs from a message of [`RabbitMqSender`](crate::RabbitMqSender) in three details: it has no
//! `sb-sequence-number` and no `sb-enqueued-time-ms`, because no sender has numbered it; its `timestamp` is the
//! [creation time](consign_core::message::PassThrough::creation_time), if it has one; and without a MessageId there is no
//! `message_id`. The scheduled time is written as `sb-scheduled-time-ms` and delays nothing.

mod settlement;

use std::num::NonZeroU64;

use bytes::Bytes;
use consign_core::{
    Message,
    message::{PropertyValue, Received, SequenceNumber},
    settlement::{Changes, DeadLetter, UnreadableMessage},
    time::Timestamp,
    transport::{ErrorKind, SendError},
};
use lapin::{
    BasicProperties, Confirmation, PublisherConfirm,
    message::Delivery,
    types::{AMQPValue, FieldTable},
};

use crate::{
    error::Failure,
    log,
    receiver::delivered::routed_subject,
    wire::{self, Expiration, Facts, Stamp, Written, names},
};

pub use self::settlement::{Settlement, settlement};

/// Returns the properties and the payload of a message, for `basic_publish`.
///
/// The delivery mode is persistent. `expiration` is the time to live; one of more than 4,294,967,295 ms, which RabbitMQ refuses,
/// is only in the header `sb-time-to-live-ms`. Wait for the confirmation of the publication before you report success. The reason
/// of a dead letter stays among the properties, where a sender of the transport removes it.
///
/// # Errors
///
/// [`Serialization`](consign_core::transport::ErrorKind::Serialization) if an application property has a name of more than
/// 255 bytes, or a value has a type that AMQP does not have; [`MessageSizeExceeded`](consign_core::transport::ErrorKind::MessageSizeExceeded)
/// for headers of more than 124 KiB; those of [`Message::check`].
pub fn to_lapin(message: &Message) -> Result<(BasicProperties, Bytes), SendError> {
    Ok(parts(wire::write(message, &Stamp::of_other(Expiration::TimeToLive))?))
}

/// Returns the message of properties and a payload.
///
/// # Errors
///
/// An [`UnreadableMessage`]. Its reason is `MalformedHeader` if the payload or a header is not encoded as its `sb-` header
/// states. It is `HeaderSizeExceeded` if the headers exceed the limits of a message.
pub fn from_lapin(properties: &BasicProperties, payload: impl Into<Bytes>) -> Result<Message, UnreadableMessage> {
    let (message, _, unreadable) = read(properties, payload.into());
    match unreadable {
        Some(dead_letter) => Err(UnreadableMessage::new(message, dead_letter)),
        None => Ok(message),
    }
}

/// Returns the message of a delivery. The payload is copied; [`from_lapin`] takes it.
///
/// The Subject is the property `type`, and not the routing key of the delivery; see [`from_routed_delivery`].
///
/// A delivery of a quorum queue that was delivered before has the header `x-delivery-count`, or `x-acquired-count` from RabbitMQ 4.3 on,
/// where the first no longer counts a `nack`. The larger one counts: the message then has a
/// [`Received`] with its delivery tag and the number of this delivery, to which the property of `count_delivery` is added. Other deliveries have
/// no `Received`, because RabbitMQ does not count them: `DeliveryLimitLayer` takes them as the first one, or reads the
/// property of `count_delivery`. On a first delivery both headers are ignored: a program that publishes received properties again
/// publishes them too. A classic queue leaves them on redeliveries as well, and they count there. A redelivery without either
/// number, as on a classic queue, is an INFO line: a loop that returns it by `nack` delivers it without a limit, and one that
/// publishes the copy of [`abandoned`] does not.
///
/// # Errors
///
/// As [`from_lapin`].
pub fn from_delivery(delivery: &Delivery) -> Result<Message, UnreadableMessage> {
    let (mut message, facts, unreadable) = read(&delivery.properties, Bytes::copy_from_slice(&delivery.data));
    let counted = counted(&message);
    if let Some(failed) = delivery_count(delivery) {
        // RabbitMQ counts the deliveries of a copy from its publication on.
        let failed = failed.saturating_add(counted.map_or(0, |counted| u32::try_from(counted).unwrap_or(u32::MAX)));
        let number = SequenceNumber::new(if facts.number == 0 { delivery.delivery_tag } else { facts.number });
        let mut received = Received::new(number, facts.enqueued, failed.saturating_add(1));
        received.expires_at = facts.expires_at.filter(|_| facts.is_stamped).unwrap_or(Timestamp::MAX);
        received.delivery_tag = NonZeroU64::new(delivery.delivery_tag);
        message = message.with_received(received);
    } else if delivery.redelivered && counted.is_none() {
        log::uncounted(queue_of(delivery));
    }
    match unreadable {
        Some(dead_letter) => Err(UnreadableMessage::new(message, dead_letter)),
        None => Ok(message),
    }
}

/// Returns the message of a delivery as [`from_delivery`], with its routing key as the Subject if it has no `type` and was
/// published to an exchange other than the default one. A copy of [`abandoned`] keeps it.
///
/// # Errors
///
/// As [`from_lapin`].
pub fn from_routed_delivery(delivery: &Delivery) -> Result<Message, UnreadableMessage> {
    let routed = |mut message: Message| {
        if let (None, Some(subject)) =
            (message.subject(), first_key(delivery).or_else(|| routed_subject(delivery, None)))
        {
            message.properties_mut().set_subject(subject.to_owned());
        }
        message
    };
    from_delivery(delivery).map(routed).map_err(|unreadable| {
        let dead_letter = unreadable.dead_letter().clone();
        UnreadableMessage::new(routed(unreadable.into_message()), dead_letter)
    })
}

/// Returns the copy of a delivery for a dead-letter exchange or queue of yours: with the reason and the description of the
/// dead letter as headers, with its other headers unchanged, `x-death` and those that cannot be read among them, and without `expiration`. The number of failed
/// deliveries of [`abandoned`] is removed, so that a copy that is put back into its queue has all its attempts.
///
/// Publish it with the key of [`routing_key`], wait for the confirmation, and then acknowledge the delivery. A failure in between
/// leaves two messages, never none. `basic.reject` moves the message to the dead-letter exchange of its queue too, without the reason.
///
/// # Errors
///
/// As [`to_lapin`]. A delivery that was read from RabbitMQ causes none.
pub fn dead_letter(delivery: &Delivery, mut letter: DeadLetter) -> Result<(BasicProperties, Bytes), SendError> {
    let payload = Bytes::copy_from_slice(&delivery.data);
    let (mut message, facts, _) = read(&delivery.properties, payload.clone());
    letter.fit(message.properties());
    let properties = message.properties_mut().application_properties_mut();
    properties.remove(COUNT);
    letter.write_to(properties);
    // A dead letter without space for its reason would be redelivered without an end. Headers that are removed here stay as such.
    message.properties_mut().fit();
    copy(delivery, &message, &stamp(&facts, Expiration::Never), payload)
}

/// Returns the copy of a delivery that failed, for its queue: with the changes, with the number of failed deliveries as
/// `count_delivery` writes it, and with its other headers unchanged, `x-death` among them. Its time to live begins again.
///
/// Publish it to the default exchange, with the name of the queue as the routing key, wait for the confirmation, and then
/// acknowledge the delivery. The copy keeps the first routing key for [`routing_key`].
///
/// # Errors
///
/// As [`to_lapin`], if the changes do not fit beside the properties of the message: dead-letter it then.
pub fn abandoned(delivery: &Delivery, changes: Changes) -> Result<(BasicProperties, Bytes), SendError> {
    let payload = Bytes::copy_from_slice(&delivery.data);
    let (mut message, facts, _) = read(&delivery.properties, payload.clone());
    let failed = u64::from(delivery_count(delivery).unwrap_or(0));
    let failed = failed.saturating_add(counted(&message).map_or(1, |counted| counted.saturating_add(1)));
    let properties = message.properties_mut().application_properties_mut();
    properties.merge(changes.into_permitted());
    properties.insert(COUNT, failed);
    let (mut properties, payload) = copy(delivery, &message, &stamp(&facts, Expiration::TimeToLive), payload)?;
    if let Some(key) = first_key(delivery).or_else(|| routed_subject(delivery, None)) {
        let mut headers = properties.headers().as_ref().map_or_else(FieldTable::default, FieldTable::clone);
        headers.insert(names::ROUTING_KEY.into(), AMQPValue::LongString(key.into()));
        properties = properties.with_headers(headers);
    }
    Ok((properties, payload))
}

/// Waits for the confirmation of what `basic_publish` returned: `Ok` if RabbitMQ has taken the message, and if a queue has it, for
/// one that was published with `mandatory`. Without that flag RabbitMQ also confirms messages that no queue takes.
///
/// ```no_run
/// use consign::transport::SendError;
/// use consign_rabbitmq::{
///     convert,
///     lapin::{BasicProperties, Channel, options::BasicPublishOptions},
/// };
///
/// async fn publish(channel: &Channel, queue: &str, properties: BasicProperties, body: &[u8]) -> Result<(), SendError> {
///     let options = BasicPublishOptions { mandatory: true, ..Default::default() };
///     convert::confirmed(channel.basic_publish("".into(), queue.into(), options, body, properties).await).await
/// }
/// ```
///
/// RabbitMQ may confirm several publications of a channel at once. lapin then attaches a message that was returned to any of
/// these confirmations, so the result may be that of another one. To know which message no queue took, wait for each
/// confirmation before the next publication of the channel.
///
/// # Errors
///
/// [`EntityNotFound`](ErrorKind::EntityNotFound) if no queue has taken the message; [`ServiceBusy`](ErrorKind::ServiceBusy) if
/// RabbitMQ refuses it, for example for a queue that is full; [`InvalidOperation`](ErrorKind::InvalidOperation) if
/// `confirm_select` was not called on the channel; otherwise the kind that a sender of the transport has for the error of lapin,
/// which is the source. For a message that RabbitMQ refuses, such a sender has the kind [`General`](ErrorKind::General).
/// After [`CommunicationProblem`](ErrorKind::CommunicationProblem) the message may have been stored.
pub async fn confirmed(published: lapin::Result<PublisherConfirm>) -> Result<(), SendError> {
    result_of(async { published?.await }.await)
}

fn result_of(confirmation: lapin::Result<Confirmation>) -> Result<(), SendError> {
    let failure = match confirmation {
        Ok(Confirmation::Ack(None)) => return Ok(()),
        Ok(Confirmation::Nack(None)) => Failure::new(ErrorKind::ServiceBusy, "RabbitMQ has refused the message"),
        Ok(Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned))) => {
            let detail = format!("no queue has taken the message: {}", returned.reply_text.as_str());
            Failure::new(ErrorKind::EntityNotFound, detail)
        }
        Ok(Confirmation::NotRequested) => {
            Failure::new(ErrorKind::InvalidOperation, "call confirm_select on the channel first")
        }
        Err(error) => Failure::from(error),
    };
    Err(failure.into())
}

/// Returns the routing key that a message was published with first, for its copy in a dead-letter exchange. A copy of
/// [`abandoned`] has the name of its queue as its own, and the first one in the header `sb-routing-key`. That is read from any
/// publisher, so a message may select the routing key of its dead letter.
#[must_use]
pub fn routing_key(delivery: &Delivery) -> &str {
    first_key(delivery).unwrap_or(delivery.routing_key.as_str())
}

/// The routing key of the original of a copy. A routing key has at most 255 bytes.
fn first_key(delivery: &Delivery) -> Option<&str> {
    let headers = delivery.properties.headers().as_ref().map(FieldTable::inner)?;
    let AMQPValue::LongString(key) = headers.get(names::ROUTING_KEY)? else { return None };
    std::str::from_utf8(key.as_bytes()).ok().filter(|key| u8::try_from(key.len()).is_ok())
}

fn stamp(facts: &Facts, expiration: Expiration) -> Stamp {
    Stamp {
        number: (facts.number != 0).then_some(facts.number),
        enqueued: facts.is_stamped.then_some(facts.enqueued),
        failed: facts.failed,
        ..Stamp::of_other(expiration)
    }
}

fn copy(
    delivery: &Delivery,
    message: &Message,
    stamp: &Stamp,
    payload: Bytes,
) -> Result<(BasicProperties, Bytes), SendError> {
    let mut written = wire::again(message, stamp, &delivery.properties, payload)?;
    wire::history::keep(&delivery.properties, &mut written.properties, None, queue_of(delivery).unwrap_or(""));
    Ok(parts(written))
}

/// The queue of a delivery, if it is known: the default exchange routes by its name.
fn queue_of(delivery: &Delivery) -> Option<&str> {
    Some(delivery.routing_key.as_str()).filter(|_| delivery.exchange.as_str().is_empty())
}

/// The application property of `count_delivery`, and the header of a quorum queue.
const COUNT: &str = "x-delivery-count";

/// The failed deliveries of the originals of a copy.
fn counted(message: &Message) -> Option<u64> {
    message.application_properties().get(COUNT).and_then(PropertyValue::to_u64)
}

fn parts(written: Written) -> (BasicProperties, Bytes) {
    (written.properties, written.payload)
}

/// Returns the message without what cannot be read, and the dead letter of the first such part.
fn read(properties: &BasicProperties, payload: Bytes) -> (Message, Facts, Option<DeadLetter>) {
    let mut malformed = None;
    let (mut message, facts) = wire::read(properties, payload, |part| {
        malformed.get_or_insert(part);
    });
    wire::history::annotate(properties, None, &mut message);
    let unreadable =
        malformed.map(|part| part.why()).or_else(|| facts.exceeds_limits.then(DeadLetter::header_size_exceeded));
    (message, facts, unreadable)
}

/// The number of earlier deliveries, which RabbitMQ sets on redelivered messages of quorum queues. On a first delivery the headers
/// are those of the publisher.
fn delivery_count(delivery: &Delivery) -> Option<u32> {
    let headers = delivery.properties.headers().as_ref().filter(|_| delivery.redelivered).map(FieldTable::inner)?;
    let counts = [COUNT, wire::ACQUIRED].into_iter().filter_map(|name| wire::integer(headers.get(name)?));
    u32::try_from(counts.max()?.max(0)).ok()
}

#[cfg(test)]
mod tests;
