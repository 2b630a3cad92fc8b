//! K-03 and K-04: the two receive modes.

use std::{
    future::poll_fn,
    sync::atomic::AtomicUsize,
    task::{Context, Waker},
};

use consign::transport::{Capability, Receiver};
use futures_util::future::join;
use tokio::time::timeout;

use super::prelude::*;
use crate::NoCall;

cases! {
    ReceiveAndDelete:
        /// Rules: S-24.
        a_message_is_removed_as_it_is_delivered,
        /// Rules: S-24.
        a_dropped_delivery_is_not_delivered_again,
        /// Rules: S-24.
        only_what_is_delivered_is_removed,
        /// Rules: S-29.
        what_arrives_for_a_stopped_receive_is_not_lost,
        /// Rules: S-50.
        a_message_of_receive_and_delete_cannot_be_settled [LockRenewal, Deferral],
        /// Rules: M-09.
        a_message_of_receive_and_delete_has_no_lock,
        /// Rules: S-39.
        a_dead_letter_can_be_received_and_deleted [DeadLetterReason],
        /// Rules: K-40.
        a_mode_that_is_refused_removes_nothing;
    PeekLock:
        /// Rules: S-25.
        a_locked_message_stays_in_the_queue,
        /// Rules: S-26.
        complete_removes,
        /// Rules: S-27.
        a_dropped_delivery_is_abandoned,
        /// Rules: S-29.
        a_dropped_receive_takes_nothing,
        /// Rules: S-66.
        a_stopped_receiver_has_released_what_it_had_locked,
        /// Rules: S-50.
        a_lock_has_a_duration_and_an_end,
        /// Rules: S-51.
        others_get_the_next_message,
        /// Rules: S-51.
        no_message_goes_to_two_receivers,
        /// Rules: K-40.
        a_sender_and_a_receiver_have_the_capabilities_of_their_transport,
        /// Rules: T-88.
        a_receive_of_no_message_receives_one,
        /// Rules: S-25.
        a_waiting_receiver_is_woken,
        /// Rules: S-25.
        each_waiting_receiver_gets_one;
}

async fn deleting(bench: &Bench<'_>, from: &EntityPath) -> Result<DynReceiver, Failure> {
    Ok(bench.transport.receiver(from, ReceiveMode::ReceiveAndDelete).await?)
}

async fn a_message_is_removed_as_it_is_delivered(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let mut receiver = deleting(bench, &queue).await?;
    for body in ["a", "b"] {
        ensure_eq!(text(&bench.receive_by(&mut receiver).await?.message), body);
    }
    drop(receiver);
    bench.gone(&queue).await
}

async fn a_dropped_delivery_is_not_delivered_again(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let mut receiver = deleting(bench, &queue).await?;
    drop(bench.receive_by(&mut receiver).await?);
    drop(receiver);
    bench.gone(&queue).await
}

async fn only_what_is_delivered_is_removed(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    let mut receiver = deleting(bench, &queue).await?;
    ensure_eq!(text(&bench.receive_by(&mut receiver).await?.message), "a");
    drop(receiver);
    // A message that was on its way to the receiver may come after the others, and later.
    let mut left = [text(&bench.take(&queue).await?), text(&bench.take(&queue).await?)];
    left.sort();
    ensure_eq!(left, ["b", "c"]);
    bench.gone(&queue).await
}

/// The messages may have been removed from the queue by then.
async fn what_arrives_for_a_stopped_receive_is_not_lost(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let mut receiver = deleting(bench, &queue).await?;
    for max in [5, 1] {
        let polled = receiver.poll_receive(&mut Context::from_waker(Waker::noop()), max, &mut Vec::new());
        ensure!(polled.is_pending(), "a receive of an empty queue does not wait");
        bench.wait(bench.margin()).await;
        bench.send_bodies(&queue, ["a", "b"]).await?;
        bench.wait(bench.margin()).await;
        let stopped = timeout(bench.arrival(), receiver.stopped()).await;
        ensure!(stopped.is_ok(), "a stopped receiver does not end");
        let (one, two) = (bench.receive_by(&mut receiver).await?, bench.receive_by(&mut receiver).await?);
        let mut bodies = texts([&one.message, &two.message]);
        bodies.sort_unstable();
        ensure_eq!(bodies, ["a", "b"]);
    }
    drop(receiver);
    bench.gone(&queue).await
}

async fn a_message_of_receive_and_delete_cannot_be_settled(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c", "d"]).await?;
    let mut receiver = deleting(bench, &queue).await?;
    let invalid = [ErrorKind::InvalidOperation];
    refused(bench.receive_by(&mut receiver).await?.complete().await, &invalid)?;
    refused(bench.receive_by(&mut receiver).await?.abandon().await, &invalid)?;
    refused(bench.receive_by(&mut receiver).await?.defer().await, &invalid)?;
    let renewed = bench.receive_by(&mut receiver).await?;
    refused(renewed.lease.renew().await, &invalid)
}

async fn a_message_of_receive_and_delete_has_no_lock(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let mut receiver = deleting(bench, &queue).await?;
    let Delivery { message, lease } = bench.receive_by(&mut receiver).await?;
    ensure_eq!(facts(&message)?.locked_until, None);
    ensure_eq!((lease.lock_duration(), lease.lock_token()), (None, None));
    ensure_eq!(facts(&message)?.delivery_count, 1);
    Ok(())
}

async fn a_dead_letter_can_be_received_and_deleted(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.receive(&queue).await?.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).await?;
    let mut receiver = deleting(bench, &queue.dead_letter()).await?;
    ensure_eq!(text(&bench.receive_by(&mut receiver).await?.message), "a");
    drop(receiver);
    bench.gone(&queue).await
}

async fn a_mode_that_is_refused_removes_nothing(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let received = match deleting(bench, &queue).await {
        Ok(mut receiver) => bench.receive_by(&mut receiver).await,
        Err(refusal) => Err(refusal),
    };
    let Err(refusal) = received else { return bench.gone(&queue).await };
    ensure_eq!(facts(&bench.take(&queue).await?)?.delivery_count, 1);
    Err(refusal)
}

async fn a_locked_message_stays_in_the_queue(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let held = bench.receive(&queue).await?;
    bench.nothing(&queue).await?;
    held.abandon().await?;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn complete_removes(bench: &Bench<'_>) -> Verdict {
    let queue = bench.short_locking_queue().await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    bench.receive(&queue).await?.complete().await?;
    ensure_eq!(text(&bench.take(&queue).await?), "b");
    bench.wait_past(bench.lock()).await;
    bench.gone(&queue).await
}

async fn a_dropped_delivery_is_abandoned(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    drop(bench.receive(&queue).await?);
    let again = bench.receive(&queue).await?;
    ensure_eq!((text(&again.message).as_str(), facts(&again.message)?.delivery_count), ("a", 2));
    Ok(again.complete().await?)
}

/// A dropped receive leaves no lock, and the next receiver gets the message as its first delivery. A message that arrives for a
/// receiver that does not poll again goes to another one, which waits.
async fn a_dropped_receive_takes_nothing(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let mut first = bench.receiver(&queue).await?;
    for _ in 0..3 {
        ensure!(bench.try_receive_by(&mut first, 1).await?.is_empty(), "there is a message before one is sent");
    }
    drop(first);
    bench.send_bodies(&queue, ["a"]).await?;
    let mut second = bench.receiver(&queue).await?;
    let delivery = bench.receive_by(&mut second).await?;
    ensure_eq!(facts(&delivery.message)?.delivery_count, 1);
    delivery.complete().await?;
    for is_dropped in [true, false] {
        let (mut first, second) = (bench.receiver(&queue).await?, bench.receiver(&queue).await?);
        let polled = first.poll_receive(&mut Context::from_waker(Waker::noop()), 1, &mut Vec::new());
        ensure!(polled.is_pending(), "a receive of an empty queue does not wait");
        let second = bench.receive_in_task(second);
        bench.wait(bench.margin()).await;
        bench.send_bodies(&queue, ["a"]).await?;
        bench.wait(bench.margin()).await;
        let _stopped = if is_dropped {
            drop(first);
            None
        } else {
            first.stop();
            Some(first)
        };
        let (_second, delivery) = second.received().await?;
        ensure_eq!(facts(&delivery.message)?.delivery_count, 1);
        delivery.complete().await?;
    }
    Ok(())
}

/// The messages arrive for a receive that is no longer wanted.
async fn a_stopped_receiver_has_released_what_it_had_locked(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let mut first = bench.receiver(&queue).await?;
    for _ in 0..2 {
        let polled = first.poll_receive(&mut Context::from_waker(Waker::noop()), 5, &mut Vec::new());
        ensure!(polled.is_pending(), "a receive of an empty queue does not wait");
        bench.wait(bench.margin()).await;
        bench.send_bodies(&queue, ["a", "b"]).await?;
        bench.wait(bench.margin()).await;
        let stopped = timeout(bench.arrival(), first.stopped()).await;
        ensure!(stopped.is_ok(), "a stopped receiver does not end");
        let messages = bench.drain_messages(2, &queue).await?;
        let mut bodies = texts(&messages);
        bodies.sort_unstable();
        ensure_eq!(bodies, ["a", "b"]);
        for message in &messages {
            ensure_eq!(facts(message)?.delivery_count, 1);
        }
    }
    bench.send_bodies(&queue, ["c"]).await?;
    ensure_eq!(text(&bench.receive_by(&mut first).await?.message), "c");
    Ok(())
}

/// Without a duration there is nothing to measure: a transport that declares neither a duration nor a renewal may lock a message
/// until it is settled.
async fn a_lock_has_a_duration_and_an_end(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let Delivery { message, lease } = bench.receive(&queue).await?;
    let until = facts(&message)?.locked_until;
    let Some(duration) = lease.lock_duration() else {
        ensure!(lease.must_settle(), "the lock has no duration, and the delivery need not be settled");
        ensure_eq!(until, None, "a lock without a duration has an end");
        let capabilities = bench.capabilities();
        if [Capability::LockDuration, Capability::LockRenewal].iter().any(|timed| capabilities.supports(*timed)) {
            return Err(Failure::behaviour("the lock has no duration"));
        }
        return detail(Err(NoCall::new("a lock holds until the message is settled")));
    };
    let until = until.unwrap_or_default();
    let expected = bench.in_future(duration).await;
    ensure!(bench.is_near(until, expected), "the lock holds until {until:?}, and should until {expected:?}");
    Ok(lease.settle(Disposition::Complete).await?)
}

async fn others_get_the_next_message(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let (mut one, mut two) = (bench.receiver(&queue).await?, bench.receiver(&queue).await?);
    let first = bench.receive_by(&mut one).await?;
    let second = bench.receive_by(&mut two).await?;
    ensure_eq!(texts([&first.message, &second.message]), ["a", "b"]);
    second.complete().await?;
    Ok(first.complete().await?)
}

async fn no_message_goes_to_two_receivers(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let sender = bench.transport.sender(&queue).await?;
    for index in 0..30 {
        sender.send(Message::new(format!("{index:02}"))).await?;
    }
    let (mut one, mut two) = (bench.receiver(&queue).await?, bench.receiver(&queue).await?);
    let drained = AtomicUsize::new(0);
    let (one, two) = join(bench.drain_shared(30, &mut one, &drained), bench.drain_shared(30, &mut two, &drained)).await;
    let mut all = [one?, two?].concat();
    all.sort();
    let sent: Vec<String> = (0..30).map(|index| format!("{index:02}")).collect();
    ensure_eq!(all, sent);
    Ok(())
}

/// Layers and consumers read the capabilities there.
async fn a_sender_and_a_receiver_have_the_capabilities_of_their_transport(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let (sender, receiver) = (bench.transport.sender(&queue).await?, bench.receiver(&queue).await?);
    let declared = bench.capabilities();
    for (of, capabilities) in [("sender", sender.capabilities()), ("receiver", receiver.capabilities())] {
        let differs = |capability: &&Capability| capabilities.level(**capability) != declared.level(**capability);
        let other = Capability::ALL.iter().find(differs);
        ensure!(other.is_none(), "the {of} declares another level of {other:?} than the transport");
    }
    Ok(())
}

async fn a_receive_of_no_message_receives_one(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let (mut receiver, mut received) = (bench.receiver(&queue).await?, Vec::new());
    let polled = timeout(bench.arrival(), poll_fn(|cx| receiver.poll_receive(cx, 0, &mut received))).await;
    ensure_eq!(polled.map_or(Ok(0), |count| count)?, 1);
    ensure_eq!(texts(received.iter().map(|delivery| &delivery.message)), ["a"]);
    for delivery in received {
        delivery.complete().await?;
    }
    drop(receiver);
    bench.expect(&queue, ["b"]).await?;
    Ok(())
}

async fn a_waiting_receiver_is_woken(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let receiving = bench.receive_in_task(bench.receiver(&queue).await?);
    bench.wait(bench.margin()).await;
    bench.send_bodies(&queue, ["a"]).await?;
    let (_receiver, delivery) = receiving.received().await?;
    ensure_eq!(text(&delivery.message), "a");
    Ok(delivery.complete().await?)
}

async fn each_waiting_receiver_gets_one(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let one = bench.receive_in_task(bench.receiver(&queue).await?);
    let two = bench.receive_in_task(bench.receiver(&queue).await?);
    bench.wait(bench.margin()).await;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let ((_first, one), (_second, two)) = (one.received().await?, two.received().await?);
    let mut bodies = texts([&one.message, &two.message]);
    bodies.sort();
    ensure_eq!(bodies, ["a", "b"]);
    one.complete().await?;
    Ok(two.complete().await?)
}
