//! Messages by their numbers: peek, schedule, cancel, receive deferred ones, and purge.

use consign_amqp::{
    mapping::Direction,
    value::{Array, Binary, List, Map, Timestamp as WireTimestamp, Uuid, Value, ValueType},
};
use consign_core::{
    message::{LockToken, SequenceNumber},
    time::Timestamp,
};

use super::{Management, missing};
use crate::{error::Failure, wire};

/// A message that was received by its number.
pub(crate) struct Locked {
    pub(crate) token: Option<LockToken>,
    pub(crate) read: wire::Read,
}

impl Management {
    /// Returns messages from a number on.
    pub(crate) async fn peek(
        &self,
        from: SequenceNumber,
        max: usize,
        session: Option<&str>,
    ) -> Result<Vec<wire::Read>, Failure> {
        let mut body = Map::default();
        body.push("from-sequence-number", from.get().cast_signed());
        body.push("message-count", i32::try_from(max).unwrap_or(i32::MAX));
        if let Some(session) = session {
            body.push("session-id", session);
        }
        let reply = self.call("com.microsoft:peek-message", body).await?;
        if reply.status == 204 {
            return Ok(Vec::new());
        }
        let entries = entries(&reply.body)?;
        entries.map(|entry| Ok(wire::read(encoded(entry?)?, Direction::Peek))).collect()
    }

    /// Schedules encoded messages, and returns their numbers.
    pub(crate) async fn schedule(
        &self,
        messages: Vec<Map>,
        txn_id: Option<Binary>,
    ) -> Result<Vec<SequenceNumber>, Failure> {
        let mut body = Map::default();
        body.push("messages", messages.into_iter().map(Value::from).collect::<List>());
        let reply = self.call_in("com.microsoft:schedule-message", body, None, txn_id).await?;
        let numbers = reply.body.get("sequence-numbers").ok_or_else(|| missing("sequence-numbers"))?;
        let number = |value: &Value| {
            let number = value.as_integer().and_then(|number| i64::try_from(number).ok());
            number.map(|number| SequenceNumber::new(number.cast_unsigned())).ok_or_else(|| missing("sequence-numbers"))
        };
        match numbers {
            Value::Array(numbers) => numbers.iter().map(number).collect(),
            Value::List(List(numbers)) => numbers.iter().map(number).collect(),
            _ => Err(missing("sequence-numbers")),
        }
    }

    pub(crate) async fn cancel_scheduled(&self, numbers: &[SequenceNumber]) -> Result<(), Failure> {
        let mut body = Map::default();
        body.push("sequence-numbers", longs(numbers));
        self.call("com.microsoft:cancel-scheduled-message", body).await?;
        Ok(())
    }

    /// Locks deferred messages: all of them, or none. Those of a session are locked by the link that holds it.
    pub(crate) async fn receive_deferred(
        &self,
        numbers: &[SequenceNumber],
        session: Option<(&str, &str)>,
    ) -> Result<Vec<Locked>, Failure> {
        let mut body = Map::default();
        body.push("sequence-numbers", longs(numbers));
        // Locked, and not deleted.
        body.push("receiver-settle-mode", 1_u32);
        let (session, link) = session.unzip();
        if let Some(session) = session {
            body.push("session-id", session);
        }
        let reply = self.call_in("com.microsoft:receive-by-sequence-number", body, link, None).await?;
        let locked = |entry: Result<&Map, Failure>| {
            let entry = entry?;
            let token = match entry.get("lock-token") {
                Some(Value::Uuid(Uuid(bytes))) => Some(LockToken::from_bytes(*bytes)),
                _ => None,
            };
            Ok(Locked { token, read: wire::read(encoded(entry)?, Direction::Deliver) })
        };
        entries(&reply.body)?.map(locked).collect()
    }

    /// Removes messages that were accepted before an instant, and returns how many.
    pub(crate) async fn delete_messages(&self, max: usize, before: Timestamp) -> Result<usize, Failure> {
        let mut body = Map::default();
        body.push("message-count", i32::try_from(max).unwrap_or(i32::MAX));
        body.push("enqueued-time-utc", WireTimestamp(before.as_millis()));
        let reply = self.call("com.microsoft:batch-delete-messages", body).await?;
        if reply.status == 204 {
            return Ok(0);
        }
        let deleted = reply.body.get("message-count").and_then(Value::as_integer);
        deleted.and_then(|deleted| deleted.try_into().ok()).ok_or_else(|| missing("message-count"))
    }
}

fn longs(numbers: &[SequenceNumber]) -> Value {
    let numbers = numbers.iter().map(|number| Value::from(number.get().cast_signed())).collect();
    // All of them are longs.
    Array::new(ValueType::Long, numbers).map_or(Value::Null, Into::into)
}

fn entries(body: &Map) -> Result<impl Iterator<Item = Result<&Map, Failure>>, Failure> {
    let Some(Value::List(List(entries))) = body.get("messages") else { return Err(missing("messages")) };
    Ok(entries.iter().map(|entry| match entry {
        Value::Map(entry) => Ok(entry),
        _ => Err(missing("messages")),
    }))
}

fn encoded(entry: &Map) -> Result<bytes::Bytes, Failure> {
    match entry.get("message") {
        // It would keep the memory of the whole answer.
        Some(Value::Binary(encoded)) => Ok(bytes::Bytes::copy_from_slice(encoded)),
        _ => Err(missing("message")),
    }
}
