//! Receives in the mode receive-and-delete that are cancelled: what they removed exists nowhere else.

use std::{future::poll_fn, time::Duration};

use consign::{
    Message,
    administration::{Counts, QueueSettings},
    transport::{Batch, Delivery, Receiver, ReceiverExt, Sender},
};
use consign_conformance::log::Lines;
use consign_postgres::{
    PostgresReceiver,
    tokio_postgres::{self, NoTls},
};
use futures_util::FutureExt;

use crate::{Fixture, QUEUE, until};

const LONG: Duration = Duration::from_secs(10);

async fn sent(fixture: &Fixture, count: usize) -> PostgresReceiver {
    let batch = (0..count).map(|number| Message::new(number.to_string())).collect::<Batch>();
    fixture.postgres.sender(QUEUE).await.unwrap().send_batch(batch).await.unwrap();
    fixture.postgres.receive_and_delete(QUEUE).await.unwrap()
}

/// Drops a receive while its statement waits in the server, and lets the statement end after that.
async fn cancelled_in_flight<T>(fixture: &Fixture, receiver: T, receive: impl AsyncFnOnce(&mut T)) -> T {
    let mut client = fixture.postgres.pool().get().await.unwrap();
    let other = client.transaction().await.unwrap();
    other.batch_execute(&format!("LOCK TABLE {}.messages", &*fixture.schema)).await.unwrap();
    let mut receiver = receiver;
    // The sweeper waits for the table too. Within the transaction the activity of others would seem to stay the same.
    let (watching, connection) = tokio_postgres::connect(&fixture.url, NoTls).await.unwrap();
    let driving = tokio::spawn(connection);
    let waiting = format!(
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"{}\".receive(%'",
        &*fixture.schema
    );
    {
        let mut receiving = Box::pin(receive(&mut receiver));
        let mut is_waiting = false;
        while !is_waiting {
            assert!(receiving.as_mut().now_or_never().is_none());
            is_waiting = !watching.query(&waiting, &[]).await.unwrap().is_empty();
        }
    }
    driving.abort();
    other.commit().await.unwrap();
    receiver
}

fn bodies<L>(deliveries: &[Delivery<L>]) -> Vec<&[u8]> {
    deliveries.iter().filter_map(|delivery| delivery.message.payload()).collect()
}

#[tokio::test]
async fn the_next_receive_returns_messages_that_a_cancelled_one_removed() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let receiver = sent(&fixture, 3).await;
    let mut receiver = cancelled_in_flight(&fixture, receiver, async |receiver| {
        drop(receiver.receive_batch(10).await);
    })
    .await;
    let received = tokio::time::timeout(LONG, receiver.receive_batch(2)).await.unwrap().unwrap();
    assert_eq!(bodies(&received), [b"0", b"1"]);
    // The rest of an answer survives a stop, as of a consumer that pauses.
    receiver.stop();
    poll_fn(|cx| receiver.poll_stopped(cx)).await;
    let received = tokio::time::timeout(LONG, receiver.receive_batch(10)).await.unwrap().unwrap();
    assert_eq!(bodies(&received), [b"2"]);
    fixture.end().await;
}

/// An answer that has arrived and that no caller has taken is kept as well.
#[tokio::test]
async fn the_next_receive_returns_messages_that_arrived_for_a_cancelled_one() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let mut receiver = sent(&fixture, 1).await;
    let mut receiving = Box::pin(receiver.receive());
    assert!(receiving.as_mut().now_or_never().is_none());
    until(async || fixture.postgres.counts(QUEUE).await.unwrap() == Counts::default()).await;
    drop(receiving);
    assert_eq!(receiver.receive_within(LONG).await.unwrap().message.payload(), Some(&b"0"[..]));
    fixture.end().await;
}

/// Whether a line has this number of lost messages.
fn has_lost(lines: &Lines, messages: usize) -> bool {
    let number = format!("messages={messages}");
    let is_it = |line: &String| line.contains("that had arrived are lost") && line.contains(&number);
    lines.of("consign::postgres").iter().any(is_it)
}

#[tokio::test]
async fn messages_that_a_dropped_receiver_has_are_logged() {
    let (lines, _guard) = Lines::capture();
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let receiver = sent(&fixture, 3).await;
    let mut receiver = cancelled_in_flight(&fixture, receiver, async |receiver| {
        drop(receiver.receive_batch(10).await);
    })
    .await;
    drop(tokio::time::timeout(LONG, receiver.receive_batch(1)).await.unwrap().unwrap());
    drop(receiver);
    assert!(has_lost(&lines, 2), "{:?}", lines.all());
    fixture.end().await;
}

/// The receiver is dropped before the answer is there.
#[tokio::test]
async fn messages_that_are_lost_with_their_receiver_are_logged() {
    let (lines, _guard) = Lines::capture();
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let receiver = sent(&fixture, 3).await;
    cancelled_in_flight(&fixture, Some(receiver), async |receiver| {
        let mut receiver = receiver.take().unwrap();
        drop(receiver.receive_batch(10).await);
    })
    .await;
    until(async || has_lost(&lines, 3)).await;
    fixture.end().await;
}
