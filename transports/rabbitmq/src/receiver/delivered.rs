//! A delivery of the broker, and the ticket that settles it.

use std::{num::NonZeroU64, sync::Arc};

use bytes::Bytes;
use consign_core::{
    Message,
    message::{Received, SequenceNumber},
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::ErrorKind,
};
use lapin::{
    Acker, BasicProperties, Channel,
    options::{BasicAckOptions, BasicNackOptions},
    types::ShortString,
};
use tokio::time::Instant;

use super::source::Source;
use crate::{
    client,
    error::Failure,
    link::Leased,
    log,
    wire::{self, Facts},
};

/// The source of a delivery, on which it is settled: the generation of its channel.
pub(crate) struct Origin {
    pub(crate) subscription: u64,
    pub(crate) leased: Leased,
}

/// A dispatched delivery.
pub(crate) struct Held {
    pub(crate) ticket: Ticket,
    pub(crate) raw: BasicProperties,
    pub(crate) payload: Bytes,
    pub(crate) routing_key: ShortString,
    pub(crate) message: Message,
    pub(crate) facts: Facts,
    pub(crate) until: Instant,
}

/// The means to settle a delivery.
pub(crate) struct Ticket {
    pub(crate) origin: Arc<Origin>,
    pub(crate) tag: u64,
    /// Reports the end of its channel, even if lapin has opened the connection again and the channel works.
    acker: Acker,
}

impl Ticket {
    pub(crate) fn new(origin: Arc<Origin>, delivery: &lapin::message::Delivery) -> Self {
        Self { origin, tag: delivery.delivery_tag, acker: delivery.acker.clone() }
    }

    /// Returns whether the channel has closed, and the lock with it. The broker then redelivers the message.
    pub(crate) fn is_lost(&self) -> bool {
        self.acker.poisoned() || !self.origin.leased.channel.status().connected()
    }

    /// Acknowledges the delivery. The frame is sent at the first poll: in the order of these, which that of an `Acker` is not.
    pub(crate) async fn ack(self) -> Result<(), Failure> {
        self.settle(async |channel, tag| channel.basic_ack(tag, BasicAckOptions::default()).await).await
    }

    pub(crate) async fn nack(self) -> Result<(), Failure> {
        let options = BasicNackOptions { multiple: false, requeue: true };
        self.settle(async |channel, tag| channel.basic_nack(tag, options).await).await
    }

    /// Returns the error of a delivery whose channel has closed.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.is_lost() { Err(lost()) } else { Ok(()) }
    }

    async fn settle(self, operation: impl AsyncFnOnce(&Channel, u64) -> lapin::Result<()>) -> Result<(), Failure> {
        self.check()?;
        written(operation(&self.origin.leased.channel, self.tag).await)?;
        // Not before the frame is written: a later one that settles several must come after it.
        if let Some(settled) = self.origin.leased.settled() {
            settled.lock().insert([self.tag]);
        }
        Ok(())
    }
}

fn lost() -> Failure {
    Failure::new(ErrorKind::MessageLockLost, "the channel that delivered the message has ended")
}

/// Returns the result of a settlement.
pub(super) fn written(result: lapin::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if matches!(error.kind(), lapin::ErrorKind::InvalidChannelState(..)) => Err(lost()),
        result => Ok(result?),
    }
}

/// Returns the routing key of a delivery, unless it is the name of a queue, that of the default exchange, or the digits of a
/// delay. The exchanges of delays begin with this prefix. Where it is not known, a delayed message has its header.
pub(crate) fn routed_subject<'d>(delivery: &'d lapin::message::Delivery, delays: Option<&str>) -> Option<&'d str> {
    let (exchange, headers) = (delivery.exchange.as_str(), delivery.properties.headers());
    let is_delayed = match delays {
        Some(prefix) => exchange.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.')),
        None => headers.as_ref().is_some_and(|headers| headers.contains_key(wire::names::DESTINATION)),
    };
    Some(delivery.routing_key.as_str()).filter(|key| !(key.is_empty() || exchange.is_empty() || is_delayed))
}

impl Held {
    /// Reads a delivery of the broker.
    pub(crate) fn read(
        client: &client::Shared,
        source: &Source,
        origin: Arc<Origin>,
        raw: lapin::message::Delivery,
        now: Timestamp,
        until: Instant,
    ) -> Self {
        let delays = Some(client.link.options.delays.as_str()).filter(|_| source.subject_from_routing_key);
        let subject = delays.and_then(|delays| routed_subject(&raw, Some(delays))).map(str::to_owned);
        let lapin::message::Delivery { properties, data, routing_key, delivery_tag: tag, acker, .. } = raw;
        let ticket = Ticket { origin, tag, acker };
        let payload = Bytes::from(data);
        let (mut message, mut facts) =
            wire::read(&properties, payload.clone(), |malformed| log::malformed(source.path.as_str(), &malformed));
        if let Some(subject) = subject.filter(|_| message.subject().is_none()) {
            message.properties_mut().set_subject(subject);
        }
        wire::history::annotate(&properties, Some(&client.link.options.delays), &mut message);
        let is_dead = source.path.is_dead_letter();
        let default = source.settings.default_time_to_live.filter(|_| !is_dead);
        // The sender does not have the default of a subscription.
        if let Some(shorter) = default.filter(|default| message.time_to_live().is_none_or(|own| own > *default)) {
            let _ = message.properties_mut().set_time_to_live(shorter);
            facts.expires_at = Some(facts.enqueued.saturating_add(shorter));
        }
        // The timestamp of another publisher, if there is one, is not when the broker took the message. If the message had
        // expired by it, the broker would not have delivered it, and it did not take the message after now.
        let is_impossible = facts.enqueued == Timestamp::default()
            || facts.enqueued > now
            || facts.expires_at.is_some_and(|at| at <= now);
        if !facts.is_stamped && is_impossible {
            facts.enqueued = now;
            facts.expires_at = message.time_to_live().map(|ttl| now.saturating_add(ttl));
        }
        if !is_dead {
            // Another publisher may have set them.
            DeadLetter::remove_reason(&mut message);
        } else if message.dead_letter_reason().is_none() {
            // A message that the broker has dead-lettered has no reason of its own.
            let dead_letter = match facts.is_expired {
                true => Some(DeadLetter::ttl_expired()),
                false if source.settings.requires_session && message.session_id().is_none() => {
                    Some(DeadLetter::new(DeadLetterReason::SessionIdIsNull, ""))
                }
                false => None,
            };
            if let Some(dead_letter) = dead_letter {
                dead_letter.write_to(message.properties_mut().application_properties_mut());
            }
        }
        Self { ticket, raw: properties, payload, routing_key, message, facts, until }
    }

    /// Returns the metadata of a dispatched delivery.
    pub(crate) fn received(&self, is_dead: bool) -> Received {
        let facts = &self.facts;
        let mut received =
            Received::new(SequenceNumber::new(facts.number), facts.enqueued, facts.failed.saturating_add(1));
        received.expires_at = if is_dead { Timestamp::MAX } else { facts.expires_at.unwrap_or(Timestamp::MAX) };
        received.dead_lettered = is_dead;
        received.delivery_tag = NonZeroU64::new(self.ticket.tag);
        received
    }
}
