//! K-26: the state of a session.

use bytes::Bytes;
use consign::transport::Session;

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
        the_state_needs_the_lock [LockDuration, LockFencing, Sessions];
}

async fn session<B: Backend>(bench: &Bench<'_, B>, queue: &EntityPath, id: &str) -> Result<B::Session, Failure> {
    Ok(bench.backend.accept_session(queue, id).await?)
}

/// Sets the state of session `one` by a holder that then closes it.
async fn set<B: Backend>(bench: &Bench<'_, B>, queue: &EntityPath, state: Option<&'static [u8]>) -> Verdict {
    let mut session = session(bench, queue, "one").await?;
    bench.backend.set_session_state(&mut session, state.map(Bytes::from_static)).await?;
    Ok(session.close().await?)
}

async fn get<B: Backend>(bench: &Bench<'_, B>, queue: &EntityPath, id: &str) -> Result<Option<Bytes>, Failure> {
    let mut session = session(bench, queue, id).await?;
    let state = bench.backend.session_state(&mut session).await?;
    session.close().await?;
    Ok(state)
}

async fn there_is_no_state_at_first<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    ensure_eq!(get(bench, &queue, "one").await?, None);
    Ok(())
}

async fn the_state_is_what_was_set<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    let mut session = session(bench, &queue, "one").await?;
    for state in [&b"first"[..], b"", b"\0\xff\xfe"] {
        bench.backend.set_session_state(&mut session, Some(Bytes::from_static(state))).await?;
        ensure_eq!(bench.backend.session_state(&mut session).await?.as_deref(), Some(state));
    }
    Ok(session.close().await?)
}

async fn the_state_outlives_its_holder<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    set(bench, &queue, Some(b"half done")).await?;
    ensure_eq!(get(bench, &queue, "one").await?.as_deref(), Some(&b"half done"[..]));
    Ok(())
}

async fn the_state_can_be_cleared<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    set(bench, &queue, Some(b"half done")).await?;
    set(bench, &queue, None).await?;
    ensure_eq!(get(bench, &queue, "one").await?, None);
    Ok(())
}

async fn each_session_has_its_own<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    set(bench, &queue, Some(b"of one")).await?;
    ensure_eq!(get(bench, &queue, "two").await?, None);
    ensure_eq!(get(bench, &queue, "ONE").await?, None);
    Ok(())
}

async fn messages_do_not_touch_the_state<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    set(bench, &queue, Some(b"of one")).await?;
    bench.send(&queue, Message::builder().session_id("one").build("a")?).await?;
    let mut session = session(bench, &queue, "one").await?;
    ensure_eq!(bench.drain_by(&mut session).await?, ["a"]);
    ensure_eq!(bench.backend.session_state(&mut session).await?.as_deref(), Some(&b"of one"[..]));
    Ok(session.close().await?)
}

async fn the_state_needs_the_lock<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(QueueSpec { requires_session: true, ..bench.locking() }).await?;
    let mut old = session(bench, &queue, "one").await?;
    bench.wait_past(bench.lock()).await;
    set(bench, &queue, Some(b"new")).await?;
    let lost = &[ErrorKind::SessionLockLost];
    refused(bench.backend.set_session_state(&mut old, Some(Bytes::from_static(b"old"))).await, lost)?;
    refused(bench.backend.session_state(&mut old).await, lost)?;
    drop(old);
    ensure_eq!(get(bench, &queue, "one").await?.as_deref(), Some(&b"new"[..]));
    Ok(())
}
