//! K-11 and K-12: a dead letter has a reason, and is otherwise the original message.

use bytes::Bytes;
use consign::message::MessageBody;

use super::prelude::*;

cases! {
    DeadLetterReason:
        /// Rules: S-31, S-97.
        reason_and_description_are_the_application_s,
        /// Rules: S-31.
        a_description_may_be_left_out,
        /// Rules: S-61.
        a_dead_letter_takes_changes_along,
        /// Rules: S-61.
        an_abandoned_message_takes_changes_along,
        /// Rules: S-61.
        a_sender_does_not_set_the_reason,
        /// Rules: S-61.
        an_abandon_does_not_set_the_reason,
        /// Rules: S-61.
        a_deferral_does_not_set_the_reason [Deferral],
        /// Rules: S-61.
        a_dead_letter_keeps_no_older_description,
        /// Rules: K-45.
        a_text_that_is_too_long_is_refused_and_the_message_is_redelivered,
        /// Rules: S-41.
        a_dead_letter_does_not_die_again,
        /// Rules: S-97.
        a_dead_letter_may_come_from_a_deferred_message [Deferral];
    DeadLetterIntact:
        /// Rules: S-105.
        the_body_survives_byte_by_byte [DeadLetterReason],
        /// Rules: S-105.
        the_properties_survive [DeadLetterReason],
        /// Rules: S-105.
        number_and_time_survive [DeadLetterReason],
        /// Rules: S-100.
        the_address_is_read_in_any_case [DeadLetterReason],
        /// Rules: S-40.
        a_dead_letter_stays_until_it_is_completed [DeadLetterReason],
        /// Rules: S-102.
        dead_letters_do_not_go_by_themselves [LockDuration, DeadLetterReason],
        /// Rules: S-39.
        dead_letters_come_in_their_order [DeadLetterReason],
        /// Rules: S-39.
        a_dead_letter_is_locked_for_one_receiver [DeadLetterReason],
        /// Rules: S-31.
        none_of_many_is_lost [DeadLetterReason],
        /// Rules: S-31.
        a_dead_letter_is_gone_from_its_queue [DeadLetterReason];
}

fn because(reason: &'static str, description: &'static str) -> DeadLetter {
    DeadLetter::new(DeadLetterReason::Application(reason.into()), description)
}

fn changes<const N: usize>(changes: [(&'static str, i64); N]) -> Changes {
    changes.into_iter().collect::<ApplicationProperties>().into()
}

fn integers<const N: usize>(message: &Message, names: [&str; N]) -> [Option<i64>; N] {
    names.map(|name| match message.application_properties().get(name) {
        Some(PropertyValue::I64(value)) => Some(*value),
        _ => None,
    })
}

async fn reason_and_description_are_the_application_s(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.receive(&queue).await?.dead_letter(because("NoSuchArticle", "sku-7 is not in the catalogue: 語")).await?;
    let dead = bench.take(&queue.dead_letter()).await?;
    ensure_eq!(why(&dead), ("NoSuchArticle", "sku-7 is not in the catalogue: 語"));
    ensure_eq!(dead.application_properties().len(), 2);
    Ok(())
}

async fn a_description_may_be_left_out(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.receive(&queue).await?.dead_letter(because("NoSuchArticle", "")).await?;
    ensure_eq!(why(&bench.take(&queue.dead_letter()).await?), ("NoSuchArticle", ""));
    Ok(())
}

/// A message with two properties, received.
async fn with_properties(bench: &Bench<'_>, queue: &EntityPath) -> Result<Delivery<DynLease>, Failure> {
    bench.send(queue, Message::builder().property("kept", 1_i64).property("changed", 1_i64).build("a")?).await?;
    bench.receive(queue).await
}

async fn a_dead_letter_takes_changes_along(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let mut dead_letter = because("Changed", "");
    dead_letter.changes = changes([("changed", 2), ("added", 3)]);
    with_properties(bench, &queue).await?.dead_letter(dead_letter).await?;
    let dead = bench.take(&queue.dead_letter()).await?;
    ensure_eq!(integers(&dead, ["kept", "changed", "added"]), [Some(1), Some(2), Some(3)]);
    ensure_eq!(why(&dead).0, "Changed");
    Ok(())
}

async fn an_abandoned_message_takes_changes_along(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let delivery = with_properties(bench, &queue).await?;
    delivery.settle(Disposition::Abandon(changes([("changed", 2), ("added", 3)]))).await?;
    let again = bench.take(&queue).await?;
    ensure_eq!(integers(&again, ["kept", "changed", "added"]), [Some(1), Some(2), Some(3)]);
    Ok(())
}

fn claimed() -> ApplicationProperties {
    let mut properties = ApplicationProperties::new();
    properties.insert(DeadLetter::REASON, "Claimed");
    properties.insert(DeadLetter::DESCRIPTION, "claimed");
    properties
}

/// Returns the properties with the reason of the dead-lettering.
fn told(message: &Message) -> [Option<&str>; 2] {
    [DeadLetter::REASON, DeadLetter::DESCRIPTION]
        .map(|name| message.application_properties().get(name).and_then(PropertyValue::as_str))
}

async fn a_sender_does_not_set_the_reason(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let mut message = Message::new("a");
    message.properties_mut().application_properties_mut().merge(claimed());
    message.properties_mut().application_properties_mut().insert(DeadLetter::TRAIL, "claimed");
    bench.send(&queue, message).await?;
    let delivery = bench.receive(&queue).await?;
    ensure_eq!(told(&delivery.message), [None, None]);
    ensure_eq!(delivery.message.application_properties().len(), 0);
    delivery.dead_letter(because("NoSuchArticle", "")).await?;
    ensure_eq!(told(&bench.take(&queue.dead_letter()).await?), [Some("NoSuchArticle"), None]);
    Ok(())
}

async fn an_abandon_does_not_set_the_reason(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.receive(&queue).await?.settle(Disposition::Abandon(claimed().into())).await?;
    let delivery = bench.receive(&queue).await?;
    ensure_eq!(told(&delivery.message), [None, None]);
    delivery.dead_letter(because("NoSuchArticle", "")).await?;
    ensure_eq!(told(&bench.take(&queue.dead_letter()).await?), [Some("NoSuchArticle"), None]);
    Ok(())
}

async fn a_deferral_does_not_set_the_reason(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let number = number(&delivery.message)?;
    delivery.settle(Disposition::Defer(claimed().into())).await?;
    let fetched = bench.fetch(&queue, number).await?;
    ensure_eq!(told(&fetched.message), [None, None]);
    fetched.complete().await?;
    Ok(())
}

async fn a_dead_letter_keeps_no_older_description(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let mut dead_letter = because("NoSuchArticle", "");
    dead_letter.changes = claimed().into();
    bench.receive(&queue).await?.dead_letter(dead_letter).await?;
    ensure_eq!(told(&bench.take(&queue.dead_letter()).await?), [Some("NoSuchArticle"), None]);
    Ok(())
}

async fn a_text_that_is_too_long_is_refused_and_the_message_is_redelivered(bench: &Bench<'_>) -> Verdict {
    let long = || "x".repeat(4_097);
    let of_length = |length| DeadLetter::new(DeadLetterReason::HandlerPermanent, "x".repeat(length));
    let reason = DeadLetter::new(DeadLetterReason::Application(long().into()), "");
    for dead_letter in [reason, of_length(4_097)] {
        let queue = bench.short_locking_queue().await?;
        bench.send_bodies(&queue, ["a"]).await?;
        refused(bench.receive(&queue).await?.dead_letter(dead_letter).await, &[ErrorKind::InvalidArgument])?;
        bench.nothing(&queue.dead_letter()).await?;
        // Its lock may hold until it runs out.
        bench.wait_past(bench.lock()).await;
        let again = bench.receive(&queue).await?;
        // A message that is not counted would be refused without an end.
        ensure_eq!(facts(&again.message)?.delivery_count, 2);
        again.dead_letter(of_length(4_096)).await?;
        ensure_eq!(why(&bench.take(&queue.dead_letter()).await?).1.len(), 4_096);
        bench.gone(&queue).await?;
    }
    Ok(())
}

async fn a_dead_letter_does_not_die_again(bench: &Bench<'_>) -> Verdict {
    let queue = bench.short_locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.receive(&queue).await?.dead_letter(because("First", "")).await?;
    let again = bench.receive_dead(&queue).await?.dead_letter(because("Second", "")).await;
    refused(again, &[ErrorKind::InvalidOperation])?;
    // Its lock may hold until it runs out.
    bench.wait_past(bench.lock()).await;
    ensure_eq!(why(&bench.take(&queue.dead_letter()).await?).0, "First");
    Ok(())
}

async fn a_dead_letter_may_come_from_a_deferred_message(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let number = number(&delivery.message)?;
    delivery.defer().await?;
    bench.fetch(&queue, number).await?.dead_letter(because("Late", "")).await?;
    ensure_eq!(why(&bench.take(&queue.dead_letter()).await?).0, "Late");
    refused(bench.fetch(&queue, number).await, &[ErrorKind::MessageNotFound])
}

/// Sends a message, dead-letters it, and returns it as it was received first and as it was received from there.
async fn through_death(bench: &Bench<'_>, message: Message) -> Result<(Message, Message), Failure> {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send(&queue, message).await?;
    let delivery = bench.receive(&queue).await?;
    let before = delivery.message.clone();
    // Time passes, so that a new time would differ.
    bench.wait(bench.margin()).await;
    delivery.dead_letter(because("Why", "not")).await?;
    Ok((before, bench.take(&queue.dead_letter()).await?))
}

async fn the_body_survives_byte_by_byte(bench: &Bench<'_>) -> Verdict {
    let bytes: Vec<u8> = (0..=u8::MAX).collect();
    let sections = MessageBody::sections(vec![Bytes::from(bytes.clone()), Bytes::from_static(b"\xff\0")]);
    for body in [MessageBody::from(bytes), sections, MessageBody::empty()] {
        let (_, dead) = through_death(bench, Message::new(body.clone())).await?;
        ensure!(*dead.body() == body, "{body:?} has become {:?}", dead.body());
    }
    Ok(())
}

async fn the_properties_survive(bench: &Bench<'_>) -> Verdict {
    let message = Message::builder()
        .content_type("application/json")
        .message_id("m-1")
        .correlation_id("c-1")
        .subject("order.created")
        .reply_to("replies")
        .property("number", 7_i64)
        .property("text", "seven")
        .build("a")?;
    let (before, dead) = through_death(bench, message).await?;
    ensure_eq!(dead.message_id(), before.message_id());
    ensure_eq!(dead.content_type(), before.content_type());
    ensure_eq!(dead.correlation_id(), before.correlation_id());
    ensure_eq!((dead.subject(), dead.reply_to()), (before.subject(), before.reply_to()));
    for (name, value) in before.application_properties().iter() {
        ensure_eq!(dead.application_properties().get(name), Some(value), "the property {name}");
    }
    Ok(())
}

async fn number_and_time_survive(bench: &Bench<'_>) -> Verdict {
    let (before, dead) = through_death(bench, Message::new("a")).await?;
    ensure_eq!(number(&dead)?, number(&before)?);
    ensure_eq!(facts(&dead)?.enqueued_time, facts(&before)?.enqueued_time);
    Ok(())
}

/// Creates a queue with a dead letter for each body.
async fn dead_queue<const N: usize>(bench: &Bench<'_>, bodies: [&'static str; N]) -> Result<EntityPath, Failure> {
    let queue = bench.short_locking_queue().await?;
    bench.send_bodies(&queue, bodies).await?;
    for _ in bodies {
        bench.receive(&queue).await?.dead_letter(because("Why", "")).await?;
    }
    Ok(queue)
}

async fn the_address_is_read_in_any_case(bench: &Bench<'_>) -> Verdict {
    let queue = dead_queue(bench, ["a"]).await?;
    bench.expect(&EntityPath::new(&format!("{queue}/$DeadLetterQueue"))?, ["a"]).await?;
    Ok(())
}

async fn a_dead_letter_stays_until_it_is_completed(bench: &Bench<'_>) -> Verdict {
    let queue = dead_queue(bench, ["a"]).await?;
    for _ in 0..12 {
        bench.receive_dead(&queue).await?.abandon().await?;
    }
    bench.nothing(&queue).await?;
    bench.expect(&queue.dead_letter(), ["a"]).await?;
    bench.gone(&queue).await
}

async fn dead_letters_do_not_go_by_themselves(bench: &Bench<'_>) -> Verdict {
    let queue = dead_queue(bench, ["a"]).await?;
    let _held = bench.receive_dead(&queue).await?;
    bench.wait_past(bench.lock()).await;
    bench.nothing(&queue).await?;
    bench.expect(&queue.dead_letter(), ["a"]).await?;
    Ok(())
}

async fn dead_letters_come_in_their_order(bench: &Bench<'_>) -> Verdict {
    let queue = dead_queue(bench, ["a", "b", "c"]).await?;
    bench.expect(&queue.dead_letter(), ["a", "b", "c"]).await?;
    Ok(())
}

async fn a_dead_letter_is_locked_for_one_receiver(bench: &Bench<'_>) -> Verdict {
    let queue = dead_queue(bench, ["a"]).await?;
    let held = bench.receive_dead(&queue).await?;
    bench.nothing(&queue.dead_letter()).await?;
    held.complete().await?;
    bench.wait_past(bench.lock()).await;
    bench.gone(&queue).await
}

async fn none_of_many_is_lost(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let sender = bench.transport.sender(&queue).await?;
    let sent: Vec<String> = (0..50).map(|index| format!("{index:02}")).collect();
    for body in &sent {
        sender.send(Message::new(body.clone())).await?;
    }
    for _ in &sent {
        bench.receive(&queue).await?.dead_letter(because("Why", "")).await?;
    }
    let mut dead = Vec::new();
    while dead.len() < sent.len()
        && let Ok(message) = bench.take(&queue.dead_letter()).await
    {
        dead.push(text(&message));
    }
    dead.sort();
    ensure_eq!(dead, sent);
    bench.gone(&queue).await
}

async fn a_dead_letter_is_gone_from_its_queue(bench: &Bench<'_>) -> Verdict {
    let queue = dead_queue(bench, ["a"]).await?;
    bench.nothing(&queue).await?;
    bench.wait_past(bench.lock()).await;
    bench.nothing(&queue).await?;
    bench.expect(&queue.dead_letter(), ["a"]).await?;
    Ok(())
}
