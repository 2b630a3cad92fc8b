use consign_amqp::{
    engine::Connection as Engine,
    value::{Array, Map, Value, ValueType},
};
use consign_core::{Message, message::SequenceNumber, time::Timestamp, transport::SendError};

use crate::{
    connection::Client,
    entities::Entity,
    errors::Failure,
    messages::decode_one,
    nodes::{ReplyTo, Request, Response, request::wrong},
};

impl Client {
    /// `schedule-message`. All messages are scheduled, or none.
    pub(super) fn schedule(
        &mut self,
        engine: &mut Engine,
        entity: &Entity,
        request: &Request,
        to: ReplyTo,
    ) -> Result<Option<Response>, Failure> {
        let messages = request.fields()?.maps("messages")?;
        let messages = messages.iter().map(message).collect::<Result<Vec<_>, _>>()?;
        let sender = entity.sender()?;
        if let Some(txn_id) = &request.txn_id {
            let via = self.via(to.session(), &sender);
            let max = self.shared.limits.max_transaction_bytes;
            let reserved = self.transactions.schedule(txn_id, &sender, via.as_ref(), messages, max)?;
            return numbers(Ok(reserved)).map(Some);
        }
        self.reply_with(engine, to, sender.schedule_each(messages), numbers);
        Ok(None)
    }

    /// `cancel-scheduled-message`.
    pub(super) fn cancel(
        &mut self,
        engine: &mut Engine,
        entity: &Entity,
        request: &Request,
        to: ReplyTo,
    ) -> Result<Option<Response>, Failure> {
        let numbers = request.fields()?.numbers("sequence-numbers")?;
        let call = entity.sender()?.cancel_scheduled(&numbers);
        self.reply_with(engine, to, call, |outcome: Result<(), SendError>| {
            outcome.map_err(Failure::from)?;
            Ok(Response::ok(Map::default()))
        });
        Ok(None)
    }
}

/// The message of an entry, and when it is to be enqueued.
fn message(entry: &Map) -> Result<(Message, Timestamp), Failure> {
    let Some(Value::Binary(encoded)) = entry.get("message") else {
        return Err(wrong("message", "an encoded message"));
    };
    let message = decode_one(encoded.0.clone())?;
    let at = message.scheduled_enqueue_time();
    let at = at.ok_or_else(|| Failure::argument("a scheduled message has x-opt-scheduled-enqueue-time"))?;
    Ok((message, at))
}

fn numbers(outcome: Result<Vec<SequenceNumber>, SendError>) -> Result<Response, Failure> {
    let numbers = outcome?.into_iter().map(|number| Value::from(number.get().cast_signed())).collect();
    let numbers = Array::new(ValueType::Long, numbers).map_err(|error| Failure::argument(error.to_string()))?;
    let mut body = Map::default();
    body.push("sequence-numbers", numbers);
    Ok(Response::ok(body))
}
