//! K-36: removing messages without receiving them.

use super::prelude::*;

cases! {
    Purge:
        /// Rules: S-106.
        all_messages_are_removed,
        /// Rules: S-106.
        no_more_than_requested,
        /// Rules: S-106.
        the_oldest_go_first,
        /// Rules: S-106.
        only_those_that_were_accepted_before,
        /// Rules: S-106.
        a_locked_message_stays,
        /// Rules: S-106.
        a_scheduled_message_stays [Scheduling],
        /// Rules: S-106.
        dead_letters_are_purged_at_their_own_address [DeadLetterReason];
}

async fn all_messages_are_removed(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    ensure_eq!(bench.transport.purge(&queue, 100, None).await?, 3);
    bench.gone(&queue).await?;
    ensure_eq!(bench.transport.purge(&queue, 100, None).await?, 0);
    bench.send_bodies(&queue, ["d"]).await?;
    bench.expect(&queue, ["d"]).await?;
    Ok(())
}

async fn no_more_than_requested(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    ensure_eq!(bench.transport.purge(&queue, 2, None).await?, 2);
    ensure_eq!(bench.drain(&queue).await?.len(), 1);
    Ok(())
}

async fn the_oldest_go_first(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    bench.transport.purge(&queue, 1, None).await?;
    bench.expect(&queue, ["b", "c"]).await?;
    Ok(())
}

async fn only_those_that_were_accepted_before(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    bench.wait(bench.margin() * 2).await;
    let between = bench.in_future(Duration::ZERO).await;
    bench.wait(bench.margin() * 2).await;
    bench.send_bodies(&queue, ["c"]).await?;
    ensure_eq!(bench.transport.purge(&queue, 100, Some(between)).await?, 2);
    bench.expect(&queue, ["c"]).await?;
    Ok(())
}

async fn a_locked_message_stays(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let held = bench.receive(&queue).await?;
    ensure_eq!(bench.transport.purge(&queue, 100, None).await?, 1);
    held.abandon().await?;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn a_scheduled_message_stays(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let delay = Duration::from_secs(5);
    let at = bench.in_future(delay).await;
    bench.transport.schedule(&queue, vec![Message::new("later")], at).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    ensure_eq!(bench.transport.purge(&queue, 100, None).await?, 1);
    bench.wait_past(delay).await;
    bench.expect(&queue, ["later"]).await?;
    Ok(())
}

async fn dead_letters_are_purged_at_their_own_address(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    for _ in 0..2 {
        bench.receive(&queue).await?.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).await?;
    }
    ensure_eq!(bench.transport.purge(&queue.dead_letter(), 100, None).await?, 2);
    bench.nothing(&queue.dead_letter()).await?;
    bench.expect(&queue, ["c"]).await?;
    Ok(())
}
