use consign_amqp::{
    engine::Connection as Engine,
    value::{Array, Map, Value, ValueType},
};
use consign_core::{
    Message,
    message::SequenceNumber,
    time::Timestamp,
    transport::{ErrorKind, SendError},
};
use futures_util::{FutureExt, future::BoxFuture};

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
            let reserved = self.transactions.schedule(txn_id, &sender, messages)?;
            return numbers(Ok(reserved)).map(Some);
        }
        // The messages of one request have one time, as clients write them. Otherwise each time is a call of its own.
        let mut groups: Vec<(Timestamp, Vec<Message>)> = Vec::new();
        for (at, message) in messages {
            match groups.last_mut() {
                Some((of_group, group)) if *of_group == at => group.push(message),
                _ => groups.push((at, vec![message])),
            }
        }
        if let [(at, _)] = groups.as_slice() {
            let at = *at;
            let group = groups.pop().map(|(_, group)| group).unwrap_or_default();
            let call = sender.schedule(group, at);
            self.reply_with(engine, to, call, numbers);
            return Ok(None);
        }
        let calls: BoxFuture<'static, Result<Vec<SequenceNumber>, SendError>> = async move {
            let mut all = Vec::new();
            for (at, group) in groups {
                all.extend(sender.schedule(group, at).await?);
            }
            Ok(all)
        }
        .boxed();
        self.reply_with(engine, to, calls, numbers);
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
        if request.txn_id.is_some() {
            let text = "Scheduled messages are not cancelled in a transaction.";
            return Err(Failure::new(ErrorKind::InvalidOperation, text));
        }
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
fn message(entry: &Map) -> Result<(Timestamp, Message), Failure> {
    let Some(Value::Binary(encoded)) = entry.get("message") else {
        return Err(wrong("message", "an encoded message"));
    };
    let message = decode_one(encoded.0.clone())?;
    let at = message.scheduled_enqueue_time();
    let at = at.ok_or_else(|| Failure::argument("a scheduled message has x-opt-scheduled-enqueue-time"))?;
    Ok((at, message))
}

fn numbers(outcome: Result<Vec<SequenceNumber>, SendError>) -> Result<Response, Failure> {
    let numbers = outcome?.into_iter().map(|number| Value::from(number.get().cast_signed())).collect();
    let numbers = Array::new(ValueType::Long, numbers).map_err(|error| Failure::argument(error.to_string()))?;
    let mut body = Map::default();
    body.push("sequence-numbers", numbers);
    Ok(Response::ok(body))
}
