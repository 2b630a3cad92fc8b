//! Requests to nodes: their limits, and what a refusal leaves.

use std::time::Duration;

use consign_amqp::{
    bytes::Bytes,
    frame::{Frame, ProtocolHeader},
    message::{ApplicationProperties, Body, MessageId, Properties, Sections},
    types::{Attach, Begin, Open, Performative, Role, Source, Target, Transfer},
    value::{Binary, List, Map, Uuid, Value},
};
use consign_broker::Queue;
use consign_core::administration::{QueueSettings, Status};
use consign_server::{
    Limits,
    auth::{Rights, SharedAccessKey, SharedAccessKeys},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{management::*, support::*, transactions::*};

pub(crate) fn peek(id: Option<MessageId>) -> Bytes {
    let mut properties = ApplicationProperties::default();
    properties.push("operation", "com.microsoft:peek-message");
    encode(&Sections {
        properties: Some(Properties { message_id: id, ..Properties::default() }),
        application_properties: Some(properties),
        body: Body::Value(Map::default().into()),
        ..Sections::default()
    })
}

fn queue(harness: &Harness) -> Queue {
    harness.broker().queue("orders").unwrap()
}

/// Rules: A-58, G-15.
/// Attacks: 87.
#[tokio::test(start_paused = true)]
async fn a_client_that_takes_no_answers_gets_no_credit_for_requests() {
    let limits = Limits::default().max_requests(2).sender_credit(2);
    let harness = Harness::with(|builder| builder.limits(limits));
    let session = harness.session().await;
    let link = sender(&session, "orders/$management").await;
    let mut answers = receiver(&session, "orders/$management").await;
    let mut sent = 0;
    while tokio::time::timeout(Duration::from_secs(1), link.send(peek(None))).await.is_ok() {
        sent += 1;
        assert!(sent < 10);
    }
    answers.set_credit(10).unwrap();
    for _ in 0..sent {
        answers.recv().await.unwrap();
    }
    // The request that had no credit, and further ones.
    link.send(peek(None)).await.unwrap();
    link.send(peek(None)).await.unwrap();
    answers.recv().await.unwrap();
}

/// Rules: A-58, G-15.
/// Attacks: 87.
#[tokio::test(start_paused = true)]
async fn twice_as_many_requests_as_are_answered_detach_their_link() {
    let harness = Harness::with(|builder| builder.limits(Limits::default().max_requests(3)));
    let session = harness.session().await;
    let link = sender(&session, "orders/$management").await;
    let mut answers = receiver(&session, "orders/$management").await;
    for _ in 0..6 {
        assert_eq!(link.send(peek(None)).await.unwrap(), Some(accepted()));
    }
    let error = link.send(peek(None)).await.unwrap_err();
    assert_eq!(error.condition().unwrap(), "amqp:resource-limit-exceeded");
    answers.set_credit(10).unwrap();
    for _ in 0..6 {
        answers.recv().await.unwrap();
    }
}

/// The first request of a connection, a token too, is not one too many.
/// Rules: G-15.
#[tokio::test(start_paused = true)]
async fn a_limit_of_no_requests_is_one_of_one() {
    let harness = Harness::with(|builder| builder.limits(Limits::default().max_requests(0)));
    let session = harness.session().await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    for _ in 0..3 {
        assert_eq!(manage.call("com.microsoft:peek-message", Map::default()).await.status(), 204);
    }
}

/// Rules: G-15.
#[tokio::test(start_paused = true)]
async fn the_id_of_a_request_has_a_limit() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders/$management").await;
    for (id, accepts) in [
        (MessageId::String("x".repeat(1_024).into()), true),
        (MessageId::String("x".repeat(1_025).into()), false),
        (MessageId::Binary(vec![1; 1_025].into()), false),
    ] {
        let state = link.send(peek(Some(id))).await.unwrap().unwrap();
        if accepts {
            assert_eq!(state, accepted());
        } else {
            assert_eq!(condition_of(&state), "com.microsoft:argument-error");
        }
    }
}

/// Rules: A-58.
/// Attacks: 87, 88.
#[tokio::test(start_paused = true)]
async fn a_client_without_a_token_sends_2_mib_of_incomplete_deliveries_at_most() {
    let keys = SharedAccessKeys::new([SharedAccessKey::new("key", "secret", Rights::MANAGE)]);
    let harness = Harness::with(|builder| builder.authorizer(keys));
    let stream = harness.stream();
    let mut bytes = ProtocolHeader::Amqp.to_bytes().to_vec();
    let mut write = |performative: Performative, payload: &[u8]| {
        Frame::encode(0, &performative, payload, &mut bytes).unwrap();
    };
    write(Open { container_id: "client".into(), ..Open::default() }.into(), b"");
    write(Begin { incoming_window: 5_000, outgoing_window: 5_000, ..Begin::default() }.into(), b"");
    for handle in 0..3 {
        let attach = Attach {
            name: handle.to_string().into(),
            handle,
            role: Role::Sender,
            source: Some(Box::new(Source::default())),
            target: Some(Target { address: Some("$cbs".into()), ..Target::default() }.into()),
            initial_delivery_count: Some(0),
            ..Attach::default()
        };
        write(attach.into(), b"");
    }
    let part = vec![0; 60_000];
    for handle in 0..3_u32 {
        for nth in 0..15 {
            let delivery_id = (nth == 0).then_some(handle);
            write(Transfer { handle, delivery_id, more: true, ..Transfer::default() }.into(), &part);
        }
    }
    let (mut input, mut output) = tokio::io::split(stream);
    let writing = tokio::spawn(async move { output.write_all(&bytes).await.map(|()| output) });
    let mut read = Vec::new();
    let condition = b"amqp:resource-limit-exceeded";
    while !read.windows(condition.len()).any(|window| window == condition) {
        let mut buffer = [0; 4_096];
        let count = tokio::time::timeout(Duration::from_secs(5), input.read(&mut buffer)).await;
        let count = count.expect("the third link is detached").unwrap();
        assert!(count > 0);
        read.extend_from_slice(&buffer[..count]);
    }
    drop(writing.await.unwrap());
}

/// Rules: A-58.
#[tokio::test(start_paused = true)]
async fn a_connection_has_few_links_of_cbs() {
    let harness = Harness::new();
    let session = harness.session().await;
    let mut links = Vec::new();
    for _ in 0..32 {
        links.push(sender(&session, "$cbs").await);
    }
    assert_eq!(refused(try_sender(&session, "$cbs").await), "amqp:resource-limit-exceeded");
    assert_eq!(refused(try_receiver(&session, "$cbs").await), "amqp:resource-limit-exceeded");
    links.pop().unwrap().detach().await.unwrap();
    try_sender(&session, "$cbs").await.unwrap();
}

/// A queue with deferred messages of this size.
async fn with_deferred(count: usize, size: usize) -> (Harness, Value) {
    let harness = Harness::new();
    let settings = QueueSettings::default().max_message_size(8 << 20);
    harness.broker().create_queue("orders", settings).unwrap();
    let large = consign_amqp::engine::Options::default().max_message_size(8 << 20);
    let session = harness.try_connect(large).await.unwrap().begin().await.unwrap();
    let body = "x".repeat(size);
    send(&session, "orders", &vec![body.as_str(); count]).await;
    let mut link = receiver(&session, "orders").await;
    for _ in 0..count {
        let delivery = receive(&mut link).await;
        settle(&link, &delivery, deferred()).await;
    }
    (harness, numbers(1..=i64::try_from(count).unwrap()))
}

fn fetch(numbers: Value, mode: u32) -> Map {
    fields([("sequence-numbers", numbers), ("receiver-settle-mode", mode.into())])
}

const FETCH: &str = "com.microsoft:receive-by-sequence-number";

/// Rules: G-21.
#[tokio::test(start_paused = true)]
async fn deferred_messages_of_one_answer_have_a_size() {
    let (harness, all) = with_deferred(5, 1 << 20).await;
    let large = consign_amqp::engine::Options::default().max_message_size(8 << 20);
    let session = harness.try_connect(large).await.unwrap().begin().await.unwrap();
    let mut manage = Requester::attach(&session, "orders/$management").await;
    for mode in [0, 1] {
        let answer = manage.call(FETCH, fetch(all.clone(), mode)).await;
        assert_eq!((answer.status(), answer.condition()), (403, Some("amqp:link:message-size-exceeded")));
        assert_eq!((queue(&harness).counts().deferred, queue(&harness).counts().locked), (5, 0));
    }
    let answer = manage.call(FETCH, fetch(numbers([1, 2, 3]), 0)).await;
    assert_eq!(messages(answer.field("messages")).len(), 3);
    assert_eq!(queue(&harness).counts().deferred, 2);
}

/// In receive-and-delete mode the messages would be lost.
/// Rules: G-21.
#[tokio::test(start_paused = true)]
async fn deferred_messages_that_the_client_does_not_accept_stay() {
    let (harness, all) = with_deferred(2, 3_000).await;
    let small = consign_amqp::engine::Options::default().max_message_size(8_000);
    let session = harness.try_connect(small).await.unwrap().begin().await.unwrap();
    let mut manage = Requester::attach(&session, "orders/$management").await;
    for mode in [0, 1] {
        let answer = manage.call(FETCH, fetch(all.clone(), mode)).await;
        assert_eq!((answer.status(), answer.condition()), (403, Some("amqp:link:message-size-exceeded")));
        assert_eq!((queue(&harness).counts().deferred, queue(&harness).counts().locked), (2, 0));
    }
    // A request without a link for its answer.
    let session = harness.session().await;
    let link = sender(&session, "orders/$management").await;
    let mut properties = ApplicationProperties::default();
    properties.push("operation", FETCH);
    let body = Body::Value(fetch(all, 0).into());
    let request = Sections { application_properties: Some(properties), body, ..Sections::default() };
    link.send(encode(&request)).await.unwrap();
    assert_eq!(queue(&harness).counts().deferred, 2);
}

const UPDATE: &str = "com.microsoft:update-disposition";

fn update(status: &str, of: impl IntoIterator<Item = Uuid>) -> Map {
    fields([("disposition-status", status.into()), ("lock-tokens", tokens(of))])
}

/// Rules: G-25, T-73.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_refuses_settlements_leaves_their_locks() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c"]).await;
    let mut link = receiver(&session, "orders").await;
    let held = [receive(&mut link).await, receive(&mut link).await, receive(&mut link).await];
    let all = [0, 1, 2].map(|nth| token(&held[nth]));
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let unknown = Some(within(&Binary::from(vec![1; 16]), None));
    let answer = manage.call_with(UPDATE, &[], unknown, update("completed", all)).await;
    assert_eq!((answer.status(), answer.condition()), (400, Some("amqp:transaction:unknown-id")));
    let answer = manage.call(UPDATE, update("completed", [all[0], all[1], all[0]])).await;
    assert_eq!((answer.status(), answer.condition()), (400, Some("com.microsoft:argument-error")));

    let control = coordinator(&session).await;
    let other = sender(&session, "orders").await;
    let txn_id = declare(&control).await;
    for nth in 0..99 {
        send_within(&other, &txn_id, &nth.to_string()).await;
    }
    let answer = manage.call_with(UPDATE, &[], Some(within(&txn_id, None)), update("completed", all)).await;
    assert_eq!((answer.status(), answer.condition()), (403, Some("amqp:resource-limit-exceeded")));
    assert_eq!(condition_of(&discharge(&control, &txn_id, false).await), "amqp:transaction:rollback");
    assert_eq!(queue(&harness).counts().locked, 3);
    assert_eq!(manage.call(UPDATE, update("completed", all)).await.status(), 200);
    assert_eq!((queue(&harness).counts().locked, queue(&harness).counts().active), (0, 0));
}

/// Rules: G-20, G-25.
#[tokio::test(start_paused = true)]
async fn a_lock_that_has_run_out_refuses_the_whole_request() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b"]).await;
    let mut link = receiver(&session, "orders").await;
    let old = receive(&mut link).await;
    tokio::time::advance(Duration::from_secs(40)).await;
    let young = receive(&mut link).await;
    tokio::time::advance(Duration::from_secs(30)).await;
    let all = [token(&young), token(&old)];
    let mut manage = Requester::attach(&session, "orders/$management").await;
    for (operation, request) in
        [("com.microsoft:renew-lock", fields([("lock-tokens", tokens(all))])), (UPDATE, update("completed", all))]
    {
        let answer = manage.call(operation, request).await;
        assert_eq!((answer.status(), answer.condition()), (410, Some("com.microsoft:message-lock-lost")));
    }
    // Neither settled nor renewed.
    assert_eq!((queue(&harness).counts().locked, queue(&harness).counts().active), (1, 1));
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!(queue(&harness).counts().locked, 0);
}

/// By its link, or by its token: the client settles it once more by the token.
/// Rules: S-11, S-41.
#[tokio::test(start_paused = true)]
async fn a_refused_settlement_leaves_the_lock() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c"]).await;
    let mut link = receiver(&session, "orders").await;
    for _ in 0..2 {
        let delivery = receive(&mut link).await;
        settle(&link, &delivery, rejected(None)).await;
    }
    let mut dead = receiver(&session, "orders/$deadletterqueue").await;
    let mut manage = Requester::attach(&session, "orders/$deadletterqueue/$management").await;
    let (one, other) = (receive(&mut dead).await, receive(&mut dead).await);
    assert_eq!(condition_of(&settle(&dead, &one, rejected(None)).await), "amqp:not-allowed");
    let answer = manage.call(UPDATE, update("suspended", [token(&other)])).await;
    assert_eq!(answer.condition(), Some("amqp:not-allowed"));
    assert_eq!(manage.call(UPDATE, update("completed", [token(&one), token(&other)])).await.status(), 200);
    assert_eq!(queue(&harness).counts().dead_lettered, 0);

    let delivery = receive(&mut link).await;
    let status = |status| harness.broker().update_queue("orders", QueueSettings::default().status(status)).unwrap();
    status(Status::ReceiveDisabled);
    assert_eq!(condition_of(&settle(&link, &delivery, accepted()).await), "com.microsoft:entity-disabled");
    status(Status::Active);
    let mut manage = Requester::attach(&session, "orders/$management").await;
    assert_eq!(manage.call(UPDATE, update("completed", [token(&delivery)])).await.status(), 200);
    assert_eq!((queue(&harness).counts().active, queue(&harness).counts().locked), (0, 0));
}

/// Rules: G-23.
#[tokio::test(start_paused = true)]
async fn messages_with_several_times_are_scheduled_together_or_not() {
    let harness = Harness::new();
    let session = harness.session().await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let at = START.as_millis() + 10_000;
    let list = List(vec![scheduled("a", at), scheduled(&"x".repeat(300_000), at + 1)]);
    let answer = manage.call("com.microsoft:schedule-message", fields([("messages", list.into())])).await;
    assert_eq!(answer.condition(), Some("amqp:link:message-size-exceeded"));
    assert_eq!(queue(&harness).counts().scheduled, 0);
}

/// Rules: T-250.
/// Attacks: 87.
#[tokio::test(start_paused = true)]
async fn the_transactions_of_a_connection_have_a_size_together() {
    let harness = Harness::with(|builder| builder.limits(Limits::default().max_transaction_bytes(10_000)));
    let session = harness.session().await;
    let (control, link) = (coordinator(&session).await, sender(&session, "orders").await);
    let (first, second) = (declare(&control).await, declare(&control).await);
    let body = "x".repeat(6_000);
    assert_eq!(send_within(&link, &first, &body).await, within(&first, Some(accepted())));
    let consign_amqp::types::DeliveryState::Transactional(state) = send_within(&link, &second, &body).await else {
        panic!()
    };
    assert_eq!(condition_of(&state.outcome.unwrap()), "amqp:resource-limit-exceeded");
    assert_eq!(condition_of(&discharge(&control, &second, false).await), "amqp:transaction:rollback");
    assert_eq!(discharge(&control, &first, false).await, accepted());
    let third = declare(&control).await;
    assert_eq!(send_within(&link, &third, &body).await, within(&third, Some(accepted())));
    assert_eq!(discharge(&control, &third, false).await, accepted());
    assert_eq!(queue(&harness).counts().active, 2);
}
