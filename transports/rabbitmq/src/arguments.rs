//! The arguments of queues.

use std::collections::BTreeMap;

use consign_core::message::EntityPath;
use lapin::types::{AMQPValue, ShortString};

use crate::QueueSettings;

pub(crate) type Arguments = BTreeMap<ShortString, AMQPValue>;

/// The arguments of every queue of this crate. It is replicated, and returned messages go to its front, which RabbitMQ does for
/// a queue with a limit of deliveries. The limit is out of reach, because this crate counts itself. RabbitMQ: Quorum Queues.
pub(crate) fn quorum() -> Arguments {
    let mut arguments = Arguments::new();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(i64::from(i32::MAX)));
    arguments
}

/// The arguments of a queue for messages, and where these become dead letters.
pub(crate) fn arguments(settings: &QueueSettings, dead: &EntityPath) -> Arguments {
    let mut arguments = quorum();
    let number = |number: u128| AMQPValue::LongLongInt(i64::try_from(number).unwrap_or(i64::MAX));
    let mut refuses = false;
    if let Some(ttl) = settings.default_time_to_live {
        arguments.insert("x-message-ttl".into(), number(ttl.as_millis()));
    }
    if settings.dead_letter_on_expiration {
        arguments.extend(dead_lettering("", Some(dead.as_str())));
        refuses = true;
    }
    if let Some(bytes) = settings.max_length_bytes {
        arguments.insert("x-max-length-bytes".into(), number(bytes.into()));
        refuses = true;
    }
    if refuses {
        arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    }
    arguments
}

/// The arguments for dead-lettering that loses nothing; the queue must have `reject-publish`. RabbitMQ: Quorum Queues, dead
/// lettering.
pub(crate) fn dead_lettering(exchange: &str, key: Option<&str>) -> Arguments {
    let mut arguments = Arguments::new();
    let text = |text: &str| AMQPValue::LongString(text.into());
    arguments.insert("x-dead-letter-exchange".into(), text(exchange));
    if let Some(key) = key {
        arguments.insert("x-dead-letter-routing-key".into(), text(key));
    }
    arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    arguments
}
