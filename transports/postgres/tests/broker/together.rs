//! Receivers of one queue in one process that receive by one statement.

use std::future::Future;

use consign::{
    Message,
    administration::{Counts, QueueSettings},
    transport::{Delivery, ErrorKind, Lease, ReceiveError, ReceiverExt, Sender},
};
use consign_postgres::{PostgresLease, PostgresReceiver, deadpool_postgres::Object};
use futures_util::{FutureExt, future::join_all};

use crate::{Fixture, LONGEST, QUEUE, until};

/// A transaction that lets no statement receive from a queue that has messages, until it is dropped.
struct Held {
    client: Object,
    /// Within the transaction the activity of others would seem to stay the same.
    other: Object,
    waits: String,
}

impl Fixture {
    async fn receivers<const N: usize>(&self) -> [PostgresReceiver; N] {
        let opened = join_all((0..N).map(async |_| self.postgres.receiver(QUEUE).await.unwrap()));
        opened.await.try_into().unwrap()
    }

    async fn deleting<const N: usize>(&self) -> [PostgresReceiver; N] {
        let opened = join_all((0..N).map(async |_| self.postgres.receive_and_delete(QUEUE).await.unwrap()));
        opened.await.try_into().unwrap()
    }

    async fn hold(&self) -> Held {
        let broker = self.other().await;
        let (client, other) = (broker.pool().get().await.unwrap(), broker.pool().get().await.unwrap());
        client.batch_execute(&format!("BEGIN; SELECT FROM {}.numbers FOR UPDATE", self.schema)).await.unwrap();
        let waits = format!(
            "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"{}\".receive(%'",
            &*self.schema
        );
        Held { client, other, waits }
    }

    async fn send_all(&self, bodies: &[&'static str]) {
        let batch = bodies.iter().map(|body| Message::new(*body)).collect();
        self.postgres.sender(QUEUE).await.unwrap().send_batch(batch).await.unwrap();
    }

    async fn count(&self, of: &str) -> i64 {
        let client = self.postgres.pool().get().await.unwrap();
        client.query_one(&format!("SELECT count(*) FROM {}.{of}", self.schema), &[]).await.unwrap().get(0)
    }
}

impl Held {
    /// Waits until a statement is in flight that is to receive, and returns its process.
    async fn until_one_waits(&self) -> i32 {
        until(async || self.other.query(&self.waits, &[]).await.unwrap().len() == 1).await;
        self.other.query_one(&self.waits, &[]).await.unwrap().get(0)
    }

    async fn end(self) {
        self.client.batch_execute("ROLLBACK").await.unwrap();
    }
}

/// Starts a receive.
macro_rules! waiting {
    ($receiver:expr, $max:expr) => {{
        let mut receiving = Box::pin($receiver.receive_batch($max));
        assert!(receiving.as_mut().now_or_never().is_none());
        receiving
    }};
}

async fn received(
    receiving: impl Future<Output = Result<Vec<Delivery<PostgresLease>>, ReceiveError>>,
) -> Vec<Delivery<PostgresLease>> {
    let received = tokio::time::timeout(LONGEST, receiving).await.expect("nothing is received").unwrap();
    for delivery in &received {
        assert_eq!(delivery.message.received().unwrap().delivery_count, 1);
    }
    received
}

fn bodies(deliveries: &[Delivery<PostgresLease>]) -> Vec<&[u8]> {
    deliveries.iter().map(|delivery| delivery.message.payload().unwrap()).collect()
}

#[tokio::test]
async fn what_waiting_receivers_want_is_received_by_one_statement() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let mut receivers = fixture.receivers::<16>().await;
    let waiting: Vec<_> = receivers.iter_mut().map(|receiver| waiting!(receiver, 1)).collect();
    fixture.send_all(&["a"; 16]).await;
    let mut deliveries: Vec<_> = join_all(waiting.into_iter().map(received)).await.into_iter().flatten().collect();
    // A statement that locks messages writes one row for all of them.
    assert_eq!((deliveries.len(), fixture.count("locks").await), (16, 1));
    // Each of them is settled for itself, and has a token of its own.
    let mut tokens: Vec<_> = deliveries.iter().map(|delivery| delivery.lease.lock_token().unwrap()).collect();
    tokens.sort_unstable_by_key(|token| *token.as_bytes());
    tokens.dedup();
    assert_eq!(tokens.len(), 16);
    deliveries.pop().unwrap().abandon().await.unwrap();
    join_all(deliveries.into_iter().map(async |delivery| delivery.complete().await.unwrap())).await;
    let again = receivers[0].receive_within(LONGEST).await.unwrap();
    assert_eq!(again.message.received().unwrap().delivery_count, 2);
    again.complete().await.unwrap();
    until(async || fixture.postgres.counts(QUEUE).await.unwrap() == Counts::default()).await;
    fixture.end().await;
}

#[tokio::test]
async fn receivers_share_out_what_is_there() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let [mut one, mut two, mut three] = fixture.receivers().await;
    let (one, two, three) = (waiting!(one, usize::MAX), waiting!(two, 1), waiting!(three, usize::MAX));
    fixture.send_all(&["a", "b", "c", "d", "e", "f", "g", "h"]).await;
    let (one, two, three) = tokio::join!(received(one), received(two), received(three));
    assert_eq!(bodies(&one), [b"a", b"b", b"c", b"d"]);
    assert_eq!(bodies(&two), [b"e"]);
    assert_eq!(bodies(&three), [b"f", b"g", b"h"]);
    drop((one, two, three));
    fixture.end().await;
}

/// Rules: I-34.
/// It is neither released nor received again meanwhile.
#[tokio::test]
async fn a_message_of_a_dropped_receive_goes_to_another_that_waits() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let [mut one, mut two] = fixture.receivers().await;
    fixture.send_all(&["a"]).await;
    let held = fixture.hold().await;
    let dropped = waiting!(one, 1);
    held.until_one_waits().await;
    let waiting = waiting!(two, 1);
    drop(dropped);
    held.end().await;
    let deliveries = received(waiting).await;
    assert_eq!(fixture.count("plain").await, 1);
    tokio::time::timeout(LONGEST, one.stopped()).await.expect("the receiver does not end");
    for delivery in deliveries {
        delivery.complete().await.unwrap();
    }
    fixture.end().await;
}

/// Rules: S-29.
#[tokio::test]
async fn a_deleted_message_of_a_dropped_receive_is_not_lost() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let [mut one, mut two, mut three] = fixture.deleting().await;
    fixture.send_all(&["a", "b", "c"]).await;
    let held = fixture.hold().await;
    let (dropped, second) = (waiting!(one, 2), waiting!(two, 1));
    held.until_one_waits().await;
    let third = waiting!(three, 1);
    drop(dropped);
    held.end().await;
    // One goes to the receive that has joined since, and one to the next of the same receiver.
    assert_eq!(bodies(&received(second).await), [b"a"]);
    assert_eq!(bodies(&received(third).await), [b"b"]);
    assert_eq!(bodies(&received(one.receive_batch(1)).await), [b"c"]);
    assert_eq!(fixture.count("messages").await + fixture.count("plain").await, 0);
    fixture.end().await;
}

/// Rules: S-66.
#[tokio::test]
async fn a_stopped_receiver_releases_its_own_messages_only() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let [mut one, mut two, mut three] = fixture.receivers().await;
    let (first, second) = (waiting!(one, 2), waiting!(two, 2));
    fixture.send_all(&["a", "b", "c", "d"]).await;
    let kept = received(first).await;
    assert_eq!(fixture.count("locks").await, 1);
    drop(second);
    tokio::time::timeout(LONGEST, two.stopped()).await.expect("the receiver does not end");
    let mut released = received(three.receive_batch(9)).await;
    while released.len() < 2 {
        released.extend(received(three.receive_batch(9)).await);
    }
    assert_eq!(bodies(&released), [b"c", b"d"]);
    for delivery in kept.into_iter().chain(released) {
        delivery.complete().await.unwrap();
    }
    assert_eq!(fixture.postgres.counts(QUEUE).await.unwrap(), Counts::default());
    fixture.end().await;
}

#[tokio::test]
async fn a_failure_is_reported_to_all_that_it_was_to_receive_for() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let [mut one, mut two, mut three] = fixture.receivers().await;
    fixture.send_all(&["a"]).await;
    let held = fixture.hold().await;
    let failing = [waiting!(one, 1), waiting!(two, 1)];
    let process = held.until_one_waits().await;
    let later = waiting!(three, 1);
    held.other.execute("SELECT pg_cancel_backend($1)", &[&process]).await.unwrap();
    for failed in join_all(failing).await {
        let error = failed.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ServiceTimeout);
        assert!(error.is_retryable() && error.description().unwrap().contains("cancel"), "{error:?}");
    }
    held.end().await;
    for delivery in received(later).await {
        delivery.complete().await.unwrap();
    }
    fixture.end().await;
}

#[tokio::test]
async fn receivers_of_two_modes_receive_apart() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let ([mut locks], [mut deletes]) = (fixture.receivers().await, fixture.deleting().await);
    let (locked, deleted) = (waiting!(locks, 1), waiting!(deletes, 1));
    fixture.send_all(&["a", "b"]).await;
    let (locked, deleted) = tokio::join!(received(locked), received(deleted));
    assert!(locked[0].lease.lock_token().is_some() && deleted[0].lease.lock_token().is_none());
    assert_eq!(fixture.count("plain").await, 1);
    drop((locked, deleted));
    fixture.end().await;
}

/// The task that receives for both is of the runtime that ends.
#[tokio::test]
async fn receivers_outlive_the_runtime_of_another() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let [mut first, mut second] = fixture.receivers().await;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (started, is_started) = tokio::sync::oneshot::channel();
    runtime.spawn(async move {
        let waiting = waiting!(first, 1);
        started.send(()).unwrap();
        waiting.await.map(drop)
    });
    is_started.await.unwrap();
    let waiting = waiting!(second, 1);
    runtime.shutdown_background();
    fixture.send_all(&["a"]).await;
    for delivery in received(waiting).await {
        delivery.complete().await.unwrap();
    }
    fixture.end().await;
}
