//! Messages of other clients of AMQP 1.0.

use consign::transport::ReceiverExt;
use consign_amqp::{
    client::{Connection, Options},
    codec,
    message::{Body, Header, MessageAnnotations, Properties, Sections},
    value::{List, Symbol, Value},
};
use consign_conformance::log::Lines;
use tokio::time::timeout;

use super::{Bench, SOON, count, text};

async fn send(bench: &Bench, encoded: Vec<u8>) {
    let connection = Connection::connect(bench.proton.socket(), Options::new("foreign")).await.unwrap();
    let session = connection.begin().await.unwrap();
    let sender = session.attach_sender("foreign", bench.queue.as_str().to_owned()).await.unwrap();
    sender.send(encoded).await.unwrap();
}

/// Rules: K-282.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_another_client_is_read() {
    let Some(bench) = Bench::new().await else { return };
    let mut annotations = consign_amqp::message::Annotations::default();
    // Of a type that this transport does not write.
    annotations.push(Symbol::from_static("x-opt-consign-sequence-number"), Value::from("seven"));
    let sections = Sections {
        header: Some(Header { delivery_count: 0, ..Header::default() }),
        message_annotations: Some(MessageAnnotations(annotations)),
        properties: Some(Properties { subject: Some("order".into()), ..Properties::default() }),
        body: Body::Data(vec![b"{}".to_vec().into()]),
        ..Sections::default()
    };
    send(&bench, codec::encode(&sections).unwrap().to_vec()).await;
    let delivery = timeout(SOON, bench.receiver().await.receive()).await.unwrap().unwrap();
    let message = &delivery.message;
    assert_eq!((text(message), message.subject(), count(message)), ("{}", Some("order"), 1));
    assert_eq!(message.received().map(|received| received.sequence_number.get()), Some(0));
    delivery.complete().await.unwrap();
}

/// Rules: K-283.
#[tokio::test]
async fn what_is_not_a_message_is_delivered_as_bytes_with_a_warning() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new().await else { return };
    // An application property that is a list, which a message does not have.
    let properties = consign_amqp::message::ApplicationProperties(vec![("list".into(), Value::List(List::default()))]);
    let sections = Sections { application_properties: Some(properties), ..Sections::default() };
    let encoded = codec::encode(&sections).unwrap().to_vec();
    send(&bench, encoded.clone()).await;
    let delivery = timeout(SOON, bench.receiver().await.receive()).await.unwrap().unwrap();
    assert!(delivery.message.payload().unwrap().ends_with(&encoded), "{:?}", delivery.message.payload());
    let warned = lines.of("consign::amqp10");
    assert!(warned.len() == 1 && warned[0].contains("list"), "{warned:?}");
    delivery.complete().await.unwrap();
}

/// Rules: K-283.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deliveries_of_what_is_not_a_message_are_counted() {
    let Some(bench) = Bench::new().await else { return };
    let malformed = b"\x00\x53\x7f\x40".to_vec();
    let properties = consign_amqp::message::ApplicationProperties(vec![("list".into(), Value::List(List::default()))]);
    let sections = Sections { application_properties: Some(properties), ..Sections::default() };
    let mut receiver = bench.receiver().await;
    for encoded in [codec::encode(&sections).unwrap().to_vec(), malformed] {
        send(&bench, encoded).await;
        for deliveries in 1..=3 {
            let delivery = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
            assert_eq!(count(&delivery.message), deliveries);
            if deliveries < 3 {
                delivery.abandon().await.unwrap();
            } else {
                delivery.complete().await.unwrap();
            }
        }
    }
}
