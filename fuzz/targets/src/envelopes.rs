use std::{
    convert::Infallible,
    future::{Future, Ready, ready},
    pin::pin,
    task::{Context, Poll, Waker},
};

use consign::{
    Disposition, Message,
    cloud_events::{CloudEvent, CloudEventBatch, Mode, Prefix},
    middleware::interop::{MassTransitLayer, NServiceBusLayer},
    rpc::Fault,
};
use tower::{Layer, Service};

use crate::source::Source;

const CONTENT_TYPES: [&str; 5] = [
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
    "application/vnd.masstransit+json",
    "application/json",
    "application/consign-fault+json",
];

/// Names that a reader looks for. The empty one stands for any.
const NAMES: [&str; 12] = [
    "",
    Fault::CODE,
    Fault::REASON,
    Fault::DETAIL,
    Fault::TRAIL,
    "cloudEvents:specversion",
    "cloudEvents:id",
    "cloudEvents:source",
    "cloudEvents:type",
    "cloudEvents_time",
    "NServiceBus.EnclosedMessageTypes",
    "MT-Fault-Message",
];

/// Bytes as the properties and the body of a message that another library has wrapped: CloudEvents, MassTransit, NServiceBus, and
/// the fault of a call.
///
/// # Panics
/// An event is written as another one.
pub fn envelopes(data: &[u8]) {
    let mut source = Source::new(data);
    let content_type = CONTENT_TYPES[source.below(CONTENT_TYPES.len())];
    let mut builder = Message::builder().content_type(content_type);
    for _ in 0..source.below(8) {
        let (name, value) = (source.below(24), source.below(48));
        let (name, value) = (String::from_utf8_lossy(source.bytes(name)), String::from_utf8_lossy(source.bytes(value)));
        let known = NAMES[source.below(NAMES.len())];
        let name = if known.is_empty() { name.into_owned() } else { known.to_owned() };
        builder = builder.property(name, value.into_owned());
    }
    let Ok(message) = builder.build(source.bytes(usize::MAX).to_vec()) else { return };
    events(&message);
    if let Some(fault) = Fault::of_reply(&message) {
        assert!(!format!("{fault} {:?} {}", fault.detail(), fault.trail()).is_empty());
    }
    handled(&MassTransitLayer::new(), message.clone());
    handled(&NServiceBusLayer::new(), message);
}

fn events(message: &Message) {
    match CloudEvent::from_message(message) {
        Ok(event) => {
            for mode in [Mode::Binary, Mode::BinaryWith(Prefix::Colon), Mode::Structured] {
                let Ok(written) = event.to_message(mode) else { continue };
                let again = CloudEvent::from_message(&written);
                let again = again.unwrap_or_else(|error| panic!("{mode:?}: {error}: {written:?}"));
                assert_eq!(
                    (again.id(), again.source(), again.event_type()),
                    (event.id(), event.source(), event.event_type())
                );
                assert_eq!(again.attributes().count(), event.attributes().count(), "{mode:?}");
                assert_eq!(again.data().is_some(), event.data().is_some(), "{mode:?}");
            }
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
    if let Ok(batch) = CloudEventBatch::from_message(message)
        && let Ok(written) = batch.to_message()
    {
        let again = CloudEventBatch::from_message(&written).expect("a batch is read as it is written");
        assert_eq!(again.events().len(), batch.events().len());
    }
}

/// Sends a message through a layer to a handler that takes everything.
fn handled<L>(layer: &L, message: Message)
where
    L: Layer<Taking>,
    L::Service: Service<Message, Response = Disposition>,
{
    let called = layer.layer(Taking).call(message);
    assert!(pin!(called).poll(&mut Context::from_waker(Waker::noop())).is_ready(), "nothing is waited for");
}

#[derive(Clone)]
struct Taking;

impl Service<Message> for Taking {
    type Response = Disposition;
    type Error = Infallible;
    type Future = Ready<Result<Disposition, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Message) -> Self::Future {
        ready(Ok(Disposition::Complete))
    }
}
