//! Links of queues: sends, outcomes, sessions and refusals.

use fe2o3_amqp::types::{
    definitions::{self, ErrorCondition},
    messaging::Modified,
    primitives::{OrderedMap, SimpleValue, Symbol, Value},
};

use crate::client::{Client, Failure, Server, message, nothing, of_session, receive, refused, same, text};

pub(crate) async fn complete(_: &Server, client: &mut Client) -> Result<(), Failure> {
    client.send([message(b"1")]).await?;
    let mut link = client.of_queue().await?;
    let delivery = receive(&mut link).await?;
    same("the body", text(&delivery), "1")?;
    same("the length of the tag", delivery.delivery_tag().len(), 16)?;
    link.accept(&delivery).await?;
    nothing(&mut link).await?;
    Ok(link.close().await?)
}

pub(crate) async fn a_batch(_: &Server, client: &mut Client) -> Result<(), Failure> {
    client.send((0..50).map(|number| message(format!("{number}").as_bytes()))).await?;
    let mut link = client.of_queue().await?;
    link.set_credit(50).await?;
    let mut deliveries = Vec::new();
    for number in 0..50 {
        let delivery = link.recv().await?;
        same("the body", text(&delivery), number.to_string())?;
        deliveries.push(delivery);
    }
    link.accept_all(deliveries.iter().collect::<Vec<_>>()).await?;
    nothing(&mut link).await?;
    Ok(link.close().await?)
}

pub(crate) async fn release(_: &Server, client: &mut Client) -> Result<(), Failure> {
    client.send([message(b"1")]).await?;
    let mut link = client.of_queue().await?;
    let delivery = receive(&mut link).await?;
    link.release(&delivery).await?;
    let delivery = receive(&mut link).await?;
    same("the body", text(&delivery), "1")?;
    link.accept(&delivery).await?;
    nothing(&mut link).await?;
    Ok(link.close().await?)
}

pub(crate) async fn modify(_: &Server, client: &mut Client) -> Result<(), Failure> {
    client.send([message(b"1")]).await?;
    let mut link = client.of_queue().await?;
    let delivery = receive(&mut link).await?;
    let mut annotations = OrderedMap::new();
    annotations.insert(Symbol::from("attempt"), Value::Int(1));
    let failed =
        Modified { delivery_failed: Some(true), undeliverable_here: None, message_annotations: Some(annotations) };
    link.modify(&delivery, failed).await?;
    let delivery = receive(&mut link).await?;
    same("the count", delivery.message().header.as_ref().map(|header| header.delivery_count), Some(1))?;
    same("the property", property(&delivery, "attempt"), Some(SimpleValue::Int(1)))?;
    link.accept(&delivery).await?;
    Ok(link.close().await?)
}

fn property(delivery: &fe2o3_amqp::Delivery<fe2o3_amqp::types::messaging::Data>, name: &str) -> Option<SimpleValue> {
    delivery.message().application_properties.as_ref()?.get(name).cloned()
}

pub(crate) async fn dead_letter(_: &Server, client: &mut Client) -> Result<(), Failure> {
    client.send([message(b"dead")]).await?;
    let mut link = client.of_queue().await?;
    let delivery = receive(&mut link).await?;
    let mut info = OrderedMap::new();
    for (name, value) in [("DeadLetterReason", "a reason"), ("DeadLetterErrorDescription", "a description")] {
        info.insert(Symbol::from(name), Value::String(value.to_owned()));
    }
    let condition = ErrorCondition::Custom(Symbol::from("com.microsoft:dead-letter"));
    link.reject(&delivery, definitions::Error::new(condition, None, Some(info))).await?;
    nothing(&mut link).await?;
    link.close().await?;
    let address = format!("{}/$DeadLetterQueue", client.queue);
    let mut link = client.receiver(address).await?;
    let delivery = receive(&mut link).await?;
    same("the body", text(&delivery), "dead")?;
    same("the reason", property(&delivery, "DeadLetterReason"), Some(SimpleValue::String("a reason".into())))?;
    link.accept(&delivery).await?;
    Ok(link.close().await?)
}

pub(crate) async fn receive_and_delete(_: &Server, client: &mut Client) -> Result<(), Failure> {
    client.send([message(b"1")]).await?;
    let mut link = client.deleting().await?;
    same("the body", text(&receive(&mut link).await?), "1")?;
    link.close().await?;
    let mut link = client.of_queue().await?;
    nothing(&mut link).await?;
    Ok(link.close().await?)
}

pub(crate) async fn a_large_message(_: &Server, client: &mut Client) -> Result<(), Failure> {
    let body: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
    client.send([message(&body)]).await?;
    let mut link = client.of_queue().await?;
    let delivery = receive(&mut link).await?;
    same("the body", delivery.body().0[..] == body[..], true)?;
    link.accept(&delivery).await?;
    Ok(link.close().await?)
}

pub(crate) async fn named_session(_: &Server, client: &mut Client) -> Result<(), Failure> {
    client.send([of_session("other", b"1"), of_session("s", b"2")]).await?;
    let mut link = client.of_session(Some("s")).await?;
    let delivery = receive(&mut link).await?;
    same("the body", text(&delivery), "2")?;
    link.accept(&delivery).await?;
    nothing(&mut link).await?;
    Ok(link.close().await?)
}

pub(crate) async fn next_session(_: &Server, client: &mut Client) -> Result<(), Failure> {
    client.send([of_session("only", b"1")]).await?;
    let mut link = client.of_session(None).await?;
    let filter = link.source().as_ref().and_then(|source| source.filter.clone()).ok_or("no filter")?;
    let session = filter.get(&Symbol::from("com.microsoft:session-filter"));
    same("the session", session, Some(&Value::String("only".to_owned())))?;
    let delivery = receive(&mut link).await?;
    link.accept(&delivery).await?;
    Ok(link.close().await?)
}

pub(crate) async fn a_session_is_locked(server: &Server, client: &mut Client) -> Result<(), Failure> {
    let link = client.of_session(Some("s")).await?;
    let mut second = server.connect("connection", &client.queue).await?;
    refused("the other link", second.of_session(Some("s")).await.map(drop), "session-cannot-be-locked")?;
    Ok(link.close().await?)
}

pub(crate) async fn wrong_key(server: &Server, client: &mut Client) -> Result<(), Failure> {
    refused("the connection", server.connect("wrong_key", &client.queue).await.map(drop), "Auth")
}

pub(crate) async fn listen_only(server: &Server, client: &mut Client) -> Result<(), Failure> {
    let mut other = server.connect("listen_only", &client.queue).await?;
    other.of_queue().await?.close().await?;
    refused("a sender", other.sender().await.map(drop), "'Send' claim(s) are required")
}

pub(crate) async fn unknown_entity(server: &Server, _: &mut Client) -> Result<(), Failure> {
    let mut other = server.connect("connection", "fe2o3-that-does-not-exist").await?;
    refused("a sender", other.sender().await.map(drop), "NotFound")
}
