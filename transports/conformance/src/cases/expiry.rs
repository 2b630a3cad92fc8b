//! K-13 and K-14: how long a message waits, and what happens then.

use consign::time::Timestamp;

use super::prelude::*;

cases! {
    TimeToLive:
        /// Rules: T-04.
        a_message_expires,
        /// Rules: T-01.
        the_shorter_time_to_live_holds,
        /// Rules: T-02.
        without_its_own_a_message_has_the_queue_s,
        /// Rules: T-04.
        expires_at_is_the_enqueued_time_and_the_time_to_live,
        /// Rules: T-04.
        without_any_a_message_does_not_expire,
        /// Rules: T-05.
        only_what_expires_goes,
        /// Rules: T-06.
        a_lock_outlives_the_message [LockDuration],
        /// Rules: T-06.
        an_abandoned_message_expires_at_once [LockDuration],
        /// Rules: S-42.
        a_dead_letter_does_not_expire [DeadLetterReason],
        /// Rules: T-22.
        a_deferred_message_is_not_fetched_after_its_time [Peek, Deferral],
        /// Rules: K-40.
        a_send_whose_time_to_live_is_refused_stores_nothing;
    DeadLetterOnExpiration:
        /// Rules: S-37, S-91.
        an_expired_message_is_dead_lettered [TimeToLive],
        /// Rules: S-37.
        the_flag_is_off_by_default [TimeToLive],
        /// Rules: S-38.
        a_message_that_expires_while_locked_is_dead_lettered_afterwards [LockDuration, TimeToLive],
        /// Rules: T-23.
        a_deferred_message_is_not_dead_lettered [TimeToLive, Deferral],
        /// Rules: S-37.
        an_expired_message_is_what_it_was [TimeToLive];
}

fn mortal(body: &'static str, ttl: Duration) -> Result<Message, Failure> {
    Ok(Message::builder().time_to_live(ttl).build(body)?)
}

async fn a_message_expires(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send(&queue, mortal("a", ttl)?).await?;
    bench.send(&queue, mortal("b", ttl)?).await?;
    bench.wait_almost(ttl).await;
    ensure_eq!(text(&bench.take(&queue).await?), "a");
    bench.wait(bench.margin() * 2).await;
    bench.gone(&queue).await
}

async fn a_send_whose_time_to_live_is_refused_stores_nothing(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.queue(QueueSettings::default()).await?;
    let sender = bench.transport.sender(&queue).await?;
    let one = sender.send(mortal("a", ttl * 10)?).await;
    let batch = sender.send_batch(Batch::from([Message::new("b"), mortal("c", ttl * 10)?])).await;
    let Err(refusal) = one else {
        batch?;
        return bench.expect(&queue, ["a", "b", "c"]).await;
    };
    ensure!(batch.is_err(), "a batch with a time to live is stored, and a message with one is refused");
    bench.gone(&queue).await?;
    Err(refusal.into())
}

async fn the_shorter_time_to_live_holds(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.queue(QueueSettings::default().default_time_to_live(ttl)).await?;
    for (own, effective) in [(ttl * 10, ttl), (ttl / 2, ttl / 2)] {
        bench.send(&queue, mortal("a", own)?).await?;
        ensure_eq!(bench.take(&queue).await?.time_to_live(), Some(effective));
    }
    bench.send(&queue, mortal("b", ttl * 10)?).await?;
    bench.wait_past(ttl).await;
    bench.gone(&queue).await
}

async fn without_its_own_a_message_has_the_queue_s(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.queue(QueueSettings::default().default_time_to_live(ttl)).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    ensure_eq!(bench.take(&queue).await?.time_to_live(), Some(ttl));
    bench.wait_past(ttl).await;
    bench.gone(&queue).await
}

async fn expires_at_is_the_enqueued_time_and_the_time_to_live(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send(&queue, mortal("a", ttl)?).await?;
    let message = bench.take(&queue).await?;
    let facts = facts(&message)?;
    ensure_eq!(facts.expires_at, facts.enqueued_time.saturating_add(ttl));
    Ok(())
}

async fn without_any_a_message_does_not_expire(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send(&queue, mortal("b", ttl)?).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.wait_past(ttl * 2).await;
    let message = bench.take(&queue).await?;
    ensure_eq!(text(&message), "a");
    ensure_eq!((message.time_to_live(), facts(&message)?.expires_at), (None, Timestamp::MAX));
    Ok(())
}

async fn only_what_expires_goes(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.queue(QueueSettings::default()).await?;
    for (body, ttl) in [("a", ttl * 10), ("b", ttl), ("c", ttl * 10), ("d", ttl)] {
        bench.send(&queue, mortal(body, ttl)?).await?;
    }
    bench.wait_past(ttl).await;
    bench.expect(&queue, ["a", "c"]).await?;
    Ok(())
}

async fn a_lock_outlives_the_message(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.locking_queue().await?;
    bench.send(&queue, mortal("a", ttl)?).await?;
    let held = bench.receive(&queue).await?;
    bench.wait_past(ttl).await;
    held.complete().await?;
    bench.gone(&queue).await
}

async fn an_abandoned_message_expires_at_once(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.locking_queue().await?;
    bench.send(&queue, mortal("a", ttl)?).await?;
    let held = bench.receive(&queue).await?;
    bench.wait_past(ttl).await;
    held.abandon().await?;
    bench.gone(&queue).await
}

async fn a_dead_letter_does_not_expire(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.queue(QueueSettings::default().dead_letter_on_expiration(false)).await?;
    bench.send(&queue, mortal("a", ttl)?).await?;
    bench.receive(&queue).await?.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).await?;
    bench.wait_past(ttl * 2).await;
    bench.expect(&queue.dead_letter(), ["a"]).await?;
    Ok(())
}

async fn a_deferred_message_is_not_fetched_after_its_time(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send(&queue, mortal("a", ttl)?).await?;
    let delivery = bench.receive(&queue).await?;
    let number = number(&delivery.message)?;
    delivery.defer().await?;
    bench.wait_past(ttl).await;
    refused(bench.fetch(&queue, number).await, &[ErrorKind::MessageNotFound])?;
    // A peek still shows it.
    ensure_eq!(numbers(&bench.peek(&queue).await?)?, [number.get()]);
    Ok(())
}

fn burying() -> QueueSettings {
    QueueSettings::default().dead_letter_on_expiration(true)
}

async fn an_expired_message_is_dead_lettered(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.queue(burying()).await?;
    bench.send(&queue, mortal("a", ttl)?).await?;
    bench.wait_past(ttl).await;
    let dead = bench.take(&queue.dead_letter()).await?;
    ensure_eq!(text(&dead), "a");
    ensure_eq!(why(&dead), ("TTLExpiredException", "The message expired and was dead lettered."));
    bench.nothing(&queue).await
}

async fn the_flag_is_off_by_default(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let (off, on) = (bench.queue(QueueSettings::default()).await?, bench.queue(burying()).await?);
    for queue in [&off, &on] {
        bench.send(queue, mortal("a", ttl)?).await?;
    }
    bench.wait_past(ttl).await;
    bench.gone(&off).await?;
    bench.expect(&on.dead_letter(), ["a"]).await?;
    Ok(())
}

async fn a_message_that_expires_while_locked_is_dead_lettered_afterwards(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.queue(bench.locking().dead_letter_on_expiration(true)).await?;
    bench.send(&queue, mortal("a", ttl)?).await?;
    let _held = bench.receive(&queue).await?;
    bench.wait_past(ttl).await;
    bench.nothing(&queue.dead_letter()).await?;
    bench.wait_past(bench.lock().saturating_sub(ttl)).await;
    let dead = bench.take(&queue.dead_letter()).await?;
    ensure_eq!(why(&dead), ("TTLExpiredException", "The message expired and was dead lettered."));
    bench.nothing(&queue).await
}

async fn a_deferred_message_is_not_dead_lettered(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.queue(burying()).await?;
    bench.send(&queue, mortal("a", ttl)?).await?;
    bench.receive(&queue).await?.defer().await?;
    bench.wait_past(ttl).await;
    bench.gone(&queue).await
}

async fn an_expired_message_is_what_it_was(bench: &Bench<'_>) -> Verdict {
    let ttl = bench.time_to_live();
    let queue = bench.queue(burying()).await?;
    let message = Message::builder().message_id("m-1").subject("s").property("n", 7_i64).time_to_live(ttl);
    bench.send(&queue, message.build("a body")?).await?;
    bench.wait_past(ttl).await;
    let dead = bench.take(&queue.dead_letter()).await?;
    ensure_eq!((dead.message_id(), dead.subject(), text(&dead).as_str()), (Some("m-1"), Some("s"), "a body"));
    ensure_eq!(dead.application_properties().get("n"), Some(&PropertyValue::I64(7)));
    Ok(())
}
