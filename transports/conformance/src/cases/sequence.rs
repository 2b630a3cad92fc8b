//! K-17 and K-18: the sequence numbers and enqueued times of the broker.

use consign::{message::Properties, time::Timestamp};

use super::prelude::*;

cases! {
    SequenceNumbers:
        /// Rules: Q-02.
        numbers_are_dense,
        /// Rules: Q-02.
        numbers_of_a_batch_are_dense,
        /// Rules: Q-03.
        a_refused_send_uses_no_number,
        /// Rules: Q-08.
        a_number_stays_with_its_message,
        /// Rules: Q-08.
        a_deferred_message_keeps_its_number [Deferral],
        /// Rules: Q-09.
        messages_come_in_the_order_of_their_numbers,
        /// Rules: Q-01.
        each_entity_counts_for_itself,
        /// Rules: X-07.
        sends_at_the_same_time_are_numbered_in_their_order;
    EnqueuedTime:
        /// Rules: Q-10.
        the_time_is_the_broker_s,
        /// Rules: Q-10.
        the_sender_s_clock_does_not_matter,
        /// Rules: Q-11.
        times_do_not_fall,
        /// Rules: Q-08.
        the_time_stays_with_its_message;
}

async fn numbers_are_dense(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    let mut messages = bench.drain_messages(3, &queue).await?;
    bench.send_bodies(&queue, ["d", "e"]).await?;
    messages.extend(bench.drain_messages(2, &queue).await?);
    let numbers = numbers(&messages)?;
    ensure!(numbers.len() == 5 && numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
    Ok(())
}

async fn numbers_of_a_batch_are_dense(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.transport.sender(&queue).await?.send_batch(Batch::from(["a", "b", "c"].map(Message::new))).await?;
    let messages = bench.drain_messages(3, &queue).await?;
    ensure_eq!(texts(&messages), ["a", "b", "c"]);
    let numbers = numbers(&messages)?;
    ensure!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
    Ok(())
}

async fn a_refused_send_uses_no_number(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let mut properties = Properties::new();
    properties.application_properties_mut().insert("k", "x".repeat(33_000));
    let bad = || Message::from_parts(properties.clone(), "bad".into());
    let kinds = [ErrorKind::InvalidArgument, ErrorKind::Serialization];
    refused(bench.send(&queue, bad()).await, &kinds)?;
    let batch = Batch::from([Message::new("b"), bad()]);
    refused(bench.transport.sender(&queue).await?.send_batch(batch).await, &kinds)?;
    bench.send_bodies(&queue, ["c"]).await?;
    let numbers = numbers(&bench.drain_messages(2, &queue).await?)?;
    ensure!(numbers.len() == 2 && numbers[0] + 1 == numbers[1], "{numbers:?}");
    Ok(())
}

async fn a_number_stays_with_its_message(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let first = bench.receive(&queue).await?;
    let number = number(&first.message)?;
    first.abandon().await?;
    let second = bench.receive(&queue).await?;
    ensure_eq!(facts(&second.message)?.sequence_number, number);
    drop(second);
    ensure_eq!(facts(&bench.take(&queue).await?)?.sequence_number, number);
    Ok(())
}

async fn a_deferred_message_keeps_its_number(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let number = number(&delivery.message)?;
    delivery.defer().await?;
    for _ in 0..2 {
        let fetched = bench.fetch(&queue, number).await?;
        ensure_eq!(facts(&fetched.message)?.sequence_number, number);
        fetched.abandon().await?;
    }
    Ok(())
}

async fn messages_come_in_the_order_of_their_numbers(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c", "d", "e"]).await?;
    let messages = bench.drain_messages(5, &queue).await?;
    ensure_eq!(texts(&messages), ["a", "b", "c", "d", "e"]);
    let numbers = numbers(&messages)?;
    ensure!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    Ok(())
}

async fn each_entity_counts_for_itself(bench: &Bench<'_>) -> Verdict {
    let (one, two) = (bench.queue(QueueSettings::default()).await?, bench.queue(QueueSettings::default()).await?);
    bench.send_bodies(&one, ["a"]).await?;
    bench.send_bodies(&two, ["x", "y", "z"]).await?;
    bench.send_bodies(&one, ["b"]).await?;
    let numbers = numbers(&bench.drain_messages(2, &one).await?)?;
    ensure!(numbers.len() == 2 && numbers[0] + 1 == numbers[1], "{numbers:?}");
    Ok(())
}

async fn sends_at_the_same_time_are_numbered_in_their_order(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let sender = bench.transport.sender(&queue).await?;
    let sends: Vec<_> = ["a", "b", "c", "d"].map(|body| sender.send(Message::new(body))).into();
    futures_util::future::try_join_all(sends).await?;
    let messages = bench.drain_messages(4, &queue).await?;
    ensure_eq!(texts(&messages), ["a", "b", "c", "d"]);
    let numbers = numbers(&messages)?;
    ensure!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
    Ok(())
}

async fn the_time_is_the_broker_s(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let before = bench.in_future(Duration::ZERO).await;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.wait(bench.margin() * 3).await;
    let enqueued = facts(&bench.take(&queue).await?)?.enqueued_time;
    ensure!(bench.is_near(enqueued, before), "sent at {before:?}, and enqueued at {enqueued:?}");
    Ok(())
}

async fn the_sender_s_clock_does_not_matter(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let before = bench.in_future(Duration::ZERO).await;
    let mut properties = Properties::new();
    properties.pass_through_mut().creation_time = Some(Timestamp::from_millis(1_000));
    bench.send(&queue, Message::from_parts(properties, "a".into())).await?;
    let enqueued = facts(&bench.take(&queue).await?)?.enqueued_time;
    ensure!(bench.is_near(enqueued, before), "sent at {before:?}, and enqueued at {enqueued:?}");
    Ok(())
}

async fn times_do_not_fall(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    for body in ["a", "b", "c"] {
        bench.send(&queue, Message::new(body)).await?;
        bench.wait(bench.margin()).await;
    }
    let mut times = Vec::new();
    for message in bench.drain_messages(3, &queue).await? {
        times.push(facts(&message)?.enqueued_time);
    }
    ensure!(times.len() == 3 && times.is_sorted() && times[0] < times[2], "{times:?}");
    Ok(())
}

async fn the_time_stays_with_its_message(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let first = bench.receive(&queue).await?;
    let enqueued = facts(&first.message)?.enqueued_time;
    bench.wait(bench.margin() * 2).await;
    first.abandon().await?;
    ensure_eq!(facts(&bench.take(&queue).await?)?.enqueued_time, enqueued);
    Ok(())
}
