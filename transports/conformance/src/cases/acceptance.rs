//! K-01: a send that returns `Ok` has stored the message.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use futures_util::future::try_join_all;

use super::prelude::*;

cases! {
    Acceptance:
        /// Rules: X-01.
        a_message_is_there_when_its_send_ends,
        /// Rules: K-48.
        a_server_that_runs_answers_pings,
        /// Rules: X-07.
        two_senders_fill_one_queue,
        /// Rules: X-06.
        sends_at_the_same_time_are_all_stored,
        /// Rules: T-82.
        a_batch_is_stored_as_a_whole_and_in_order,
        /// Rules: M-15.
        an_enqueue_time_that_has_passed_means_now,
        /// Rules: M-16.
        properties_of_a_received_message_are_not_sent_again;
}

async fn a_message_is_there_when_its_send_ends(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    for body in ["a", "b", "c"] {
        bench.send(&queue, Message::new(body)).await?;
        ensure_eq!(text(&bench.take(&queue).await?), body);
    }
    bench.gone(&queue).await
}

async fn a_server_that_runs_answers_pings(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.transport.ping().await?;
    try_join_all((0..10).map(|_| bench.transport.ping())).await?;
    bench.send(&queue, Message::new("a")).await?;
    bench.transport.ping().await?;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn two_senders_fill_one_queue(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let (one, two) = (bench.transport.sender(&queue).await?, bench.transport.sender(&queue).await?);
    one.send(Message::new("a")).await?;
    two.send(Message::new("b")).await?;
    drop(two);
    one.send(Message::new("c")).await?;
    bench.expect(&queue, ["a", "b", "c"]).await?;
    Ok(())
}

async fn sends_at_the_same_time_are_all_stored(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let sender = bench.transport.sender(&queue).await?;
    // The others do not wait for the answer to this one, which is not polled meanwhile.
    let mut first = pin!(sender.send(Message::new("00")));
    let polled = first.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let others = try_join_all((1..20).map(|index| sender.send(Message::new(format!("{index:02}")))));
    let Ok(others) = tokio::time::timeout(bench.lock(), others).await else {
        return Err(Failure::behaviour("sends wait for the answer to an earlier one"));
    };
    others?;
    match polled {
        Poll::Ready(sent) => sent?,
        Poll::Pending => first.await?,
    }
    let mut bodies = bench.drain_count(20, &queue).await?;
    bodies.sort();
    let sent: Vec<String> = (0..20).map(|index| format!("{index:02}")).collect();
    ensure_eq!(bodies, sent);
    Ok(())
}

async fn a_batch_is_stored_as_a_whole_and_in_order(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let batch = Batch::from(["a", "b", "c", "d"].map(Message::new));
    bench.transport.sender(&queue).await?.send_batch(batch).await?;
    bench.expect(&queue, ["a", "b", "c", "d"]).await?;
    Ok(())
}

async fn an_enqueue_time_that_has_passed_means_now(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let past = consign::time::Timestamp::from_millis(1_000);
    bench.send(&queue, Message::builder().scheduled_enqueue_time(past).build("a")?).await?;
    let taken = bench.take(&queue).await?;
    ensure_eq!(text(&taken), "a");
    // A broker without scheduling may not store it.
    if bench.capabilities().supports(Capability::Scheduling) {
        ensure_eq!(taken.scheduled_enqueue_time(), Some(past));
    }
    Ok(())
}

/// What a layer of the receiver has added.
struct Added;

/// A received message can be sent unchanged: the broker sets all its facts anew.
async fn properties_of_a_received_message_are_not_sent_again(bench: &Bench<'_>) -> Verdict {
    let (from, to) = (bench.queue(QueueSettings::default()).await?, bench.queue(QueueSettings::default()).await?);
    bench.send_bodies(&from, ["a", "b"]).await?;
    bench.receive(&from).await?.abandon().await?;
    let (one, other) = (bench.take(&from).await?, bench.take(&from).await?);
    // The place of the abandoned message is not tested here: what has the larger number is sent first.
    let is_reversed = number(&one)? > number(&other)?;
    let (first, second) = if is_reversed { (one, other) } else { (other, one) };
    let sent = texts([&first, &second]);
    let mut first = first.with_dead_letter_source("elsewhere");
    first.extensions_mut().insert(Added);
    bench.send(&to, first).await?;
    bench.send(&to, second).await?;
    let there = [bench.take(&to).await?, bench.take(&to).await?];
    ensure_eq!(texts(&there), sent);
    for message in &there {
        ensure_eq!(facts(message)?.delivery_count, 1);
        ensure_eq!(message.dead_letter_source(), None);
        ensure!(message.extensions().get::<Added>().is_none(), "the message has the extension of the sender");
    }
    ensure!(number(&there[0])? < number(&there[1])?, "the numbers of the first queue were kept");
    Ok(())
}
