//! K-28: one message, several copies.

use consign::rules::{Filter, Rule};

use super::{prelude::*, rules::sql};

cases! {
    Topics:
        /// Rules: T-51.
        each_subscription_has_a_copy,
        /// Rules: T-51.
        copies_are_settled_for_themselves,
        /// Rules: T-51.
        each_subscription_numbers_its_copies [SequenceNumbers, SqlRules],
        /// Rules: T-51.
        each_subscription_has_its_own_dead_letters [DeadLetterReason],
        /// Rules: T-51.
        a_copy_is_the_whole_message,
        /// Rules: T-51.
        a_subscription_gets_what_comes_after_it,
        /// Rules: T-51.
        without_a_subscription_a_message_is_accepted_and_gone,
        /// Rules: T-51.
        a_deleted_subscription_gets_nothing,
        /// Rules: T-52.
        a_subscription_without_rules_gets_nothing,
        /// Rules: T-53.
        several_rules_make_one_copy,
        /// Rules: T-03.
        the_shortest_time_to_live_holds [TimeToLive],
        /// Rules: Q-24.
        a_message_for_later_waits_at_the_topic [Scheduling, Peek],
        /// Rules: T-82.
        a_batch_is_copied_in_order,
        /// Rules: S-30.
        each_subscription_has_its_own_last_delivery [MaxDeliveryCount],
        /// Rules: V-08, S-93.
        a_copy_without_a_session_dies_where_one_is_needed [Sessions];
}

pub(super) async fn topic(bench: &Bench<'_>) -> Result<EntityPath, Failure> {
    bench.topic(TopicSettings::default()).await
}

/// Creates a topic with two subscriptions.
async fn with_two(bench: &Bench<'_>) -> Result<[EntityPath; 3], Failure> {
    let topic = topic(bench).await?;
    let one = bench.subscription(&topic, "one", SubscriptionSettings::default()).await?;
    let two = bench.subscription(&topic, "two", SubscriptionSettings::default()).await?;
    Ok([topic, one, two])
}

async fn each_subscription_has_a_copy(bench: &Bench<'_>) -> Verdict {
    let [topic, one, two] = with_two(bench).await?;
    bench.send_bodies(&topic, ["a", "b"]).await?;
    bench.expect(&one, ["a", "b"]).await?;
    bench.expect(&two, ["a", "b"]).await?;
    Ok(())
}

async fn copies_are_settled_for_themselves(bench: &Bench<'_>) -> Verdict {
    let [topic, one, two] = with_two(bench).await?;
    bench.send_bodies(&topic, ["a"]).await?;
    let held = bench.receive(&one).await?;
    let other = bench.receive(&two).await?;
    other.abandon().await?;
    held.complete().await?;
    bench.gone(&one).await?;
    ensure_eq!(facts(&bench.take(&two).await?)?.delivery_count, 2);
    Ok(())
}

async fn each_subscription_numbers_its_copies(bench: &Bench<'_>) -> Verdict {
    let [topic, one, two] = with_two(bench).await?;
    bench.delete_rule(&two, Rule::DEFAULT_NAME).await?;
    bench.create_rule(&two, &Rule::new("even", sql("sys.Label = 'even'")?)?).await?;
    for (subject, body) in [("odd", "a"), ("even", "b"), ("odd", "c"), ("even", "d")] {
        bench.send(&topic, Message::builder().subject(subject).build(body)?).await?;
    }
    for subscription in [&one, &two] {
        let numbers = numbers(&bench.drain_messages(2, subscription).await?)?;
        ensure!(numbers.len() >= 2 && numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
    }
    Ok(())
}

async fn each_subscription_has_its_own_dead_letters(bench: &Bench<'_>) -> Verdict {
    let [topic, one, two] = with_two(bench).await?;
    bench.send_bodies(&topic, ["a"]).await?;
    let dead_letter = DeadLetter::new(DeadLetterReason::Application("Why".into()), "");
    bench.receive(&one).await?.dead_letter(dead_letter).await?;
    ensure_eq!(why(&bench.take(&one.dead_letter()).await?).0, "Why");
    bench.nothing(&two.dead_letter()).await?;
    bench.expect(&two, ["a"]).await?;
    Ok(())
}

async fn a_copy_is_the_whole_message(bench: &Bench<'_>) -> Verdict {
    let [topic, one, two] = with_two(bench).await?;
    let message = Message::builder().message_id("m-1").correlation_id("c").property("n", 7_i64).build("a body")?;
    bench.send(&topic, message).await?;
    for subscription in [&one, &two] {
        let copy = bench.take(subscription).await?;
        ensure_eq!(
            (copy.message_id(), copy.correlation_id(), text(&copy).as_str()),
            (Some("m-1"), Some("c"), "a body")
        );
        ensure_eq!(copy.application_properties().get("n"), Some(&PropertyValue::I64(7)));
        ensure_eq!(copy.application_properties().len(), 1);
    }
    Ok(())
}

async fn a_subscription_gets_what_comes_after_it(bench: &Bench<'_>) -> Verdict {
    let topic = topic(bench).await?;
    bench.send_bodies(&topic, ["a"]).await?;
    let late = bench.subscription(&topic, "late", SubscriptionSettings::default()).await?;
    bench.send_bodies(&topic, ["b"]).await?;
    bench.expect(&late, ["b"]).await?;
    Ok(())
}

async fn without_a_subscription_a_message_is_accepted_and_gone(bench: &Bench<'_>) -> Verdict {
    let topic = topic(bench).await?;
    bench.send_bodies(&topic, ["a", "b"]).await
}

async fn a_deleted_subscription_gets_nothing(bench: &Bench<'_>) -> Verdict {
    let [topic, one, two] = with_two(bench).await?;
    bench.transport.delete(&two).await?;
    bench.send_bodies(&topic, ["a"]).await?;
    bench.expect(&one, ["a"]).await?;
    refused(bench.receive(&two).await, &[ErrorKind::EntityNotFound])
}

async fn a_subscription_without_rules_gets_nothing(bench: &Bench<'_>) -> Verdict {
    let [topic, one, two] = with_two(bench).await?;
    bench.delete_rule(&two, Rule::DEFAULT_NAME).await?;
    bench.send_bodies(&topic, ["a"]).await?;
    bench.expect(&one, ["a"]).await?;
    bench.gone(&two).await
}

async fn several_rules_make_one_copy(bench: &Bench<'_>) -> Verdict {
    let [topic, one, _] = with_two(bench).await?;
    for name in ["first", "second"] {
        bench.create_rule(&one, &Rule::new(name, Filter::True)?).await?;
    }
    bench.send_bodies(&topic, ["a"]).await?;
    bench.expect(&one, ["a"]).await?;
    Ok(())
}

async fn the_shortest_time_to_live_holds(bench: &Bench<'_>) -> Verdict {
    let (short, long) = (bench.time_to_live(), Duration::from_secs(300));
    for (message, topic, subscription) in [(short, long, long), (long, short, long), (long, long, short)] {
        let topic = bench.topic(TopicSettings::default().default_time_to_live(topic)).await?;
        let spec = SubscriptionSettings::default().default_time_to_live(subscription);
        let subscription = bench.subscription(&topic, "one", spec).await?;
        bench.send(&topic, Message::builder().time_to_live(message).build("a")?).await?;
        ensure_eq!(bench.take(&subscription).await?.time_to_live(), Some(short));
    }
    Ok(())
}

async fn a_message_for_later_waits_at_the_topic(bench: &Bench<'_>) -> Verdict {
    let [topic, one, _] = with_two(bench).await?;
    let delay = Duration::from_secs(5);
    let at = bench.in_future(delay).await;
    let scheduled = bench.transport.schedule(&topic, vec![Message::new("a")], at).await?;
    ensure_eq!(numbers(&bench.peek(&topic).await?)?, [scheduled[0].get()]);
    ensure_eq!(bench.peek(&one).await?.len(), 0);
    bench.wait_past(delay).await;
    bench.expect(&one, ["a"]).await?;
    Ok(())
}

async fn a_batch_is_copied_in_order(bench: &Bench<'_>) -> Verdict {
    let [topic, one, two] = with_two(bench).await?;
    bench.transport.sender(&topic).await?.send_batch(Batch::from(["a", "b", "c"].map(Message::new))).await?;
    bench.expect(&one, ["a", "b", "c"]).await?;
    bench.expect(&two, ["a", "b", "c"]).await?;
    Ok(())
}

async fn each_subscription_has_its_own_last_delivery(bench: &Bench<'_>) -> Verdict {
    let topic = topic(bench).await?;
    let spec = |deliveries| SubscriptionSettings::default().max_delivery_count(deliveries);
    let one = bench.subscription(&topic, "one", spec(1)).await?;
    let two = bench.subscription(&topic, "two", spec(2)).await?;
    bench.send_bodies(&topic, ["a"]).await?;
    for subscription in [&one, &two] {
        bench.receive(subscription).await?.abandon().await?;
    }
    bench.expect(&one.dead_letter(), ["a"]).await?;
    bench.expect(&two, ["a"]).await?;
    Ok(())
}

async fn a_copy_without_a_session_dies_where_one_is_needed(bench: &Bench<'_>) -> Verdict {
    let topic = topic(bench).await?;
    let spec = SubscriptionSettings::default().requires_session(true);
    let with = bench.subscription(&topic, "with", spec).await?;
    let without = bench.subscription(&topic, "without", SubscriptionSettings::default()).await?;
    bench.send_bodies(&topic, ["a"]).await?;
    bench.expect(&without, ["a"]).await?;
    ensure_eq!(why(&bench.take(&with.dead_letter()).await?).0, "Session ID is null.");
    Ok(())
}
