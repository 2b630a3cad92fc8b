//! What the plugin of RabbitMQ 3 does, by the client of `consign-amqp`: the reasons of `broker.rs`. A test that fails here shows a
//! version that behaves otherwise.

use std::time::Duration;

use consign::message::EntityPath;
use consign_amqp::{
    client::{Connection, Error, Options, Session},
    codec,
    engine::{self, Reason, SaslCredentials},
    message::{AmqpValue, ApplicationProperties, EncodedMessage, Sections},
    types::{Accepted, Attach, Modified, Released, Source},
    value::{Described, Symbol, Value},
};
use tokio::time::timeout;

use super::{SOON, on_rabbitmq::Rabbit};

async fn session(rabbit: &Rabbit) -> (Connection, Session) {
    let mut engine = engine::Options::default();
    engine.sasl_client = Some(SaslCredentials::plain("guest", "guest"));
    let options = Options::new("plugin").engine(engine).timeout(Duration::from_secs(5));
    let connection = Connection::connect(rabbit.socket(), options).await.unwrap();
    let session = connection.begin().await.unwrap();
    (connection, session)
}

fn address(queue: &EntityPath) -> String {
    format!("/amq/queue/{queue}")
}

/// Rules: K-285.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_ends_the_session_for_modified_and_does_not_count_released() {
    let Some(rabbit) = Rabbit::new().await else { return };
    let (_connection, session) = session(&rabbit).await;
    let sender = session.attach_sender("sender", address(&rabbit.queue)).await.unwrap();
    let encoded = codec::encode(&AmqpValue(Value::from("a"))).unwrap();
    assert_eq!(sender.send(encoded).await.unwrap(), Some(Accepted {}.into()));
    let mut receiver = session.attach_receiver("receiver", address(&rabbit.queue)).await.unwrap();
    receiver.set_automatic_credit(1).unwrap();
    for _ in 0..3 {
        let delivery = timeout(SOON, receiver.recv()).await.unwrap().unwrap();
        let message = EncodedMessage::split(delivery.payload.into_bytes()).unwrap();
        let header = message.header().unwrap().unwrap_or_default();
        assert_eq!(header.delivery_count, 0);
        receiver.settle([delivery.id], &Released {}.into()).unwrap();
    }
    let delivery = timeout(SOON, receiver.recv()).await.unwrap().unwrap();
    let modified = Modified { delivery_failed: true, ..Modified::default() };
    receiver.settle([delivery.id], &modified.into()).unwrap();
    let ended = timeout(SOON, receiver.recv()).await.unwrap().unwrap_err();
    assert!(matches!(ended, Error::Ended(Reason::Peer(Some(_)))), "{ended:?}");
    rabbit.end().await;
}

/// Rules: K-285.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_ends_the_session_for_a_drain() {
    let Some(rabbit) = Rabbit::new().await else { return };
    let (_connection, session) = session(&rabbit).await;
    let mut receiver = session.attach_receiver("receiver", address(&rabbit.queue)).await.unwrap();
    receiver.set_credit(1).unwrap();
    let error = timeout(SOON, receiver.drain()).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Ended(_) | Error::TimedOut { .. }), "{error:?}");
    rabbit.end().await;
}

/// Rules: K-286.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_accepts_messages_for_a_queue_that_does_not_exist() {
    let Some(rabbit) = Rabbit::new().await else { return };
    let (_connection, session) = session(&rabbit).await;
    let missing = address(&EntityPath::new(&crate::support::unique("missing")).unwrap());
    let sender = session.attach_sender("sender", missing.clone()).await.unwrap();
    let encoded = codec::encode(&AmqpValue(Value::from("a"))).unwrap();
    assert_eq!(sender.send(encoded).await.unwrap(), Some(Accepted {}.into()));
    let refused = session.attach_receiver("receiver", missing).await.unwrap_err();
    assert_eq!(refused.condition().map(Symbol::as_str), Some("amqp:not-found"));
    rabbit.end().await;
}

/// Rules: K-285.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_refuses_dynamic_addresses_and_described_properties() {
    let Some(rabbit) = Rabbit::new().await else { return };
    let (_connection, dynamic) = session(&rabbit).await;
    let source = Some(Box::new(Source { dynamic: true, ..Source::default() }));
    let attach = Attach { name: "dynamic".into(), source, ..Attach::default() };
    let refused = dynamic.attach_receiver_with(attach).await.unwrap_err();
    assert_eq!(refused.condition().map(Symbol::as_str), Some("amqp:not-implemented"));

    let (connection, session) = session(&rabbit).await;
    let sender = session.attach_sender("sender", address(&rabbit.queue)).await.unwrap();
    let described = Described { descriptor: Symbol::from_static("d").into(), value: Value::from(1_i32) };
    let properties = ApplicationProperties(vec![("described".into(), Value::Described(Box::new(described)))]);
    let sections = Sections { application_properties: Some(properties), ..Sections::default() };
    let encoded = codec::encode(&sections).unwrap();
    assert!(sender.send(encoded).await.is_err());
    let closed = timeout(SOON, connection.closed()).await.unwrap();
    assert!(matches!(closed, Error::Closed(_)), "{closed:?}");
    rabbit.end().await;
}
