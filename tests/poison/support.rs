use std::{
    collections::hash_map::DefaultHasher,
    convert::Infallible,
    hash::{Hash, Hasher},
    sync::{Arc, PoisonError},
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    consumer::{Consumer, Stats},
    message::{MessageBody, Properties},
    settlement::DeadLetter,
    transport::{ReceiverExt, Sender},
};
use tower_service::Service;

use crate::handlers::Handled;

pub(crate) fn queue() -> Queue {
    // Larger than what a decoder takes, so that its limit is the one that is met.
    Broker::new().create_queue("orders", QueueSettings::default().max_message_size(1 << 20)).unwrap()
}

/// A message that every endpoint handles.
pub(crate) fn good(id: u64) -> Message {
    Message::builder()
        .content_type("application/json")
        .subject("order")
        .build(format!(r#"{{"id":{id},"sku":"nail"}}"#))
        .unwrap()
}

pub(crate) async fn send(queue: &Queue, messages: impl IntoIterator<Item = Message>) {
    let sender = queue.sender().unwrap();
    for message in messages {
        sender.send(message).await.unwrap();
    }
}

/// Consumes until the queue holds nothing more that can be received.
pub(crate) async fn consume<S>(queue: &Queue, stack: S) -> Stats
where
    S: Service<Message, Response = Disposition, Error = Infallible> + Clone,
{
    Consumer::new(queue.receiver(), stack).run_until(empty(queue)).await.unwrap()
}

/// Ready when nothing can be received and nothing is held.
pub(crate) async fn empty(queue: &Queue) {
    for _ in 0..1_000_000 {
        let counts = queue.counts();
        if counts.active == 0 && counts.locked == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the queue does not empty: {:?}", queue.counts());
}

/// Takes every dead letter, in order, and leaves them there.
pub(crate) async fn dead_letters(queue: &Queue) -> Vec<Message> {
    let count = queue.counts().dead_lettered;
    if count == 0 {
        return Vec::new();
    }
    let dead = queue.dead_letter().receiver().receive_batch(count).await.unwrap();
    assert_eq!(dead.len(), count, "one call takes all");
    dead.into_iter().map(|delivery| delivery.message.clone()).collect()
}

pub(crate) fn ids(handled: &Handled) -> Vec<u64> {
    handled.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

pub(crate) fn handled() -> Handled {
    Arc::default()
}

/// A text property of a dead letter.
pub(crate) fn property<'m>(message: &'m Message, key: &str) -> Option<&'m str> {
    message.application_properties().get(key).map(|value| value.as_str().expect("the property is text"))
}

pub(crate) fn reason(dead: &Message) -> &str {
    property(dead, DeadLetter::REASON).expect("a dead letter has a reason")
}

pub(crate) fn description(dead: &Message) -> &str {
    property(dead, DeadLetter::DESCRIPTION).unwrap_or_default()
}

pub(crate) fn trail(dead: &Message) -> Option<&str> {
    property(dead, DeadLetter::TRAIL)
}

/// The properties as they were sent: without the three that a dead letter adds.
pub(crate) fn sent_properties(dead: &Message) -> Properties {
    let mut properties = dead.properties().clone();
    for key in [DeadLetter::REASON, DeadLetter::DESCRIPTION, DeadLetter::TRAIL] {
        properties.application_properties_mut().remove(key);
    }
    properties
}

/// The hash of a body, section by section.
pub(crate) fn hash(body: &MessageBody) -> u64 {
    let mut hasher = DefaultHasher::new();
    match body {
        MessageBody::Data(data) => data.sections().hash(&mut hasher),
        other => other.codec_view().hash(&mut hasher),
    }
    hasher.finish()
}
