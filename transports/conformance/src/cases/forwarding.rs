//! K-31: an entity forwards its messages.

use super::{prelude::*, topics::topic};

cases! {
    AutoForward:
        /// Rules: T-60.
        a_message_is_forwarded,
        /// Rules: T-60.
        the_source_gives_no_messages,
        /// Rules: T-60.
        messages_stay_in_their_order,
        /// Rules: T-60, S-96.
        a_message_without_a_destination_is_dead_lettered_at_its_source,
        /// Rules: T-62.
        the_destination_accepts_anew,
        /// Rules: T-62.
        the_first_number_is_kept,
        /// Rules: T-10.
        the_time_to_live_begins_again [TimeToLive],
        /// Rules: T-61, S-94.
        a_message_is_forwarded_four_times,
        /// Rules: T-63.
        dead_letters_are_forwarded [DeadLetterReason],
        /// Rules: T-63.
        a_dead_letter_says_where_it_died [MaxDeliveryCount],
        /// Rules: T-60.
        a_subscription_forwards_too [Topics],
        /// Rules: T-60.
        a_scheduled_message_is_forwarded_when_it_is_due [Scheduling],
        /// Rules: T-67.
        the_destination_detects_duplicates [DuplicateDetection];
}

fn to(destination: &EntityPath) -> QueueSettings {
    QueueSettings::default().forward_to(destination.as_str())
}

fn burying_in(destination: &EntityPath) -> QueueSettings {
    QueueSettings::default().forward_dead_letters_to(destination.as_str())
}

/// Creates a destination and a source that forwards to it.
async fn pair(bench: &Bench<'_>) -> Result<(EntityPath, EntityPath), Failure> {
    let destination = bench.queue(QueueSettings::default()).await?;
    let source = bench.queue(to(&destination)).await?;
    Ok((source, destination))
}

async fn a_message_is_forwarded(bench: &Bench<'_>) -> Verdict {
    let (source, destination) = pair(bench).await?;
    let message = Message::builder().message_id("m-1").property("n", 7_i64).build("a body")?;
    bench.send(&source, message).await?;
    let there = bench.take(&destination).await?;
    ensure_eq!((there.message_id(), text(&there).as_str()), (Some("m-1"), "a body"));
    ensure_eq!(there.application_properties().get("n"), Some(&PropertyValue::I64(7)));
    bench.gone(&destination).await
}

async fn the_source_gives_no_messages(bench: &Bench<'_>) -> Verdict {
    let (source, destination) = pair(bench).await?;
    bench.send_bodies(&source, ["a"]).await?;
    // It may refuse a receiver, or have no message.
    if let Some(delivery) = bench.try_receive(&source, 1).await.unwrap_or_default().pop() {
        return Err(Failure::behaviour(format!("the source gives {:?}", text(&delivery.message))));
    }
    bench.expect(&destination, ["a"]).await?;
    Ok(())
}

async fn messages_stay_in_their_order(bench: &Bench<'_>) -> Verdict {
    let (source, destination) = pair(bench).await?;
    bench.send_bodies(&source, ["a", "b", "c"]).await?;
    bench.transport.sender(&source).await?.send_batch(Batch::from(["d", "e"].map(Message::new))).await?;
    bench.expect(&destination, ["a", "b", "c", "d", "e"]).await?;
    Ok(())
}

async fn a_message_without_a_destination_is_dead_lettered_at_its_source(bench: &Bench<'_>) -> Verdict {
    let (source, destination) = pair(bench).await?;
    bench.transport.delete(&destination).await?;
    bench.send_bodies(&source, ["a"]).await?;
    let dead = bench.take(&source.dead_letter()).await?;
    ensure_eq!(text(&dead), "a");
    ensure!(!why(&dead).0.is_empty(), "the dead letter gives no reason");
    names(&dead, &destination)
}

/// The description of the dead letter names the entity that the message was to be forwarded to.
fn names(dead: &Message, destination: &EntityPath) -> Verdict {
    let description = why(dead).1;
    ensure!(description.contains(destination.as_str()), "{description:?} does not name {destination}");
    Ok(())
}

async fn the_destination_accepts_anew(bench: &Bench<'_>) -> Verdict {
    let (source, destination) = pair(bench).await?;
    bench.send_bodies(&destination, ["x", "y"]).await?;
    bench.send_bodies(&source, ["a"]).await?;
    let messages = bench.drain_messages(3, &destination).await?;
    ensure_eq!(texts(&messages), ["x", "y", "a"]);
    ensure!(number(&messages[2])? > number(&messages[1])?, "the number of the source was kept");
    ensure_eq!(facts(&messages[2])?.delivery_count, 1);
    Ok(())
}

async fn the_first_number_is_kept(bench: &Bench<'_>) -> Verdict {
    let last = bench.queue(QueueSettings::default()).await?;
    let middle = bench.queue(to(&last)).await?;
    let first = bench.queue(to(&middle)).await?;
    bench.send_bodies(&last, ["not forwarded"]).await?;
    ensure_eq!(facts(&bench.take(&last).await?)?.enqueued_sequence_number, SequenceNumber::new(0));
    // The second message is the first queue's second, and the last queue's third.
    bench.send_bodies(&first, ["a", "b"]).await?;
    let messages = bench.drain_messages(2, &last).await?;
    let mut submitted = Vec::new();
    for message in &messages {
        submitted.push(facts(message)?.enqueued_sequence_number.get());
    }
    ensure!(submitted.len() == 2 && submitted[0] > 0 && submitted[1] == submitted[0] + 1, "{submitted:?}");
    ensure!(submitted[1] < number(&messages[1])?.get(), "{submitted:?}");
    Ok(())
}

async fn the_time_to_live_begins_again(bench: &Bench<'_>) -> Verdict {
    let (source, destination) = pair(bench).await?;
    let ttl = bench.time_to_live();
    for body in ["a", "b"] {
        bench.send(&source, Message::builder().time_to_live(ttl).build(body)?).await?;
    }
    let there = bench.take(&destination).await?;
    ensure_eq!(there.time_to_live(), Some(ttl));
    ensure_eq!(facts(&there)?.expires_at, facts(&there)?.enqueued_time.saturating_add(ttl));
    bench.wait_past(ttl).await;
    bench.gone(&destination).await
}

async fn a_message_is_forwarded_four_times(bench: &Bench<'_>) -> Verdict {
    // Each forwards to the one before it.
    let mut chain = vec![bench.queue(QueueSettings::default()).await?];
    for _ in 0..5 {
        let next = to(&chain[chain.len() - 1]);
        chain.push(bench.queue(next).await?);
    }
    bench.send_bodies(&chain[4], ["four"]).await?;
    bench.expect(&chain[0], ["four"]).await?;
    bench.send_bodies(&chain[5], ["five"]).await?;
    bench.nothing(&chain[0]).await?;
    let dead = bench.take(&chain[1].dead_letter()).await?;
    ensure_eq!((text(&dead).as_str(), why(&dead).0), ("five", "MaxTransferHopCountExceeded"));
    names(&dead, &chain[0])
}

async fn dead_letters_are_forwarded(bench: &Bench<'_>) -> Verdict {
    let morgue = bench.queue(QueueSettings::default()).await?;
    let queue = bench.queue(burying_in(&morgue)).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let dead_letter = DeadLetter::new(DeadLetterReason::Application("Why".into()), "because");
    bench.receive(&queue).await?.dead_letter(dead_letter).await?;
    let dead = bench.take(&morgue).await?;
    ensure_eq!(text(&dead), "a");
    ensure_eq!(why(&dead), ("Why", "because"));
    bench.nothing(&queue.dead_letter()).await?;
    bench.expect(&queue, ["b"]).await?;
    Ok(())
}

async fn a_dead_letter_says_where_it_died(bench: &Bench<'_>) -> Verdict {
    let morgue = bench.queue(QueueSettings::default()).await?;
    let spec = burying_in(&morgue).max_delivery_count(1);
    let queue = bench.queue(spec).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.receive(&queue).await?.abandon().await?;
    let dead = bench.take(&morgue).await?;
    ensure_eq!(dead.dead_letter_source(), Some(queue.as_str()));
    bench.send_bodies(&morgue, ["b"]).await?;
    ensure_eq!(bench.take(&morgue).await?.dead_letter_source(), None);
    Ok(())
}

async fn a_subscription_forwards_too(bench: &Bench<'_>) -> Verdict {
    let destination = bench.queue(QueueSettings::default()).await?;
    let topic = topic(bench).await?;
    let forwarding = SubscriptionSettings::default().forward_to(destination.as_str());
    bench.subscription(&topic, "forwarding", forwarding).await?;
    let other = bench.subscription(&topic, "other", SubscriptionSettings::default()).await?;
    bench.send_bodies(&topic, ["a", "b"]).await?;
    bench.expect(&destination, ["a", "b"]).await?;
    bench.expect(&other, ["a", "b"]).await?;
    Ok(())
}

async fn a_scheduled_message_is_forwarded_when_it_is_due(bench: &Bench<'_>) -> Verdict {
    let (source, destination) = pair(bench).await?;
    let delay = Duration::from_secs(5);
    let at = bench.in_future(delay).await;
    bench.transport.schedule(&source, vec![Message::new("a")], at).await?;
    bench.nothing(&destination).await?;
    bench.wait_past(delay).await;
    bench.expect(&destination, ["a"]).await?;
    Ok(())
}

async fn the_destination_detects_duplicates(bench: &Bench<'_>) -> Verdict {
    let spec = QueueSettings::default().duplicate_detection(Duration::from_secs(20));
    let destination = bench.queue(spec).await?;
    let source = bench.queue(to(&destination)).await?;
    for body in ["a", "b"] {
        bench.send(&source, Message::builder().message_id("m-1").build(body)?).await?;
    }
    bench.expect(&destination, ["a"]).await?;
    bench.nothing(&source.dead_letter()).await
}
