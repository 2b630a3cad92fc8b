//! Accepting and listing sessions.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Quirks},
    settlement::Changes,
    transport::{
        AcceptSession, ErrorKind, Lease, ReceiveError, Receiver, ReceiverExt, Sender, Session, Sessions, Transport,
    },
};
use consign_amqp::{
    engine::Event,
    types::{Error, Role},
    value::{List, Map, Symbol, Value},
};
use consign_servicebus::ServiceBus;
use futures_util::future::join;

use super::{InMemory, WHILE, counts, create, path, text};
use crate::support::{ANY_KEY, stub};

/// Rules: G-29.
#[tokio::test(start_paused = true)]
async fn sessions_with_messages_or_a_state_are_listed() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default().requires_session(true)).await;
    let service_bus = server.connect().await;
    let sender = service_bus.sender(&orders).await.unwrap();
    for id in 0..250 {
        let message = Message::builder().session_id(format!("{id:03}")).build("a").unwrap();
        sender.send(message).await.unwrap();
    }
    let mut sessions = service_bus.sessions(&orders).await.unwrap();
    let session = sessions.accept("with a state").await.unwrap();
    session.set_state(Some(b"1".as_slice().into())).await.unwrap();
    session.close().await.unwrap();
    let mut expected: Vec<_> = (0..250).map(|id| format!("{id:03}")).collect();
    expected.push("with a state".into());
    assert_eq!(sessions.list().await.unwrap(), expected);
}

/// Longer than the server waits for one attach.
/// Rules: K-309, G-53.
#[tokio::test(start_paused = true)]
async fn the_next_session_is_waited_for_without_an_end() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default().requires_session(true)).await;
    let service_bus = server.connect().await;
    let mut sessions = service_bus.sessions(&orders).await.unwrap();
    let later = async {
        tokio::time::sleep(Duration::from_secs(600)).await;
        let message = Message::builder().session_id("one").build("a").unwrap();
        service_bus.sender(&orders).await.unwrap().send(message).await.unwrap();
    };
    let (accepted, ()) = join(sessions.accept_next(), later).await;
    let mut session = accepted.unwrap();
    assert_eq!(text(&session.receive().await.unwrap().message), "a");
    assert_eq!(session.session_id(), "one");
}

/// The server waits for 45 s at a time. The connection is lost in each of these.
/// Rules: K-309.
#[tokio::test(start_paused = true)]
async fn the_next_session_is_waited_for_over_lost_connections() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default().requires_session(true)).await;
    let service_bus = server.connect().await;
    let mut sessions = service_bus.sessions(&orders).await.unwrap();
    let later = async {
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(25)).await;
            service_bus.disconnect().await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(100)).await;
        let message = Message::builder().session_id("one").build("a").unwrap();
        server.connect().await.sender(&orders).await.unwrap().send(message).await.unwrap();
    };
    let (accepted, ()) = join(sessions.accept_next(), later).await;
    assert_eq!(accepted.unwrap().session_id(), "one");
}

/// Rules: K-309.
#[tokio::test(start_paused = true)]
async fn an_accept_that_is_cancelled_leaves_no_lock() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default().requires_session(true)).await;
    let service_bus = server.connect().await;
    let mut sessions = service_bus.sessions(&orders).await.unwrap();
    let error = sessions.accept_next_within(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServiceTimeout);
    let message = Message::builder().session_id("one").build("a").unwrap();
    service_bus.sender(&orders).await.unwrap().send(message).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    sessions.accept("one").await.unwrap().close().await.unwrap();
}

/// All links of a transport share one connection, and the server knows a request by its connection.
/// Rules: N-08, N-11.
#[tokio::test(start_paused = true)]
async fn a_session_whose_lock_is_lost_does_not_use_the_lock_of_the_next_holder_on_the_connection() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default().requires_session(true)).await;
    let service_bus = server.connect().await;
    let message = Message::builder().session_id("one").build("a").unwrap();
    service_bus.sender(&orders).await.unwrap().send(message).await.unwrap();
    let mut sessions = service_bus.sessions(&orders).await.unwrap();
    let mut first = sessions.accept("one").await.unwrap();
    let delivery = first.receive().await.unwrap();
    let number = delivery.message.received().unwrap().sequence_number;
    delivery.lease.settle(Disposition::Defer(Changes::default())).await.unwrap();
    tokio::time::sleep(WHILE).await;
    let mut second = sessions.accept("one").await.unwrap();
    second.set_state(Some(b"second".as_slice().into())).await.unwrap();

    let lost = ErrorKind::SessionLockLost;
    assert_eq!(first.set_state(Some(b"first".as_slice().into())).await.unwrap_err().kind(), lost);
    assert_eq!(first.state().await.unwrap_err().kind(), lost);
    assert_eq!(first.renew().await.unwrap_err().kind(), lost);
    assert_eq!(first.receive_deferred(&[number]).await.unwrap_err().kind(), lost);

    assert_eq!(second.state().await.unwrap().as_deref(), Some(b"second".as_slice()));
    second.renew().await.unwrap();
    let received = second.receive_deferred(&[number]).await.unwrap();
    assert_eq!(text(&received[0].message), "a");
}

/// The server counts what a link holds when it ends.
/// Rules: K-305.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_closed_returns_prefetched_messages_without_a_count() {
    let server = InMemory::with(|clock, builder| {
        builder.broker(Broker::with_quirks(clock, Quirks::default().count_on_disconnect(true))).create_entities(false)
    });
    let orders = create(&server, QueueSettings::default().requires_session(true)).await;
    let service_bus = server.options().prefetch(10).connect(ANY_KEY).await.unwrap();
    let sender = service_bus.sender(&orders).await.unwrap();
    for body in ["a", "b", "c"] {
        sender.send(Message::builder().session_id("one").build(body).unwrap()).await.unwrap();
    }
    let mut sessions = service_bus.sessions(&orders).await.unwrap();
    let mut session = sessions.accept("one").await.unwrap();
    // Without a stop after it, which would release the others.
    let mut first = Vec::new();
    poll_fn(|cx| session.poll_receive(cx, 1, &mut first)).await.unwrap();
    first.remove(0).complete().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(counts(&server, &orders).await, (0, 2));
    session.close().await.unwrap();
    let mut session = sessions.accept("one").await.unwrap();
    for body in ["b", "c"] {
        let delivery = session.receive().await.unwrap();
        let count = delivery.message.received().unwrap().delivery_count;
        assert_eq!((text(&delivery.message), count), (body, 1));
        delivery.complete().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_has_a_thousand_links() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default().requires_session(true)).await;
    let service_bus = server.connect().await;
    let mut sessions = service_bus.sessions(&orders).await.unwrap();
    let mut held = Vec::new();
    for id in 0..1_000 {
        held.push(sessions.accept(&id.to_string()).await.unwrap());
    }
    assert_eq!(server.server.connections(), 1);
}

/// Lists the sessions of a server that always sends the same page. Returns how many pages it has sent.
async fn list(page: usize) -> (Result<Vec<String>, ReceiveError>, usize) {
    let pages = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pages);
    let service_bus = stub::connect(ServiceBus::options(), move |_| {
        let (counted, mut answers) = (Arc::clone(&counted), None);
        move |commands, event| match event {
            Event::AttachRequested { link, ref attach } => {
                if attach.role == Role::Receiver {
                    answers = Some(link);
                }
                Some(event)
            }
            Event::Delivery(request) => {
                // It ends at some time.
                let ids = if counted.fetch_add(1, Ordering::Relaxed) < 20 { page } else { 0 };
                let ids = (0..ids).map(|id| Value::from(format!("{id:03}"))).collect();
                let body = Map::from_iter([("sessions-ids".into(), Value::List(List(ids)))]);
                commands.run(|engine| stub::answer(engine, request, answers.unwrap(), Value::Map(body)));
                None
            }
            event => Some(event),
        }
    });
    let sessions = service_bus.await.sessions(&path("orders")).await.unwrap();
    let before = pages.load(Ordering::Relaxed);
    let listed = sessions.list().await;
    (listed, pages.load(Ordering::Relaxed) - before)
}

/// Rules: G-29.
#[tokio::test(start_paused = true)]
async fn listing_the_sessions_fails_if_the_server_repeats_its_page() {
    let (listed, pages) = list(100).await;
    let error = listed.unwrap_err();
    assert_eq!((error.kind(), pages), (ErrorKind::General, 2), "{error}");
}

/// Rules: G-29.
#[tokio::test(start_paused = true)]
async fn a_short_page_is_the_end_of_the_list_of_sessions() {
    let (listed, pages) = list(3).await;
    assert_eq!((listed.unwrap().len(), pages), (3, 1));
}

/// Rules: K-309.
#[tokio::test(start_paused = true)]
async fn an_accept_that_the_server_ends_early_is_repeated_after_a_pause() {
    let attaches = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attaches);
    let service_bus = stub::connect(ServiceBus::options(), move |_| {
        let counted = Arc::clone(&counted);
        move |commands, event| match event {
            Event::AttachRequested { link, ref attach } if stub::address(attach) == "orders" => {
                // It ends at some time.
                if counted.fetch_add(1, Ordering::Relaxed) < 100 {
                    let error = Error::new(Symbol::from_static("com.microsoft:timeout"), "there is no session");
                    commands.run(|engine| engine.refuse(link, error)).unwrap();
                }
                None
            }
            event => Some(event),
        }
    });
    let mut sessions = service_bus.await.sessions(&path("orders")).await.unwrap();
    let error = sessions.accept_next_within(Duration::from_secs(30)).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::ServiceTimeout, true), "{error}");
    let attaches = attaches.load(Ordering::Relaxed);
    assert!((5..=20).contains(&attaches), "{attaches}");
}
