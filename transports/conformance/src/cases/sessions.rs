//! K-25: the messages of a session go to one receiver, in order.

use super::prelude::*;

cases! {
    Sessions:
        /// Rules: N-02.
        a_message_without_a_session_is_refused,
        /// Rules: N-02.
        messages_are_received_by_session_only,
        /// Rules: N-02.
        a_queue_without_sessions_has_none,
        /// Rules: N-03.
        an_empty_session_can_be_accepted,
        /// Rules: N-05.
        a_session_has_one_holder,
        /// Rules: N-05.
        later_messages_go_to_the_holder,
        /// Rules: N-05.
        sessions_do_not_mix,
        /// Rules: N-06.
        the_lock_of_a_session_is_that_of_its_messages [LockDuration],
        /// Rules: N-06.
        the_lock_of_a_session_ends [LockDuration],
        /// Rules: N-06.
        the_lock_of_a_session_can_be_renewed [LockDuration],
        /// Rules: N-07.
        messages_come_in_order,
        /// Rules: N-07.
        an_abandoned_message_comes_next,
        /// Rules: N-08.
        without_the_session_nothing_is_settled [LockDuration, LockFencing],
        /// Rules: N-09, S-76.
        a_closed_session_does_not_count [LockFencing],
        /// Rules: N-09.
        a_closed_session_can_be_accepted_at_once,
        /// Rules: N-09, S-76.
        a_dropped_session_can_be_accepted_at_once_and_does_not_count,
        /// Rules: S-75.
        a_lost_session_counts_what_was_delivered [LockDuration],
        /// Rules: S-59.
        a_message_lock_is_not_renewed_by_itself [LockRenewal],
        /// Rules: N-11.
        a_deferred_message_is_fetched_by_its_session [Deferral],
        /// Rules: N-13.
        a_peek_sees_all_sessions [Peek],
        /// Rules: N-13.
        a_session_sees_its_own [Peek],
        /// Rules: N-14.
        dead_letters_have_no_sessions [DeadLetterReason],
        /// Rules: M-17.
        the_empty_session_is_a_session;
}

pub(super) fn by_session() -> QueueSettings {
    QueueSettings::default().requires_session(true)
}

pub(super) async fn queue(bench: &Bench<'_>) -> Result<EntityPath, Failure> {
    bench.queue(by_session()).await
}

async fn locking(bench: &Bench<'_>) -> Result<EntityPath, Failure> {
    bench.queue(bench.locking().requires_session(true)).await
}

/// Sends one message for each pair of a session and a body.
pub(super) async fn send<const N: usize>(
    bench: &Bench<'_>,
    queue: &EntityPath,
    messages: [(&'static str, &'static str); N],
) -> Verdict {
    for (session, body) in messages {
        bench.send(queue, Message::builder().session_id(session).build(body)?).await?;
    }
    Ok(())
}

pub(super) async fn accept(bench: &Bench<'_>, queue: &EntityPath, id: &str) -> Result<DynSession, Failure> {
    let session = bench.accept_session(queue, id).await?;
    ensure_eq!(session.session_id(), id);
    Ok(session)
}

async fn a_message_without_a_session_is_refused(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    refused(bench.send(&queue, Message::new("a")).await, &[ErrorKind::InvalidOperation])?;
    send(bench, &queue, [("one", "b")]).await?;
    ensure_eq!(bench.drain_by(&mut accept(bench, &queue, "one").await?).await?, ["b"]);
    Ok(())
}

async fn messages_are_received_by_session_only(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a")]).await?;
    refused(bench.receive(&queue).await, &[ErrorKind::InvalidOperation])
}

async fn a_queue_without_sessions_has_none(bench: &Bench<'_>) -> Verdict {
    let with = queue(bench).await?;
    accept(bench, &with, "one").await?.close().await?;
    let without = bench.queue(QueueSettings::default()).await?;
    refused(bench.accept_session(&without, "one").await, &[ErrorKind::InvalidOperation])
}

async fn an_empty_session_can_be_accepted(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    let mut session = accept(bench, &queue, "one").await?;
    ensure_eq!(bench.drain_by(&mut session).await?.len(), 0);
    send(bench, &queue, [("one", "a")]).await?;
    ensure_eq!(bench.drain_by(&mut session).await?, ["a"]);
    Ok(())
}

async fn a_session_has_one_holder(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a"), ("two", "b")]).await?;
    let mut one = accept(bench, &queue, "one").await?;
    let again = bench.accept_session(&queue, "one").await;
    refused(again, &[ErrorKind::SessionCannotBeLocked])?;
    let mut two = accept(bench, &queue, "two").await?;
    ensure_eq!(bench.drain_by(&mut one).await?, ["a"]);
    ensure_eq!(bench.drain_by(&mut two).await?, ["b"]);
    Ok(())
}

async fn later_messages_go_to_the_holder(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    let waiting = bench.receive_in_task(accept(bench, &queue, "one").await?);
    bench.wait(bench.margin()).await;
    send(bench, &queue, [("two", "b"), ("one", "a")]).await?;
    let (_session, delivery) = waiting.received().await?;
    ensure_eq!(text(&delivery.message), "a");
    Ok(delivery.complete().await?)
}

async fn sessions_do_not_mix(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a"), ("two", "x"), ("one", "b"), ("two", "y"), ("ONE", "z")]).await?;
    ensure_eq!(bench.drain_by_count(2, &mut accept(bench, &queue, "two").await?).await?, ["x", "y"]);
    ensure_eq!(bench.drain_by_count(2, &mut accept(bench, &queue, "one").await?).await?, ["a", "b"]);
    ensure_eq!(bench.drain_by(&mut accept(bench, &queue, "ONE").await?).await?, ["z"]);
    Ok(())
}

async fn the_lock_of_a_session_is_that_of_its_messages(bench: &Bench<'_>) -> Verdict {
    let queue = locking(bench).await?;
    send(bench, &queue, [("one", "a")]).await?;
    let expected = bench.in_future(bench.lock()).await;
    let mut session = accept(bench, &queue, "one").await?;
    ensure_eq!(session.lock_duration(), bench.lock());
    bench.wait(bench.lock() / 2).await;
    let delivery = bench.receive_by(&mut session).await?;
    // From the accept, not from the receive.
    let until = facts(&delivery.message)?.locked_until.unwrap_or_default();
    ensure!(bench.is_near(until, expected), "the lock holds until {until:?}, and should until {expected:?}");
    // Without one it counts as removed, and is not settled.
    ensure!(delivery.lease.lock_duration().is_some(), "the message has no lock");
    Ok(delivery.complete().await?)
}

async fn the_lock_of_a_session_ends(bench: &Bench<'_>) -> Verdict {
    let queue = locking(bench).await?;
    send(bench, &queue, [("one", "a")]).await?;
    let _lost = accept(bench, &queue, "one").await?;
    bench.wait_almost(bench.lock()).await;
    let early = bench.accept_session(&queue, "one").await;
    refused(early, &[ErrorKind::SessionCannotBeLocked])?;
    bench.wait(bench.margin() * 2).await;
    ensure_eq!(bench.drain_by(&mut accept(bench, &queue, "one").await?).await?, ["a"]);
    Ok(())
}

async fn the_lock_of_a_session_can_be_renewed(bench: &Bench<'_>) -> Verdict {
    let queue = locking(bench).await?;
    send(bench, &queue, [("one", "a")]).await?;
    let mut session = accept(bench, &queue, "one").await?;
    let delivery = bench.receive_by(&mut session).await?;
    for _ in 0..3 {
        bench.wait(bench.lock() / 2).await;
        let expected = bench.in_future(bench.lock()).await;
        let until = session.renew().await?;
        ensure!(bench.is_near(until, expected), "the lock holds until {until:?}, and should until {expected:?}");
    }
    delivery.complete().await?;
    ensure_eq!(bench.drain_by(&mut session).await?.len(), 0);
    Ok(())
}

async fn messages_come_in_order(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a"), ("one", "b"), ("one", "c"), ("one", "d")]).await?;
    let mut session = accept(bench, &queue, "one").await?;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(bench.receive_by(&mut session).await?);
    }
    ensure_eq!(texts(held.iter().map(|delivery| &delivery.message)), ["a", "b", "c"]);
    for delivery in held {
        delivery.complete().await?;
    }
    ensure_eq!(bench.drain_by(&mut session).await?, ["d"]);
    Ok(())
}

async fn an_abandoned_message_comes_next(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a"), ("one", "b")]).await?;
    let mut session = accept(bench, &queue, "one").await?;
    for count in 1..=3 {
        let delivery = bench.receive_by(&mut session).await?;
        ensure_eq!((text(&delivery.message).as_str(), facts(&delivery.message)?.delivery_count), ("a", count));
        delivery.abandon().await?;
    }
    ensure_eq!(bench.drain_by_count(2, &mut session).await?, ["a", "b"]);
    Ok(())
}

async fn without_the_session_nothing_is_settled(bench: &Bench<'_>) -> Verdict {
    let queue = locking(bench).await?;
    send(bench, &queue, [("one", "a")]).await?;
    let mut session = accept(bench, &queue, "one").await?;
    let delivery = bench.receive_by(&mut session).await?;
    bench.wait_past(bench.lock()).await;
    let lost = &[ErrorKind::SessionLockLost];
    refused(session.renew().await, lost)?;
    refused(delivery.complete().await, lost)?;
    drop(session);
    ensure_eq!(bench.drain_by(&mut accept(bench, &queue, "one").await?).await?, ["a"]);
    Ok(())
}

/// Returns the delivery count of the first message of session `one` at the next holder.
async fn count_of_next_holder(bench: &Bench<'_>, queue: &EntityPath) -> Result<u32, Failure> {
    let mut session = accept(bench, queue, "one").await?;
    let delivery = bench.receive_by(&mut session).await?;
    let count = facts(&delivery.message)?.delivery_count;
    delivery.complete().await?;
    session.close().await?;
    Ok(count)
}

async fn a_closed_session_does_not_count(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a")]).await?;
    for _ in 0..3 {
        let mut session = accept(bench, &queue, "one").await?;
        let held = bench.receive_by(&mut session).await?;
        session.close().await?;
        refused(held.complete().await, &[ErrorKind::SessionLockLost])?;
    }
    ensure_eq!(count_of_next_holder(bench, &queue).await?, 1);
    Ok(())
}

async fn a_closed_session_can_be_accepted_at_once(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a"), ("one", "b")]).await?;
    let mut session = accept(bench, &queue, "one").await?;
    bench.receive_by(&mut session).await?.complete().await?;
    session.close().await?;
    ensure_eq!(bench.drain_by(&mut accept(bench, &queue, "one").await?).await?, ["b"]);
    Ok(())
}

/// No caller waits for the release of a session that is dropped, so the next accept may come before it.
async fn a_dropped_session_can_be_accepted_at_once_and_does_not_count(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a")]).await?;
    let mut session = accept(bench, &queue, "one").await?;
    let held = bench.receive_by(&mut session).await?;
    drop(session);
    let mut next = Err(Failure::behaviour("the session was not accepted"));
    for _ in 0..10 {
        next = bench.accept_session(&queue, "one").await;
        match &next {
            Err(failure) if failure.kind() == Some(ErrorKind::SessionCannotBeLocked) => {}
            _ => break,
        }
        bench.wait(bench.arrival() / 10).await;
    }
    let mut next = next?;
    let again = bench.receive_by(&mut next).await?;
    ensure_eq!((text(&again.message).as_str(), facts(&again.message)?.delivery_count), ("a", 1));
    // Its lock ended with the session.
    drop(held);
    again.complete().await?;
    ensure_eq!(bench.drain_by(&mut next).await?.len(), 0);
    Ok(next.close().await?)
}

async fn a_lost_session_counts_what_was_delivered(bench: &Bench<'_>) -> Verdict {
    let queue = locking(bench).await?;
    send(bench, &queue, [("one", "a"), ("one", "b")]).await?;
    let mut session = accept(bench, &queue, "one").await?;
    let _held = bench.receive_by(&mut session).await?;
    bench.wait_past(bench.lock()).await;
    // The first message was delivered, and the second was not.
    ensure_eq!(count_of_next_holder(bench, &queue).await?, 2);
    ensure_eq!(count_of_next_holder(bench, &queue).await?, 1);
    Ok(())
}

async fn a_message_lock_is_not_renewed_by_itself(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a")]).await?;
    let mut session = accept(bench, &queue, "one").await?;
    let delivery = bench.receive_by(&mut session).await?;
    refused(delivery.lease.renew().await, &[ErrorKind::InvalidOperation])?;
    Ok(delivery.complete().await?)
}

async fn a_deferred_message_is_fetched_by_its_session(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a"), ("one", "b")]).await?;
    let mut session = accept(bench, &queue, "one").await?;
    let delivery = bench.receive_by(&mut session).await?;
    let number = number(&delivery.message)?;
    delivery.defer().await?;
    ensure_eq!(bench.drain_by(&mut session).await?, ["b"]);
    let mut fetched = session.receive_deferred(&[number]).await?;
    let Some(fetched) = fetched.pop() else {
        return Err(Failure::behaviour("the number brought nothing back"));
    };
    ensure_eq!(text(&fetched.message), "a");
    Ok(fetched.complete().await?)
}

async fn a_peek_sees_all_sessions(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a"), ("two", "b"), ("one", "c")]).await?;
    let _one = accept(bench, &queue, "one").await?;
    ensure_eq!(texts(&bench.peek(&queue).await?), ["a", "b", "c"]);
    Ok(())
}

async fn a_session_sees_its_own(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a"), ("two", "b"), ("one", "c")]).await?;
    let mut session = accept(bench, &queue, "one").await?;
    ensure_eq!(texts(&session.peek(1).await?), ["a"]);
    ensure_eq!(texts(&session.peek(10).await?), ["c"]);
    Ok(())
}

async fn dead_letters_have_no_sessions(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a"), ("two", "b")]).await?;
    for id in ["one", "two"] {
        let mut session = accept(bench, &queue, id).await?;
        let dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "");
        bench.receive_by(&mut session).await?.dead_letter(dead_letter).await?;
    }
    let dead = bench.drain_messages(2, &queue.dead_letter()).await?;
    ensure_eq!(texts(&dead), ["a", "b"]);
    ensure_eq!(dead[1].session_id(), Some("two"));
    Ok(())
}

async fn the_empty_session_is_a_session(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("", "a"), ("one", "b")]).await?;
    ensure_eq!(bench.drain_by(&mut accept(bench, &queue, "").await?).await?, ["a"]);
    Ok(())
}
