//! What the attach of the server announces.

use std::time::Duration;

use consign_amqp::{
    client::{Connection, Options},
    engine,
    message::{Body, Sections},
    types::{Accepted, Attach, AttachTarget, Released, SenderSettleMode, Source, Target, TerminusDurability},
    value::{Binary, Described, Map, Symbol, Value},
};
use consign_core::administration::QueueSettings;

use crate::support::*;

const SIZE: usize = 3 << 20;

async fn with_large_message() -> Harness {
    let harness = Harness::new();
    let settings = QueueSettings::default().max_message_size(4 << 20);
    harness.broker().create_queue("orders", settings).unwrap();
    let session = large_session(&harness, None).await;
    let body = Body::Data(vec![vec![7; SIZE].into()]);
    let large = encode(&Sections { body, ..Sections::default() });
    assert_eq!(sender(&session, "orders").await.send(large).await.unwrap(), Some(accepted()));
    harness
}

/// A session of a client that accepts large messages, whatever its links announce.
async fn large_session(harness: &Harness, properties: Option<Map>) -> consign_amqp::client::Session {
    let engine = engine::Options::default().max_message_size(8 << 20);
    let options = Options::new("client").engine(engine).timeout(LONG);
    let options = properties.into_iter().fold(options, Options::properties);
    Connection::open(harness.stream(), options).await.unwrap().begin().await.unwrap()
}

fn python() -> Map {
    let mut properties = Map::default();
    properties.push(Symbol::from_static("product"), "azsdk-python-servicebus");
    properties
}

/// It announces the size of its frames, and the hosted service sends larger messages all the same.
/// Rules: A-75.
#[tokio::test(start_paused = true)]
async fn the_sdk_for_python_gets_larger_messages_than_it_announces() {
    for mode in [SenderSettleMode::Unsettled, SenderSettleMode::Settled] {
        let harness = with_large_message().await;
        let attach = Attach { max_message_size: Some(1 << 20), snd_settle_mode: mode, ..receiver_attach("orders") };
        let session = large_session(&harness, Some(python())).await;
        let mut link = session.attach_receiver_with(attach.clone()).await.unwrap();
        link.set_credit(1).unwrap();
        // The client of this test obeys its announcement: that it detaches the link shows that the message has come.
        let error = tokio::time::timeout(Duration::from_secs(60), link.recv()).await.unwrap().unwrap_err();
        assert!(error.to_string().contains("larger than 1048576 bytes"), "{error}");
        let counts = harness.broker().queue("orders").unwrap().counts();
        assert_eq!(counts.dead_lettered, 0, "{mode:?}");
    }
}

/// Rules: A-75.
#[tokio::test(start_paused = true)]
async fn another_client_gets_no_larger_message_than_it_announces() {
    let harness = with_large_message().await;
    let session = large_session(&harness, None).await;
    let attach = Attach { max_message_size: Some(1 << 20), ..receiver_attach("orders") };
    let settled = Attach { snd_settle_mode: SenderSettleMode::Settled, ..attach.clone() };
    assert_eq!(refused(session.attach_receiver_with(settled).await), "amqp:link:message-size-exceeded");
    let mut link = session.attach_receiver_with(attach).await.unwrap();
    assert!(drain(&mut link).await.is_empty());
    assert_eq!(harness.broker().queue("orders").unwrap().counts().dead_lettered, 1);
}

/// Rules: A-75.
#[tokio::test(start_paused = true)]
async fn a_link_announces_the_largest_message_that_it_takes() {
    let harness = with_large_message().await;
    let session = large_session(&harness, None).await;
    for (address, size) in [
        ("orders", 4 << 20),
        ("orders/$management", (4 << 20) + (64 << 10)),
        ("other/$management", 1 << 20),
        ("$cbs", 1 << 20),
    ] {
        let link = sender(&session, address).await;
        assert_eq!(link.peer().max_message_size, Some(size), "{address}");
    }
}

/// Of messages of 20 MiB a batch has 1 MiB too.
/// Rules: A-75, T-83.
#[tokio::test(start_paused = true)]
async fn a_sender_learns_the_size_of_the_largest_batch() {
    let harness = Harness::new();
    for (name, size, batch) in [("small", 1 << 18, 1_i64 << 18), ("large", 20 << 20, 1 << 20)] {
        harness.broker().create_queue(name, QueueSettings::default().max_message_size(size)).unwrap();
        let session = harness.session().await;
        let link = sender(&session, name).await;
        let properties = link.peer().properties.clone().unwrap();
        assert_eq!(properties.get("com.microsoft:max-message-batch-size"), Some(&Value::from(batch)), "{name}");
    }
}

/// As large as a message of the entity.
/// Rules: N-10, G-27.
#[tokio::test(start_paused = true)]
async fn the_state_of_a_session_is_larger_than_a_frame_of_the_management_node() {
    let harness = Harness::new();
    let settings = QueueSettings::default().max_message_size(4 << 20).requires_session(true);
    harness.broker().create_queue("orders", settings).unwrap();
    let session = large_session(&harness, None).await;
    let _held = session_receiver(&session, "orders", Some("s")).await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let state = Value::from(Binary(vec![1; SIZE].into()));
    let set = fields([("session-id", "s".into()), ("session-state", state.clone())]);
    assert_eq!(manage.call("com.microsoft:set-session-state", set).await.status(), 200);
    let get = manage.call("com.microsoft:get-session-state", fields([("session-id", "s".into())])).await;
    assert_eq!(get.field("session-state"), &state);
}

/// The name is kept as long as the link.
/// Rules: A-58.
#[tokio::test(start_paused = true)]
async fn the_name_of_a_link_has_a_limit() {
    let harness = Harness::new();
    let session = harness.session().await;
    for (length, allowed) in [(1_024, true), (1_025, false)] {
        let attach = Attach { name: "n".repeat(length).into(), ..receiver_attach("orders") };
        let outcome = session.attach_receiver_with(attach).await;
        if allowed {
            outcome.unwrap();
        } else {
            assert_eq!(refused(outcome), "com.microsoft:argument-error");
        }
    }
}

/// Rules: A-76.
#[tokio::test(start_paused = true)]
async fn the_answer_to_a_receiver_has_what_is_applied() {
    let harness = with_messages(&[("a", "s")]).await;
    let session = harness.session().await;
    let selector = || {
        let descriptor = Symbol::from_static("apache.org:selector-filter:string").into();
        Value::Described(Box::new(Described { descriptor, value: "a = 1".into() }))
    };
    let mut attach = session_attach("orders", Some("s"));
    let source = attach.source.as_mut().unwrap();
    source.filter.as_mut().unwrap().push(Symbol::from_static("selector"), selector());
    source.distribution_mode = Some(Symbol::from_static("move"));
    let link = session.attach_receiver_with(attach).await.unwrap();
    let answered = link.peer().source.clone().unwrap();
    let names: Vec<_> = answered.filter.unwrap().0.iter().map(|(name, _)| name.as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["com.microsoft:session-filter"]);
    assert_eq!(answered.distribution_mode, Some(Symbol::from_static("move")));

    let mut attach = receiver_attach("bills");
    attach.source.as_mut().unwrap().filter =
        Some([(Symbol::from_static("selector").into(), selector())].into_iter().collect());
    let answered = session.attach_receiver_with(attach).await.unwrap().peer().source.clone().unwrap();
    assert_eq!((answered.filter, answered.distribution_mode), (None, None));

    let mut attach = receiver_attach("bills");
    attach.source.as_mut().unwrap().distribution_mode = Some(Symbol::from_static("copy"));
    assert_eq!(refused(session.attach_receiver_with(attach).await), "amqp:not-implemented");
}

/// A delivery that is settled without an outcome is released, and links are not resumed.
/// Rules: A-76.
#[tokio::test(start_paused = true)]
async fn the_answer_has_the_default_outcome_and_the_durability_that_apply() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link_detach = Symbol::from_static("link-detach");
    let mut attach = receiver_attach("bills");
    let source = attach.source.as_mut().unwrap();
    source.default_outcome = Some(Accepted {}.into());
    source.durable = TerminusDurability::UnsettledState;
    source.expiry_policy = Symbol::from_static("never");
    source.timeout = 300;
    let answered = session.attach_receiver_with(attach).await.unwrap().peer().source.clone().unwrap();
    assert_eq!(answered.default_outcome, Some(Released {}.into()));
    assert_eq!((answered.durable, answered.timeout), (TerminusDurability::None, 0));
    assert_eq!(answered.expiry_policy, link_detach);
    let answered = receiver(&session, "bills").await.peer().source.clone().unwrap();
    assert_eq!(answered.default_outcome, None);

    let target = Target {
        address: Some("bills".into()),
        durable: TerminusDurability::Configuration,
        expiry_policy: Symbol::from_static("never"),
        timeout: 300,
        ..Target::default()
    };
    let attach = Attach { name: "durable".into(), target: Some(target.into()), ..Attach::default() };
    let link = session.attach_sender_with(attach).await.unwrap();
    let Some(AttachTarget::Target(answered)) = link.peer().target.clone() else { panic!() };
    assert_eq!((answered.durable, answered.timeout), (TerminusDurability::None, 0));
    assert_eq!(answered.expiry_policy, link_detach);
}

/// Rules: A-76.
#[tokio::test(start_paused = true)]
async fn dynamic_nodes_and_links_without_an_address_are_not_implemented() {
    let harness = Harness::new();
    let session = harness.session().await;
    let source = |address: Option<&str>, dynamic| {
        let mut attach = receiver_attach("");
        attach.source = Some(Box::new(Source { address: address.map(Into::into), dynamic, ..Source::default() }));
        attach
    };
    let target = |address: Option<&str>, dynamic| {
        let target = Target { address: address.map(Into::into), dynamic, ..Target::default() };
        Attach { name: "sender".into(), target: Some(target.into()), ..Attach::default() }
    };
    for (address, dynamic, text) in
        [(None, true, "(dynamic)"), (Some("orders"), true, "(dynamic)"), (None, false, "without an address")]
    {
        let received = session.attach_receiver_with(source(address, dynamic)).await.map(drop).unwrap_err();
        let sent = session.attach_sender_with(target(address, dynamic)).await.map(drop).unwrap_err();
        for error in [received, sent] {
            let reported = error.reported().unwrap();
            assert_eq!(reported.condition, "amqp:not-implemented", "{error}");
            assert!(reported.description.as_ref().unwrap().contains(text), "{error}");
        }
    }
    assert_eq!(harness.broker().entities().len(), 0);
}
