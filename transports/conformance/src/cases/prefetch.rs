//! K-34: several messages in one receive.

use super::prelude::*;

cases! {
    Prefetch:
        /// Rules: T-88.
        a_receive_takes_no_more_than_requested,
        /// Rules: T-88.
        a_receive_does_not_wait_for_more,
        /// Rules: T-88.
        a_receive_takes_several,
        /// Rules: T-89.
        messages_of_one_receive_come_in_order,
        /// Rules: T-89.
        each_is_settled_for_itself,
        /// Rules: T-91.
        others_do_not_get_what_was_taken,
        /// Rules: T-89.
        prefetched_messages_can_be_released [Release],
        /// Rules: T-91.
        the_locks_run_from_the_receive [LockDuration],
        /// Rules: S-65.
        several_messages_are_completed_at_once,
        /// Rules: S-65.
        completing_several_leaves_those_between_them,
        /// Rules: S-65.
        a_lost_lock_among_several_fails_alone [LockDuration, LockFencing];
}

/// Receives `count` messages by as few receives as the transport needs.
async fn take_all(bench: &Bench<'_>, queue: &EntityPath, count: usize) -> Result<Vec<Delivery<DynLease>>, Failure> {
    let mut held = Vec::new();
    while held.len() < count {
        let taken = bench.receive_within(bench.arrival(), queue, count - held.len()).await?;
        ensure!(!taken.is_empty(), "{} messages of {count}, and no more", held.len());
        ensure!(taken.len() <= count - held.len(), "{} messages, which are too many", taken.len());
        held.extend(taken);
    }
    Ok(held)
}

async fn a_receive_takes_no_more_than_requested(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    let held = take_all(bench, &queue, 2).await?;
    let mut other = bench.receiver(&queue).await?;
    ensure_eq!(text(&bench.receive_by(&mut other).await?.message), "c");
    drop(held);
    Ok(())
}

async fn a_receive_does_not_wait_for_more(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let taken = bench.receive_within(bench.arrival(), &queue, 10).await?;
    ensure_eq!(texts(taken.iter().map(|delivery| &delivery.message)), ["a"]);
    Ok(())
}

/// The first receive may take the messages so far, so that there are several.
async fn a_receive_takes_several(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c", "d", "e", "f"]).await?;
    let (mut held, mut most) = (Vec::new(), 0);
    while held.len() < 6 {
        let taken = bench.receive_within(bench.arrival(), &queue, 6 - held.len()).await?;
        ensure!(!taken.is_empty(), "{} messages of 6, and no more", held.len());
        most = most.max(taken.len());
        held.extend(taken);
        bench.wait(bench.margin()).await;
    }
    ensure!(most > 1, "each receive took one message, though there were more");
    for delivery in held {
        delivery.complete().await?;
    }
    Ok(())
}

async fn messages_of_one_receive_come_in_order(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c", "d", "e"]).await?;
    let held = take_all(bench, &queue, 5).await?;
    ensure_eq!(texts(held.iter().map(|delivery| &delivery.message)), ["a", "b", "c", "d", "e"]);
    for delivery in held {
        delivery.complete().await?;
    }
    bench.gone(&queue).await
}

async fn each_is_settled_for_itself(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    let mut held = take_all(bench, &queue, 3).await?;
    held.remove(1).complete().await?;
    for delivery in held {
        delivery.abandon().await?;
    }
    bench.expect(&queue, ["a", "c"]).await?;
    Ok(())
}

async fn others_do_not_get_what_was_taken(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let held = take_all(bench, &queue, 2).await?;
    let mut other = bench.receiver(&queue).await?;
    ensure!(bench.try_receive_by(&mut other, 2).await?.is_empty(), "a message went to two receivers");
    for delivery in held {
        delivery.complete().await?;
    }
    Ok(())
}

async fn prefetched_messages_can_be_released(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    for delivery in take_all(bench, &queue, 3).await? {
        delivery.lease.release().await?;
    }
    let again = bench.drain_messages(3, &queue).await?;
    ensure_eq!(texts(&again), ["a", "b", "c"]);
    for message in &again {
        ensure_eq!(facts(message)?.delivery_count, 1);
    }
    Ok(())
}

async fn the_locks_run_from_the_receive(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let mut held = take_all(bench, &queue, 2).await?;
    bench.wait_almost(bench.lock()).await;
    held.remove(0).complete().await?;
    bench.wait(bench.margin() * 2).await;
    bench.expect(&queue, ["b"]).await?;
    Ok(())
}

async fn several_messages_are_completed_at_once(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    for _ in 0..2 {
        bench.send_bodies(&queue, ["a", "b", "c", "d", "e"]).await?;
        Delivery::complete_all(take_all(bench, &queue, 5).await?).await?;
        bench.gone(&queue).await?;
    }
    Ok(Delivery::<DynLease>::complete_all([]).await?)
}

async fn completing_several_leaves_those_between_them(bench: &Bench<'_>) -> Verdict {
    let queue = bench.short_locking_queue().await?;
    bench.send_bodies(&queue, ["a", "b", "c", "d", "e", "f"]).await?;
    let mut held = take_all(bench, &queue, 6).await?;
    let (last, between) = (held.pop(), held.remove(2));
    held.swap(0, 1);
    Delivery::complete_all(held).await?;
    let mut other = bench.receiver(&queue).await?;
    ensure!(bench.try_receive_by(&mut other, 6).await?.is_empty(), "a locked message was delivered again");
    between.abandon().await?;
    if let Some(last) = last {
        last.complete().await?;
    }
    drop(other);
    bench.expect(&queue, ["c"]).await?;
    Ok(())
}

async fn a_lost_lock_among_several_fails_alone(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let lost = bench.receive(&queue).await?;
    bench.wait(bench.lock() / 2).await;
    bench.send_bodies(&queue, ["b", "c"]).await?;
    let mut held = take_all(bench, &queue, 2).await?;
    held.insert(1, lost);
    bench.wait_past(bench.lock() / 2).await;
    let Err(error) = Delivery::complete_all(held).await else {
        return Err(Failure::behaviour("a message was completed under a lock that was lost"));
    };
    let failures: Vec<_> = error.failures().map(|(index, error)| (index, error.kind())).collect();
    ensure_eq!(failures, [(1, ErrorKind::MessageLockLost)]);
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}
