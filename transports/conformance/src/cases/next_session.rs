//! K-27: a receiver gets the session that has waited longest.

use futures_util::future::join;

use super::{
    prelude::*,
    sessions::{accept, queue, send},
};

cases! {
    NextSession:
        /// Rules: N-04.
        a_session_with_messages_is_accepted [Sessions],
        /// Rules: N-04.
        the_oldest_message_chooses_the_session [Sessions],
        /// Rules: N-04.
        held_sessions_are_passed_over [Sessions],
        /// Rules: N-04.
        without_a_session_the_wait_ends [Sessions],
        /// Rules: N-04.
        a_new_session_ends_the_wait [Sessions],
        /// Rules: N-04.
        a_session_that_is_given_up_ends_the_wait [Sessions],
        /// Rules: N-04.
        each_receiver_gets_a_session_of_its_own [Sessions];
}

/// Accepts the next session, which must exist.
async fn next(bench: &Bench<'_>, queue: &EntityPath) -> Result<DynSession, Failure> {
    bench.accept_next_session(queue, bench.arrival()).await
}

async fn no_session(bench: &Bench<'_>, queue: &EntityPath) -> Verdict {
    refused(bench.accept_next_session(queue, bench.receive_wait()).await, &[ErrorKind::ServiceTimeout])
}

async fn a_session_with_messages_is_accepted(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a"), ("one", "b")]).await?;
    let mut session = next(bench, &queue).await?;
    ensure_eq!(session.session_id(), "one");
    ensure_eq!(bench.drain_by_count(2, &mut session).await?, ["a", "b"]);
    Ok(())
}

async fn the_oldest_message_chooses_the_session(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("two", "a"), ("one", "b"), ("two", "c"), ("three", "d")]).await?;
    let mut held = Vec::new();
    for id in ["two", "one", "three"] {
        let session = next(bench, &queue).await?;
        ensure_eq!(session.session_id(), id);
        held.push(session);
    }
    Ok(())
}

async fn held_sessions_are_passed_over(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a"), ("two", "b")]).await?;
    let held = accept(bench, &queue, "one").await?;
    let mut other = next(bench, &queue).await?;
    ensure_eq!(other.session_id(), "two");
    ensure_eq!(bench.drain_by(&mut other).await?, ["b"]);
    no_session(bench, &queue).await?;
    Ok(held.close().await?)
}

async fn without_a_session_the_wait_ends(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    no_session(bench, &queue).await?;
    // A wait that ended has taken nothing.
    send(bench, &queue, [("one", "a")]).await?;
    ensure_eq!(bench.drain_by(&mut next(bench, &queue).await?).await?, ["a"]);
    Ok(())
}

async fn a_new_session_ends_the_wait(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    let waiting = bench.accept_in_task(bench.session_source(&queue).await?);
    bench.wait(bench.margin()).await;
    send(bench, &queue, [("one", "a")]).await?;
    let (_source, mut session) = waiting.received().await?;
    ensure_eq!(bench.drain_by(&mut session).await?, ["a"]);
    Ok(())
}

async fn a_session_that_is_given_up_ends_the_wait(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a")]).await?;
    let held = accept(bench, &queue, "one").await?;
    let waiting = bench.accept_in_task(bench.session_source(&queue).await?);
    bench.wait(bench.margin()).await;
    held.close().await?;
    let (_source, mut session) = waiting.received().await?;
    ensure_eq!(bench.drain_by(&mut session).await?, ["a"]);
    Ok(())
}

async fn each_receiver_gets_a_session_of_its_own(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a"), ("two", "b")]).await?;
    let (one, two) = join(next(bench, &queue), next(bench, &queue)).await;
    let (mut one, mut two) = (one?, two?);
    let mut bodies = [bench.drain_by(&mut one).await?, bench.drain_by(&mut two).await?].concat();
    bodies.sort();
    ensure_eq!(bodies, ["a", "b"]);
    Ok(())
}
