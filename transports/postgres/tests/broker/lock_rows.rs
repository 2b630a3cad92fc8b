//! The row that a lock of several messages has: it is deleted with the last of them, and nothing is settled by it after its end.

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    transport::{Delivery, ErrorKind, Lease, ReceiverExt, Sender},
};
use consign_postgres::PostgresLease;

use crate::{Fixture, QUEUE, until};

impl Fixture {
    /// Sends two messages, and receives both under one lock.
    pub(super) async fn two_locked(&self) -> [Delivery<PostgresLease>; 2] {
        let sender = self.postgres.sender(QUEUE).await.unwrap();
        sender.send_batch(["a", "b"].map(Message::new).into_iter().collect()).await.unwrap();
        let mut receiver = self.postgres.receiver(QUEUE).await.unwrap();
        let deliveries = receiver.receive_batch(2).await.unwrap();
        assert_eq!(self.lock_rows().await, 1);
        deliveries.try_into().unwrap()
    }

    async fn lock_rows(&self) -> i64 {
        let client = self.postgres.pool().get().await.unwrap();
        client.query_one(&format!("SELECT count(*) FROM {}.locks", self.schema), &[]).await.unwrap().get(0)
    }
}

#[tokio::test]
async fn completing_one_message_after_the_other_deletes_the_lock_row() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let [first, second] = fixture.two_locked().await;
    first.complete().await.unwrap();
    assert_eq!(fixture.lock_rows().await, 1);
    second.complete().await.unwrap();
    assert_eq!(fixture.lock_rows().await, 0);
    fixture.end().await;
}

#[tokio::test]
async fn settling_in_transactions_deletes_the_lock_row() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    for delivery in fixture.two_locked().await {
        let mut client = fixture.postgres.pool().get().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        delivery.lease.settle_in(&transaction, Disposition::Complete).await.unwrap();
        transaction.commit().await.unwrap();
    }
    assert_eq!(fixture.lock_rows().await, 0);
    fixture.end().await;
}

#[tokio::test]
async fn settling_in_another_way_deletes_the_lock_row() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let [first, second] = fixture.two_locked().await;
    first.lease.renew().await.unwrap();
    first.complete().await.unwrap();
    second.settle(Disposition::ABANDON).await.unwrap();
    assert_eq!(fixture.lock_rows().await, 0);
    fixture.end().await;
}

/// Neither of two statements sees what the other has deleted before that is committed.
#[tokio::test]
async fn completing_at_the_same_time_deletes_the_lock_row() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let [first, second] = fixture.two_locked().await;
    let mut client = fixture.postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let complete = format!(
        "SELECT count(*) FROM {s}.complete(ARRAY(SELECT token FROM {s}.locks), ARRAY(SELECT min(id) FROM {s}.plain))",
        s = fixture.schema
    );
    let left: i64 = transaction.query_one(&complete, &[]).await.unwrap().get(0);
    assert_eq!(left, 0);
    let completing = tokio::spawn(second.complete());
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}%.complete(%'",
        &*fixture.schema
    );
    let other = fixture.postgres.pool().get().await.unwrap();
    until(async || other.query_one(&waiting, &[]).await.unwrap().get::<_, i64>(0) > 0).await;
    transaction.commit().await.unwrap();
    completing.await.unwrap().unwrap();
    assert_eq!(fixture.lock_rows().await, 0);
    drop(first);
    fixture.end().await;
}

/// Rules: S-52.
/// A transaction whose settlement comes too late does not keep the message from those who receive it again.
#[tokio::test]
async fn a_settlement_after_the_end_of_the_lock_changes_no_order() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    sender.send_batch(["a", "b"].map(Message::new).into_iter().collect()).await.unwrap();
    let mut receiver = fixture.postgres.receiver(QUEUE).await.unwrap();
    let lost = receiver.receive().await.unwrap();
    let mut client = fixture.postgres.pool().get().await.unwrap();
    let ended = format!("UPDATE {s}.locks SET until = {s}.now() - interval '1 second'", s = fixture.schema);
    assert_eq!(client.execute(&ended, &[]).await.unwrap(), 1);
    let transaction = client.transaction().await.unwrap();
    let late = lost.lease.settle_in(&transaction, Disposition::ABANDON).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::MessageLockLost);
    let again = receiver.receive().await.unwrap();
    let next = receiver.receive().await.unwrap();
    assert_eq!([again.message.payload(), next.message.payload()], [Some(&b"a"[..]), Some(&b"b"[..])]);
    transaction.rollback().await.unwrap();
    fixture.end().await;
}
