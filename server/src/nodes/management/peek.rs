use std::sync::Arc;

use bytes::Bytes;
use consign_amqp::{
    mapping::Direction,
    value::{Binary, List, Map, Value},
};
use consign_core::{Message, message::SequenceNumber};

use crate::{
    connection::Client,
    entities::Entity,
    errors::Failure,
    log::warn_of,
    messages,
    nodes::{Request, Response},
};

/// The most messages that are peeked at a time.
const MAX_PEEKED: usize = 4_096;

/// The most messages that one request passes because they cannot be encoded.
const MAX_PASSED: usize = 4_096;

/// The bytes of the messages of an answer, unless it has one message. Clients accept answers of 1 MiB at least.
const MAX_BYTES: usize = (1 << 20) - (32 << 10);

impl Client {
    /// `peek-message`.
    pub(super) fn peek(&mut self, entity: &Entity, key: &Arc<str>, request: &Request) -> Result<Response, Failure> {
        let fields = request.fields()?;
        let from = fields.integer("from-sequence-number")?.unwrap_or(1);
        let mut from = SequenceNumber::new(from.cast_unsigned());
        let max = fields.count("message-count", MAX_PEEKED)?.unwrap_or(1);
        let session = match fields.text("session-id")? {
            Some(session) => Some(self.session(key, session)?),
            None => None,
        };
        let mut passed = 0;
        loop {
            let peeked = match (&session, entity) {
                (Some(session), _) => session.peek_within(from, max, MAX_BYTES),
                (None, Entity::Queue(queue)) => queue.peek_within(from, max, MAX_BYTES),
                (None, Entity::Topic(topic)) => topic.peek_within(from, max, MAX_BYTES),
            };
            let Some(last) = peeked.last() else { return Ok(Response::no_content()) };
            let last = last.received().map(|received| received.sequence_number);
            let (list, failure) = entries(&peeked, key);
            passed += peeked.len();
            match (failure, last) {
                // An answer without a message would be the end of the queue.
                (Some(_), Some(last)) if list.is_empty() && passed < MAX_PASSED => from = last.next(),
                (Some(failure), _) if list.is_empty() => return Err(failure),
                _ => {
                    let mut body = Map::default();
                    body.push("messages", List(list));
                    return Ok(Response::ok(body));
                }
            }
        }
    }
}

/// Returns the entries of the messages that an answer can have, and why the last of the others cannot be encoded.
fn entries(peeked: &[Message], entity: &str) -> (Vec<Value>, Option<Failure>) {
    let (mut bytes, mut list, mut failure) = (0, Vec::with_capacity(peeked.len()), None);
    for message in peeked {
        let entry = match messages::encode_whole(message, Direction::Peek) {
            Ok(encoded) => entry_of(encoded, &mut bytes),
            Err(refused) => {
                let number = message.received().map(|received| received.sequence_number.get());
                warn_of!(
                    "NotPeeked",
                    entity,
                    sequence_number = number,
                    error = %refused.description,
                    "a message cannot be encoded, and is left out of a peek"
                );
                failure = Some(refused);
                continue;
            }
        };
        // A client goes on after the last one.
        if bytes > MAX_BYTES && !list.is_empty() {
            break;
        }
        list.push(entry.into());
    }
    (list, failure)
}

/// The entry of an encoded message in an answer.
pub(super) fn entry_of(encoded: Bytes, bytes: &mut usize) -> Map {
    *bytes += encoded.len();
    let mut entry = Map::default();
    entry.push("message", Value::from(Binary(encoded)));
    entry
}
