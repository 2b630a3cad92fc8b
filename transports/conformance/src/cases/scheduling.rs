//! K-15 and K-16: scheduled messages, and their cancellation.

use super::prelude::*;

cases! {
    Scheduling:
        /// Rules: Q-21.
        a_scheduled_message_comes_at_its_time,
        /// Rules: Q-20.
        an_enqueue_time_schedules_too,
        /// Rules: Q-22.
        activation_is_an_acceptance_of_its_own [SequenceNumbers],
        /// Rules: Q-22.
        the_time_to_live_begins_at_the_activation [TimeToLive],
        /// Rules: Q-24.
        a_peek_shows_what_is_scheduled [Peek],
        /// Rules: Q-28.
        numbers_come_in_the_order_of_the_messages,
        /// Rules: Q-30.
        messages_due_together_are_delivered_in_order,
        /// Rules: Q-21.
        the_earlier_of_two_comes_first,
        /// Rules: Q-21.
        a_waiting_receiver_gets_it_when_it_is_due,
        /// Rules: Q-20.
        a_time_that_has_passed_means_now,
        /// Rules: K-40.
        a_schedule_that_is_refused_stores_nothing;
    CancelScheduled:
        /// Rules: Q-23.
        a_cancelled_message_does_not_come [Scheduling],
        /// Rules: Q-23.
        a_due_message_cannot_be_cancelled [Scheduling],
        /// Rules: Q-26.
        a_message_is_cancelled_once [Scheduling],
        /// Rules: Q-23.
        all_or_none_are_cancelled [Scheduling],
        /// Rules: Q-23.
        only_what_is_scheduled_is_cancelled [Release];
}

const SOON: Duration = Duration::from_secs(5);

/// Schedules a message for each body.
async fn schedule<const N: usize>(
    bench: &Bench<'_>,
    queue: &EntityPath,
    bodies: [&'static str; N],
    after: Duration,
) -> Result<Vec<SequenceNumber>, Failure> {
    let at = bench.in_future(after).await;
    Ok(bench.transport.schedule(queue, bodies.map(Message::new).into(), at).await?)
}

async fn a_scheduled_message_comes_at_its_time(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    schedule(bench, &queue, ["a"], SOON).await?;
    bench.nothing(&queue).await?;
    bench.wait_almost(SOON).await;
    bench.nothing(&queue).await?;
    bench.wait(bench.margin() * 2).await;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn an_enqueue_time_schedules_too(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let at = bench.in_future(SOON).await;
    bench.send(&queue, Message::builder().scheduled_enqueue_time(at).build("a")?).await?;
    bench.send_bodies(&queue, ["b"]).await?;
    bench.expect(&queue, ["b"]).await?;
    bench.wait_past(SOON).await;
    let message = bench.take(&queue).await?;
    ensure_eq!((text(&message).as_str(), message.scheduled_enqueue_time()), ("a", Some(at)));
    Ok(())
}

async fn activation_is_an_acceptance_of_its_own(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let due = bench.in_future(SOON).await;
    let scheduled = schedule(bench, &queue, ["a"], SOON).await?;
    bench.send_bodies(&queue, ["b"]).await?;
    let sent = number(&bench.take(&queue).await?)?;
    bench.wait_past(SOON).await;
    let message = bench.take(&queue).await?;
    ensure!(scheduled[0] < sent && sent < number(&message)?, "{scheduled:?}, then {sent}, then {message:?}");
    let enqueued = facts(&message)?.enqueued_time;
    ensure!(bench.is_near(enqueued, due), "enqueued at {enqueued:?}, due at {due:?}");
    ensure_eq!(facts(&message)?.state, MessageState::Active);
    Ok(())
}

async fn the_time_to_live_begins_at_the_activation(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    // Shorter than the time until the activation, and long enough for the receive behind it on a server that is busy.
    let ttl = Duration::from_secs(6) + bench.margin() * 2;
    let activation = ttl + Duration::from_secs(3);
    let message = |body| Message::builder().time_to_live(ttl).build(body);
    let at = bench.in_future(activation).await;
    bench.transport.schedule(&queue, vec![message("a")?, message("b")?], at).await?;
    bench.wait_past(activation).await;
    ensure_eq!(text(&bench.take(&queue).await?), "a");
    bench.wait_past(ttl).await;
    bench.gone(&queue).await
}

async fn a_peek_shows_what_is_scheduled(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let scheduled = schedule(bench, &queue, ["a"], SOON).await?;
    let peeked = bench.peek(&queue).await?;
    ensure_eq!(numbers(&peeked)?, [scheduled[0].get()]);
    ensure_eq!(facts(&peeked[0])?.state, MessageState::Scheduled);
    Ok(())
}

async fn numbers_come_in_the_order_of_the_messages(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let numbers = schedule(bench, &queue, ["a", "b", "c"], SOON).await?;
    ensure!(numbers.len() == 3 && numbers.is_sorted() && numbers[0] != numbers[1], "the numbers are {numbers:?}");
    Ok(())
}

async fn messages_due_together_are_delivered_in_order(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    schedule(bench, &queue, ["a", "b", "c", "d"], SOON).await?;
    bench.wait_past(SOON).await;
    bench.expect(&queue, ["a", "b", "c", "d"]).await?;
    Ok(())
}

async fn the_earlier_of_two_comes_first(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    schedule(bench, &queue, ["late"], SOON * 2).await?;
    schedule(bench, &queue, ["early"], SOON).await?;
    // On a slow machine both are due at the first look.
    bench.wait_past(SOON).await;
    let mut received = bench.drain(&queue).await?;
    bench.wait_past(SOON).await;
    received.extend(bench.drain(&queue).await?);
    ensure_eq!(received, ["early", "late"]);
    Ok(())
}

async fn a_waiting_receiver_gets_it_when_it_is_due(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let waiting = bench.receive_in_task(bench.receiver(&queue).await?).within(SOON * 2);
    schedule(bench, &queue, ["a"], SOON).await?;
    let (_receiver, delivery) = waiting.received().await?;
    Ok(delivery.complete().await?)
}

async fn a_time_that_has_passed_means_now(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    // Without it a transport that schedules nothing would pass.
    schedule(bench, &queue, ["later"], SOON).await?;
    let past = consign::time::Timestamp::from_millis(1_000);
    bench.transport.schedule(&queue, vec![Message::new("a")], past).await?;
    ensure_eq!(text(&bench.take(&queue).await?), "a");
    bench.wait_past(SOON).await;
    bench.expect(&queue, ["later"]).await?;
    Ok(())
}

async fn a_schedule_that_is_refused_stores_nothing(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let at = bench.in_future(SOON).await;
    let message = || Message::builder().scheduled_enqueue_time(at).build("a");
    let sender = bench.transport.sender(&queue).await?;
    let one = sender.send(message()?).await;
    let batch = sender.send_batch(Batch::from([message()?, message()?])).await;
    let call = bench.transport.schedule(&queue, vec![Message::new("a")], at).await;
    let Err(refusal) = one else {
        batch?;
        call?;
        bench.nothing(&queue).await?;
        bench.wait_past(SOON).await;
        return bench.expect(&queue, ["a"; 4]).await;
    };
    ensure!(batch.is_err() && call.is_err(), "one send with an enqueue time is refused, and another is not");
    bench.gone(&queue).await?;
    bench.wait_past(SOON).await;
    bench.gone(&queue).await?;
    Err(refusal.into())
}

const NOT_FOUND: &[ErrorKind] = &[ErrorKind::MessageNotFound];

async fn a_cancelled_message_does_not_come(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let numbers = schedule(bench, &queue, ["a", "b", "c"], SOON).await?;
    bench.transport.cancel_scheduled(&queue, &numbers[1..2]).await?;
    bench.wait_past(SOON).await;
    bench.expect(&queue, ["a", "c"]).await?;
    bench.nothing(&queue.dead_letter()).await
}

async fn a_due_message_cannot_be_cancelled(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let numbers = schedule(bench, &queue, ["a"], SOON).await?;
    bench.wait_past(SOON).await;
    refused(bench.transport.cancel_scheduled(&queue, &numbers).await, NOT_FOUND)?;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn a_message_is_cancelled_once(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let numbers = schedule(bench, &queue, ["a"], SOON).await?;
    bench.transport.cancel_scheduled(&queue, &numbers).await?;
    refused(bench.transport.cancel_scheduled(&queue, &numbers).await, NOT_FOUND)
}

async fn all_or_none_are_cancelled(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let mut numbers = schedule(bench, &queue, ["a", "b"], SOON).await?;
    numbers.push(SequenceNumber::new(1_000_000));
    refused(bench.transport.cancel_scheduled(&queue, &numbers).await, NOT_FOUND)?;
    numbers.pop();
    bench.transport.cancel_scheduled(&queue, &numbers).await?;
    bench.wait_past(SOON).await;
    bench.gone(&queue).await
}

async fn only_what_is_scheduled_is_cancelled(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let number = number(&delivery.message)?;
    delivery.lease.release().await?;
    refused(bench.transport.cancel_scheduled(&queue, &[number]).await, NOT_FOUND)?;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}
