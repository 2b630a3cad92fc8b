//! Accepting and listing sessions.

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    transport::{AcceptSession, ErrorKind, ReceiverExt, Sender, Session, Sessions, Transport},
};
use futures_util::future::join;

use super::{InMemory, create, text};

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
