use std::time::Duration;

use consign_amqp::{
    message::{Annotations, Body, DeliveryAnnotations, MessageAnnotations, Sections},
    types::{DeliveryState, Error, Modified},
    value::{Array, Binary, List, Map, Symbol, Timestamp, Value, ValueType},
};
use consign_core::administration::QueueSettings;
use tokio::time::timeout;

use crate::support::*;

const SOON: Duration = Duration::from_millis(10);

/// Rules, M-04, M-06, M-09.
#[tokio::test(start_paused = true)]
async fn a_delivery_has_its_lock_token_twice_and_the_annotations_of_the_broker() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let mut link = receiver(&session, "orders").await;
    let delivery = receive(&mut link).await;
    let token = token(&delivery);
    assert!(!delivery.settled);
    let sections = read(delivery);
    let annotations = sections.delivery_annotations.clone().unwrap().0;
    assert_eq!(annotations.0, [(Symbol::from_static("x-opt-lock-token"), token.into())]);
    assert_eq!(sections.header.clone().unwrap().delivery_count, 0);
    let start = START.as_millis();
    assert_eq!(
        sections.message_annotations.unwrap().0.0,
        [
            (Symbol::from_static("x-opt-enqueued-time"), Timestamp(start).into()),
            (Symbol::from_static("x-opt-sequence-number"), Value::Long(1)),
            (Symbol::from_static("x-opt-locked-until"), Timestamp(start + 60_000).into()),
        ]
    );
}

/// A settlement is answered when the broker has done it, by the kind of the outcome.
/// Rules, S-26.
#[tokio::test(start_paused = true)]
async fn outcomes_are_answered_by_their_kind() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c", "d", "e"]).await;
    let mut link = receiver(&session, "orders").await;
    let mut deliveries = Vec::new();
    for _ in 0..5 {
        deliveries.push(receive(&mut link).await);
    }
    assert_eq!(settle(&link, &deliveries[0], accepted()).await, accepted());
    assert_eq!(settle(&link, &deliveries[1], released()).await, released());
    assert_eq!(settle(&link, &deliveries[2], abandoned()).await, abandoned());
    assert_eq!(settle(&link, &deliveries[3], deferred()).await, deferred());
    let dead = Some(Error::new(Symbol::from_static("com.microsoft:dead-letter"), "text"));
    assert_eq!(settle(&link, &deliveries[4], rejected(dead)).await, rejected(None));
    let counts = harness.broker().queue("orders").unwrap().counts();
    assert_eq!((counts.active, counts.locked, counts.deferred, counts.dead_lettered), (2, 0, 1, 1));
}

/// Rules: C-08, S-71, S-74, S-36.
#[tokio::test(start_paused = true)]
async fn abandoning_counts_and_releasing_does_not() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let mut link = receiver(&session, "orders").await;
    for (state, count) in [(released(), 0), (abandoned(), 1), (released(), 1), (abandoned(), 2)] {
        let delivery = receive(&mut link).await;
        settle(&link, &delivery, state).await;
        let delivery = receive(&mut link).await;
        let found = decode(delivery.payload.clone().into_bytes()).header.unwrap().delivery_count;
        settle(&link, &delivery, released()).await;
        assert_eq!(found, count);
    }
}

/// Rules, S-61.
#[tokio::test(start_paused = true)]
async fn annotations_of_an_outcome_change_application_properties() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let mut link = receiver(&session, "orders").await;
    let delivery = receive(&mut link).await;
    let mut changes = Map::default();
    changes.push(Symbol::from_static("tries"), 2_i32);
    let modified = Modified { message_annotations: Some(changes), ..Modified::default() };
    settle(&link, &delivery, consign_amqp::types::DeliveryState::Modified(modified)).await;
    let again = read(receive(&mut link).await);
    assert_eq!(again.application_properties.unwrap().get("tries"), Some(&2_i32.into()));
}

/// The keys of the reason are symbols or strings.
/// Rules, S-100.
#[tokio::test(start_paused = true)]
async fn rejected_messages_are_dead_letters_with_their_reason() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c"]).await;
    let mut link = receiver(&session, "orders").await;
    let mut info = Map::default();
    info.push("DeadLetterReason", "why");
    info.push(Symbol::from_static("DeadLetterErrorDescription"), "because");
    info.push("more", true);
    let dead_letter = Symbol::from_static("com.microsoft:dead-letter");
    let with_reason = Error { condition: dead_letter, description: None, info: Some(info) };
    let with_condition = Error::new(Symbol::from_static("amqp:internal-error"), "it failed");
    for error in [Some(with_reason), Some(with_condition), None] {
        let delivery = receive(&mut link).await;
        assert_eq!(settle(&link, &delivery, rejected(error)).await, rejected(None));
    }
    let mut dead = receiver(&session, "orders/$DeadLetterQueue").await;
    let mut reasons = Vec::new();
    for _ in 0..3 {
        let sections = read(receive(&mut dead).await);
        let properties = sections.application_properties.clone().unwrap_or_default();
        let text = |name| properties.get(name).map_or("none", |text| text.as_str().unwrap()).to_owned();
        reasons.push((text("DeadLetterReason"), text("DeadLetterErrorDescription"), properties.get("more").is_some()));
    }
    let expected = [("why", "because", true), ("amqp:internal-error", "it failed", false), ("none", "none", false)];
    assert_eq!(reasons, expected.map(|(reason, text, more)| (reason.to_owned(), text.to_owned(), more)));
}

/// A client that goes on so does not lock the whole queue.
/// Rules.
#[tokio::test(start_paused = true)]
async fn settlements_that_cannot_be_read_leave_few_locks() {
    let limits = consign_server::Limits::default().max_unsettled(2);
    for txn_id in [None, Some(Binary::from(b"unknown".to_vec()))] {
        let harness = Harness::with(|builder| builder.limits(limits.clone()));
        let session = harness.session().await;
        send(&session, "orders", &["m"; 10]).await;
        let mut link = receiver(&session, "orders").await;
        let mut changes = Map::default();
        changes.push(Symbol::from_static("k"), List(vec![1.into()]));
        let mut state = DeliveryState::Modified(Modified { message_annotations: Some(changes), ..Modified::default() });
        if let Some(txn_id) = &txn_id {
            state = crate::transactions::within(txn_id, Some(accepted()));
        }
        let mut deliveries = Vec::new();
        for _ in 0..10 {
            let delivery = timeout(SOON, receive(&mut link)).await.unwrap();
            assert!(matches!(settle(&link, &delivery, state.clone()).await, DeliveryState::Rejected(_)));
            deliveries.push(delivery);
        }
        assert_eq!(harness.broker().queue("orders").unwrap().counts().locked, 2);
        // The first ones can be settled by their token.
        let mut manage = Requester::attach(&session, "orders/$management").await;
        let tokens = Array::new(ValueType::Uuid, vec![token(&deliveries[0]).into()]).unwrap();
        let request = fields([("disposition-status", "completed".into()), ("lock-tokens", tokens.into())]);
        assert_eq!(manage.call("com.microsoft:update-disposition", request).await.status(), 200);
    }
}

/// Rules: A-26.
#[tokio::test(start_paused = true)]
async fn received_settles_nothing() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let mut link = receiver(&session, "orders").await;
    let delivery = receive(&mut link).await;
    let received = consign_amqp::types::DeliveryState::Received(consign_amqp::types::Received::default());
    let settler = link.settler();
    let unanswered = timeout(SOON, settler.settle_confirmed(delivery.id, &received)).await;
    unanswered.unwrap_err();
    assert_eq!(harness.broker().queue("orders").unwrap().counts().locked, 1);
    complete(&link, &delivery).await;
}

/// Rules: A-28, S-54.
#[tokio::test(start_paused = true)]
async fn a_settlement_after_the_lock_is_rejected() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let mut link = receiver(&session, "orders").await;
    let delivery = receive(&mut link).await;
    tokio::time::advance(Duration::from_secs(61)).await;
    let answer = settle(&link, &delivery, accepted()).await;
    assert_eq!(condition_of(&answer), "com.microsoft:message-lock-lost");
    let again = receive(&mut link).await;
    assert_eq!(decode(again.payload.clone().into_bytes()).header.unwrap().delivery_count, 1);
    complete(&link, &again).await;
}

/// Rules: A-38.
#[tokio::test(start_paused = true)]
async fn one_disposition_settles_a_range_and_each_is_answered() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c", "d"]).await;
    let mut link = receiver(&session, "orders").await;
    link.set_credit(4).unwrap();
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(link.recv().await.unwrap().id);
    }
    // The second lock is lost before.
    let queue = harness.broker().queue("orders").unwrap();
    let settler = link.settler();
    let confirmed = ids.iter().map(|id| settler.settle_confirmed(*id, const { &ACCEPTED }));
    let answers = futures_util::future::join_all(confirmed).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap() == Some(accepted())));
    assert_eq!((queue.counts().active, queue.counts().locked), (0, 0));
}

const ACCEPTED: consign_amqp::types::DeliveryState =
    consign_amqp::types::DeliveryState::Accepted(consign_amqp::types::Accepted {});

/// A client that settles at once: the settlement is not answered.
#[tokio::test(start_paused = true)]
async fn a_settled_disposition_takes_effect() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c"]).await;
    let mut link = receiver(&session, "orders").await;
    link.set_credit(3).unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(link.recv().await.unwrap().id);
    }
    assert_eq!(link.settle(ids, &accepted()).unwrap(), 3);
    link.detach().await.unwrap();
    let counts = harness.broker().queue("orders").unwrap().counts();
    assert_eq!((counts.active, counts.locked), (0, 0));
}

/// Rules: A-31.
#[tokio::test(start_paused = true)]
async fn only_as_many_messages_are_locked_as_there_is_credit_for() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c", "d", "e"]).await;
    let mut link = receiver(&session, "orders").await;
    let queue = harness.broker().queue("orders").unwrap();
    assert_eq!(queue.counts().locked, 0);
    link.set_credit(2).unwrap();
    link.recv().await.unwrap();
    link.recv().await.unwrap();
    tokio::time::sleep(SOON).await;
    assert_eq!((queue.counts().locked, queue.counts().active), (2, 3));
}

/// A window of two frames: nothing is locked that cannot be sent.
/// Rules: A-31.
#[tokio::test(start_paused = true)]
async fn no_more_messages_are_locked_than_the_session_window_allows() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c", "d"]).await;
    let options = consign_amqp::engine::Options::default().incoming_window(2);
    let narrow = harness.try_connect(options).await.unwrap().begin().await.unwrap();
    let mut link = receiver(&narrow, "orders").await;
    link.set_credit(4).unwrap();
    for body in ["a", "b", "c", "d"] {
        let delivery = link.recv().await.unwrap();
        assert_eq!(text_of(&delivery), body);
        complete(&link, &delivery).await;
    }
    let counts = harness.broker().queue("orders").unwrap().counts();
    assert_eq!((counts.active, counts.locked), (0, 0));
}

/// A receiver waits, and a message wakes it.
/// Rules: A-32.
#[tokio::test(start_paused = true)]
async fn links_that_wait_are_served_in_their_order() {
    let harness = Harness::new();
    let (one, other) = (harness.session().await, harness.session().await);
    send(&one, "orders", &[]).await;
    let (mut first, mut second) = (receiver(&one, "orders").await, receiver(&other, "orders").await);
    first.set_credit(1).unwrap();
    tokio::time::sleep(SOON).await;
    second.set_credit(1).unwrap();
    tokio::time::sleep(SOON).await;
    send(&one, "orders", &["a", "b"]).await;
    assert_eq!(text_of(&first.recv().await.unwrap()), "a");
    assert_eq!(text_of(&second.recv().await.unwrap()), "b");
}

/// Rules: A-13.
#[tokio::test(start_paused = true)]
async fn delivery_annotations_of_the_sender_are_delivered_beside_the_lock_token() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let own = Annotations(vec![
        (Symbol::from_static("x-own"), "text".into()),
        (Symbol::from_static("x-opt-lock-token"), "of another delivery".into()),
    ]);
    let sent = Sections { delivery_annotations: Some(DeliveryAnnotations(own)), ..sections("a") };
    assert_eq!(link.send(encode(&sent)).await.unwrap(), Some(accepted()));
    let received = read(receive(&mut receiver(&session, "orders").await).await);
    let annotations = received.delivery_annotations.unwrap().0;
    assert_eq!(annotations.get("x-own"), Some(&"text".into()));
    assert!(matches!(annotations.get("x-opt-lock-token"), Some(Value::Uuid(_))), "{annotations:?}");
    assert_eq!(annotations.0.len(), 2);
    assert_eq!(received.message_annotations.unwrap().0.get("x-own"), None);
}

/// Rules: B-06.
#[tokio::test(start_paused = true)]
async fn a_message_without_a_body_is_delivered_without_one() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    for (sent, received) in [(vec![], vec![]), (vec![Binary::default()], vec![Binary::default()])] {
        let sent = Sections { body: Body::Data(sent), ..Sections::default() };
        assert_eq!(link.send(encode(&sent)).await.unwrap(), Some(accepted()));
        let mut link = receiver(&session, "orders").await;
        let delivery = receive(&mut link).await;
        complete(&link, &delivery).await;
        assert_eq!(read(delivery).body, Body::Data(received));
    }
}

/// A client of the Azure SDK for Python sends a received message again like this.
#[tokio::test(start_paused = true)]
async fn a_partition_key_of_bytes_is_text() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let of = |key: &[u8]| {
        let annotations =
            Annotations(vec![(Symbol::from_static("x-opt-partition-key"), Binary::from(key.to_vec()).into())]);
        encode(&Sections { message_annotations: Some(MessageAnnotations(annotations)), ..sections("a") })
    };
    assert_eq!(link.send(of(b"key")).await.unwrap(), Some(accepted()));
    assert!(matches!(link.send(of(b"\xff")).await.unwrap(), Some(DeliveryState::Rejected(_))));
    let received = read(receive(&mut receiver(&session, "orders").await).await);
    assert_eq!(annotation(&received, "x-opt-partition-key"), Some("key".into()));
}

/// Rules: S-21.
#[tokio::test(start_paused = true)]
async fn a_message_that_the_receiver_never_takes_is_dead_lettered() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &[&"x".repeat(2_000), "small"]).await;
    let options = consign_amqp::engine::Options::default().max_message_size(1_000);
    let small = harness.try_connect(options).await.unwrap().begin().await.unwrap();
    let mut link = receiver(&small, "orders").await;
    assert_eq!(text_of(&receive(&mut link).await), "small");
    assert_eq!(harness.broker().queue("orders").unwrap().counts().dead_lettered, 1);
}

/// Rules: A-34.
#[tokio::test(start_paused = true)]
async fn links_of_an_entity_that_is_created_again_are_of_the_new_one() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    harness.broker().delete("orders").unwrap();
    harness.broker().create_queue("orders", QueueSettings::default()).unwrap();
    let outcome = link.send(message("lost")).await.unwrap();
    assert!(matches!(outcome, Some(DeliveryState::Rejected(_))), "{outcome:?}");
    let error = link.send(message("lost")).await.unwrap_err();
    assert_eq!(error.condition().unwrap(), "amqp:not-found");
    sender(&session, "orders").await.send(message("new")).await.unwrap();
    let answer = manage.call("com.microsoft:peek-message", fields([("from-sequence-number", 1_i64.into())])).await;
    assert_eq!(answer.status(), 200);
}

/// Rules: S-11.
#[tokio::test(start_paused = true)]
async fn a_link_is_detached_when_its_entity_is_deleted_or_disabled() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &[]).await;
    let mut link = receiver(&session, "orders").await;
    link.set_credit(1).unwrap();
    tokio::time::sleep(SOON).await;
    harness.broker().delete("orders").unwrap();
    let error = timeout(Duration::from_secs(1), link.recv()).await.unwrap().unwrap_err();
    assert_eq!(error.condition().unwrap(), "amqp:not-found");

    let disabled = consign_core::administration::Status::ReceiveDisabled;
    let settings = QueueSettings::default().status(disabled);
    harness.broker().create_queue("closed", settings).unwrap();
    assert_eq!(refused(try_receiver(&session, "closed").await), "com.microsoft:entity-disabled");
}
