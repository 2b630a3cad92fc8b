//! The request of a client that waits for sessions to the holder of a slot: a message to the exclusive queue that is the lock.

use lapin::{
    BasicProperties, Channel,
    options::BasicPublishOptions,
    types::{AMQPValue, FieldTable},
};

use crate::wire::names;

/// A request that is not read by then is outdated: there is a newer one.
const EXPIRATION_MS: &str = "1000";

/// Requests the slot of a lock, with the number of slots that are open here. There is no answer, and no error if the slot has
/// no holder any more.
pub(super) async fn publish(channel: &Channel, lock: String, open: usize) -> lapin::Result<()> {
    let mut headers = FieldTable::default();
    headers.insert(names::OPEN_SLOTS.into(), AMQPValue::LongLongInt(i64::try_from(open).unwrap_or(i64::MAX)));
    let properties = BasicProperties::default().with_expiration(EXPIRATION_MS.into()).with_headers(headers);
    channel.basic_publish("".into(), lock.into(), BasicPublishOptions::default(), &[], properties).await?;
    Ok(())
}

/// Returns how many slots the client has; `None` if the message is not a request.
pub(super) fn read(properties: &BasicProperties) -> Option<usize> {
    match properties.headers().as_ref()?.inner().get(names::OPEN_SLOTS)? {
        AMQPValue::LongLongInt(open) => usize::try_from(*open).ok(),
        _ => None,
    }
}
