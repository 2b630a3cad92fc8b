//! K-13 and K-14: how long a message waits, and what happens then.

use consign::time::Timestamp;

use super::prelude::*;

cases! {
    TimeToLive:
        t_04_a_message_expires,
        t_01_the_shorter_time_to_live_holds,
        t_02_without_its_own_a_message_has_the_queue_s,
        t_04_expires_at_is_the_enqueued_time_and_the_time_to_live,
        t_04_without_any_a_message_does_not_expire,
        t_05_only_what_expires_goes,
        t_06_a_lock_outlives_the_message [LockDuration],
        t_06_an_abandoned_message_expires_at_once [LockDuration],
        s_42_a_dead_letter_does_not_expire [DeadLetterReason],
        t_22_a_deferred_message_is_not_fetched_after_its_time [Peek, Deferral];
    DeadLetterOnExpiration:
        s_37_s_91_an_expired_message_is_dead_lettered [TimeToLive],
        s_37_the_flag_is_off_by_default [TimeToLive],
        s_38_what_expires_under_its_lock_is_dead_lettered_afterwards [LockDuration, TimeToLive],
        t_23_a_deferred_message_is_not_dead_lettered [TimeToLive, Deferral],
        s_37_an_expired_message_is_what_it_was [TimeToLive];
}

/// Longer than every margin.
const TTL: Duration = Duration::from_secs(3);

fn mortal(body: &'static str, ttl: Duration) -> Result<Message, Failure> {
    Ok(Message::builder().time_to_live(ttl).build(body)?)
}

async fn t_04_a_message_expires<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(QueueSpec::default()).await?;
    bench.send(&queue, mortal("a", TTL)?).await?;
    bench.send(&queue, mortal("b", TTL)?).await?;
    bench.wait_almost(TTL).await;
    ensure_eq!(text(&bench.take(&queue).await?), "a");
    bench.wait(bench.margin() * 2).await;
    bench.gone(&queue).await
}

async fn t_01_the_shorter_time_to_live_holds<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(QueueSpec { time_to_live: Some(TTL), ..QueueSpec::default() }).await?;
    for (own, effective) in [(TTL * 10, TTL), (TTL / 2, TTL / 2)] {
        bench.send(&queue, mortal("a", own)?).await?;
        ensure_eq!(bench.take(&queue).await?.time_to_live(), Some(effective));
    }
    bench.send(&queue, mortal("b", TTL * 10)?).await?;
    bench.wait_past(TTL).await;
    bench.gone(&queue).await
}

async fn t_02_without_its_own_a_message_has_the_queue_s<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(QueueSpec { time_to_live: Some(TTL), ..QueueSpec::default() }).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    ensure_eq!(bench.take(&queue).await?.time_to_live(), Some(TTL));
    bench.wait_past(TTL).await;
    bench.gone(&queue).await
}

async fn t_04_expires_at_is_the_enqueued_time_and_the_time_to_live<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(QueueSpec::default()).await?;
    bench.send(&queue, mortal("a", TTL)?).await?;
    let message = bench.take(&queue).await?;
    let facts = facts(&message)?;
    ensure_eq!(facts.expires_at, facts.enqueued_time.saturating_add(TTL));
    Ok(())
}

async fn t_04_without_any_a_message_does_not_expire<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(QueueSpec::default()).await?;
    bench.send(&queue, mortal("b", TTL)?).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.wait_past(TTL * 2).await;
    let message = bench.take(&queue).await?;
    ensure_eq!(text(&message), "a");
    ensure_eq!((message.time_to_live(), facts(&message)?.expires_at), (None, Timestamp::MAX));
    Ok(())
}

async fn t_05_only_what_expires_goes<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(QueueSpec::default()).await?;
    for (body, ttl) in [("a", TTL * 10), ("b", TTL), ("c", TTL * 10), ("d", TTL)] {
        bench.send(&queue, mortal(body, ttl)?).await?;
    }
    bench.wait_past(TTL).await;
    ensure_eq!(bench.drain(&queue).await?, ["a", "c"]);
    Ok(())
}

async fn t_06_a_lock_outlives_the_message<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send(&queue, mortal("a", TTL)?).await?;
    let held = bench.receive(&queue).await?;
    bench.wait_past(TTL).await;
    held.complete().await?;
    bench.gone(&queue).await
}

async fn t_06_an_abandoned_message_expires_at_once<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send(&queue, mortal("a", TTL)?).await?;
    let held = bench.receive(&queue).await?;
    bench.wait_past(TTL).await;
    held.abandon().await?;
    bench.gone(&queue).await
}

async fn s_42_a_dead_letter_does_not_expire<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(QueueSpec { dead_letter_on_expiration: false, ..QueueSpec::default() }).await?;
    bench.send(&queue, mortal("a", TTL)?).await?;
    bench.receive(&queue).await?.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).await?;
    bench.wait_past(TTL * 2).await;
    ensure_eq!(bench.drain(&queue.dead_letter()).await?, ["a"]);
    Ok(())
}

async fn t_22_a_deferred_message_is_not_fetched_after_its_time<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(QueueSpec::default()).await?;
    bench.send(&queue, mortal("a", TTL)?).await?;
    let delivery = bench.receive(&queue).await?;
    let number = number(&delivery.message)?;
    delivery.defer().await?;
    bench.wait_past(TTL).await;
    refused(bench.fetch(&queue, number).await, &[ErrorKind::MessageNotFound])?;
    // A peek still shows it.
    ensure_eq!(numbers(&bench.peek(&queue).await?)?, [number.get()]);
    Ok(())
}

fn burying() -> QueueSpec {
    QueueSpec { dead_letter_on_expiration: true, ..QueueSpec::default() }
}

async fn s_37_s_91_an_expired_message_is_dead_lettered<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(burying()).await?;
    bench.send(&queue, mortal("a", TTL)?).await?;
    bench.wait_past(TTL).await;
    let dead = bench.take(&queue.dead_letter()).await?;
    ensure_eq!((text(&dead).as_str(), why(&dead).0), ("a", "TTLExpiredException"));
    bench.nothing(&queue).await
}

async fn s_37_the_flag_is_off_by_default<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let (off, on) = (bench.queue(QueueSpec::default()).await?, bench.queue(burying()).await?);
    for queue in [&off, &on] {
        bench.send(queue, mortal("a", TTL)?).await?;
    }
    bench.wait_past(TTL).await;
    bench.gone(&off).await?;
    ensure_eq!(bench.drain(&on.dead_letter()).await?, ["a"]);
    Ok(())
}

async fn s_38_what_expires_under_its_lock_is_dead_lettered_afterwards<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(QueueSpec { dead_letter_on_expiration: true, ..bench.locking() }).await?;
    bench.send(&queue, mortal("a", TTL)?).await?;
    let _held = bench.receive(&queue).await?;
    bench.wait_past(TTL).await;
    bench.nothing(&queue.dead_letter()).await?;
    bench.wait_past(bench.lock().saturating_sub(TTL)).await;
    ensure_eq!(why(&bench.take(&queue.dead_letter()).await?).0, "TTLExpiredException");
    bench.nothing(&queue).await
}

async fn t_23_a_deferred_message_is_not_dead_lettered<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(burying()).await?;
    bench.send(&queue, mortal("a", TTL)?).await?;
    bench.receive(&queue).await?.defer().await?;
    bench.wait_past(TTL).await;
    bench.gone(&queue).await
}

async fn s_37_an_expired_message_is_what_it_was<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    let queue = bench.queue(burying()).await?;
    let message = Message::builder().message_id("m-1").subject("s").property("n", 7_i64).time_to_live(TTL);
    bench.send(&queue, message.build("a body")?).await?;
    bench.wait_past(TTL).await;
    let dead = bench.take(&queue.dead_letter()).await?;
    ensure_eq!((dead.message_id(), dead.subject(), text(&dead).as_str()), (Some("m-1"), Some("s"), "a body"));
    ensure_eq!(dead.application().get("n"), Some(&PropertyValue::I64(7)));
    Ok(())
}
