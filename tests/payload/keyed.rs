//! What the tests of encryption and of signing share: keys, a message, and what becomes of it.

use consign::{
    Disposition, Message,
    message::Value,
    middleware::keys::{Key, Keys},
    settlement::{DeadLetter, DeadLetterReason},
    transport::{Batch, ErrorKind, SendError, SendService},
};
use tokio_test::{assert_pending, assert_ready_err, task};
use tower::{BoxError, Layer, Service};
use tower_test::mock;

use super::{
    stacks::{not_sent, received},
    support::Broker,
};

pub(crate) fn key(id: &str, byte: u8) -> Key {
    Key::new(id, [byte; 32]).unwrap()
}

pub(crate) fn keys() -> Keys {
    Keys::new(key("new", 1)).and_old(key("old", 2))
}

/// A message with each of the bound properties but the content encoding.
pub(crate) fn bound() -> Message {
    let message = Message::builder()
        .message_id("m-1")
        .content_type("application/json")
        .subject("order.paid")
        .session_id("customer-7")
        .correlation_id("c-1")
        .reply_to("replies")
        .property("free", 1);
    message.build(r#"{"id":1}"#).unwrap()
}

/// Each makes another message of it than the one that was bound.
pub(crate) const CHANGES: [fn(&mut Message); 9] = [
    |m| _ = m.properties_mut().set_message_id("m-2").unwrap(),
    |m| _ = m.properties_mut().set_content_type("application/cbor"),
    |m| _ = m.properties_mut().set_subject("order.shipped"),
    |m| _ = m.properties_mut().set_session_id("customer-8").unwrap(),
    |m| _ = m.properties_mut().set_correlation_id("c-2"),
    |m| _ = m.properties_mut().set_reply_to("elsewhere"),
    |m| m.properties_mut().pass_through_mut().content_encoding = Some("gzip".into()),
    |m| drop(m.properties_mut().application_mut().insert("x-original-message-id", "m-0")),
    // Text that moves from one field to the next.
    |m| {
        m.properties_mut().set_subject("order.pai");
        m.properties_mut().set_session_id("dcustomer-7").unwrap();
    },
];

/// The description of the dead letter.
pub(crate) fn refused<L>(layer: &L, message: Message) -> String
where
    L: Layer<mock::Mock<Message, Disposition>, Service: Service<Message, Response = Disposition, Error = BoxError>>,
{
    let DeadLetter { reason, description, .. } = received(layer, message).expect_err("a dead letter");
    assert_eq!(reason, DeadLetterReason::SignatureInvalid);
    description.into_owned()
}

/// Nothing is sent of what cannot be sealed, be it alone or in a batch, and nothing without a key. Answers with what is
/// sent of a batch that can.
pub(crate) fn all_or_nothing<L>(layer: &L, without_keys: &L) -> Vec<Message>
where
    L: Layer<SendService<Broker>>,
    L::Service: Service<Message, Response = (), Error = SendError> + Service<Batch, Response = (), Error = SendError>,
{
    assert_eq!(not_sent(layer, Message::new(Value::from("text"))).kind(), ErrorKind::InvalidArgument);
    assert_eq!(not_sent(without_keys, bound()).kind(), ErrorKind::InvalidArgument);

    let broker = Broker::default();
    let mut stack = layer.layer(SendService::new(broker.clone()));
    let batch = Batch(vec![bound(), Message::new(Value::from("text"))]);
    assert_eq!(assert_ready_err!(task::spawn(stack.call(batch)).poll()).kind(), ErrorKind::InvalidArgument);
    assert_eq!(broker.transfers(), 0);
    assert_pending!(task::spawn(stack.call(Batch(vec![bound(), bound()]))).poll());
    broker.messages(0)
}
