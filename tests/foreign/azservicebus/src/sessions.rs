//! Sessions: their locks, their state and their messages.

use std::time::Duration;

use azservicebus::{
    ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusSessionReceiver, receiver::DeadLetterOptions,
};

use crate::support::{Client, Context, Failure, WAIT, one, refused, same, text};

async fn send(context: &Context, client: &mut Client, session: &str, body: &str) -> Result<(), Failure> {
    let mut message = ServiceBusMessage::new(body);
    message.set_session_id(session.to_owned())?;
    context.send(client, [message]).await
}

async fn receive(receiver: &mut ServiceBusSessionReceiver) -> Result<ServiceBusReceivedMessage, Failure> {
    Ok(receiver.receive_message_with_max_wait_time(WAIT).await?.ok_or("no message within the wait")?)
}

pub(crate) async fn named_session(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    for (session, body) in [("a", "1"), ("b", "2"), ("a", "3")] {
        send(&context, &mut client, session, body).await?;
    }
    let mut receiver = context.session(&mut client, "a").await?;
    for expected in ["1", "3"] {
        let message = receive(&mut receiver).await?;
        same("the body", text(&message)?, expected)?;
        same("the session", message.session_id(), Some("a"))?;
        receiver.complete_message(&message).await?;
    }
    receiver.dispose().await?;
    Ok(client.dispose().await?)
}

pub(crate) async fn next_session(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    send(&context, &mut client, "only", "1").await?;
    let mut receiver = client.accept_next_session_for_queue(&context.entity, Default::default()).await?;
    same("the session", receiver.session_id(), "only")?;
    let message = receive(&mut receiver).await?;
    receiver.abandon_message(&message, None).await?;
    let message = receive(&mut receiver).await?;
    same("the delivery count", message.delivery_count(), Some(2))?;
    receiver.complete_message(&message).await?;
    Ok(client.dispose().await?)
}

pub(crate) async fn session_state(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let mut receiver = context.session(&mut client, "s").await?;
    receiver.set_session_state(b"kept".to_vec()).await?;
    receiver.dispose().await?;
    let mut receiver = context.session(&mut client, "s").await?;
    same("the state", receiver.session_state().await?, b"kept")?;
    Ok(client.dispose().await?)
}

pub(crate) async fn renew_session_lock(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let mut receiver = context.session(&mut client, "s").await?;
    let before = receiver.session_locked_until();
    tokio::time::sleep(Duration::from_secs(1)).await;
    receiver.renew_session_lock().await?;
    same("the lock is longer", receiver.session_locked_until() > before, true)?;
    Ok(client.dispose().await?)
}

pub(crate) async fn other_receivers_are_refused(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let holder = context.session(&mut client, "s").await?;
    let other = context.session(&mut client, "s").await;
    refused("the other receiver", other, "session-cannot-be-locked")?;
    holder.dispose().await?;
    context.session(&mut client, "s").await?.dispose().await?;
    Ok(client.dispose().await?)
}

pub(crate) async fn peek_and_defer(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    send(&context, &mut client, "s", "1").await?;
    send(&context, &mut client, "other", "2").await?;
    let mut receiver = context.session(&mut client, "s").await?;
    let peeked = receiver.peek_messages(10, Some(0)).await?;
    same("the peeked", peeked.len(), 1)?;
    same("the body", peeked[0].body()?, b"1")?;
    let message = receive(&mut receiver).await?;
    receiver.defer_message(&message, None).await?;
    let deferred = receiver.receive_deferred_message(message.sequence_number()).await?.ok_or("no deferred message")?;
    receiver.complete_message(&deferred).await?;
    same("the peeked", receiver.peek_messages(10, Some(0)).await?.len(), 0)?;
    Ok(client.dispose().await?)
}

pub(crate) async fn dead_letter_of_a_session(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    send(&context, &mut client, "s", "1").await?;
    let mut receiver = context.session(&mut client, "s").await?;
    let message = receive(&mut receiver).await?;
    let options = DeadLetterOptions { dead_letter_reason: Some("a reason".to_owned()), ..Default::default() };
    receiver.dead_letter_message(&message, options).await?;
    let mut dead_letters = context.dead_letters(&mut client).await?;
    let message = one(&mut dead_letters).await?;
    same("the reason", message.dead_letter_reason(), Some("a reason"))?;
    same("the session", message.session_id(), Some("s"))?;
    Ok(client.dispose().await?)
}
