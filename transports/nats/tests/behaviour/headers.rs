//! Messages that were not sent by this library.

use consign::{
    message::{EntityPath, PropertyValue},
    transport::{ErrorKind, PurgeMessages, ReceiverExt, Sender},
};
use consign_nats::{
    QueueSettings,
    async_nats::{HeaderMap, jetstream},
};

use crate::{LONG, limit_records, queue};

#[tokio::test]
async fn a_message_of_another_client_is_a_message() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let context = jetstream::new(nats.client().clone());
    let mut headers = HeaderMap::new();
    headers.insert("X-Other", "is not read");
    headers.insert("Sb-Subject", "greeting");
    context.publish_with_headers(format!("test.{path}.m"), headers, "hello".into()).await.unwrap().await.unwrap();
    let delivery = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    assert_eq!((delivery.message.payload(), delivery.message.subject()), (Some(&b"hello"[..]), Some("greeting")));
    delivery.complete().await.unwrap();
    nats.delete(&path).await.unwrap();
}

#[tokio::test]
async fn a_header_that_cannot_be_read_is_a_dead_letter_that_names_it() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let context = jetstream::new(nats.client().clone());
    for (name, value) in [("Sb-P-n", "i32:many"), ("Sb-Sections", "1,99"), ("Sb-Body", "unknown"), ("Sb-To", "%zz")] {
        let mut headers = HeaderMap::new();
        headers.insert(name, value);
        headers.insert("Sb-Tenant", "acme");
        context.publish_with_headers(format!("test.{path}.m"), headers, "body".into()).await.unwrap().await.unwrap();
        let mut receiver = nats.receiver(&path).await.unwrap();
        let nothing = receiver.receive_within(std::time::Duration::from_millis(500)).await;
        assert_eq!(nothing.unwrap_err().kind(), ErrorKind::ServiceTimeout);
        let dead =
            nats.receiver(&format!("{path}/$deadletterqueue")).await.unwrap().receive_within(LONG).await.unwrap();
        assert_eq!(dead.message.dead_letter_reason(), Some("MalformedHeader"));
        assert!(dead.message.dead_letter_description().unwrap().contains(name), "{:?}", dead.message);
        assert_eq!(dead.message.payload(), Some(&b"body"[..]));
        assert_eq!(dead.message.application_properties().get(name), Some(&PropertyValue::String(value.into())));
        assert_eq!(dead.message.application_properties().get("Sb-Tenant"), Some(&"acme".into()), "{name}");
        dead.complete().await.unwrap();
    }
    nats.delete(&path).await.unwrap();
}

/// Its lock would hold for 30 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_cannot_be_dead_lettered_is_given_back() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let mut headers = HeaderMap::new();
    headers.insert("Sb-Sections", "1,99");
    let context = jetstream::new(nats.client().clone());
    let sent = context.publish_with_headers(format!("test.{path}.m"), headers, "x".repeat(4_000).into()).await;
    sent.unwrap().await.unwrap();
    limit_records(&nats, &path, 2_000).await;
    let mut receiver = nats.receiver(&path).await.unwrap();
    let refused = receiver.receive_within(LONG).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MessageSizeExceeded, "{refused}");
    limit_records(&nats, &path, -1).await;
    let receiving = tokio::spawn(async move { receiver.receive_within(LONG).await });
    let dead = nats.receiver(&format!("{path}/$deadletterqueue")).await.unwrap().receive_within(LONG).await.unwrap();
    assert_eq!(dead.message.dead_letter_reason(), Some("MalformedHeader"));
    dead.complete().await.unwrap();
    receiving.abort();
    nats.delete(&path).await.unwrap();
}

#[tokio::test]
async fn unsupported_properties_and_settings_are_refused() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    let soon = consign::Message::builder().time_to_live(LONG).build("a").unwrap();
    let later = consign::time::Timestamp::MAX;
    let later = consign::Message::builder().scheduled_enqueue_time(later).build("a").unwrap();
    for message in [soon, later] {
        assert_eq!(sender.send(message).await.unwrap_err().kind(), ErrorKind::NotSupported);
    }
    let large = consign::Message::new(vec![0; nats.client().max_payload()]);
    assert_eq!(sender.send(large).await.unwrap_err().kind(), ErrorKind::MessageSizeExceeded);
    let mut settings = QueueSettings::default();
    settings.max_delivery_count = 0;
    let refused = nats.create_queue("never", settings).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    nats.delete(&path).await.unwrap();
}

#[tokio::test]
async fn a_full_queue_refuses() {
    let mut settings = QueueSettings::default();
    settings.max_bytes = Some(64 << 10);
    let Some((nats, path)) = queue(settings).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    let mut stored = 0;
    let error = loop {
        match sender.send(consign::Message::new(vec![0; 10 << 10])).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 7);
    };
    assert_eq!((error.kind(), stored > 0), (ErrorKind::QuotaExceeded, true), "{error}");
    nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap().complete().await.unwrap();
    sender.send(consign::Message::new(vec![0; 10 << 10])).await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// What is over in a batch is refused, and what came before it is stored: to send the batch again would store that twice.
#[tokio::test]
async fn a_batch_that_is_stored_in_part_is_of_unknown_outcome() {
    let mut settings = QueueSettings::default();
    settings.max_bytes = Some(64 << 10);
    let Some((nats, path)) = queue(settings).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    let batch = || (0..10).map(|_| consign::Message::new(vec![0; 10 << 10])).collect::<consign::transport::Batch>();
    let error = sender.send_batch(batch()).await.unwrap_err();
    assert!(error.is_outcome_unknown() && !error.is_retryable(), "{error}");
    assert!(nats.purge(&EntityPath::new(&path).unwrap(), 1, None).await.unwrap() == 1);
    sender.send(consign::Message::new(vec![0; 10 << 10])).await.unwrap();
    // Nothing of this one is stored.
    let error = sender.send_batch(batch()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::QuotaExceeded, false), "{error}");
    nats.delete(&path).await.unwrap();
}

#[tokio::test]
async fn a_queue_that_is_gone_is_not_found_by_its_sender() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    nats.delete(&path).await.unwrap();
    let error = sender.send(consign::Message::new("a")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::EntityNotFound, false), "{error}");
}
