//! K-02, K-04 and K-27: what ends the wait of a receiver.

use std::task::{Context, Waker};

use consign::transport::{Receiver, SessionSource};

use super::{
    prelude::*,
    sessions::{queue, send},
};

cases! {
    PeekLock:
        /// Rules: S-27.
        a_waiting_receiver_gets_what_another_abandons,
        /// Rules: S-36.
        a_waiting_receiver_gets_what_another_releases [Release],
        /// Rules: S-27.
        a_waiting_receiver_gets_what_another_drops,
        /// Rules: S-25.
        the_task_that_polled_last_is_woken;
    Rejection:
        /// Rules: E-15.
        a_waiting_receiver_ends_with_its_queue,
        /// Rules: S-11.
        a_waiting_receiver_ends_when_its_queue_is_disabled;
    NextSession:
        /// Rules: N-04.
        the_task_that_asked_last_for_a_session_is_woken [Sessions];
}

/// How a receiver gives up its message.
enum GivenUp {
    Abandoned,
    Released,
    Dropped,
}

/// Checks that a receiver that waits gets the only message, which another one gives up.
async fn gets_what_is(bench: &Bench<'_>, given_up: GivenUp, count: u32) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let held = bench.receive(&queue).await?;
    let waiting = bench.receive_in_task(bench.receiver(&queue).await?);
    bench.wait(bench.margin()).await;
    match given_up {
        GivenUp::Abandoned => held.abandon().await?,
        GivenUp::Released => held.lease.release().await?,
        GivenUp::Dropped => drop(held),
    }
    let (_receiver, delivery) = waiting.received().await?;
    ensure_eq!((text(&delivery.message).as_str(), facts(&delivery.message)?.delivery_count), ("a", count));
    Ok(delivery.complete().await?)
}

async fn a_waiting_receiver_gets_what_another_abandons(bench: &Bench<'_>) -> Verdict {
    gets_what_is(bench, GivenUp::Abandoned, 2).await
}

async fn a_waiting_receiver_gets_what_another_releases(bench: &Bench<'_>) -> Verdict {
    gets_what_is(bench, GivenUp::Released, 1).await
}

async fn a_waiting_receiver_gets_what_another_drops(bench: &Bench<'_>) -> Verdict {
    gets_what_is(bench, GivenUp::Dropped, 2).await
}

/// The receiver is not stopped when it moves into another task, so it has the waker of the first one.
async fn the_task_that_polled_last_is_woken(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let mut receiver = bench.receiver(&queue).await?;
    let polled = receiver.poll_receive(&mut Context::from_waker(Waker::noop()), 1, &mut Vec::new());
    ensure!(polled.is_pending(), "a receive of an empty queue does not wait");
    bench.wait(bench.margin()).await;
    let waiting = bench.receive_in_task(receiver);
    bench.wait(bench.margin()).await;
    bench.send_bodies(&queue, ["a"]).await?;
    let (_receiver, delivery) = waiting.received().await?;
    ensure_eq!(text(&delivery.message), "a");
    Ok(delivery.complete().await?)
}

async fn a_waiting_receiver_ends_with_its_queue(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let waiting = bench.receive_in_task(bench.receiver(&queue).await?);
    bench.wait(bench.margin()).await;
    bench.transport.delete(&queue).await?;
    refused(waiting.received().await, &[ErrorKind::EntityNotFound])
}

async fn a_waiting_receiver_ends_when_its_queue_is_disabled(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let waiting = bench.receive_in_task(bench.receiver(&queue).await?);
    bench.wait(bench.margin()).await;
    detail(bench.set_status(&queue, Status::ReceiveDisabled).await)?;
    refused(waiting.received().await, &[ErrorKind::EntityDisabled])
}

async fn the_task_that_asked_last_for_a_session_is_woken(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    let mut source = bench.session_source(&queue).await?;
    let polled = source.poll_accept(&mut Context::from_waker(Waker::noop()));
    ensure!(polled.is_pending(), "an accept without a session does not wait");
    bench.wait(bench.margin()).await;
    let waiting = bench.accept_in_task(source);
    bench.wait(bench.margin()).await;
    send(bench, &queue, [("one", "a")]).await?;
    let (_source, mut session) = waiting.received().await?;
    ensure_eq!(bench.drain_by(&mut session).await?, ["a"]);
    Ok(())
}
