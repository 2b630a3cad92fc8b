//! Sends, batches and scheduled messages.

use std::time::Duration;

use azservicebus::{CreateMessageBatchOptions, ServiceBusMessage};
use fe2o3_amqp_types::{messaging::ApplicationProperties, primitives::SimpleValue};
use time::OffsetDateTime;

use crate::support::{Context, Failure, bodies, nothing, one, same, text};

pub(crate) async fn properties(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let mut message = ServiceBusMessage::new("body");
    message.set_message_id("id")?;
    message.set_correlation_id("correlation".to_owned());
    message.set_subject("subject".to_owned());
    message.set_to("to".to_owned());
    message.set_reply_to("reply to".to_owned());
    message.set_content_type("text/plain".to_owned());
    message.set_time_to_live(Duration::from_secs(600))?;
    let properties = ApplicationProperties::builder().insert("text", "value").insert("number", 7_i64).build();
    *message.application_properties_mut() = Some(properties);
    context.send(&mut client, [message]).await?;

    let mut receiver = context.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    same("the body", text(&message)?, "body")?;
    same("the id", message.message_id().as_deref(), Some("id"))?;
    same("the correlation id", message.correlation_id().as_deref(), Some("correlation"))?;
    same("the subject", message.subject(), Some("subject"))?;
    same("to", message.to(), Some("to"))?;
    same("the reply to", message.reply_to(), Some("reply to"))?;
    same("the content type", message.content_type(), Some("text/plain"))?;
    same("the time to live", message.time_to_live(), Some(Duration::from_secs(600)))?;
    let properties = message.application_properties().ok_or("no properties")?;
    same("a text", properties.get("text"), Some(&SimpleValue::from("value")))?;
    same("a number", properties.get("number"), Some(&SimpleValue::Long(7)))?;
    same("the delivery count", message.delivery_count(), Some(1))?;
    receiver.complete_message(&message).await?;
    Ok(client.dispose().await?)
}

pub(crate) async fn several_at_once(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    context.send(&mut client, ["1", "2", "3"]).await?;
    let mut receiver = context.receiver(&mut client).await?;
    same("the bodies", bodies(&mut receiver, 3).await?, ["1", "2", "3"])?;
    Ok(client.dispose().await?)
}

pub(crate) async fn a_batch_is_limited(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let mut sender = context.sender(&mut client).await?;
    let options = CreateMessageBatchOptions { max_size_in_bytes: Some(3_000) };
    let mut batch = sender.create_message_batch(options)?;
    let mut count = 0;
    while batch.try_add_message(vec![b'm'; 500]).is_ok() {
        count += 1;
    }
    same("some messages fit", (1..6).contains(&count), true)?;
    sender.send_message_batch(batch).await?;
    let mut receiver = context.receiver(&mut client).await?;
    same("the count", bodies(&mut receiver, count).await?.len(), count)?;
    nothing(&mut receiver).await?;
    Ok(client.dispose().await?)
}

pub(crate) async fn schedule(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let at = OffsetDateTime::now_utc() + Duration::from_secs(3);
    let mut sender = context.sender(&mut client).await?;
    let number = sender.schedule_message("later", at).await?;
    let mut receiver = context.receiver(&mut client).await?;
    let message = one(&mut receiver).await?;
    same("it is not early", OffsetDateTime::now_utc() >= at, true)?;
    same("its number is a later one", message.sequence_number() >= number, true)?;
    same("the body", text(&message)?, "later")?;
    receiver.complete_message(&message).await?;
    Ok(client.dispose().await?)
}

pub(crate) async fn schedule_and_cancel(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let mut sender = context.sender(&mut client).await?;
    let mut receiver = context.receiver(&mut client).await?;
    let at = OffsetDateTime::now_utc() + Duration::from_secs(600);
    let numbers = sender.schedule_messages(["1", "2"], at).await?;
    let peeked = receiver.peek_messages(10, Some(0)).await?;
    same("the numbers", peeked.iter().map(|message| message.sequence_number()).collect::<Vec<_>>(), &numbers[..])?;
    sender.cancel_scheduled_messages(numbers).await?;
    same("the peeked", receiver.peek_messages(10, Some(0)).await?.len(), 0)?;
    Ok(client.dispose().await?)
}

pub(crate) async fn time_to_live_expires(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let mut message = ServiceBusMessage::new("short");
    message.set_time_to_live(Duration::from_millis(1))?;
    let mut sender = context.sender(&mut client).await?;
    sender.send_message(message).await?;
    sender.send_message("long").await?;
    let mut receiver = context.receiver(&mut client).await?;
    same("the bodies", bodies(&mut receiver, 1).await?, ["long"])?;
    nothing(&mut receiver).await?;
    Ok(client.dispose().await?)
}

pub(crate) async fn to_a_topic(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    context.send(&mut client, ["1", "2"]).await?;
    let mut receiver = context.subscription(&mut client).await?;
    same("the bodies", bodies(&mut receiver, 2).await?, ["1", "2"])?;
    Ok(client.dispose().await?)
}
