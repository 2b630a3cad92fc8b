//! K-32: settlements and sends that happen together.

use super::{prelude::*, sessions::by_session};

cases! {
    Transactions:
        /// Rules: T-71.
        a_commit_makes_all_of_it_happen [LockDuration],
        /// Rules: T-71.
        a_rollback_makes_none_of_it_happen,
        /// Rules: T-71.
        a_dropped_transaction_is_rolled_back [LockDuration],
        /// Rules: T-71.
        nothing_is_seen_before_the_commit [DeadLetterReason],
        /// Rules: T-71.
        sends_are_numbered_at_the_commit_in_their_order [SequenceNumbers],
        /// Rules: T-71.
        every_disposition_can_be_part [DeadLetterReason, Deferral],
        /// Rules: T-71.
        a_lost_lock_undoes_all_of_it [LockDuration, LockFencing],
        /// Rules: T-71.
        a_refused_send_undoes_all_of_it [LockDuration],
        /// Rules: T-70.
        a_schedule_can_be_part [Scheduling],
        /// Rules: T-72.
        a_transaction_ends_after_two_minutes,
        /// Rules: T-73.
        a_transaction_has_at_most_100_messages,
        /// Rules: T-76.
        a_transaction_has_one_entity,
        /// Rules: T-48.
        a_rolled_back_send_is_not_remembered [DuplicateDetection],
        /// Rules: N-07.
        a_session_s_message_can_be_part [Sessions],
        /// Rules: T-71.
        an_empty_transaction_commits;
}

/// The refusal may come at once, or with the commit.
async fn end<E: Into<Failure>>(transaction: DynTransaction, last: Result<(), E>) -> Verdict {
    last.map_err(Into::into)?;
    transaction.commit().await?;
    Ok(())
}

async fn a_commit_makes_all_of_it_happen(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let mut transaction = bench.begin().await?;
    transaction.settle(delivery.lease, Disposition::Complete).await?;
    transaction.send(&queue, Message::new("b")).await?;
    transaction.send(&queue, Message::new("c")).await?;
    transaction.commit().await?;
    bench.wait_past(bench.lock()).await;
    bench.expect(&queue, ["b", "c"]).await?;
    bench.nothing(&queue.dead_letter()).await
}

async fn a_rollback_makes_none_of_it_happen(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let mut transaction = bench.begin().await?;
    transaction.settle(delivery.lease, Disposition::Complete).await?;
    transaction.send(&queue, Message::new("b")).await?;
    let mut leases = transaction.rollback();
    // The lock is unchanged.
    bench.nothing(&queue).await?;
    let Some(lease) = leases.pop() else {
        return Err(Failure::behaviour("the right to settle did not come back"));
    };
    lease.settle(Disposition::ABANDON).await?;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn a_dropped_transaction_is_rolled_back(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let mut transaction = bench.begin().await?;
    transaction.settle(delivery.lease, Disposition::Complete).await?;
    transaction.send(&queue, Message::new("b")).await?;
    drop(transaction);
    bench.wait_past(bench.lock()).await;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn nothing_is_seen_before_the_commit(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let mut transaction = bench.begin().await?;
    transaction.send(&queue, Message::new("b")).await?;
    transaction.settle(delivery.lease, Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "")).await?;
    bench.gone(&queue).await?;
    transaction.commit().await?;
    bench.expect(&queue, ["b"]).await?;
    bench.expect(&queue.dead_letter(), ["a"]).await?;
    Ok(())
}

async fn sends_are_numbered_at_the_commit_in_their_order(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let mut transaction = bench.begin().await?;
    for body in ["b", "c"] {
        transaction.send(&queue, Message::new(body)).await?;
    }
    bench.send_bodies(&queue, ["a"]).await?;
    transaction.commit().await?;
    let messages = bench.drain_messages(3, &queue).await?;
    ensure_eq!(texts(&messages), ["a", "b", "c"]);
    let numbers = numbers(&messages)?;
    ensure!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
    Ok(())
}

async fn every_disposition_can_be_part(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["completed", "abandoned", "dead", "deferred"]).await?;
    let held = bench.receive_each(&queue, 4).await?;
    let deferred = number(&held[3].message)?;
    let dispositions = [
        Disposition::Complete,
        Disposition::ABANDON,
        Disposition::dead_letter(DeadLetterReason::Application("Why".into()), "because"),
        Disposition::DEFER,
    ];
    let mut transaction = bench.begin().await?;
    for (delivery, disposition) in held.into_iter().zip(dispositions) {
        transaction.settle(delivery.lease, disposition).await?;
    }
    transaction.commit().await?;
    let again = bench.take(&queue).await?;
    ensure_eq!((text(&again).as_str(), facts(&again)?.delivery_count), ("abandoned", 2));
    bench.nothing(&queue).await?;
    let dead = bench.take(&queue.dead_letter()).await?;
    ensure_eq!(text(&dead), "dead");
    ensure_eq!(why(&dead), ("Why", "because"));
    let fetched = bench.fetch(&queue, deferred).await?;
    ensure_eq!(text(&fetched.message), "deferred");
    Ok(fetched.complete().await?)
}

async fn a_lost_lock_undoes_all_of_it(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let lost = bench.receive(&queue).await?;
    bench.wait_almost(bench.lock()).await;
    let held = bench.receive(&queue).await?;
    bench.wait(bench.margin() * 2).await;
    let mut transaction = bench.begin().await?;
    transaction.settle(held.lease, Disposition::Complete).await?;
    transaction.send(&queue, Message::new("c")).await?;
    let last = transaction.settle(lost.lease, Disposition::Complete).await;
    refused(end(transaction, last).await, &[ErrorKind::MessageLockLost])?;
    bench.wait_past(bench.lock()).await;
    bench.expect(&queue, ["a", "b"]).await?;
    Ok(())
}

async fn a_refused_send_undoes_all_of_it(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let mut bad = Message::new("bad");
    bad.properties_mut().application_properties_mut().insert("k", "x".repeat(33_000));
    let mut transaction = bench.begin().await?;
    transaction.settle(delivery.lease, Disposition::Complete).await?;
    transaction.send(&queue, Message::new("b")).await?;
    let last = transaction.send(&queue, bad).await;
    refused(end(transaction, last).await, &[ErrorKind::InvalidArgument, ErrorKind::Serialization])?;
    bench.wait_past(bench.lock()).await;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn a_schedule_can_be_part(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let delay = Duration::from_secs(5);
    let mut transaction = bench.begin().await?;
    transaction.settle(delivery.lease, Disposition::Complete).await?;
    transaction.schedule(&queue, Message::new("later"), bench.in_future(delay).await).await?;
    ensure_eq!(transaction.commit().await?.len(), 1);
    bench.nothing(&queue).await?;
    bench.wait_past(delay).await;
    bench.expect(&queue, ["later"]).await?;
    Ok(())
}

async fn a_transaction_ends_after_two_minutes(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let two_minutes = Duration::from_secs(120);
    let mut transaction = bench.begin().await?;
    // The time runs from the first operation.
    bench.wait(bench.lock()).await;
    transaction.send(&queue, Message::new("a")).await?;
    bench.wait_almost(two_minutes).await;
    transaction.send(&queue, Message::new("b")).await?;
    transaction.commit().await?;
    bench.expect(&queue, ["a", "b"]).await?;
    let (mut late, mut later) = (bench.begin().await?, bench.begin().await?);
    late.send(&queue, Message::new("c")).await?;
    later.send(&queue, Message::new("d")).await?;
    bench.wait_past(two_minutes).await;
    refused(late.commit().await, &[ErrorKind::Transaction])?;
    refused(later.send(&queue, Message::new("e")).await, &[ErrorKind::Transaction])?;
    refused(later.commit().await, &[ErrorKind::Transaction])?;
    bench.gone(&queue).await
}

async fn a_transaction_has_at_most_100_messages(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let mut transaction = bench.begin().await?;
    for _ in 0..100 {
        transaction.send(&queue, Message::new("a")).await?;
    }
    let last = transaction.send(&queue, Message::new("b")).await;
    refused(end(transaction, last).await, &[ErrorKind::QuotaExceeded])?;
    bench.gone(&queue).await?;
    let mut transaction = bench.begin().await?;
    for _ in 0..100 {
        transaction.send(&queue, Message::new("a")).await?;
    }
    transaction.commit().await?;
    ensure_eq!(bench.drain_count(100, &queue).await?.len(), 100);
    Ok(())
}

async fn a_transaction_has_one_entity(bench: &Bench<'_>) -> Verdict {
    let (one, two) = (bench.queue(QueueSettings::default()).await?, bench.queue(QueueSettings::default()).await?);
    let mut transaction = bench.begin().await?;
    transaction.send(&one, Message::new("a")).await?;
    let last = transaction.send(&two, Message::new("b")).await;
    refused(end(transaction, last).await, &[ErrorKind::InvalidOperation])?;
    bench.gone(&one).await?;
    bench.gone(&two).await
}

async fn a_rolled_back_send_is_not_remembered(bench: &Bench<'_>) -> Verdict {
    let spec = QueueSettings::default().duplicate_detection(Duration::from_secs(20));
    let queue = bench.queue(spec).await?;
    let message = |body: &'static str| Message::builder().message_id("m-1").build(body);
    let mut transaction = bench.begin().await?;
    transaction.send(&queue, message("rolled back")?).await?;
    ensure_eq!(transaction.rollback().len(), 0);
    let mut transaction = bench.begin().await?;
    transaction.send(&queue, message("committed")?).await?;
    transaction.commit().await?;
    bench.send(&queue, message("duplicate")?).await?;
    bench.expect(&queue, ["committed"]).await?;
    Ok(())
}

async fn a_session_s_message_can_be_part(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(by_session()).await?;
    let message = |body: &'static str| Message::builder().session_id("one").build(body);
    bench.send(&queue, message("a")?).await?;
    let mut session = bench.accept_session(&queue, "one").await?;
    let delivery = bench.receive_by(&mut session).await?;
    let mut transaction = bench.begin().await?;
    transaction.settle(delivery.lease, Disposition::Complete).await?;
    transaction.send(&queue, message("b")?).await?;
    transaction.commit().await?;
    ensure_eq!(bench.drain_by(&mut session).await?, ["b"]);
    Ok(session.close().await?)
}

async fn an_empty_transaction_commits(bench: &Bench<'_>) -> Verdict {
    ensure_eq!(bench.begin().await?.commit().await?.len(), 0);
    ensure_eq!(bench.begin().await?.rollback().len(), 0);
    Ok(())
}
