use std::{convert::Infallible, sync::Arc, sync::Mutex};

use consign::{
    Disposition, Message,
    codecs::{CodecSet, Codecs, Json, MessagePack},
    message::SequenceNumber,
    message::{MessageBuilder, Received},
    routing::{Handler, Router},
    settlement::DeadLetterReason,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use tower::ServiceExt;
use tower_service::Service;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) sku: String,
}

/// What the handlers saw.
pub(crate) type Seen = Arc<Mutex<Vec<String>>>;

pub(crate) fn note(seen: &Seen, text: impl Into<String>) {
    seen.lock().unwrap().push(text.into());
}

pub(crate) fn taken(seen: &Seen) -> Vec<String> {
    std::mem::take(&mut *seen.lock().unwrap())
}

pub(crate) fn codecs() -> Codecs<impl CodecSet> {
    Codecs::builder().with(Json::default()).with(MessagePack).fallback(["json", "msgpack"]).build().unwrap()
}

/// A message with every property that a handler may ask for.
pub(crate) fn full() -> MessageBuilder {
    Message::builder()
        .content_type("application/json")
        .message_id("m")
        .correlation_id("c")
        .subject("order.created")
        .session_id("s")
        .reply_to("r")
        .reply_to_session_id("rs")
}

pub(crate) fn delivered(builder: MessageBuilder) -> Message {
    let received = Received::new(SequenceNumber::new(9), Timestamp::from_millis(1_000), 2);
    builder.build(r#"{"id":7,"sku":"nail"}"#).unwrap().with_received(received)
}

pub(crate) async fn call<S>(service: &S, message: Message) -> Disposition
where
    S: Service<Message, Response = Disposition, Error = Infallible> + Clone,
{
    service.clone().oneshot(message).await.unwrap_or_else(|never| match never {})
}

/// Hands `message` to a router of this one handler, with `seen` as its state.
pub(crate) async fn handle<H, A, C>(codecs: Codecs<C>, seen: &Seen, handler: H, message: Message) -> Disposition
where
    C: CodecSet,
    H: Handler<A, Seen, C>,
    A: 'static,
{
    let router = Router::with_state(codecs, Arc::clone(seen)).fallback(handler).build().unwrap();
    call(&router, message).await
}

pub(crate) fn dead(disposition: Disposition) -> (DeadLetterReason, String) {
    match disposition {
        Disposition::DeadLetter(dead_letter) => (dead_letter.reason, dead_letter.description.into_owned()),
        other => panic!("no dead letter: {other:?}"),
    }
}
