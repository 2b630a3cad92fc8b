//! Messages that another transaction has while their queue begins to forward.

use std::time::Duration;

use consign::{
    Disposition, Message,
    administration::{Administration, QueueSettings},
    message::EntityPath,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{Delivery, Lease, ReceiverExt, Sender},
};
use consign_postgres::PostgresLease;

use crate::{Fixture, LOCKS_END, QUEUE, options};

const LONG: Duration = Duration::from_secs(10);

impl Fixture {
    async fn locked(&self) -> Delivery<PostgresLease> {
        self.postgres.create_queue("target", QueueSettings::default()).await.unwrap();
        self.postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
        self.postgres.receiver(QUEUE).await.unwrap().receive_within(LONG).await.unwrap()
    }

    async fn forward(&self) {
        let settings = QueueSettings::default().forward_to("target").into();
        self.postgres.update(&EntityPath::new(QUEUE).unwrap(), &settings).await.unwrap();
    }

    async fn end_forwarded(self) {
        let mut target = self.postgres.receiver("target").await.unwrap();
        let delivery = target.receive_within(LONG).await.unwrap();
        assert_eq!(delivery.message.payload(), Some(&b"a"[..]));
        delivery.complete().await.unwrap();
        self.end().await;
    }
}

/// Rules: K-259.
#[tokio::test]
async fn a_message_whose_lock_ends_after_its_queue_has_begun_to_forward_end_forwarded() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let delivery = fixture.locked().await;
    let mut client = fixture.postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    delivery.lease.settle_in(&transaction, Disposition::Complete).await.unwrap();
    fixture.forward().await;
    transaction.rollback().await.unwrap();
    drop(client);
    fixture.run(LOCKS_END).await;
    fixture.end_forwarded().await;
}

/// Rules: K-259.
/// At once, by the process that settles.
#[tokio::test]
async fn a_message_that_is_released_after_its_queue_has_begun_to_forward_end_forwarded() {
    for is_abandoned in [true, false] {
        let seldom = |schema: &str| options(schema).poll_every(Duration::from_secs(3_600));
        let Some(fixture) = Fixture::with(QueueSettings::default(), seldom).await else { return };
        let delivery = fixture.locked().await;
        let mut client = fixture.postgres.pool().get().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        let keep = format!("SELECT FROM {}.plain FOR UPDATE", fixture.schema);
        transaction.execute(&keep, &[]).await.unwrap();
        fixture.forward().await;
        transaction.rollback().await.unwrap();
        drop(client);
        if is_abandoned {
            delivery.abandon().await.unwrap();
        } else {
            delivery.lease.release().await.unwrap();
        }
        fixture.end_forwarded().await;
    }
}

/// Rules: K-259.
/// The transaction has read the settings before.
#[tokio::test]
async fn a_message_that_is_abandoned_while_its_queue_begins_to_forward_end_forwarded() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let delivery = fixture.locked().await;
    let mut client = fixture.postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    delivery.lease.settle_in(&transaction, Disposition::ABANDON).await.unwrap();
    fixture.forward().await;
    transaction.commit().await.unwrap();
    drop(client);
    fixture.end_forwarded().await;
}

/// Rules: K-259.
/// In a transaction that is open while the queue stops to forward, it was put where forwarded messages wait.
#[tokio::test]
async fn a_message_that_is_released_while_its_queue_ceases_to_forward_stays_in_it() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let delivery = fixture.locked().await;
    let mut client = fixture.postgres.pool().get().await.unwrap();
    let keeping = client.transaction().await.unwrap();
    let keep = format!("SELECT FROM {}.plain FOR UPDATE", fixture.schema);
    keeping.execute(&keep, &[]).await.unwrap();
    fixture.forward().await;
    keeping.rollback().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    delivery.lease.settle_in(&transaction, Disposition::ABANDON).await.unwrap();
    fixture.postgres.update(&EntityPath::new(QUEUE).unwrap(), &QueueSettings::default().into()).await.unwrap();
    transaction.commit().await.unwrap();
    drop(client);
    let mut receiver = fixture.postgres.receiver(QUEUE).await.unwrap();
    let delivery = receiver.receive_within(LONG).await.unwrap();
    assert_eq!(delivery.message.received().unwrap().delivery_count, 2);
    delivery.complete().await.unwrap();
    fixture.end().await;
}

impl Fixture {
    async fn locked_dead_letter(&self) -> Delivery<PostgresLease> {
        self.locked()
            .await
            .dead_letter(DeadLetter::new(DeadLetterReason::Application("test".into()), ""))
            .await
            .unwrap();
        let mut dead_letters = self.postgres.receiver(&format!("{QUEUE}/$DeadLetterQueue")).await.unwrap();
        dead_letters.receive_within(LONG).await.unwrap()
    }

    async fn forward_dead_letters(&self) {
        let settings = QueueSettings::default().forward_dead_letters_to("target").into();
        self.postgres.update(&EntityPath::new(QUEUE).unwrap(), &settings).await.unwrap();
    }
}

/// Rules: K-259.
/// At once, by the process that settles.
#[tokio::test]
async fn a_dead_letter_that_is_released_after_its_queue_has_begun_to_forward_them_end_forwarded() {
    for is_abandoned in [true, false] {
        let seldom = |schema: &str| options(schema).poll_every(Duration::from_secs(3_600));
        let Some(fixture) = Fixture::with(QueueSettings::default(), seldom).await else { return };
        let delivery = fixture.locked_dead_letter().await;
        fixture.forward_dead_letters().await;
        if is_abandoned {
            delivery.abandon().await.unwrap();
        } else {
            delivery.lease.release().await.unwrap();
        }
        fixture.end_forwarded().await;
    }
}

/// Rules: K-259.
/// The transaction has read the settings before.
#[tokio::test]
async fn a_dead_letter_that_is_abandoned_while_its_queue_begins_to_forward_them_end_forwarded() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let delivery = fixture.locked_dead_letter().await;
    let mut client = fixture.postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    delivery.lease.settle_in(&transaction, Disposition::ABANDON).await.unwrap();
    fixture.forward_dead_letters().await;
    transaction.commit().await.unwrap();
    drop(client);
    fixture.end_forwarded().await;
}
