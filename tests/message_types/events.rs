//! A shop's events: five types, one of them in its third version.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use consign::{
    Disposition, Message,
    codecs::{CodecSet, Codecs, Json, MessagePack},
    message_types::MessageTypes,
    routing::{Router, State},
    settlement::DeadLetterReason,
};
use serde::{Deserialize, Serialize};
use tower::ServiceExt;
use tower_service::Service;

#[derive(Clone, Debug, PartialEq, MessageTypes)]
pub(crate) enum Event {
    #[message("order.created", alias = "OrderCreated", version = 3, from(1 = CreatedV1, 2 = CreatedV2))]
    Created(Created),
    #[message("order.cancelled", alias = "OrderCancelled, Acme.Shop", alias = "order.canceled")]
    Cancelled(Cancelled),
    #[message("order.shipped", codec = "msgpack")]
    Shipped(Shipped),
    #[message("stock.counted", version = 1)]
    Counted(Vec<u32>),
    #[message("shop.closed")]
    Closed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreatedV1 {
    pub(crate) id: u64,
    pub(crate) cents: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreatedV2 {
    pub(crate) id: u64,
    pub(crate) cents: i64,
    pub(crate) currency: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Created {
    pub(crate) id: u64,
    pub(crate) total: (u64, String),
}

impl From<CreatedV1> for CreatedV2 {
    fn from(old: CreatedV1) -> Self {
        Self { id: old.id, cents: old.cents, currency: "EUR".into() }
    }
}

/// A step that refuses, and one that panics.
impl TryFrom<CreatedV2> for Created {
    type Error = NegativeTotal;

    fn try_from(old: CreatedV2) -> Result<Self, NegativeTotal> {
        assert!(old.id != 666, "a step that panics");
        let cents = u64::try_from(old.cents).map_err(|_| NegativeTotal)?;
        Ok(Self { id: old.id, total: (cents, old.currency) })
    }
}

#[derive(Debug)]
pub(crate) struct NegativeTotal;

impl std::fmt::Display for NegativeTotal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a total is not negative")
    }
}

impl std::error::Error for NegativeTotal {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cancelled {
    #[serde(default)]
    pub(crate) reason: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shipped {
    pub(crate) id: u64,
}

pub(crate) type Seen = Arc<Mutex<Vec<Event>>>;

pub(crate) fn taken(seen: &Seen) -> Vec<Event> {
    std::mem::take(&mut *seen.lock().unwrap())
}

pub(crate) async fn keep(event: Event, State(seen): State<Seen>) {
    seen.lock().unwrap().push(event);
}

pub(crate) fn codecs() -> Codecs<impl CodecSet> {
    Codecs::builder().with(Json::default()).with(MessagePack).build().unwrap()
}

/// The router of a consumer that keeps what it sees.
pub(crate) fn shop(
    seen: &Seen,
) -> impl Service<Message, Response = Disposition, Error = Infallible, Future: Send> + Clone + Send + 'static {
    Router::with_state(codecs(), Arc::clone(seen)).types(keep).build().unwrap()
}

pub(crate) async fn call<S>(service: &S, message: Message) -> Disposition
where
    S: Service<Message, Response = Disposition, Error = Infallible> + Clone,
{
    service.clone().oneshot(message).await.unwrap_or_else(|never| match never {})
}

pub(crate) fn dead(disposition: Disposition) -> (DeadLetterReason, String) {
    match disposition {
        Disposition::DeadLetter(dead_letter) => (dead_letter.reason, dead_letter.description.into_owned()),
        other => panic!("no dead letter: {other:?}"),
    }
}

pub(crate) fn about(subject: &'static str, body: &'static str) -> Message {
    Message::builder().content_type("application/json").subject(subject).build(body).unwrap()
}
