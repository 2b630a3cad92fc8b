//! K-02: every process that uses an entity may declare it.

use consign::administration::EntitySettings;

use super::prelude::*;

cases! {
    Rejection:
        /// Rules: D-11.
        an_entity_is_declared_by_several_processes,
        /// Rules: D-11.
        what_an_entity_holds_stays_when_it_is_declared_again,
        /// Rules: K-46.
        the_settings_of_an_entity_are_those_that_it_was_declared_with [MaxDeliveryCount],
        /// Rules: K-46.
        settings_out_of_their_range_are_refused,
        /// Rules: K-46.
        a_sub_queue_is_not_created,
        /// Rules: D-11.
        a_declaration_with_another_setting_names_it [MaxDeliveryCount],
        /// Rules: D-11.
        a_topic_and_its_subscription_are_declared [Topics, MaxDeliveryCount];
}

/// Settings that are not the defaults.
fn twice(bench: &Bench<'_>) -> QueueSettings {
    let settings = QueueSettings::default();
    let has_setting = bench.capabilities().supports(Capability::MaxDeliveryCount);
    if has_setting { settings.max_delivery_count(2) } else { settings }
}

/// Declares an entity, which is deleted after the case.
async fn declare(bench: &Bench<'_>, path: &EntityPath, settings: impl Into<EntitySettings>) -> Verdict {
    bench.delete_later(path).await;
    Ok(bench.transport.declare(path, &settings.into()).await?)
}

/// Checks that a declaration is refused because `setting` differs.
async fn differs(bench: &Bench<'_>, path: &EntityPath, settings: impl Into<EntitySettings>, setting: &str) -> Verdict {
    let Err(error) = bench.transport.declare(path, &settings.into()).await else {
        return Err(Failure::behaviour(format!("{path} was declared with another {setting}")));
    };
    ensure!(error.to_string().contains(setting), "the refusal does not name {setting}: {error}");
    refused(Err::<(), _>(error), &[ErrorKind::AlreadyExists])
}

async fn an_entity_is_declared_by_several_processes(bench: &Bench<'_>) -> Verdict {
    let queue = bench.fresh_path()?;
    let settings = twice(bench);
    let declarations = (0..3).map(|_| declare(bench, &queue, settings.clone()));
    futures_util::future::try_join_all(declarations).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn what_an_entity_holds_stays_when_it_is_declared_again(bench: &Bench<'_>) -> Verdict {
    let queue = bench.fresh_path()?;
    declare(bench, &queue, twice(bench)).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let held = bench.receive(&queue).await?;
    declare(bench, &queue, twice(bench)).await?;
    held.complete().await?;
    bench.expect(&queue, ["b"]).await?;
    Ok(())
}

async fn the_settings_of_an_entity_are_those_that_it_was_declared_with(bench: &Bench<'_>) -> Verdict {
    let (declared, created) = (bench.fresh_path()?, bench.queue(twice(bench)).await?);
    declare(bench, &declared, twice(bench)).await?;
    for queue in [declared, created] {
        let EntitySettings::Queue(found) = detail(bench.transport.settings(&queue).await)? else {
            return Err(Failure::behaviour(format!("{queue} has not the settings of a queue")));
        };
        ensure_eq!(found.max_delivery_count, 2);
    }
    let nowhere = bench.fresh_path()?;
    refused(bench.transport.settings(&nowhere).await, &[ErrorKind::EntityNotFound])
}

async fn settings_out_of_their_range_are_refused(bench: &Bench<'_>) -> Verdict {
    let default = QueueSettings::default;
    for (setting, settings) in [
        (Capability::MaxDeliveryCount, default().max_delivery_count(0)),
        (Capability::LockDuration, default().lock_duration(Duration::from_millis(1))),
        (Capability::LargeMessages, default().max_message_size(0)),
    ] {
        // A broker without the setting may refuse any other value than the default.
        let is_setting = bench.capabilities().supports(setting);
        let kinds = [ErrorKind::InvalidArgument, ErrorKind::NotSupported];
        let kinds = if is_setting { &kinds[..1] } else { &kinds };
        let queue = bench.fresh_path()?;
        bench.delete_later(&queue).await;
        refused(bench.transport.create(&queue, &settings.clone().into()).await, kinds)?;
        refused(bench.transport.declare(&queue, &settings.into()).await, kinds)?;
        refused(bench.send(&queue, Message::new("a")).await, &[ErrorKind::EntityNotFound])?;
    }
    Ok(())
}

async fn a_sub_queue_is_not_created(bench: &Bench<'_>) -> Verdict {
    let settings = EntitySettings::from(QueueSettings::default());
    let kinds = [ErrorKind::InvalidArgument, ErrorKind::InvalidOperation];
    for queue in [bench.fresh_path()?, bench.queue(QueueSettings::default()).await?] {
        refused(bench.transport.create(&queue.dead_letter(), &settings).await, &kinds)?;
        refused(bench.transport.declare(&queue.dead_letter(), &settings).await, &kinds)?;
    }
    Ok(())
}

async fn a_declaration_with_another_setting_names_it(bench: &Bench<'_>) -> Verdict {
    let queue = bench.fresh_path()?;
    declare(bench, &queue, twice(bench)).await?;
    differs(bench, &queue, QueueSettings::default().max_delivery_count(3), "max_delivery_count").await?;
    // The entity has its first settings.
    bench.send_bodies(&queue, ["a"]).await?;
    for _ in 0..2 {
        bench.receive(&queue).await?.abandon().await?;
    }
    bench.expect(&queue.dead_letter(), ["a"]).await?;
    Ok(())
}

async fn a_topic_and_its_subscription_are_declared(bench: &Bench<'_>) -> Verdict {
    let topic = bench.fresh_path()?;
    let subscription = EntityPath::new(&format!("{topic}/Subscriptions/one"))?;
    let settings = SubscriptionSettings::default().max_delivery_count(2);
    for _ in 0..2 {
        declare(bench, &topic, TopicSettings::default()).await?;
        declare(bench, &subscription, settings.clone()).await?;
    }
    differs(bench, &subscription, settings.max_delivery_count(3), "max_delivery_count").await?;
    let as_queue = bench.transport.declare(&topic, &QueueSettings::default().into()).await;
    refused(as_queue, &[ErrorKind::AlreadyExists])?;
    bench.send_bodies(&topic, ["a"]).await?;
    bench.expect(&subscription, ["a"]).await?;
    Ok(())
}
