//! Outcomes of received messages, and their locks.

use std::time::Duration;

use azservicebus::receiver::DeadLetterOptions;
use fe2o3_amqp_types::primitives::{OrderedMap, SimpleValue, Value};

use crate::support::{Context, Failure, bodies, nothing, one, refused, same, text};

pub(crate) async fn complete(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let mut sender = context.sender(&mut client).await?;
    sender.send_message("1").await?;
    let mut receiver = context.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    same("the peeked", receiver.peek_messages(1, Some(0)).await?.len(), 1)?;
    receiver.complete_message(&message).await?;
    same("the peeked", receiver.peek_messages(1, Some(0)).await?.len(), 0)?;
    sender.dispose().await?;
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub(crate) async fn abandon(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    context.send(&mut client, ["1"]).await?;
    let mut receiver = context.receiver(&mut client).await?;
    for count in 1..3 {
        let message = one(&mut receiver).await?;
        same("the delivery count", message.delivery_count(), Some(count))?;
        receiver.abandon_message(&message, None).await?;
    }
    let message = one(&mut receiver).await?;
    same("the delivery count", message.delivery_count(), Some(3))?;
    receiver.complete_message(&message).await?;
    Ok(client.dispose().await?)
}

pub(crate) async fn abandon_modifies_properties(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    context.send(&mut client, ["1"]).await?;
    let mut receiver = context.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    let mut properties = OrderedMap::new();
    properties.insert("attempt".to_owned(), Value::Int(1));
    receiver.abandon_message(&message, Some(properties)).await?;
    let message = one(&mut receiver).await?;
    let properties = message.application_properties().ok_or("no properties")?;
    same("the property", properties.get("attempt"), Some(&SimpleValue::Int(1)))?;
    receiver.complete_message(&message).await?;
    Ok(client.dispose().await?)
}

pub(crate) async fn delivery_count_is_exceeded(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    context.send(&mut client, ["poison"]).await?;
    let mut receiver = context.receiver(&mut client).await?;
    for _ in 0..3 {
        let message = one(&mut receiver).await?;
        receiver.abandon_message(&message, None).await?;
    }
    nothing(&mut receiver).await?;
    let mut dead_letters = context.dead_letters(&mut client).await?;
    let message = one(&mut dead_letters).await?;
    same("the reason", message.dead_letter_reason(), Some("MaxDeliveryCountExceeded"))?;
    Ok(client.dispose().await?)
}

pub(crate) async fn dead_letter(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    context.send(&mut client, ["dead"]).await?;
    let mut receiver = context.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    let options = DeadLetterOptions {
        dead_letter_reason: Some("a reason".to_owned()),
        dead_letter_error_description: Some("a description".to_owned()),
        ..Default::default()
    };
    receiver.dead_letter_message(&message, options).await?;
    nothing(&mut receiver).await?;
    let mut dead_letters = context.dead_letters(&mut client).await?;
    let message = one(&mut dead_letters).await?;
    same("the body", text(&message)?, "dead")?;
    same("the reason", message.dead_letter_reason(), Some("a reason"))?;
    same("the description", message.dead_letter_error_description(), Some("a description"))?;
    dead_letters.complete_message(&message).await?;
    nothing(&mut dead_letters).await?;
    Ok(client.dispose().await?)
}

pub(crate) async fn defer(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    context.send(&mut client, ["deferred", "next"]).await?;
    let mut receiver = context.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    receiver.defer_message(&message, None).await?;
    same("the bodies", bodies(&mut receiver, 1).await?, ["next"])?;
    let number = message.sequence_number();
    let deferred = receiver.receive_deferred_message(number).await?.ok_or("no deferred message")?;
    same("the body", text(&deferred)?, "deferred")?;
    receiver.complete_message(&deferred).await?;
    refused("the completed number", receiver.receive_deferred_message(number).await, "StatusCode(404)")?;
    Ok(client.dispose().await?)
}

pub(crate) async fn deferred_is_dead_lettered(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    context.send(&mut client, ["1"]).await?;
    let mut receiver = context.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    receiver.defer_message(&message, None).await?;
    let deferred = receiver.receive_deferred_message(message.sequence_number()).await?.ok_or("no deferred message")?;
    let options = DeadLetterOptions { dead_letter_reason: Some("late".to_owned()), ..Default::default() };
    receiver.dead_letter_message(&deferred, options).await?;
    let mut dead_letters = context.dead_letters(&mut client).await?;
    let message = one(&mut dead_letters).await?;
    same("the reason", message.dead_letter_reason(), Some("late"))?;
    Ok(client.dispose().await?)
}

pub(crate) async fn renew_lock(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    context.send(&mut client, ["1"]).await?;
    let mut receiver = context.receiver(&mut client).await?;
    let mut message = one(&mut receiver).await?;
    let before = message.locked_until().ok_or("no lock")?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    receiver.renew_message_lock(&mut message).await?;
    same("the lock is longer", message.locked_until().is_some_and(|after| after > before), true)?;
    receiver.complete_message(&message).await?;
    Ok(client.dispose().await?)
}

/// The lock of the entity is 5 s.
pub(crate) async fn a_lost_lock_is_refused(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    context.send(&mut client, ["1"]).await?;
    let mut receiver = context.receiver(&mut client).await?;
    let mut lost = one(&mut receiver).await?;
    let mut other = context.receiver(&mut client).await?;
    let message = one(&mut other).await?;
    same("the delivery count", message.delivery_count(), Some(2))?;
    refused("the renewal", receiver.renew_message_lock(&mut lost).await, "StatusCode(410)")?;
    other.complete_message(&message).await?;
    Ok(client.dispose().await?)
}
