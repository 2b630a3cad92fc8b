//! K-24: a MessageId is accepted once.

use super::prelude::*;

cases! {
    DuplicateDetection:
        /// Rules: T-41.
        a_duplicate_is_accepted_and_dropped,
        /// Rules: T-40.
        only_the_id_counts,
        /// Rules: T-42.
        the_window_ends,
        /// Rules: T-42.
        a_duplicate_does_not_extend_the_window,
        /// Rules: T-43.
        the_first_one_s_fate_does_not_matter [DeadLetterReason],
        /// Rules: T-49.
        ids_are_compared_as_they_are,
        /// Rules: T-48.
        the_first_of_a_batch_wins,
        /// Rules: T-48.
        the_id_of_a_refused_message_is_not_remembered,
        /// Rules: Q-03.
        a_duplicate_has_no_number [SequenceNumbers],
        /// Rules: M-11.
        without_an_id_nothing_is_a_duplicate,
        /// Rules: T-46.
        each_entity_remembers_for_itself,
        /// Rules: T-46.
        a_topic_detects_before_it_copies [Topics],
        /// Rules: T-44.
        a_scheduled_message_is_remembered [Scheduling],
        /// Rules: T-45.
        a_duplicate_schedule_answers_the_first_number [Scheduling, CancelScheduled];
}

/// The shortest window of the model.
const WINDOW: Duration = Duration::from_secs(20);

async fn detecting(bench: &Bench<'_>) -> Result<EntityPath, Failure> {
    bench.queue(QueueSettings::default().duplicate_detection(WINDOW)).await
}

fn with_id(id: &'static str, body: &'static str) -> Result<Message, Failure> {
    Ok(Message::builder().message_id(id).build(body)?)
}

async fn a_duplicate_is_accepted_and_dropped(bench: &Bench<'_>) -> Verdict {
    let queue = detecting(bench).await?;
    for (id, body) in [("one", "a"), ("one", "a"), ("two", "b"), ("one", "a")] {
        bench.send(&queue, with_id(id, body)?).await?;
    }
    bench.expect(&queue, ["a", "b"]).await?;
    bench.nothing(&queue.dead_letter()).await
}

async fn only_the_id_counts(bench: &Bench<'_>) -> Verdict {
    let queue = detecting(bench).await?;
    bench.send(&queue, with_id("one", "first")?).await?;
    let other = Message::builder().message_id("one").subject("other").property("n", 7_i64).build("second")?;
    bench.send(&queue, other).await?;
    bench.send(&queue, with_id("two", "first")?).await?;
    bench.expect(&queue, ["first", "first"]).await?;
    Ok(())
}

async fn the_window_ends(bench: &Bench<'_>) -> Verdict {
    let queue = detecting(bench).await?;
    bench.send(&queue, with_id("one", "a")?).await?;
    bench.wait_almost(WINDOW).await;
    bench.send(&queue, with_id("one", "b")?).await?;
    bench.wait(bench.margin() * 2).await;
    bench.send(&queue, with_id("one", "c")?).await?;
    bench.expect(&queue, ["a", "c"]).await?;
    Ok(())
}

async fn a_duplicate_does_not_extend_the_window(bench: &Bench<'_>) -> Verdict {
    let queue = detecting(bench).await?;
    bench.send(&queue, with_id("one", "a")?).await?;
    for _ in 0..3 {
        bench.wait(WINDOW / 4).await;
        bench.send(&queue, with_id("one", "b")?).await?;
    }
    bench.wait_past(WINDOW / 4).await;
    bench.send(&queue, with_id("one", "c")?).await?;
    bench.expect(&queue, ["a", "c"]).await?;
    Ok(())
}

async fn the_first_one_s_fate_does_not_matter(bench: &Bench<'_>) -> Verdict {
    let queue = detecting(bench).await?;
    bench.send(&queue, with_id("completed", "a")?).await?;
    bench.send(&queue, with_id("dead", "b")?).await?;
    bench.take(&queue).await?;
    bench.receive(&queue).await?.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).await?;
    for id in ["completed", "dead"] {
        bench.send(&queue, with_id(id, "again")?).await?;
    }
    bench.nothing(&queue).await?;
    bench.expect(&queue.dead_letter(), ["b"]).await?;
    Ok(())
}

async fn ids_are_compared_as_they_are(bench: &Bench<'_>) -> Verdict {
    let queue = detecting(bench).await?;
    for id in ["one", "ONE", "one ", "öne"] {
        bench.send(&queue, with_id(id, "a")?).await?;
    }
    ensure_eq!(bench.drain_count(4, &queue).await?.len(), 4);
    Ok(())
}

async fn the_first_of_a_batch_wins(bench: &Bench<'_>) -> Verdict {
    let queue = detecting(bench).await?;
    let batch = Batch::from([with_id("one", "a")?, with_id("two", "b")?, with_id("one", "c")?]);
    bench.transport.sender(&queue).await?.send_batch(batch).await?;
    bench.expect(&queue, ["a", "b"]).await?;
    Ok(())
}

async fn the_id_of_a_refused_message_is_not_remembered(bench: &Bench<'_>) -> Verdict {
    let queue = detecting(bench).await?;
    let mut bad = with_id("two", "bad")?;
    bad.properties_mut().application_properties_mut().insert("k", "x".repeat(33_000));
    let batch = Batch::from([with_id("one", "a")?, bad]);
    let kinds = [ErrorKind::InvalidArgument, ErrorKind::Serialization];
    refused(bench.transport.sender(&queue).await?.send_batch(batch).await, &kinds)?;
    for (id, body) in [("one", "a"), ("two", "b")] {
        bench.send(&queue, with_id(id, body)?).await?;
    }
    bench.expect(&queue, ["a", "b"]).await?;
    Ok(())
}

async fn a_duplicate_has_no_number(bench: &Bench<'_>) -> Verdict {
    let queue = detecting(bench).await?;
    for (id, body) in [("one", "a"), ("one", "a"), ("two", "b")] {
        bench.send(&queue, with_id(id, body)?).await?;
    }
    let numbers = numbers(&bench.drain_messages(2, &queue).await?)?;
    ensure!(numbers.len() == 2 && numbers[0] + 1 == numbers[1], "{numbers:?}");
    Ok(())
}

async fn without_an_id_nothing_is_a_duplicate(bench: &Bench<'_>) -> Verdict {
    let queue = detecting(bench).await?;
    bench.send_bodies(&queue, ["a", "a", "a"]).await?;
    bench.expect(&queue, ["a", "a", "a"]).await?;
    Ok(())
}

async fn each_entity_remembers_for_itself(bench: &Bench<'_>) -> Verdict {
    let (one, two) = (detecting(bench).await?, detecting(bench).await?);
    let without = bench.queue(QueueSettings::default()).await?;
    for queue in [&one, &two, &without, &without] {
        bench.send(queue, with_id("one", "a")?).await?;
    }
    bench.expect(&one, ["a"]).await?;
    bench.expect(&two, ["a"]).await?;
    bench.expect(&without, ["a", "a"]).await?;
    Ok(())
}

async fn a_topic_detects_before_it_copies(bench: &Bench<'_>) -> Verdict {
    let topic = bench.topic(TopicSettings::default().duplicate_detection(WINDOW)).await?;
    let one = bench.subscription(&topic, "one", SubscriptionSettings::default()).await?;
    bench.send(&topic, with_id("one", "a")?).await?;
    let two = bench.subscription(&topic, "two", SubscriptionSettings::default()).await?;
    bench.send(&topic, with_id("one", "b")?).await?;
    bench.expect(&one, ["a"]).await?;
    bench.nothing(&two).await
}

async fn a_scheduled_message_is_remembered(bench: &Bench<'_>) -> Verdict {
    let queue = detecting(bench).await?;
    let at = bench.in_future(WINDOW / 4).await;
    bench.transport.schedule(&queue, vec![with_id("one", "scheduled")?], at).await?;
    bench.send(&queue, with_id("one", "sent")?).await?;
    bench.send(&queue, with_id("two", "sent")?).await?;
    bench.transport.schedule(&queue, vec![with_id("two", "scheduled")?], at).await?;
    bench.expect(&queue, ["sent"]).await?;
    bench.wait_past(WINDOW / 4).await;
    bench.expect(&queue, ["scheduled"]).await?;
    Ok(())
}

async fn a_duplicate_schedule_answers_the_first_number(bench: &Bench<'_>) -> Verdict {
    let queue = detecting(bench).await?;
    let at = bench.in_future(WINDOW / 4).await;
    let first = bench.transport.schedule(&queue, vec![with_id("one", "a")?], at).await?;
    let second = bench.transport.schedule(&queue, vec![with_id("one", "a")?], at).await?;
    ensure_eq!(second, first);
    bench.transport.cancel_scheduled(&queue, &second).await?;
    bench.wait_past(WINDOW / 4).await;
    bench.gone(&queue).await
}
