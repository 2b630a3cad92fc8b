use std::time::Duration;

use consign_amqp::{
    client::ReceiverLink,
    types::Attach,
    value::{Array, Binary, Described, Map, Symbol, Timestamp, Value, ValueType},
};
use tokio::time::{Instant, timeout};

use crate::support::*;

fn peer_filter(link: &ReceiverLink) -> Value {
    let filter = link.peer().source.as_ref().unwrap().filter.clone().unwrap();
    filter.get("com.microsoft:session-filter").unwrap().clone()
}

/// Rules: G-50, G-51, G-52, N-03, N-06.
#[tokio::test(start_paused = true)]
async fn a_named_session_is_locked_also_if_it_is_empty() {
    let harness = with_messages(&[("a", "one"), ("b", "two"), ("c", "one")]).await;
    let session = harness.session().await;
    let mut link = session_receiver(&session, "orders", Some("one")).await;
    assert_eq!(peer_filter(&link), "one".into());
    let ticks = (START.as_millis() + 60_000) * 10_000 + 621_355_968_000_000_000;
    let until = link.peer().properties.as_ref().unwrap().get("com.microsoft:locked-until-utc").cloned();
    assert_eq!(until, Some(Value::Long(ticks)));
    let delivery = receive(&mut link).await;
    let sections = decode(delivery.payload.clone().into_bytes());
    assert_eq!((body(&sections), annotation(&sections, "x-opt-locked-until")), ("a", None));
    complete(&link, &delivery).await;
    assert_eq!(text_of(&receive(&mut link).await), "c");
    assert_eq!(peer_filter(&session_receiver(&session, "orders", Some("empty")).await), "empty".into());
    assert_eq!(peer_filter(&session_receiver(&session, "orders", Some("")).await), "".into());
}

/// Rules: G-50, G-51, N-04.
#[tokio::test(start_paused = true)]
async fn the_next_session_is_the_one_with_the_oldest_message() {
    let harness = with_messages(&[("a", "one"), ("b", "two")]).await;
    let session = harness.session().await;
    assert_eq!(peer_filter(&session_receiver(&session, "orders", None).await), "one".into());
    // The described form.
    let mut attach = session_attach("orders", None);
    let descriptor = Value::from(0x13_7000_000c_u64);
    let described = |value| Value::Described(Box::new(Described { descriptor: Value::clone(&descriptor), value }));
    let mut filter = Map::default();
    filter.push(Symbol::from_static("com.microsoft:session-filter"), described(Value::Null));
    attach.source.as_mut().unwrap().filter = Some(filter);
    // The first is free again when its link is dropped.
    let link = session.attach_receiver_with(attach).await.unwrap();
    assert!(["one", "two"].map(|id| described(id.into())).contains(&peer_filter(&link)));
}

fn with_timeout(mut attach: Attach, millis: u32) -> Attach {
    let mut properties = Map::default();
    properties.push(Symbol::from_static("com.microsoft:timeout"), millis);
    attach.properties = Some(properties);
    attach
}

/// Rules: G-53.
#[tokio::test(start_paused = true)]
async fn the_next_session_is_awaited_for_the_timeout_of_the_client() {
    let harness = with_messages(&[]).await;
    let session = harness.session().await;
    let began = Instant::now();
    let attach = with_timeout(session_attach("orders", None), 5_000);
    assert_eq!(refused(session.attach_receiver_with(attach).await), "com.microsoft:timeout");
    assert_eq!(began.elapsed().as_secs(), 5);
    // 65 seconds by default.
    let began = Instant::now();
    let outcome = session.attach_receiver_with(session_attach("orders", None)).await;
    assert_eq!(refused(outcome), "com.microsoft:timeout");
    assert_eq!(began.elapsed().as_secs(), 65);
}

/// Rules: G-53, N-04.
#[tokio::test(start_paused = true)]
async fn a_message_ends_the_wait_for_a_session() {
    let harness = with_messages(&[]).await;
    let session = harness.session().await;
    let waiting = tokio::spawn({
        let session = session.clone();
        async move {
            session.attach_receiver_with(session_attach("orders", None)).await.map(|link| (peer_filter(&link), link))
        }
    });
    tokio::time::sleep(Duration::from_secs(10)).await;
    let link = sender(&session, "orders").await;
    link.send(of_session("a", "late")).await.unwrap();
    let (id, mut link) = waiting.await.unwrap().unwrap();
    assert_eq!(id, "late".into());
    assert_eq!(text_of(&receive(&mut link).await), "a");
}

/// A client that gives up does not keep the session that comes later.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_locks_nothing() {
    let harness = with_messages(&[]).await;
    let session = harness.session().await;
    timeout(Duration::from_secs(1), session.attach_receiver_with(session_attach("orders", None))).await.unwrap_err();
    drop(session);
    let other = harness.session().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let link = sender(&other, "orders").await;
    link.send(of_session("a", "s")).await.unwrap();
    assert_eq!(peer_filter(&session_receiver(&other, "orders", None).await), "s".into());
}

/// Rules: G-54, N-05, N-09.
/// Attacks: 74.
#[tokio::test(start_paused = true)]
async fn a_session_has_one_holder_until_its_link_is_detached() {
    let harness = with_messages(&[("a", "s")]).await;
    let (one, other) = (harness.session().await, harness.session().await);
    let mut link = session_receiver(&one, "orders", Some("s")).await;
    receive(&mut link).await;
    let outcome = other.attach_receiver_with(session_attach("orders", Some("s"))).await;
    assert_eq!(refused(outcome), "com.microsoft:session-cannot-be-locked");
    link.detach().await.unwrap();
    let mut link = session_receiver(&other, "orders", Some("s")).await;
    let again = read(receive(&mut link).await);
    assert_eq!((body(&again), again.header.as_ref().unwrap().delivery_count), ("a", 0));
}

/// Rules: G-50, N-02, V-08.
#[tokio::test(start_paused = true)]
async fn sessions_are_required_where_the_entity_has_them_and_refused_elsewhere() {
    let harness = with_messages(&[]).await;
    let session = harness.session().await;
    assert_eq!(refused(try_receiver(&session, "orders").await), "amqp:not-allowed");
    receiver(&session, "plain").await;
    let outcome = session.attach_receiver_with(session_attach("plain", Some("s"))).await;
    assert_eq!(refused(outcome), "amqp:not-allowed");
    let outcome = sender(&session, "orders").await.send(message("a")).await.unwrap().unwrap();
    assert_eq!(condition_of(&outcome), "amqp:not-allowed");
    // Its dead-letter queue has none.
    receiver(&session, "orders/$deadletterqueue").await;
}

/// Rules: G-26, G-27, G-28, N-10, N-11.
#[tokio::test(start_paused = true)]
async fn the_holder_of_a_session_renews_it_and_has_its_state() {
    let harness = with_messages(&[("a", "s")]).await;
    let session = harness.session().await;
    let link = session_receiver(&session, "orders", Some("s")).await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let id = fields([("session-id", "s".into())]);
    let state = manage.call("com.microsoft:get-session-state", id.clone()).await;
    assert_eq!((state.status(), state.field("session-state")), (200, &Value::Null));
    let set = |state: Value| fields([("session-id", "s".into()), ("session-state", state)]);
    let binary = Value::from(Binary::from(b"state".to_vec()));
    assert_eq!(manage.call("com.microsoft:set-session-state", set(binary.clone())).await.status(), 200);
    assert_eq!(*manage.call("com.microsoft:get-session-state", id.clone()).await.field("session-state"), binary);
    assert_eq!(manage.call("com.microsoft:set-session-state", set(Value::Null)).await.status(), 200);
    assert_eq!(*manage.call("com.microsoft:get-session-state", id.clone()).await.field("session-state"), Value::Null);

    tokio::time::advance(Duration::from_secs(30)).await;
    let renewed = manage.call("com.microsoft:renew-session-lock", id.clone()).await;
    let Value::Timestamp(Timestamp(until)) = renewed.field("expiration") else { panic!("{renewed:?}") };
    assert!((until - START.as_millis() - 90_000).abs() < 1_000, "{until}");

    // Another connection does not hold it, and no connection does when the link is gone.
    let mut other = Requester::attach(&harness.session().await, "orders/$management").await;
    for operation in ["renew-session-lock", "get-session-state"] {
        let answer = other.call(&format!("com.microsoft:{operation}"), id.clone()).await;
        assert_eq!((answer.status(), answer.condition()), (410, Some("com.microsoft:session-lock-lost")));
    }
    link.detach().await.unwrap();
    assert_eq!(manage.call("com.microsoft:renew-session-lock", id).await.status(), 410);
}

/// Rules: N-08, N-11.
#[tokio::test(start_paused = true)]
async fn a_request_of_a_link_that_does_not_hold_the_session_is_refused() {
    let harness = with_messages(&[("a", "s")]).await;
    let session = harness.session().await;
    let attach = || {
        let attach = session_attach("orders", Some("s"));
        (attach.name.clone(), attach)
    };
    let (first, attached) = attach();
    let _first_link = session.attach_receiver_with(attached).await.unwrap();
    let mut manage = Requester::attach(&session, "orders/$management").await;
    tokio::time::advance(Duration::from_secs(61)).await;
    let (second, attached) = attach();
    let _second_link = session.attach_receiver_with(attached).await.unwrap();
    assert_ne!(first, second);
    let id = || ("session-id", Value::from("s"));
    let numbers = Array::new(ValueType::Long, vec![1_i64.into()]).unwrap();
    let requests = [
        ("renew-session-lock", fields([id()]), 200),
        ("get-session-state", fields([id()]), 200),
        ("set-session-state", fields([id(), ("session-state", Value::Null)]), 200),
        ("receive-by-sequence-number", fields([id(), ("sequence-numbers", numbers.into())]), 404),
    ];
    for (operation, body, status) in requests {
        let operation = format!("com.microsoft:{operation}");
        let of = |name: &str| [("associated-link-name", Value::from(name))];
        let answer = manage.call_with(&operation, &of(&first), None, body.clone()).await;
        assert_eq!(
            (answer.status(), answer.condition()),
            (410, Some("com.microsoft:session-lock-lost")),
            "{operation}"
        );
        assert_eq!(manage.call_with(&operation, &of(&second), None, body).await.status(), status, "{operation}");
    }
}

/// Rules: N-08, A-28.
#[tokio::test(start_paused = true)]
async fn a_session_lock_that_runs_out_rejects_settlements() {
    let harness = with_messages(&[("a", "s")]).await;
    let session = harness.session().await;
    let mut link = session_receiver(&session, "orders", Some("s")).await;
    let delivery = receive(&mut link).await;
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(condition_of(&settle(&link, &delivery, accepted()).await), "com.microsoft:session-lock-lost");
}

/// Rules: N-08, G-53.
#[tokio::test(start_paused = true)]
async fn a_link_that_waits_is_detached_when_its_session_lock_runs_out() {
    let harness = with_messages(&[]).await;
    let session = harness.session().await;
    let mut link = session_receiver(&session, "orders", Some("s")).await;
    link.set_credit(1).unwrap();
    let began = Instant::now();
    let error = link.recv().await.unwrap_err();
    assert_eq!(error.condition().unwrap(), "com.microsoft:session-lock-lost");
    assert_eq!(began.elapsed().as_secs(), 60);
    session_receiver(&session, "orders", Some("s")).await;
}

/// Rules: G-29.
#[tokio::test(start_paused = true)]
async fn sessions_are_listed_in_pages() {
    let harness = with_messages(&[("a", "one"), ("b", "two"), ("c", "three")]).await;
    let session = harness.session().await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let page = |skip: i32, top: i32| {
        let never = Timestamp(253_402_300_799_999);
        fields([("last-updated-time", never.into()), ("skip", skip.into()), ("top", top.into())])
    };
    let first = manage.call("com.microsoft:get-message-sessions", page(0, 2)).await;
    let ids = |value: &Value| match value {
        Value::Array(array) => array.iter().map(|id| id.as_str().unwrap().to_owned()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (ids(first.field("sessions-ids")), first.field("skip")),
        (vec!["one".into(), "three".into()], &2_i32.into())
    );
    assert_eq!(ids(manage.call("com.microsoft:get-message-sessions", page(2, 2)).await.field("sessions-ids")), ["two"]);
    assert_eq!(manage.call("com.microsoft:get-message-sessions", page(3, 2)).await.status(), 204);
}

/// Rules: G-29.
#[tokio::test(start_paused = true)]
async fn sessions_are_listed_by_the_time_of_their_state() {
    let harness = with_messages(&[("a", "one"), ("b", "two")]).await;
    let session = harness.session().await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    for id in ["two", "three"] {
        tokio::time::advance(Duration::from_secs(10)).await;
        let _holder = session_receiver(&session, "orders", Some(id)).await;
        let request = fields([("session-id", id.into()), ("session-state", Binary::from(b"s".to_vec()).into())]);
        assert_eq!(manage.call("com.microsoft:set-session-state", request).await.status(), 200);
    }
    let mut since = async |seconds: i64| {
        let time = Timestamp(START.as_millis() + seconds * 1_000);
        let request = fields([("last-updated-time", time.into()), ("skip", 0_i32.into()), ("top", 9_i32.into())]);
        let answer = manage.call("com.microsoft:get-message-sessions", request).await;
        match answer.status() {
            204 => Vec::new(),
            _ => match answer.field("sessions-ids") {
                Value::Array(array) => array.iter().map(|id| id.as_str().unwrap().to_owned()).collect(),
                other => panic!("{other:?}"),
            },
        }
    };
    // One that has messages and no state is never listed.
    assert_eq!(since(0).await, ["three", "two"]);
    assert_eq!(since(10).await, ["three"]);
    assert_eq!(since(20).await, [""; 0]);
}
