//! K-19: peeking messages without a trace.

use super::prelude::*;

cases! {
    Peek:
        /// Rules: T-30.
        a_peek_locks_nothing,
        /// Rules: T-30.
        a_locked_message_is_shown,
        /// Rules: T-30.
        a_deferred_message_is_shown_as_such [Deferral],
        /// Rules: T-30.
        dead_letters_are_shown_at_their_own_address [DeadLetterReason],
        /// Rules: T-31.
        messages_come_in_order_from_a_number_on,
        /// Rules: T-32.
        at_most_as_many_as_requested,
        /// Rules: T-32.
        nothing_is_an_empty_list,
        /// Rules: T-33.
        a_peeked_message_has_no_lock,
        /// Rules: T-30.
        a_peeked_message_is_whole,
        /// Rules: K-43.
        messages_are_counted_by_state [DeadLetterReason, Scheduling, Deferral];
}

async fn a_peek_locks_nothing(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    for _ in 0..3 {
        ensure_eq!(texts(&bench.peek(&queue).await?), ["a", "b"]);
    }
    bench.expect(&queue, ["a", "b"]).await?;
    ensure_eq!(bench.peek(&queue).await?.len(), 0);
    Ok(())
}

async fn a_locked_message_is_shown(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let held = bench.receive(&queue).await?;
    ensure_eq!(texts(&bench.peek(&queue).await?), ["a", "b"]);
    held.complete().await?;
    ensure_eq!(texts(&bench.peek(&queue).await?), ["b"]);
    Ok(())
}

async fn a_deferred_message_is_shown_as_such(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    bench.receive(&queue).await?.defer().await?;
    let mut states = Vec::new();
    for message in &bench.peek(&queue).await? {
        states.push((text(message), facts(message)?.state));
    }
    ensure_eq!(states, [("a".into(), MessageState::Deferred), ("b".into(), MessageState::Active)]);
    Ok(())
}

async fn dead_letters_are_shown_at_their_own_address(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let dead_letter = DeadLetter::new(DeadLetterReason::Application("Why".into()), "");
    bench.receive(&queue).await?.dead_letter(dead_letter).await?;
    ensure_eq!(texts(&bench.peek(&queue).await?), ["b"]);
    let dead = bench.peek(&queue.dead_letter()).await?;
    ensure_eq!(texts(&dead), ["a"]);
    ensure_eq!(why(&dead[0]).0, "Why");
    bench.expect(&queue.dead_letter(), ["a"]).await?;
    Ok(())
}

async fn messages_come_in_order_from_a_number_on(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c", "d"]).await?;
    let all = bench.peek(&queue).await?;
    let numbers = numbers(&all)?;
    ensure!(numbers.len() == 4 && numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    for (index, first) in numbers.iter().enumerate() {
        let peeked = bench.transport.peek(&queue, SequenceNumber::new(*first), 10).await?;
        ensure_eq!(texts(&peeked), texts(&all[index..]));
    }
    Ok(())
}

async fn at_most_as_many_as_requested(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    let (mut from, mut seen) = (SequenceNumber::new(0), Vec::new());
    loop {
        let peeked = bench.transport.peek(&queue, from, 2).await?;
        ensure!(peeked.len() <= 2 && seen.len() < 9, "{} messages at once after {seen:?}", peeked.len());
        let Some(last) = peeked.last() else { break };
        from = number(last)?.next();
        seen.extend(texts(&peeked));
    }
    ensure_eq!(seen, ["a", "b", "c"]);
    Ok(())
}

async fn nothing_is_an_empty_list(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    ensure_eq!(bench.peek(&queue).await?.len(), 0);
    bench.send_bodies(&queue, ["a"]).await?;
    ensure_eq!(bench.transport.peek(&queue, SequenceNumber::new(1_000_000), 10).await?.len(), 0);
    ensure_eq!(bench.peek(&queue.dead_letter()).await?.len(), 0);
    Ok(())
}

async fn a_peeked_message_has_no_lock(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let held = bench.receive(&queue).await?;
    let peeked = bench.peek(&queue).await?;
    ensure_eq!(facts(&peeked[0])?.locked_until, None);
    Ok(held.complete().await?)
}

async fn a_peeked_message_is_whole(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let message = Message::builder().message_id("m-1").subject("s").property("n", 7_i64).build("a body")?;
    bench.send(&queue, message).await?;
    let peeked = bench.peek(&queue).await?;
    let received = bench.take(&queue).await?;
    ensure_eq!((number(&peeked[0])?, peeked[0].message_id()), (number(&received)?, Some("m-1")));
    ensure_eq!((text(&peeked[0]).as_str(), peeked[0].subject()), ("a body", Some("s")));
    ensure_eq!(peeked[0].application_properties().get("n"), Some(&PropertyValue::I64(7)));
    ensure_eq!(facts(&peeked[0])?.enqueued_time, facts(&received)?.enqueued_time);
    Ok(())
}

async fn messages_are_counted_by_state(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["dead", "deferred", "locked", "active"]).await?;
    bench.receive(&queue).await?.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).await?;
    bench.receive(&queue).await?.defer().await?;
    let held = bench.receive(&queue).await?;
    let at = bench.in_future(Duration::from_secs(60)).await;
    bench.transport.schedule(&queue, vec![Message::new("scheduled")], at).await?;
    let counts = bench.transport.counts(&queue).await?;
    ensure_eq!((counts.active + counts.locked, counts.deferred), (2, 1));
    ensure_eq!((counts.scheduled, counts.dead_lettered), (1, 1));
    Ok(held.complete().await?)
}
