//! Sessions, with their state.

use std::time::Duration;

use bytes::Bytes;
use consign::{
    Disposition, Message,
    administration::QueueSettings,
    settlement::Changes,
    transport::{AcceptSession, ErrorKind, Lease, ReceiverExt, Session, SessionSource, Sessions},
};

use crate::{Fixture, send, text};

fn of_session(id: &'static str, text: &'static str) -> Message {
    Message::builder().session_id(id).build(text).unwrap()
}

#[tokio::test]
async fn a_session_is_accepted_with_its_messages_and_its_state() {
    let Some(fixture) = Fixture::new().await else { return };
    let queue = fixture.create("orders", QueueSettings::default().requires_session(true)).await;
    let other = fixture.other().await;
    send(&fixture.transport, &queue, [of_session("a", "1"), of_session("b", "2"), of_session("a", "3")]).await;
    let mut sessions = fixture.transport.sessions(&queue).await.unwrap();
    let mut session = sessions.accept("a").await.unwrap();
    assert_eq!((session.session_id(), session.lock_duration()), ("a", Duration::from_secs(60)));
    let error = other.sessions(&queue).await.unwrap().accept("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionCannotBeLocked);

    assert_eq!(session.state().await.unwrap(), None);
    session.set_state(Some(Bytes::from("half"))).await.unwrap();
    let peeked = session.peek(1).await.unwrap();
    assert_eq!(text(peeked.first().unwrap()), b"1");
    assert_eq!(text(session.peek(5).await.unwrap().first().unwrap()), b"3");
    let first = session.receive_within(Duration::from_secs(10)).await.unwrap();
    let number = first.message.received().unwrap().sequence_number;
    first.lease.settle(Disposition::Defer(Changes::default())).await.unwrap();
    let deferred = session.receive_deferred(&[number]).await.unwrap().pop().unwrap();
    assert_eq!(text(&deferred.message), b"1");
    deferred.complete().await.unwrap();
    session.renew().await.unwrap();
    session.close().await.unwrap();

    let session = other.sessions(&queue).await.unwrap().accept("a").await.unwrap();
    assert_eq!(session.state().await.unwrap().as_deref(), Some(&b"half"[..]));
    let mut next = other.sessions(&queue).await.unwrap();
    let next = tokio::time::timeout(Duration::from_secs(10), std::future::poll_fn(|cx| next.poll_accept(cx)));
    assert_eq!(next.await.unwrap().unwrap().session_id(), "b");
    drop(session);
    fixture.end().await;
}

#[tokio::test]
async fn an_entity_without_sessions_has_no_source_of_them() {
    let Some(fixture) = Fixture::new().await else { return };
    let plain = fixture.create("orders", QueueSettings::default()).await;
    let grouped = fixture.create("grouped", QueueSettings::default().requires_session(true)).await;
    for path in [&plain, &grouped.dead_letter()] {
        let error = fixture.transport.sessions(path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOperation, "{path}");
    }
    fixture.end().await;
}
