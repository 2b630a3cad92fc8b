//! Requests to `$management`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fe2o3_amqp::{
    Delivery,
    types::{
        messaging::{Data, MessageAnnotations, Modified, message::__private::Serializable},
        primitives::{Array, Binary, OrderedMap, Symbol, Timestamp, Uuid, Value},
    },
};

use crate::client::{Client, Failure, Management, Server, field, message, nothing, of_session, receive, same, text};

fn peek_from_the_start() -> [(&'static str, Value); 2] {
    [("from-sequence-number", Value::Long(0)), ("message-count", Value::Int(10))]
}

fn list(value: Value) -> Result<Vec<Value>, Failure> {
    match value {
        Value::List(list) => Ok(list),
        Value::Array(array) => Ok(array.0),
        other => Err(format!("{other:?} is not a list").into()),
    }
}

fn annotation(delivery: &Delivery<Data>, name: &str) -> Option<Value> {
    let annotations = delivery.message().message_annotations.as_ref()?;
    annotations.0.iter().find_map(|(key, value)| (format!("{key:?}").contains(name)).then(|| value.clone()))
}

fn number(delivery: &Delivery<Data>) -> Result<i64, Failure> {
    match annotation(delivery, "x-opt-sequence-number") {
        Some(Value::Long(number)) => Ok(number),
        other => Err(format!("the sequence number is {other:?}").into()),
    }
}

/// The lock token: a tag is a GUID whose first three fields are little-endian.
fn token(delivery: &Delivery<Data>) -> Result<Value, Failure> {
    let tag: &[u8] = delivery.delivery_tag().as_ref();
    let mut bytes: [u8; 16] = tag.try_into()?;
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    Ok(Value::Uuid(Uuid::from(bytes)))
}

fn array(value: Value) -> Value {
    Value::Array(Array(vec![value]))
}

fn millis(value: &Value) -> Result<i64, Failure> {
    match value {
        Value::Timestamp(time) => Ok(time.milliseconds()),
        other => Err(format!("{other:?} is not a time").into()),
    }
}

pub(crate) async fn peek(_: &Server, client: &mut Client) -> Result<(), Failure> {
    let mut management = Management::of(client).await?;
    let (status, _) = management.call("peek-message", &peek_from_the_start()).await?;
    same("the status of an empty queue", status, 204)?;
    client.send([message(b"1"), message(b"2")]).await?;
    let peeked = list(management.field("peek-message", &peek_from_the_start(), "messages").await?)?;
    same("the count", peeked.len(), 2)?;
    let Value::Binary(encoded) = field(&peeked[0], "message")? else { return Err("no message".into()) };
    same("the body is in it", encoded.ends_with(b"1"), true)
}

pub(crate) async fn schedule_and_cancel(_: &Server, client: &mut Client) -> Result<(), Failure> {
    let mut management = Management::of(client).await?;
    let later = SystemTime::now().duration_since(UNIX_EPOCH)? + Duration::from_secs(600);
    let mut scheduled = message(b"later");
    let mut annotations = OrderedMap::new();
    let time = Value::Timestamp(Timestamp::from_milliseconds(i64::try_from(later.as_millis())?));
    annotations.insert(Symbol::from("x-opt-scheduled-enqueue-time").into(), time);
    scheduled.message_annotations = Some(MessageAnnotations(annotations));
    let mut entry = OrderedMap::new();
    entry.insert(Value::String("message-id".to_owned()), Value::String("id".to_owned()));
    let encoded = Binary::from(serde_amqp::to_vec(&Serializable(scheduled))?);
    entry.insert(Value::String("message".to_owned()), Value::Binary(encoded));
    let body = [("messages", Value::List(vec![Value::Map(entry)]))];
    let numbers = management.field("schedule-message", &body, "sequence-numbers").await?;
    let peeked = list(management.field("peek-message", &peek_from_the_start(), "messages").await?)?;
    same("the peeked", peeked.len(), 1)?;
    let mut link = client.of_queue().await?;
    nothing(&mut link).await?;
    let (status, _) = management.call("cancel-scheduled-message", &[("sequence-numbers", numbers)]).await?;
    same("the status", status, 200)?;
    let (status, _) = management.call("peek-message", &peek_from_the_start()).await?;
    same("the status of an empty queue", status, 204)?;
    Ok(link.close().await?)
}

pub(crate) async fn renew_lock(_: &Server, client: &mut Client) -> Result<(), Failure> {
    client.send([message(b"1")]).await?;
    let mut management = Management::of(client).await?;
    let mut link = client.of_queue().await?;
    let delivery = receive(&mut link).await?;
    let before = annotation(&delivery, "x-opt-locked-until").ok_or("no end of the lock")?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let tokens = [("lock-tokens", array(token(&delivery)?))];
    let expirations = list(management.field("renew-lock", &tokens, "expirations").await?)?;
    same("the lock is longer", millis(&expirations[0])? > millis(&before)?, true)?;
    link.accept(&delivery).await?;
    let (status, _) = management.call("renew-lock", &tokens).await?;
    same("the status after the message is completed", status, 410)?;
    Ok(link.close().await?)
}

pub(crate) async fn defer(_: &Server, client: &mut Client) -> Result<(), Failure> {
    client.send([message(b"deferred")]).await?;
    let mut management = Management::of(client).await?;
    let mut link = client.of_queue().await?;
    let delivery = receive(&mut link).await?;
    let deferred = Modified { delivery_failed: None, undeliverable_here: Some(true), message_annotations: None };
    link.modify(&delivery, deferred).await?;
    nothing(&mut link).await?;
    let body = [("sequence-numbers", array(Value::Long(number(&delivery)?))), ("receiver-settle-mode", Value::Uint(1))];
    let received = list(management.field("receive-by-sequence-number", &body, "messages").await?)?;
    same("the count", received.len(), 1)?;
    let body = [
        ("disposition-status", Value::String("completed".to_owned())),
        ("lock-tokens", array(field(&received[0], "lock-token")?)),
    ];
    same("the status", management.call("update-disposition", &body).await?.0, 200)?;
    let (status, _) = management.call("peek-message", &peek_from_the_start()).await?;
    same("the status of an empty queue", status, 204)?;
    Ok(link.close().await?)
}

pub(crate) async fn settle_by_token(_: &Server, client: &mut Client) -> Result<(), Failure> {
    client.send([message(b"1")]).await?;
    let mut management = Management::of(client).await?;
    let mut link = client.of_queue().await?;
    let delivery = receive(&mut link).await?;
    let body =
        [("disposition-status", Value::String("abandoned".to_owned())), ("lock-tokens", array(token(&delivery)?))];
    same("the status", management.call("update-disposition", &body).await?.0, 200)?;
    let delivery = receive(&mut link).await?;
    same("the body", text(&delivery), "1")?;
    link.accept(&delivery).await?;
    Ok(link.close().await?)
}

pub(crate) async fn session_state_and_lock(_: &Server, client: &mut Client) -> Result<(), Failure> {
    client.send([of_session("s", b"1")]).await?;
    let mut management = Management::of(client).await?;
    let link = client.of_session(Some("s")).await?;
    let session = ("session-id", Value::String("s".to_owned()));
    let state = management.field("get-session-state", &[session.clone()], "session-state").await?;
    same("the state", state, Value::Null)?;
    let kept = Value::Binary(Binary::from(b"kept".to_vec()));
    let body = [session.clone(), ("session-state", kept.clone())];
    same("the status", management.call("set-session-state", &body).await?.0, 200)?;
    let state = management.field("get-session-state", &[session.clone()], "session-state").await?;
    same("the state", state, kept)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let until = management.field("renew-session-lock", &[session], "expiration").await?;
    same("the lock lasts", millis(&until)? > i64::try_from(now.as_millis())?, true)?;
    Ok(link.close().await?)
}
