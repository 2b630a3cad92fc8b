use std::time::Duration;

use consign_amqp::{
    message::{Annotations, MessageAnnotations, Sections},
    value::{Array, Binary, List, Map, Symbol, Timestamp, Uuid, Value, ValueType},
};

use crate::support::*;

pub(crate) fn tokens(tokens: impl IntoIterator<Item = Uuid>) -> Value {
    Array::new(ValueType::Uuid, tokens.into_iter().map(Value::from).collect()).unwrap().into()
}

pub(crate) fn numbers(numbers: impl IntoIterator<Item = i64>) -> Value {
    Array::new(ValueType::Long, numbers.into_iter().map(Value::from).collect()).unwrap().into()
}

/// The messages of an answer, and their entries.
pub(crate) fn messages(value: &Value) -> Vec<(Sections, Map)> {
    let Value::List(List(entries)) = value else { panic!("{value:?}") };
    let message = |entry: &Value| {
        let Value::Map(entry) = entry else { panic!("{entry:?}") };
        let Some(Value::Binary(Binary(encoded))) = entry.get("message") else { panic!("{entry:?}") };
        (decode(encoded.clone()), entry.clone())
    };
    entries.iter().map(message).collect()
}

/// Rules: G-10, G-12, G-13, G-14.
#[tokio::test(start_paused = true)]
async fn an_answer_has_the_status_and_the_id_of_its_request() {
    let harness = Harness::new();
    let session = harness.session().await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let answer = manage.call("com.microsoft:no-such-operation", Map::default()).await;
    assert_eq!((answer.status(), answer.condition()), (501, Some("amqp:not-implemented")));
    assert!(answer.properties.get("statusDescription").and_then(Value::as_str).is_some());
    for (operation, body) in [
        ("com.microsoft:renew-lock", Value::from(Map::default())),
        ("com.microsoft:renew-lock", fields([("lock-tokens", "text".into())]).into()),
        ("com.microsoft:renew-lock", Value::Null),
        ("com.microsoft:schedule-message", fields([("messages", 1_i32.into())]).into()),
        ("com.microsoft:update-disposition", fields([("lock-tokens", tokens([]))]).into()),
        ("com.microsoft:add-rule", Map::default().into()),
    ] {
        let answer = manage.call(operation, body).await;
        assert_eq!((answer.status(), answer.condition()), (400, Some("com.microsoft:argument-error")), "{operation}");
    }
}

/// Links with addresses, as those of JavaScript and .NET, and requests without a reply-to, as those of Python.
/// Rules: G-10.
#[tokio::test(start_paused = true)]
async fn an_answer_goes_to_the_link_of_its_reply_to() {
    use consign_amqp::{
        client::Session,
        message::{ApplicationProperties, Body, MessageId, Properties},
        types::Target,
    };

    async fn replies(session: &Session, node: &str, address: &str) -> consign_amqp::client::ReceiverLink {
        let target = Target { address: Some(address.into()), ..Target::default() };
        let attach = consign_amqp::types::Attach { target: Some(target.into()), ..receiver_attach(node) };
        let mut link = session.attach_receiver_with(attach).await.unwrap();
        link.set_credit(10).unwrap();
        link
    }

    fn request(id: u64, reply_to: Option<&str>) -> consign_amqp::bytes::Bytes {
        let mut properties = ApplicationProperties::default();
        properties.push("operation", "com.microsoft:peek-message");
        let message_id = Some(MessageId::Ulong(id));
        let reply_to = reply_to.map(Into::into);
        encode(&Sections {
            properties: Some(Properties { message_id, reply_to, ..Properties::default() }),
            application_properties: Some(properties),
            body: Body::Value(Map::default().into()),
            ..Sections::default()
        })
    }

    let harness = Harness::new();
    let session = harness.session().await;
    let mut one = replies(&session, "orders/$management", "one").await;
    let mut two = replies(&session, "orders/$management", "two").await;
    // Neither another node nor another session is one of them.
    let _other = replies(&session, "bills/$management", "one").await;
    let elsewhere = harness.session().await;
    let _elsewhere = replies(&elsewhere, "orders/$management", "one").await;
    let link = sender(&session, "orders/$management").await;
    let id = |sections: Sections| sections.properties.unwrap().correlation_id;
    for nth in 0..3 {
        link.send(request(nth * 2, Some("two"))).await.unwrap();
        link.send(request(nth * 2 + 1, Some("one"))).await.unwrap();
        assert_eq!(id(read(two.recv().await.unwrap())), Some(MessageId::Ulong(nth * 2)));
        assert_eq!(id(read(one.recv().await.unwrap())), Some(MessageId::Ulong(nth * 2 + 1)));
    }
    one.detach().await.unwrap();
    link.send(request(9, None)).await.unwrap();
    assert_eq!(id(read(two.recv().await.unwrap())), Some(MessageId::Ulong(9)));
}

/// Rules: G-22, A-06, T-30, T-31, T-32, C-10, M-21.
#[tokio::test(start_paused = true)]
async fn peek_shows_messages_and_changes_nothing() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c"]).await;
    let mut link = receiver(&session, "orders").await;
    let delivery = receive(&mut link).await;
    settle(&link, &delivery, abandoned()).await;
    receive(&mut link).await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    // Any type of integer.
    for (from, count) in [(Value::from(1_i64), Value::from(10_i32)), (Value::from(1_u32), Value::from(10_u64))] {
        let request = fields([("from-sequence-number", from), ("message-count", count)]);
        let answer = manage.call("com.microsoft:peek-message", request).await;
        assert_eq!(answer.status(), 200);
        let peeked = messages(answer.field("messages"));
        assert_eq!(peeked.iter().map(|(message, _)| body(message)).collect::<Vec<_>>(), ["a", "b", "c"]);
        let (first, _) = &peeked[0];
        assert_eq!(first.header.as_ref().unwrap().delivery_count, 1);
        assert_eq!(annotation(first, "x-opt-message-state"), Some(0_i32.into()));
        assert_eq!((annotation(first, "x-opt-locked-until"), first.delivery_annotations.clone()), (None, None));
    }
    let request = fields([("from-sequence-number", 3_i64.into()), ("message-count", 1_i32.into())]);
    let answer = manage.call("com.microsoft:peek-message", request).await;
    assert_eq!(body(&messages(answer.field("messages"))[0].0), "c");
    let request = fields([("from-sequence-number", 4_i64.into()), ("message-count", 1_i32.into())]);
    assert_eq!(manage.call("com.microsoft:peek-message", request).await.status(), 204);
}

pub(crate) fn scheduled(body: &str, at: i64) -> Value {
    let annotations = Annotations(vec![(Symbol::from_static("x-opt-scheduled-enqueue-time"), Timestamp(at).into())]);
    let sections = Sections { message_annotations: Some(MessageAnnotations(annotations)), ..sections(body) };
    fields([("message-id", body.into()), ("message", Binary(encode(&sections)).into())]).into()
}

/// Rules: G-23, G-24, Q-20, Q-23, Q-28.
#[tokio::test(start_paused = true)]
async fn scheduled_messages_have_numbers_and_can_be_cancelled() {
    let harness = Harness::new();
    let session = harness.session().await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let at = START.as_millis() + 10_000;
    let list = List(vec![scheduled("a", at), scheduled("b", at), scheduled("c", at + 5_000)]);
    let answer = manage.call("com.microsoft:schedule-message", fields([("messages", list.into())])).await;
    assert_eq!((answer.status(), answer.field("sequence-numbers")), (200, &numbers([1, 2, 3])));
    let cancel = |number| fields([("sequence-numbers", numbers([number]))]);
    assert_eq!(manage.call("com.microsoft:cancel-scheduled-message", cancel(2)).await.status(), 200);
    let again = manage.call("com.microsoft:cancel-scheduled-message", cancel(2)).await;
    assert_eq!((again.status(), again.condition()), (404, Some("com.microsoft:message-not-found")));

    let mut link = receiver(&session, "orders").await;
    let delivery = receive(&mut link).await;
    assert_eq!(harness.broker().now().as_millis(), at);
    let sections = read(delivery);
    assert_eq!((body(&sections), sequence_number(&sections)), ("a", 4));
    assert_eq!(annotation(&sections, "x-opt-scheduled-enqueue-time"), Some(Timestamp(at).into()));
    assert_eq!(text_of(&receive(&mut link).await), "c");
}

/// Rules: G-20, A-11, S-57.
#[tokio::test(start_paused = true)]
async fn locks_are_renewed_by_the_token_of_the_tag() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b"]).await;
    let mut link = receiver(&session, "orders").await;
    let (one, other) = (receive(&mut link).await, receive(&mut link).await);
    let mut manage = Requester::attach(&session, "orders/$management").await;
    tokio::time::advance(Duration::from_secs(40)).await;
    let request = fields([("lock-tokens", tokens([token(&one), token(&other)]))]);
    let answer = manage.call("com.microsoft:renew-lock", request).await;
    let Value::Array(expirations) = answer.field("expirations") else { panic!("{answer:?}") };
    assert_eq!((answer.status(), expirations.len(), expirations.element_type()), (200, 2, ValueType::Timestamp));
    tokio::time::advance(Duration::from_secs(40)).await;
    complete(&link, &one).await;

    let request = fields([("lock-tokens", tokens([token(&other), Uuid([1; 16])]))]);
    let answer = manage.call("com.microsoft:renew-lock", request).await;
    assert_eq!((answer.status(), answer.condition()), (410, Some("com.microsoft:message-lock-lost")));
    // The other was not renewed either.
    tokio::time::advance(Duration::from_secs(40)).await;
    assert_eq!(condition_of(&settle(&link, &other, accepted()).await), "com.microsoft:message-lock-lost");
}

/// Rules: G-25, S-64.
#[tokio::test(start_paused = true)]
async fn messages_are_settled_by_token_through_another_connection() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c", "d"]).await;
    let mut link = receiver(&session, "orders").await;
    let mut manage = Requester::attach(&harness.session().await, "orders/$management").await;
    let mut deliveries = Vec::new();
    for status in ["completed", "abandoned", "defered", "suspended"] {
        let delivery = receive(&mut link).await;
        let changes = fields([("by", status.into())]);
        let request = fields([
            ("disposition-status", status.into()),
            ("lock-tokens", tokens([token(&delivery)])),
            ("properties-to-modify", changes.into()),
            ("deadletter-reason", "why".into()),
            ("deadletter-description", "because".into()),
        ]);
        let answer = manage.call("com.microsoft:update-disposition", request.clone()).await;
        assert_eq!(answer.status(), 200, "{status}");
        let again = manage.call("com.microsoft:update-disposition", request).await;
        assert_eq!((again.status(), again.condition()), (410, Some("com.microsoft:message-lock-lost")), "{status}");
        if status == "abandoned" {
            let delivery = receive(&mut link).await;
            let sections = read(delivery.clone());
            assert_eq!(sections.application_properties.unwrap().get("by"), Some(&"abandoned".into()));
            complete(&link, &delivery).await;
        }
        deliveries.push(delivery);
    }
    // The link does not have the lock any more.
    assert_eq!(condition_of(&settle(&link, &deliveries[0], accepted()).await), "com.microsoft:message-lock-lost");
    let counts = harness.broker().queue("orders").unwrap().counts();
    assert_eq!((counts.active, counts.locked, counts.deferred, counts.dead_lettered), (0, 0, 1, 1));
    let dead = read(receive(&mut receiver(&session, "orders/$deadletterqueue").await).await);
    let properties = dead.application_properties.unwrap();
    assert_eq!(properties.get("DeadLetterReason"), Some(&"why".into()));
    assert_eq!(properties.get("DeadLetterErrorDescription"), Some(&"because".into()));
}

/// Attacks: 71.
/// A token is of one entity.
#[tokio::test(start_paused = true)]
async fn a_token_is_unknown_to_another_entity() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let mut link = receiver(&session, "orders").await;
    let delivery = receive(&mut link).await;
    let mut manage = Requester::attach(&session, "other/$management").await;
    let request = fields([("disposition-status", "completed".into()), ("lock-tokens", tokens([token(&delivery)]))]);
    assert_eq!(manage.call("com.microsoft:update-disposition", request).await.status(), 410);
    complete(&link, &delivery).await;
}

/// Rules: G-21, S-33, S-34, T-21, T-22, M-21.
#[tokio::test(start_paused = true)]
async fn deferred_messages_are_fetched_by_their_numbers() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c"]).await;
    let mut link = receiver(&session, "orders").await;
    for _ in 0..2 {
        let delivery = receive(&mut link).await;
        settle(&link, &delivery, deferred()).await;
    }
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let fetch = |of: Vec<i64>, mode: Value| fields([("sequence-numbers", numbers(of)), ("receiver-settle-mode", mode)]);
    // One of them is active: nothing is locked.
    let answer = manage.call("com.microsoft:receive-by-sequence-number", fetch(vec![1, 3], 1_u32.into())).await;
    assert_eq!((answer.status(), answer.condition()), (404, Some("com.microsoft:message-not-found")));

    let answer = manage.call("com.microsoft:receive-by-sequence-number", fetch(vec![1], 1_u8.into())).await;
    let fetched = messages(answer.field("messages"));
    let (message, entry) = &fetched[0];
    assert_eq!((body(message), annotation(message, "x-opt-message-state")), ("a", Some(1_i32.into())));
    assert!(annotation(message, "x-opt-locked-until").is_some());
    let Some(Value::Uuid(token)) = entry.get("lock-token").cloned() else { panic!("{entry:?}") };
    let request = fields([("disposition-status", "completed".into()), ("lock-tokens", tokens([token]))]);
    assert_eq!(manage.call("com.microsoft:update-disposition", request).await.status(), 200);

    let answer = manage.call("com.microsoft:receive-by-sequence-number", fetch(vec![2], 0_u32.into())).await;
    let fetched = messages(answer.field("messages"));
    assert_eq!((body(&fetched[0].0), fetched[0].1.get("lock-token")), ("b", None));
    assert_eq!(harness.broker().queue("orders").unwrap().counts().deferred, 0);
}

/// Rules: G-33.
#[tokio::test(start_paused = true)]
async fn messages_are_deleted_in_batches() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c"]).await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let request = fields([("message-count", 2_i32.into())]);
    let answer = manage.call("com.microsoft:batch-delete-messages", request).await;
    assert_eq!((answer.status(), answer.field("message-count")), (200, &2_i32.into()));
    assert_eq!(harness.broker().queue("orders").unwrap().counts().active, 1);
}

/// Rules: G-33.
#[tokio::test(start_paused = true)]
async fn a_session_receiver_deletes_the_messages_of_its_session_alone() {
    let harness = with_messages(&[("a", "one"), ("b", "two"), ("c", "one")]).await;
    let session = harness.session().await;
    let held = session_receiver(&session, "orders", Some("two")).await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    for (id, expected) in [("two", (200, 2)), ("two", (200, 2)), ("one", (410, 2))] {
        let request = fields([("message-count", 10_i32.into()), ("session-id", id.into())]);
        let status = manage.call("com.microsoft:batch-delete-messages", request).await.status();
        assert_eq!((status, harness.broker().queue("orders").unwrap().counts().active), expected, "{id}");
    }
    drop(held);
}

/// Rules: N-13, T-34.
#[tokio::test(start_paused = true)]
async fn a_session_receiver_peeks_its_own_session_and_fetches_its_deferred_messages() {
    let harness = with_messages(&[("a", "one"), ("b", "two"), ("c", "one")]).await;
    let session = harness.session().await;
    let mut link = session_receiver(&session, "orders", Some("one")).await;
    let delivery = receive(&mut link).await;
    settle(&link, &delivery, deferred()).await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let peek = fields([
        ("from-sequence-number", 1_i64.into()),
        ("message-count", 10_i32.into()),
        ("session-id", "one".into()),
    ]);
    let answer = manage.call("com.microsoft:peek-message", peek).await;
    let peeked: Vec<_> =
        messages(answer.field("messages")).iter().map(|(message, _)| body(message).to_owned()).collect();
    assert_eq!(peeked, ["a", "c"]);
    let fetch = fields([
        ("sequence-numbers", numbers([1])),
        ("receiver-settle-mode", 1_u32.into()),
        ("session-id", "one".into()),
    ]);
    let answer = manage.call("com.microsoft:receive-by-sequence-number", fetch).await;
    let (message, entry) = messages(answer.field("messages")).remove(0);
    assert_eq!((body(&message), annotation(&message, "x-opt-locked-until")), ("a", None));
    let Some(Value::Uuid(token)) = entry.get("lock-token").cloned() else { panic!("{entry:?}") };
    let request = fields([
        ("disposition-status", "completed".into()),
        ("lock-tokens", tokens([token])),
        ("session-id", "one".into()),
    ]);
    assert_eq!(manage.call("com.microsoft:update-disposition", request).await.status(), 200);
}

/// Answers of many bytes that the client does not take.
#[tokio::test(start_paused = true)]
async fn answers_that_wait_are_bounded_in_bytes() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["x".repeat(200_000).as_str(); 10]).await;
    let link = sender(&session, "orders/$management").await;
    let mut answers = receiver(&session, "orders/$management").await;
    for _ in 0..20 {
        let mut properties = consign_amqp::message::ApplicationProperties::default();
        properties.push("operation", "com.microsoft:peek-message");
        let body = fields([("message-count", 10_i32.into())]);
        let body = consign_amqp::message::Body::Value(body.into());
        let request = Sections { application_properties: Some(properties), body, ..Sections::default() };
        link.send(encode(&request)).await.unwrap();
    }
    answers.set_credit(20).unwrap();
    let mut bytes = 0;
    let mut busy = 0;
    for _ in 0..20 {
        let delivery = answers.recv().await.unwrap();
        bytes += delivery.payload.len();
        let status = read(delivery).application_properties.unwrap().get("statusCode").cloned();
        busy += u32::from(status == Some(Value::Int(503)));
    }
    assert!((4 << 20..6 << 20).contains(&bytes), "{bytes}");
    assert!(busy > 10, "{busy}");
}

/// More requests than answers that the client takes.
#[tokio::test(start_paused = true)]
async fn answers_wait_for_credit_and_too_many_requests_are_refused() {
    let limits = consign_server::Limits::default().max_requests(3);
    let harness = Harness::with(|builder| builder.limits(limits));
    let session = harness.session().await;
    let link = sender(&session, "orders/$management").await;
    let mut answers = receiver(&session, "orders/$management").await;
    for _ in 0..5 {
        let mut properties = consign_amqp::message::ApplicationProperties::default();
        properties.push("operation", "com.microsoft:peek-message");
        let body = consign_amqp::message::Body::Value(Map::default().into());
        let request = Sections { application_properties: Some(properties), body, ..Sections::default() };
        link.send(encode(&request)).await.unwrap();
    }
    answers.set_credit(10).unwrap();
    let mut statuses = Vec::new();
    for _ in 0..5 {
        let answer = read(answers.recv().await.unwrap());
        statuses.push(answer.application_properties.unwrap().get("statusCode").cloned().unwrap());
    }
    assert_eq!(statuses, [204, 204, 204, 503, 503].map(Value::Int));
}
