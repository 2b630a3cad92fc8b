//! K-11: a settlement that would make the properties of its message too large.

use super::prelude::*;
use crate::NoCall;

cases! {
    DeadLetterReason:
        /// Rules: S-92.
        a_dead_letter_whose_changes_are_too_large_has_the_reason_of_the_broker,
        /// Rules: S-92.
        a_dead_letter_whose_description_is_too_large_has_the_reason_of_the_broker,
        /// Rules: S-92.
        a_message_whose_changes_are_too_large_is_dead_lettered_when_it_is_abandoned,
        /// Rules: S-92.
        a_message_of_a_session_whose_changes_are_too_large_is_dead_lettered_when_it_is_abandoned [Sessions],
        /// Rules: S-92.
        a_message_whose_changes_are_too_large_is_dead_lettered_when_it_is_deferred [Deferral],
        /// Rules: S-92.
        a_dead_letter_whose_changes_are_too_large_stays_as_it_was_when_it_is_abandoned,
        /// Rules: S-90, S-92.
        a_message_with_full_properties_is_dead_lettered_after_its_last_delivery [MaxDeliveryCount];
}

/// All properties of a message have at most 64 KiB.
const LARGE: usize = 25_000;

fn large(name: &str) -> ApplicationProperties {
    let mut properties = ApplicationProperties::new();
    properties.insert(name, "x".repeat(LARGE));
    properties
}

/// Sends a message with about 50,000 bytes of properties, and receives it.
async fn with_properties(bench: &Bench<'_>, queue: &EntityPath) -> Result<Delivery<DynLease>, Failure> {
    let message = Message::builder().property("k", "x".repeat(LARGE)).property("l", "x".repeat(LARGE));
    bench.send(queue, message.build("a")?).await?;
    bench.receive(queue).await
}

/// Checks that the only message is a dead letter with the reason of the broker, and without the changes.
async fn is_dead(bench: &Bench<'_>, queue: &EntityPath) -> Verdict {
    is_dead_letter(&bench.take(&queue.dead_letter()).await?)?;
    bench.gone(queue).await
}

fn is_dead_letter(dead: &Message) -> Verdict {
    ensure_eq!((text(dead).as_str(), why(dead).0), ("a", "HeaderSizeExceeded"));
    ensure!(!why(dead).1.is_empty(), "the broker does not describe the reason");
    let lengths = ["k", "l", "m"]
        .map(|name| dead.application_properties().get(name).and_then(PropertyValue::as_str).map(str::len));
    ensure_eq!(lengths, [Some(LARGE), Some(LARGE), None]);
    Ok(())
}

async fn a_dead_letter_whose_changes_are_too_large_has_the_reason_of_the_broker(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let mut dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
    dead_letter.changes = large("m").into();
    with_properties(bench, &queue).await?.dead_letter(dead_letter).await?;
    is_dead(bench, &queue).await
}

async fn a_dead_letter_whose_description_is_too_large_has_the_reason_of_the_broker(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    // One UTF-16 code unit of it is three bytes of the properties.
    let mut dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "語".repeat(4_096));
    dead_letter.changes = [("n", "x".repeat(5_000))].into_iter().collect::<ApplicationProperties>().into();
    with_properties(bench, &queue).await?.dead_letter(dead_letter).await?;
    is_dead(bench, &queue).await
}

async fn a_message_whose_changes_are_too_large_is_dead_lettered_when_it_is_abandoned(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    with_properties(bench, &queue).await?.settle(Disposition::Abandon(large("m").into())).await?;
    is_dead(bench, &queue).await
}

async fn a_message_of_a_session_whose_changes_are_too_large_is_dead_lettered_when_it_is_abandoned(
    bench: &Bench<'_>,
) -> Verdict {
    let queue = bench.queue(QueueSettings::default().requires_session(true)).await?;
    let message =
        Message::builder().session_id("one").property("k", "x".repeat(LARGE)).property("l", "x".repeat(LARGE));
    bench.send(&queue, message.build("a")?).await?;
    let mut session = bench.accept_session(&queue, "one").await?;
    bench.receive_by(&mut session).await?.settle(Disposition::Abandon(large("m").into())).await?;
    is_dead_letter(&bench.take(&queue.dead_letter()).await?)?;
    ensure_eq!(bench.drain_by(&mut session).await?.len(), 0);
    Ok(())
}

async fn a_message_whose_changes_are_too_large_is_dead_lettered_when_it_is_deferred(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    with_properties(bench, &queue).await?.settle(Disposition::Defer(large("m").into())).await?;
    is_dead(bench, &queue).await
}

async fn a_dead_letter_whose_changes_are_too_large_stays_as_it_was_when_it_is_abandoned(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
    with_properties(bench, &queue).await?.dead_letter(dead_letter).await?;
    bench.receive_dead(&queue).await?.settle(Disposition::Abandon(large("m").into())).await?;
    let dead = bench.take(&queue.dead_letter()).await?;
    ensure_eq!(why(&dead), ("HandlerPermanent", "why"));
    ensure!(dead.application_properties().get("m").is_none(), "the dead letter has the change");
    ensure!(dead.application_properties().get("k").is_some(), "the dead letter has lost a property");
    bench.gone(&queue).await
}

/// Returns a message whose properties have no space for a reason and a description.
fn full() -> Result<Message, Failure> {
    let message = |rest| {
        let large =
            Message::builder().message_id("full").property("k", "x".repeat(LARGE)).property("l", "x".repeat(LARGE));
        large.property("m", "x".repeat(rest)).build("a")
    };
    // An entry fewer would leave space, and one more would be refused.
    let fits = |rest: &usize| message(*rest).is_ok_and(|message| message.check().is_ok());
    let most = (1..LARGE).rev().find(fits).ok_or_else(|| Failure::broken("no message of this kind fits"))?;
    Ok(message(most)?)
}

async fn a_message_with_full_properties_is_dead_lettered_after_its_last_delivery(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default().max_delivery_count(1)).await?;
    let sent = full()?;
    match bench.send(&queue, sent.clone()).await {
        Err(failure) if failure.kind() == Some(ErrorKind::MessageSizeExceeded) => {
            return detail(Err(NoCall::new("the broker has a lower limit for properties")));
        }
        sent => sent?,
    }
    bench.receive(&queue).await?.abandon().await?;
    let dead = bench.take(&queue.dead_letter()).await?;
    ensure_eq!(text(&dead), "a");
    // A broker with a lower limit for dead letters has removed properties.
    if why(&dead).0 == "HeaderSizeExceeded" {
        return bench.gone(&queue).await;
    }
    ensure_eq!(why(&dead).0, "MaxDeliveryCountExceeded");
    for (name, value) in sent.application_properties().iter() {
        ensure!(dead.application_properties().get(name) == Some(value), "the property {name} has changed");
    }
    // A reason is admitted beside full properties.
    let mut counted = dead.clone();
    counted.properties_mut().application_properties_mut().remove(DeadLetter::REASON);
    ensure!(counted.check().is_ok(), "the description makes the properties larger than their limit");
    bench.gone(&queue).await
}
