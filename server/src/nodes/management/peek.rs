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
    messages,
    nodes::{Request, Response},
};

/// The most messages that are peeked at a time.
const MAX_PEEKED: usize = 4_096;

/// The bytes of the messages of an answer, unless it has one message. Clients accept answers of 1 MiB at least.
const MAX_BYTES: usize = (1 << 20) - (32 << 10);

impl Client {
    /// `peek-message`.
    pub(super) fn peek(&mut self, entity: &Entity, key: &Arc<str>, request: &Request) -> Result<Response, Failure> {
        let fields = request.fields()?;
        let from = fields.integer("from-sequence-number")?.unwrap_or(1);
        let from = SequenceNumber::new(from.cast_unsigned());
        let max = fields.count("message-count", MAX_PEEKED)?.unwrap_or(1);
        let peeked = match (fields.text("session-id")?, entity) {
            (Some(session), _) => self.session(key, session)?.peek_within(from, max, MAX_BYTES),
            (None, Entity::Queue(queue)) => queue.peek_within(from, max, MAX_BYTES),
            (None, Entity::Topic(topic)) => topic.peek_within(from, max, MAX_BYTES),
        };
        if peeked.is_empty() {
            return Ok(Response::no_content());
        }
        let mut bytes = 0;
        let mut list = Vec::with_capacity(peeked.len());
        for message in &peeked {
            let entry = entry(message, Direction::Peek, &mut bytes)?;
            // A client goes on after the last one.
            if bytes > MAX_BYTES && !list.is_empty() {
                break;
            }
            list.push(entry.into());
        }
        let mut body = Map::default();
        body.push("messages", List(list));
        Ok(Response::ok(body))
    }
}

/// The entry of a message in an answer.
pub(super) fn entry(message: &Message, direction: Direction, bytes: &mut usize) -> Result<Map, Failure> {
    Ok(entry_of(messages::encode_whole(message, direction)?, bytes))
}

/// The entry of an encoded message in an answer.
pub(super) fn entry_of(encoded: Bytes, bytes: &mut usize) -> Map {
    *bytes += encoded.len();
    let mut entry = Map::default();
    entry.push("message", Value::from(Binary(encoded)));
    entry
}
