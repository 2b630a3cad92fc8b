//! K-02: a refusal has a reason, and stores nothing.

use consign::message::{MessageBody, Properties, Value, limits};

use super::prelude::*;

cases! {
    Rejection:
        /// Rules: E-15.
        no_such_entity,
        /// Rules: E-15.
        a_deleted_queue_is_gone,
        /// Rules: K-46.
        an_entity_that_does_not_exist_is_not_deleted,
        /// Rules: K-47.
        an_open_sender_does_not_lose_messages_when_its_queue_is_deleted,
        /// Rules: K-47.
        a_message_of_a_deleted_queue_is_not_settled [SettleElsewhere],
        /// Rules: E-09.
        a_queue_is_created_once,
        /// Rules: V-09.
        properties_that_are_too_large_are_refused,
        /// Rules: V-220.
        values_that_are_nested_too_deep_are_refused,
        /// Rules: S-103.
        nothing_is_sent_to_a_dead_letter_queue,
        /// Rules: T-82.
        a_batch_with_one_bad_message_is_refused_as_a_whole [LargeMessages],
        /// Rules: T-86.
        a_full_queue_refuses [DeadLetterReason],
        /// Rules: S-11.
        a_disabled_queue_refuses_both_ways,
        /// Rules: S-11.
        one_direction_can_be_disabled,
        /// Rules: V-14.
        an_entity_does_not_forward_to_itself [AutoForward],
        /// Rules: T-51.
        a_topic_gives_no_messages [Topics];
}

async fn no_such_entity(bench: &Bench<'_>) -> Verdict {
    let nowhere = bench.fresh_path()?;
    refused(bench.send(&nowhere, Message::new("a")).await, &[ErrorKind::EntityNotFound])?;
    refused(bench.receive(&nowhere).await, &[ErrorKind::EntityNotFound])?;
    let failure = bench.send(&nowhere, Message::new("a")).await.err();
    ensure!(failure.is_some_and(|failure| !failure.why().is_empty()), "the refusal does not say why");
    Ok(())
}

async fn a_deleted_queue_is_gone(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.transport.delete(&queue).await?;
    refused(bench.send(&queue, Message::new("b")).await, &[ErrorKind::EntityNotFound])?;
    bench.create(&queue, QueueSettings::default()).await?;
    bench.gone(&queue).await
}

async fn an_entity_that_does_not_exist_is_not_deleted(bench: &Bench<'_>) -> Verdict {
    let nowhere = bench.fresh_path()?;
    refused(bench.transport.delete(&nowhere).await, &[ErrorKind::EntityNotFound])?;
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.transport.delete(&queue).await?;
    refused(bench.transport.delete(&queue).await, &[ErrorKind::EntityNotFound])
}

async fn an_open_sender_does_not_lose_messages_when_its_queue_is_deleted(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let sender = bench.transport.sender(&queue).await?;
    sender.send(Message::new("a")).await?;
    bench.transport.delete(&queue).await?;
    // A broker may end the connection.
    let kinds = [ErrorKind::EntityNotFound, ErrorKind::CommunicationProblem];
    for _ in 0..2 {
        refused(sender.send(Message::new("b")).await, &kinds)?;
    }
    Ok(())
}

async fn a_message_of_a_deleted_queue_is_not_settled(bench: &Bench<'_>) -> Verdict {
    let kinds = [ErrorKind::MessageLockLost, ErrorKind::EntityNotFound];
    for disposition in [Disposition::Complete, Disposition::ABANDON] {
        let queue = bench.queue(QueueSettings::default()).await?;
        bench.send_bodies(&queue, ["a"]).await?;
        let held = bench.receive(&queue).await?;
        bench.transport.delete(&queue).await?;
        refused(held.settle(disposition).await, &kinds)?;
    }
    Ok(())
}

async fn a_queue_is_created_once(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let again = bench.create(&queue, QueueSettings::default()).await;
    refused(again, &[ErrorKind::AlreadyExists])?;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn properties_that_are_too_large_are_refused(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let kinds = [ErrorKind::InvalidArgument, ErrorKind::Serialization];
    let mut one = Properties::new();
    one.application_properties_mut().insert("k", "x".repeat(33_000));
    let mut all = Properties::new();
    for name in ["k", "l", "m"] {
        all.application_properties_mut().insert(name, "x".repeat(30_000));
    }
    for properties in [one, all] {
        refused(bench.send(&queue, Message::from_parts(properties, "a".into())).await, &kinds)?;
    }
    bench.gone(&queue).await
}

async fn values_that_are_nested_too_deep_are_refused(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let wrap: [fn(Value) -> Value; 4] = [
        |inner| Value::List(vec![inner]),
        |inner| Value::Array(vec![inner]),
        |inner| Value::Map(vec![(Value::from("k"), inner)]),
        |inner| Value::Described(Box::new((Value::Symbol("d".into()), inner))),
    ];
    for wrap in wrap {
        let most = (1..limits::VALUE_LEVELS).fold(Value::from(1_i32), |inner, _| wrap(inner));
        let with = |value: Value| {
            let sequence = Message::new(MessageBody::Sequence([vec![value.clone()]].into()));
            let mut annotated = Message::new("");
            let rest = annotated.properties_mut().pass_through_mut();
            rest.annotations.push(("x-a".into(), value.clone()));
            rest.footer.push(("f".into(), value.clone()));
            [Message::new(value), sequence, annotated]
        };
        for message in with(wrap(most.clone())) {
            refused(bench.send(&queue, message).await, &[ErrorKind::InvalidArgument])?;
        }
        for message in with(most) {
            bench.send(&queue, message.clone()).await?;
            let taken = bench.take(&queue).await?;
            ensure!(taken.body() == message.body(), "another body has come");
            ensure_eq!(taken.pass_through(), message.pass_through());
        }
    }
    bench.gone(&queue).await
}

async fn nothing_is_sent_to_a_dead_letter_queue(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    refused(bench.send(&queue.dead_letter(), Message::new("a")).await, &[ErrorKind::InvalidOperation])?;
    bench.gone(&queue).await
}

async fn a_batch_with_one_bad_message_is_refused_as_a_whole(bench: &Bench<'_>) -> Verdict {
    let spec = QueueSettings::default().max_message_size(64 << 10);
    let queue = bench.queue(spec).await?;
    let batch = Batch::from(vec![Message::new("a"), Message::new(vec![0; 65 << 10]), Message::new("c")]);
    let sent = bench.transport.sender(&queue).await?.send_batch(batch).await;
    refused(sent, &[ErrorKind::MessageSizeExceeded])?;
    bench.gone(&queue).await
}

async fn a_full_queue_refuses(bench: &Bench<'_>) -> Verdict {
    let spec = QueueSettings::default().max_size(1 << 20);
    let queue = bench.fresh_path()?;
    detail(bench.create(&queue, spec).await)?;
    let mut stored = 0;
    let refusal = loop {
        match bench.send(&queue, Message::new(vec![0; 100 << 10])).await {
            Ok(()) => stored += 1,
            Err(refusal) => break Err::<(), _>(refusal),
        }
        ensure!(stored <= 10, "{stored} messages of 100 KiB are stored in a queue of 1 MiB");
    };
    refused(refusal, &[ErrorKind::QuotaExceeded])?;
    ensure_eq!(stored, 10, "a message is refused that fits");
    // Messages in the dead-letter sub-queue still count.
    bench.receive(&queue).await?.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).await?;
    refused(bench.send(&queue, Message::new(vec![0; 100 << 10])).await, &[ErrorKind::QuotaExceeded])?;
    bench.take(&queue.dead_letter()).await?;
    bench.send(&queue, Message::new(vec![0; 100 << 10])).await
}

async fn a_disabled_queue_refuses_both_ways(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    detail(bench.set_status(&queue, Status::Disabled).await)?;
    refused(bench.send(&queue, Message::new("b")).await, &[ErrorKind::EntityDisabled])?;
    refused(bench.receive(&queue).await, &[ErrorKind::EntityDisabled])?;
    bench.set_status(&queue, Status::Active).await?;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn one_direction_can_be_disabled(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    detail(bench.set_status(&queue, Status::SendDisabled).await)?;
    refused(bench.send(&queue, Message::new("b")).await, &[ErrorKind::EntityDisabled])?;
    bench.expect(&queue, ["a"]).await?;
    bench.set_status(&queue, Status::ReceiveDisabled).await?;
    bench.send_bodies(&queue, ["c"]).await?;
    refused(bench.receive(&queue).await, &[ErrorKind::EntityDisabled])?;
    bench.set_status(&queue, Status::Active).await?;
    bench.expect(&queue, ["c"]).await?;
    Ok(())
}

async fn an_entity_does_not_forward_to_itself(bench: &Bench<'_>) -> Verdict {
    let path = bench.fresh_path()?;
    let spec = QueueSettings::default().forward_to(path.as_str());
    let kinds = [ErrorKind::InvalidArgument, ErrorKind::InvalidOperation];
    refused(bench.create(&path, spec).await, &kinds)?;
    refused(bench.send(&path, Message::new("a")).await, &[ErrorKind::EntityNotFound])
}

async fn a_topic_gives_no_messages(bench: &Bench<'_>) -> Verdict {
    let topic = bench.topic(TopicSettings::default()).await?;
    bench.send_bodies(&topic, ["a"]).await?;
    let kinds = [ErrorKind::InvalidOperation, ErrorKind::EntityNotFound];
    refused(bench.receive(&topic).await, &kinds)
}
