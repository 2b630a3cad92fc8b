use std::time::Duration;

use consign_amqp::{
    client::{Error, SenderLink, Session},
    engine::OutboundDelivery,
    message::{Body, Sections},
    types::{Attach, Coordinator, Declare, DeliveryState, Discharge, Modified, Source, Target, TransactionalState},
    value::{Array, Binary, List, Map, Symbol, Uuid, ValueType},
};
use consign_broker::Queue;

use crate::support::*;

pub(crate) async fn coordinator(session: &Session) -> SenderLink {
    try_coordinator(session, "coordinator").await.unwrap()
}

pub(crate) async fn try_coordinator(session: &Session, name: &str) -> Result<SenderLink, Error> {
    let attach = Attach {
        name: name.into(),
        source: Some(Box::new(Source::default())),
        target: Some(Coordinator::default().into()),
        ..Attach::default()
    };
    session.attach_sender_with(attach).await
}

pub(crate) fn control(body: &impl consign_amqp::codec::Encode) -> consign_amqp::bytes::Bytes {
    let value = consign_amqp::codec::decode(&consign_amqp::codec::encode(body).unwrap()).unwrap();
    encode(&Sections { body: Body::Value(value), ..Sections::default() })
}

pub(crate) async fn declare(link: &SenderLink) -> Binary {
    match link.send(control(&Declare::default())).await.unwrap() {
        Some(DeliveryState::Declared(declared)) => declared.txn_id,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn discharge(link: &SenderLink, txn_id: &Binary, fail: bool) -> DeliveryState {
    link.send(control(&Discharge { txn_id: txn_id.clone(), fail })).await.unwrap().unwrap()
}

pub(crate) fn within(txn_id: &Binary, outcome: Option<DeliveryState>) -> DeliveryState {
    let outcome = outcome.map(Box::new);
    DeliveryState::Transactional(Box::new(TransactionalState { txn_id: txn_id.clone(), outcome }))
}

pub(crate) async fn send_within(link: &SenderLink, txn_id: &Binary, body: &str) -> DeliveryState {
    let delivery = OutboundDelivery { state: Some(within(txn_id, None)), ..OutboundDelivery::default() };
    link.send_with(delivery, &[message(body)]).await.unwrap().unwrap()
}

/// Rules: T-70, T-71, T-74, A-27.
#[tokio::test(start_paused = true)]
async fn a_transaction_takes_effect_when_it_is_discharged() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let mut receiver = receiver(&session, "orders").await;
    let delivery = receive(&mut receiver).await;
    let (control, link) = (coordinator(&session).await, sender(&session, "orders").await);
    let txn_id = declare(&control).await;
    assert_eq!(send_within(&link, &txn_id, "b").await, within(&txn_id, Some(accepted())));
    let settled = settle(&receiver, &delivery, within(&txn_id, Some(accepted()))).await;
    assert_eq!(settled, within(&txn_id, Some(accepted())));
    let queue = harness.broker().queue("orders").unwrap();
    assert_eq!((queue.counts().active, queue.counts().locked), (0, 1));
    assert_eq!(discharge(&control, &txn_id, false).await, accepted());
    assert_eq!((queue.counts().active, queue.counts().locked), (1, 0));
    assert_eq!(text_of(&receive(&mut receiver).await), "b");
    // It is discharged.
    let state = discharge(&control, &txn_id, false).await;
    assert_eq!(condition_of(&state), "amqp:transaction:unknown-id");
    let DeliveryState::Transactional(state) = send_within(&link, &txn_id, "c").await else { panic!() };
    assert_eq!(condition_of(&state.outcome.unwrap()), "amqp:transaction:unknown-id");
}

/// Rules: T-71, T-74.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_rolled_back_has_no_effect_and_keeps_the_locks() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let mut receiver = receiver(&session, "orders").await;
    let delivery = receive(&mut receiver).await;
    let (control, link) = (coordinator(&session).await, sender(&session, "orders").await);
    let txn_id = declare(&control).await;
    send_within(&link, &txn_id, "b").await;
    settle(&receiver, &delivery, within(&txn_id, Some(accepted()))).await;
    assert_eq!(discharge(&control, &txn_id, true).await, accepted());
    let queue = harness.broker().queue("orders").unwrap();
    assert_eq!((queue.counts().active, queue.counts().locked), (0, 1));
    // It is settled by its token.
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let tokens = Array::new(ValueType::Uuid, vec![token(&delivery).into()]).unwrap();
    let request = fields([("disposition-status", "completed".into()), ("lock-tokens", tokens.into())]);
    assert_eq!(manage.call("com.microsoft:update-disposition", request).await.status(), 200);
    assert_eq!((queue.counts().active, queue.counts().locked), (0, 0));
}

/// Rules: T-70.
#[tokio::test(start_paused = true)]
async fn dispositions_of_management_are_part_of_a_transaction() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let mut receiver = receiver(&session, "orders").await;
    let delivery = receive(&mut receiver).await;
    let control = coordinator(&session).await;
    let txn_id = declare(&control).await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let tokens = Array::new(ValueType::Uuid, vec![token(&delivery).into()]).unwrap();
    let request = fields([("disposition-status", "completed".into()), ("lock-tokens", tokens.into())]);
    let operation = "com.microsoft:update-disposition";
    let answer = manage.call_with(operation, &[], Some(within(&txn_id, None)), request).await;
    assert_eq!(answer.status(), 200);
    let queue = harness.broker().queue("orders").unwrap();
    assert_eq!(queue.counts().locked, 1);
    assert_eq!(discharge(&control, &txn_id, false).await, accepted());
    assert_eq!(queue.counts().locked, 0);
}

/// Rules: T-70, G-23.
#[tokio::test(start_paused = true)]
async fn messages_are_scheduled_in_a_transaction() {
    use consign_amqp::value::Timestamp;

    let harness = Harness::new();
    let session = harness.session().await;
    let control = coordinator(&session).await;
    let txn_id = declare(&control).await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let later = annotated("later", "x-opt-scheduled-enqueue-time", Timestamp(START.as_millis() + 10_000));
    let list = List(vec![fields([("message", Binary(later).into())]).into()]);
    let request = fields([("messages", list.into())]);
    let state = Some(within(&txn_id, None));
    let answer = manage.call_with("com.microsoft:schedule-message", &[], state, request).await;
    let first = Array::new(ValueType::Long, vec![1_i64.into()]).unwrap();
    assert_eq!((answer.status(), answer.field("sequence-numbers")), (200, &first.clone().into()));
    let queue = harness.broker().queue("orders").unwrap();
    assert_eq!(queue.counts().scheduled, 0);
    // No other message has the number.
    send(&session, "orders", &["between"]).await;
    assert_eq!(discharge(&control, &txn_id, false).await, accepted());
    assert_eq!(queue.counts().scheduled, 1);
    let cancel = fields([("sequence-numbers", first.into())]);
    assert_eq!(manage.call("com.microsoft:cancel-scheduled-message", cancel).await.status(), 200);
    assert_eq!((queue.counts().scheduled, queue.counts().active), (0, 1));
}

/// Rules: T-75.
#[tokio::test(start_paused = true)]
async fn a_control_link_that_is_detached_rolls_back() {
    let harness = Harness::new();
    let session = harness.session().await;
    let (control, link) = (coordinator(&session).await, sender(&session, "orders").await);
    let txn_id = declare(&control).await;
    send_within(&link, &txn_id, "a").await;
    control.detach().await.unwrap();
    let again = coordinator(&session).await;
    assert_eq!(condition_of(&discharge(&again, &txn_id, false).await), "amqp:transaction:unknown-id");
    assert_eq!(harness.broker().queue("orders").unwrap().counts().active, 0);
}

/// Rules: T-72.
#[tokio::test(start_paused = true)]
async fn a_transaction_runs_out_after_two_minutes() {
    let harness = Harness::new();
    let session = harness.session().await;
    let (control, link) = (coordinator(&session).await, sender(&session, "orders").await);
    let txn_id = declare(&control).await;
    send_within(&link, &txn_id, "a").await;
    tokio::time::sleep(Duration::from_secs(121)).await;
    assert_eq!(condition_of(&discharge(&control, &txn_id, false).await), "amqp:transaction:unknown-id");
    assert_eq!(harness.broker().queue("orders").unwrap().counts().active, 0);
}

/// Rules: T-73.
#[tokio::test(start_paused = true)]
async fn a_transaction_has_at_most_100_messages_and_is_rolled_back_beyond() {
    let harness = Harness::new();
    let session = harness.session().await;
    let (control, link) = (coordinator(&session).await, sender(&session, "orders").await);
    let txn_id = declare(&control).await;
    for nth in 0..100 {
        assert_eq!(send_within(&link, &txn_id, &nth.to_string()).await, within(&txn_id, Some(accepted())));
    }
    let DeliveryState::Transactional(state) = send_within(&link, &txn_id, "more").await else { panic!() };
    assert_eq!(condition_of(&state.outcome.unwrap()), "amqp:resource-limit-exceeded");
    assert_eq!(condition_of(&discharge(&control, &txn_id, false).await), "amqp:transaction:rollback");
    assert_eq!(harness.broker().queue("orders").unwrap().counts().active, 0);
}

/// Whatever the reason of the refusal: the client would take the rest for the whole transaction.
/// Rules: T-74, A-27.
#[tokio::test(start_paused = true)]
async fn a_transaction_with_a_refused_transfer_or_settlement_is_rolled_back() {
    let harness = Harness::new();
    let session = harness.session().await;
    let queue = with_message(&harness, &session).await;
    let mut receiver = receiver(&session, "orders").await;
    let (control, link) = (coordinator(&session).await, sender(&session, "orders").await);

    let txn_id = begun(&control, &link).await;
    let delivery = OutboundDelivery { state: Some(within(&txn_id, None)), ..OutboundDelivery::default() };
    let answer = link.send_with(delivery, &[consign_amqp::bytes::Bytes::from_static(b"\x00\x53")]).await.unwrap();
    let Some(DeliveryState::Transactional(state)) = answer else { panic!("{answer:?}") };
    assert_eq!(condition_of(&state.outcome.unwrap()), "amqp:decode-error");
    assert_eq!(state.txn_id, txn_id);
    rolled_back(&control, &txn_id).await;

    let mut unreadable = Map::default();
    unreadable.push(Symbol::from_static("k"), List(vec![1.into()]));
    let unreadable = Modified { message_annotations: Some(unreadable), ..Modified::default() };
    for outcome in [DeliveryState::Modified(unreadable), released()] {
        let txn_id = begun(&control, &link).await;
        let delivery = receive(&mut receiver).await;
        let answer = settle(&receiver, &delivery, within(&txn_id, Some(outcome))).await;
        assert!(matches!(answer, DeliveryState::Rejected(_)), "{answer:?}");
        rolled_back(&control, &txn_id).await;
        // The lock is kept until it runs out.
        tokio::time::advance(Duration::from_secs(61)).await;
    }

    let txn_id = begun(&control, &link).await;
    let delivery = receive(&mut receiver).await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let completed = disposition("completed", token(&delivery));
    assert_eq!(manage.call("com.microsoft:update-disposition", completed).await.status(), 200);
    let answer = settle(&receiver, &delivery, within(&txn_id, Some(accepted()))).await;
    assert_eq!(condition_of(&answer), "com.microsoft:message-lock-lost");
    rolled_back(&control, &txn_id).await;
    assert_eq!((queue.counts().active, queue.counts().locked), (0, 0));
}

/// Rules: G-24.
#[tokio::test(start_paused = true)]
async fn the_state_of_a_session_is_not_set_in_a_transaction() {
    let harness = with_messages(&[("a", "one")]).await;
    let session = harness.session().await;
    let _link = session_receiver(&session, "orders", Some("one")).await;
    let control = coordinator(&session).await;
    let txn_id = declare(&control).await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let set = fields([("session-id", "one".into()), ("session-state", Binary("new".into()).into())]);
    let within = Some(within(&txn_id, None));
    let answer = manage.call_with("com.microsoft:set-session-state", &[], within, set).await;
    assert_eq!(answer.condition(), Some("amqp:not-allowed"));
    let get = fields([("session-id", "one".into())]);
    let state = manage.call_with("com.microsoft:get-session-state", &[], None, get).await;
    assert_eq!(state.field("session-state"), &consign_amqp::value::Value::Null);
}

/// Rules: T-74.
#[tokio::test(start_paused = true)]
async fn a_transaction_with_a_refused_request_is_rolled_back() {
    let harness = Harness::new();
    let session = harness.session().await;
    let queue = with_message(&harness, &session).await;
    let (control, link) = (coordinator(&session).await, sender(&session, "orders").await);
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let message = fields([("message", Binary(message("later")).into())]);
    let numbers = List(vec![1_i64.into()]);
    let received_and_deleted = fields([("sequence-numbers", numbers.into()), ("receiver-settle-mode", 0_u32.into())]);
    for (operation, request) in [
        ("update-disposition", disposition("completed", Uuid([1; 16]))),
        ("update-disposition", disposition("other", Uuid([1; 16]))),
        ("update-disposition", Map::default()),
        ("schedule-message", fields([("messages", List(vec![message.into()]).into())])),
        ("cancel-scheduled-message", fields([("sequence-numbers", List(vec![1_i64.into()]).into())])),
        ("set-session-state", fields([("session-id", "s".into())])),
        ("batch-delete-messages", fields([("message-count", 1_i32.into())])),
        ("receive-by-sequence-number", received_and_deleted.clone()),
        ("add-rule", fields([("rule-name", "all".into())])),
        ("remove-rule", fields([("rule-name", "all".into())])),
        ("other", Map::default()),
    ] {
        let txn_id = begun(&control, &link).await;
        let operation = format!("com.microsoft:{operation}");
        let answer = manage.call_with(&operation, &[], Some(within(&txn_id, None)), request).await;
        assert!(answer.status() >= 400, "{operation}");
        rolled_back(&control, &txn_id).await;
    }
    assert_eq!((queue.counts().active, queue.counts().locked), (1, 0));
}

async fn with_message(harness: &Harness, session: &Session) -> Queue {
    send(session, "orders", &["a"]).await;
    harness.broker().queue("orders").expect("it was created")
}

/// A transaction that sends a message.
async fn begun(control: &SenderLink, link: &SenderLink) -> Binary {
    let txn_id = declare(control).await;
    assert_eq!(send_within(link, &txn_id, "b").await, within(&txn_id, Some(accepted())));
    txn_id
}

async fn rolled_back(control: &SenderLink, txn_id: &Binary) {
    assert_eq!(condition_of(&discharge(control, txn_id, false).await), "amqp:transaction:rollback");
}

fn disposition(status: &str, token: Uuid) -> Map {
    let tokens = Array::new(ValueType::Uuid, vec![token.into()]).expect("UUIDs");
    fields([("disposition-status", status.into()), ("lock-tokens", tokens.into())])
}

/// Rules: T-76.
#[tokio::test(start_paused = true)]
async fn a_transaction_is_on_one_entity_unless_it_sends_via_it() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    send(&session, "bills", &[]).await;
    let mut receiver = receiver(&session, "orders").await;
    let delivery = receive(&mut receiver).await;
    let control = coordinator(&session).await;
    let txn_id = declare(&control).await;
    settle(&receiver, &delivery, within(&txn_id, Some(accepted()))).await;
    let other = sender(&session, "bills").await;
    let DeliveryState::Transactional(state) = send_within(&other, &txn_id, "b").await else { panic!() };
    assert_eq!(condition_of(&state.outcome.unwrap()), "amqp:not-allowed");
    assert_eq!(condition_of(&discharge(&control, &txn_id, false).await), "amqp:transaction:rollback");

    // Its lock has been kept until it runs out.
    tokio::time::advance(Duration::from_secs(61)).await;
    let delivery = receive(&mut receiver).await;
    let txn_id = declare(&control).await;
    settle(&receiver, &delivery, within(&txn_id, Some(accepted()))).await;
    let mut properties = Map::default();
    properties.push(Symbol::from_static("com.microsoft:transfer-destination-address"), "bills");
    let via = Attach {
        name: "via".into(),
        source: Some(Box::new(Source::default())),
        target: Some(Target { address: Some("orders".into()), ..Target::default() }.into()),
        properties: Some(properties),
        ..Attach::default()
    };
    let via = session.attach_sender_with(via).await.unwrap();
    let destination =
        via.peer().properties.as_ref().and_then(|sent| sent.get("com.microsoft:transfer-destination-address"));
    assert_eq!(destination, Some(&"bills".into()));
    assert_eq!(send_within(&via, &txn_id, "bill").await, within(&txn_id, Some(accepted())));
    assert_eq!(discharge(&control, &txn_id, false).await, accepted());
    let counts = |name| harness.broker().queue(name).unwrap().counts();
    assert_eq!((counts("orders").locked, counts("orders").active, counts("bills").active), (0, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn transactions_of_a_connection_are_bounded() {
    let limits = consign_server::Limits::default().max_transactions(2);
    let harness = Harness::with(|builder| builder.limits(limits));
    let session = harness.session().await;
    let control = coordinator(&session).await;
    let first = declare(&control).await;
    declare(&control).await;
    let refused = control.send(crate::transactions::control(&Declare::default())).await.unwrap().unwrap();
    assert_eq!(condition_of(&refused), "amqp:resource-limit-exceeded");
    assert_eq!(discharge(&control, &first, true).await, accepted());
    declare(&control).await;
}
