//! boto3, and the client of Amazon SQS for Rust.

use std::time::Duration;

use aws_sdk_sqs::types::{self, QueueAttributeName};
use consign::{
    Disposition, Message,
    message::PropertyValue,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, SendError},
};
use consign_convert_sqs::{
    Queue, Settlement, batch_entry, confirmed, dead_letter as copy, from_sqs, sequence_number, settlement, to_sqs,
    with_attributes,
};
use tower::BoxError;

use crate::{
    environment::{self, Environment, excerpts, now, property, same, unique},
    wrap_sqs,
};

async fn queue(env: &Environment, kind: Queue) -> Result<String, BoxError> {
    let suffix = if kind == Queue::Fifo { ".fifo" } else { "" };
    let mut create = env.sqs.create_queue().queue_name(format!("{}{suffix}", unique()));
    if kind == Queue::Fifo {
        create = create.attributes(QueueAttributeName::FifoQueue, "true");
    }
    create.send().await?.queue_url.ok_or_else(|| "no queue".into())
}

fn kind(is_fifo: bool) -> Queue {
    if is_fifo { Queue::Fifo } else { Queue::Standard }
}

async fn send(env: &Environment, url: &str, message: &Message, kind: Queue) -> Result<(), SendError> {
    confirmed(to_sqs(message, kind, now())?.queue_url(url).send_with(&env.sqs).await)
}

async fn receive(env: &Environment, url: &str) -> Result<types::Message, BoxError> {
    let request = with_attributes(env.sqs.receive_message().queue_url(url).wait_time_seconds(20));
    request.send().await?.messages.and_then(|all| all.into_iter().next()).ok_or_else(|| "no message".into())
}

async fn delete(env: &Environment, url: &str, received: &types::Message) -> Result<(), BoxError> {
    let request = env.sqs.delete_message().queue_url(url).set_receipt_handle(received.receipt_handle.clone());
    request.send().await?;
    Ok(())
}

pub(crate) async fn from_python(env: &Environment, is_fifo: bool) -> Result<(), BoxError> {
    // The clock of the server is another one.
    const APART: Duration = Duration::from_secs(1);
    let url = queue(env, kind(is_fifo)).await?;
    let before = now();
    let id = env.boto3("sqs_send", &url).await?;
    let received = receive(env, &url).await?;
    let message = from_sqs(&received)?;
    same("the body", message.payload(), Some(&br#"{"id": 7}"#[..]))?;
    same("the ContentType", message.content_type(), Some("application/json"))?;
    same("the MessageId", message.message_id(), id.as_str())?;
    same("a text", property(&message, "tenant").and_then(PropertyValue::as_str), Some("acme"))?;
    same("a number", property(&message, "count"), Some(&PropertyValue::from(5_i64)))?;
    same("an exact number", property(&message, "price").and_then(PropertyValue::as_str), Some("1.50"))?;
    same("bytes", property(&message, "raw"), Some(&PropertyValue::Bytes(vec![0, 0xff].into())))?;
    same("the session", message.session_id(), is_fifo.then_some("customer-7"))?;
    same("a number of the queue", sequence_number(&received).is_some(), is_fifo)?;
    let facts = message.received().ok_or("nothing that SQS has set")?;
    same("the delivery", facts.delivery_count, 1)?;
    let (enqueued, after) = (facts.enqueued_time, now());
    let passed = enqueued.saturating_add(APART) >= before && enqueued <= after.saturating_add(APART);
    same("a time between the two", passed, true)
}

pub(crate) async fn to_python(env: &Environment, is_fifo: bool) -> Result<(), BoxError> {
    let url = queue(env, kind(is_fifo)).await?;
    let message = Message::builder()
        .content_type("application/json")
        .message_id("order-7")
        .session_id("customer-7")
        .property("tenant", "acme")
        .property("count", 5)
        .build(r#"{"id":7}"#)?;
    send(env, &url, &message, kind(is_fifo)).await?;
    let got = env.boto3("sqs_receive", &url).await?;
    same("the body", got["Body"].as_str(), Some(r#"{"id":7}"#))?;
    let attribute = |name: &str| got["MessageAttributes"][name]["StringValue"].as_str();
    same("the ContentType", attribute("Content-Type"), Some("application/json"))?;
    same("the MessageId", attribute("Sb-Message-Id"), Some("order-7"))?;
    same("a text", attribute("tenant"), Some("acme"))?;
    same("a number", attribute("count"), Some("5"))?;
    same("its type", got["MessageAttributes"]["count"]["DataType"].as_str(), Some("Number.sb-i32"))?;
    let fact = |name: &str| got["Attributes"][name].as_str();
    same("the group", fact("MessageGroupId"), is_fifo.then_some("customer-7"))?;
    same("the id of a duplicate", fact("MessageDeduplicationId"), is_fifo.then_some("order-7"))?;
    same("the SessionId", attribute("Sb-Session-Id"), (!is_fifo).then_some("customer-7"))
}

pub(crate) async fn dead_letter(env: &Environment) -> Result<(), BoxError> {
    let (url, dead) = (queue(env, Queue::Fifo).await?, queue(env, Queue::Fifo).await?);
    env.boto3("sqs_send", &url).await?;
    let received = receive(env, &url).await?;
    let letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "no price");
    let sent = copy(&received, letter, Queue::Fifo)?.queue_url(&dead).send_with(&env.sqs).await;
    confirmed(sent)?;
    delete(env, &url, &received).await?;
    let got = env.boto3("sqs_receive", &dead).await?;
    same("the body", got["Body"].as_str(), Some(r#"{"id": 7}"#))?;
    let attribute = |name: &str| got["MessageAttributes"][name].clone();
    same("the reason", attribute("DeadLetterReason")["StringValue"].as_str(), Some("HandlerPermanent"))?;
    same("the description", attribute("DeadLetterErrorDescription")["StringValue"].as_str(), Some("no price"))?;
    same("an attribute", attribute("tenant")["DataType"].as_str(), Some("String.name"))?;
    same("an exact number", attribute("price")["StringValue"].as_str(), Some("1.50"))?;
    same("the group", got["Attributes"]["MessageGroupId"].as_str(), Some("customer-7"))
}

pub(crate) async fn everything(env: &Environment) -> Result<(), BoxError> {
    let url = queue(env, Queue::Standard).await?;
    for message in environment::everything()? {
        send(env, &url, &message, Queue::Standard).await?;
        let received = receive(env, &url).await?;
        delete(env, &url, &received).await?;
        let read = from_sqs(&received)?;
        same("the properties", read.properties(), message.properties())?;
        same("the body", read.body() == message.body(), true)?;
    }
    Ok(())
}

pub(crate) async fn batch(env: &Environment) -> Result<(), BoxError> {
    let url = queue(env, Queue::Fifo).await?;
    let mut request = env.sqs.send_message_batch().queue_url(&url);
    for id in ["one", "two"] {
        let message = Message::builder().session_id("s").message_id(id).build(id)?;
        request = request.entries(batch_entry(id, &to_sqs(&message, Queue::Fifo, now())?)?);
    }
    let sent = request.send().await?;
    same("the stored ones", sent.successful().len(), 2)?;
    let received = with_attributes(env.sqs.receive_message().queue_url(&url).max_number_of_messages(10)).send().await?;
    let read: Vec<_> = received.messages().iter().map(from_sqs).collect::<Result<_, _>>()?;
    same("the order", read.iter().filter_map(Message::message_id).collect::<Vec<_>>(), ["one", "two"])
}

pub(crate) async fn settled(env: &Environment) -> Result<(), BoxError> {
    let url = queue(env, Queue::Standard).await?;
    send(env, &url, &Message::new("body"), Queue::Standard).await?;
    for delivery in 1..4 {
        let received = receive(env, &url).await?;
        let message = from_sqs(&received)?;
        same("the delivery", message.received().map(|facts| facts.delivery_count), Some(delivery))?;
        let Settlement::Abandon { visibility_timeout } = settlement(&received, Disposition::ABANDON, Queue::Standard)?
        else {
            return Err("it is not abandoned".into());
        };
        let request = env.sqs.change_message_visibility().queue_url(&url).visibility_timeout(visibility_timeout);
        request.set_receipt_handle(received.receipt_handle.clone()).send().await?;
    }
    let received = receive(env, &url).await?;
    same("the settlement", settlement(&received, Disposition::Complete, Queue::Standard)?, Settlement::Complete)?;
    delete(env, &url, &received).await?;
    let left = env.sqs.receive_message().queue_url(&url).send().await?;
    same("what is left", left.messages().len(), 0)
}

pub(crate) async fn duplicates(env: &Environment) -> Result<(), BoxError> {
    let url = queue(env, Queue::Fifo).await?;
    for id in ["a b", "a b", "a%20b"] {
        let message = Message::builder().session_id("é").message_id(id).build("body")?;
        send(env, &url, &message, Queue::Fifo).await?;
    }
    let received = with_attributes(env.sqs.receive_message().queue_url(&url).max_number_of_messages(10)).send().await?;
    let read: Vec<_> = received.messages().iter().map(from_sqs).collect::<Result<_, _>>()?;
    same("the ids", read.iter().filter_map(Message::message_id).collect::<Vec<_>>(), ["a b", "a%20b"])?;
    same("the session", read[0].session_id(), Some("é"))
}

pub(crate) async fn delayed(env: &Environment) -> Result<(), BoxError> {
    let url = queue(env, Queue::Standard).await?;
    let due = now().saturating_add(Duration::from_secs(2));
    let message = Message::builder().scheduled_enqueue_time(due).build("body")?;
    send(env, &url, &message, Queue::Standard).await?;
    let read = from_sqs(&receive(env, &url).await?)?;
    same("delivered after its time", now() >= due, true)?;
    same("the time", read.scheduled_enqueue_time(), Some(due))
}

pub(crate) async fn errors(env: &Environment) -> Result<(), BoxError> {
    let missing = format!("{}/123456789012/{}", env.sqs_url, unique());
    let error = send(env, &missing, &Message::new("body"), Queue::Standard).await.unwrap_err();
    same("no queue", error.kind(), ErrorKind::EntityNotFound)?;
    let url = queue(env, Queue::Fifo).await?;
    let error = send(env, &url, &Message::new("body"), Queue::Standard).await.unwrap_err();
    same("no group", (error.kind(), error.is_retryable()), (ErrorKind::InvalidArgument, false))
}

pub(crate) async fn wrapped(env: &Environment) -> Result<(), BoxError> {
    excerpts("wrap_sqs.rs", include_str!("wrap_sqs.rs"), 3)?;
    let (url, dead) = (queue(env, Queue::Standard).await?, queue(env, Queue::Standard).await?);
    for order in [("pen", 120), ("nut", 0)] {
        wrap_sqs::place(&env.sqs, &url, order).await?;
    }
    let received = tokio::select! {
        ended = wrap_sqs::consume(&env.sqs, &url, &dead) => return ended,
        received = receive(env, &dead) => received?,
    };
    let read = from_sqs(&received)?;
    same("the body", read.payload(), Some(&br#"["nut",0]"#[..]))?;
    same("the reason", read.dead_letter_reason(), Some("MaxDeliveryCountExceeded"))?;
    let description = read.dead_letter_description().unwrap_or_default();
    same("the last error", description.contains("nut has no price"), true)
}
