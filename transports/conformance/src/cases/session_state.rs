//! K-26: the state of a session.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use consign::{
    consumer::{SessionConsumer, SessionHandle},
    transport::{ReceiveError, Session, SessionSource},
};
use tokio::{sync::Notify, time::timeout};
use tower::{BoxError, service_fn};

use super::{prelude::*, sessions::by_session};

cases! {
    SessionState:
        /// Rules: N-10.
        there_is_no_state_at_first [Sessions],
        /// Rules: N-10.
        the_state_is_what_was_set [Sessions],
        /// Rules: N-10.
        the_state_outlives_its_holder [Sessions],
        /// Rules: N-10.
        the_state_can_be_cleared [Sessions],
        /// Rules: N-10.
        each_session_has_its_own [Sessions],
        /// Rules: N-10.
        messages_do_not_touch_the_state [Sessions],
        /// Rules: N-11.
        the_state_needs_the_lock [LockDuration, LockFencing, Sessions],
        /// Rules: N-15.
        a_handler_has_the_state_of_its_session [Sessions];
}

async fn session(bench: &Bench<'_>, queue: &EntityPath, id: &str) -> Result<DynSession, Failure> {
    bench.accept_session(queue, id).await
}

/// Sets the state of session `one` by a holder that then closes it.
async fn set(bench: &Bench<'_>, queue: &EntityPath, state: Option<&'static [u8]>) -> Verdict {
    let session = session(bench, queue, "one").await?;
    session.set_state(state.map(Bytes::from_static)).await?;
    Ok(session.close().await?)
}

async fn get(bench: &Bench<'_>, queue: &EntityPath, id: &str) -> Result<Option<Bytes>, Failure> {
    let session = session(bench, queue, id).await?;
    let state = session.state().await?;
    session.close().await?;
    Ok(state)
}

async fn there_is_no_state_at_first(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    ensure_eq!(get(bench, &queue, "one").await?, None);
    Ok(())
}

async fn the_state_is_what_was_set(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    let session = session(bench, &queue, "one").await?;
    for state in [&b"first"[..], b"", b"\0\xff\xfe"] {
        session.set_state(Some(Bytes::from_static(state))).await?;
        ensure_eq!(session.state().await?.as_deref(), Some(state));
    }
    Ok(session.close().await?)
}

async fn the_state_outlives_its_holder(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    set(bench, &queue, Some(b"half done")).await?;
    ensure_eq!(get(bench, &queue, "one").await?.as_deref(), Some(&b"half done"[..]));
    Ok(())
}

async fn the_state_can_be_cleared(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    set(bench, &queue, Some(b"half done")).await?;
    set(bench, &queue, None).await?;
    ensure_eq!(get(bench, &queue, "one").await?, None);
    Ok(())
}

async fn each_session_has_its_own(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    set(bench, &queue, Some(b"of one")).await?;
    ensure_eq!(get(bench, &queue, "two").await?, None);
    ensure_eq!(get(bench, &queue, "ONE").await?, None);
    Ok(())
}

async fn messages_do_not_touch_the_state(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    set(bench, &queue, Some(b"of one")).await?;
    bench.send(&queue, Message::builder().session_id("one").build("a")?).await?;
    let mut session = session(bench, &queue, "one").await?;
    ensure_eq!(bench.drain_by(&mut session).await?, ["a"]);
    ensure_eq!(session.state().await?.as_deref(), Some(&b"of one"[..]));
    Ok(session.close().await?)
}

async fn the_state_needs_the_lock(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(bench.locking().requires_session(true)).await?;
    let old = session(bench, &queue, "one").await?;
    bench.wait_past(bench.lock()).await;
    set(bench, &queue, Some(b"new")).await?;
    let lost = &[ErrorKind::SessionLockLost];
    refused(old.set_state(Some(Bytes::from_static(b"old"))).await, lost)?;
    refused(old.state().await, lost)?;
    drop(old);
    ensure_eq!(get(bench, &queue, "one").await?.as_deref(), Some(&b"new"[..]));
    Ok(())
}

/// A source of one session.
struct Once<S>(Option<S>);

impl<S: Session> SessionSource for Once<S> {
    type Session = S;

    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<Result<S, ReceiveError>> {
        self.0.take().map_or(Poll::Pending, |session| Poll::Ready(Ok(session)))
    }
}

async fn a_handler_has_the_state_of_its_session(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    set(bench, &queue, Some(b"1")).await?;
    bench.send(&queue, Message::builder().session_id("one").build("2")?).await?;
    let called = Arc::new(Notify::new());
    let calls = Arc::clone(&called);
    let handler = service_fn(move |message: Message| {
        let calls = Arc::clone(&calls);
        async move {
            let handled = handle(&message).await;
            calls.notify_one();
            handled.map(|()| Disposition::Complete)
        }
    });
    let source = Once(Some(session(bench, &queue, "one").await?));
    let stats = SessionConsumer::new(source, handler).run_until(timeout(bench.arrival(), called.notified())).await;
    let stats = stats.map_err(|error| Failure::behaviour(error.to_string()))?;
    ensure_eq!((stats.completed(), stats.failed()), (1, 0));
    let mut session = session(bench, &queue, "one").await?;
    ensure_eq!(session.state().await?.as_deref(), Some(&b"one: 12"[..]));
    ensure!(bench.drain_by(&mut session).await?.is_empty(), "the message was delivered again");
    Ok(session.close().await?)
}

/// Sets the state to the id, the state before and the body.
async fn handle(message: &Message) -> Result<(), BoxError> {
    let session = SessionHandle::of(message).ok_or("the message has no session")?;
    let before = session.state().await?.unwrap_or_default();
    let state = [session.session_id().as_bytes(), b": ", &before, message.payload().unwrap_or_default()].concat();
    Ok(session.set_state(Some(state.into())).await?)
}
