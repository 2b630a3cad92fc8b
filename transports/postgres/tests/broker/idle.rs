//! Receivers of one queue in one process that wait.

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    transport::{ReceiverExt, Sender},
};

use crate::{Fixture, QUEUE, until};

const RECEIVERS: usize = 200;

/// They would poll 2,000 times a second.
#[tokio::test]
async fn idle_receivers_share_their_polls_and_each_gets_its_message() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    fixture
        .run(
            "CREATE SEQUENCE {s}.polls;
            ALTER FUNCTION {s}.next_due(bigint, timestamptz) RENAME TO own_next_due;
            CREATE FUNCTION {s}.next_due(bigint, timestamptz) RETURNS bigint LANGUAGE sql AS $$
                SELECT nextval('{s}.polls');
                SELECT {s}.own_next_due($1, $2)
            $$",
        )
        .await;
    let client = fixture.postgres.pool().get().await.unwrap();
    let polls = format!("SELECT last_value FROM {}.polls", &*fixture.schema);
    let polls = async || client.query_one(&polls, &[]).await.unwrap().get::<_, i64>(0);
    let mut waiting = Vec::new();
    for _ in 0..RECEIVERS {
        let mut receiver = fixture.postgres.receiver(QUEUE).await.unwrap();
        waiting.push(tokio::spawn(async move { receiver.receive().await.unwrap() }));
    }
    let all = i64::try_from(RECEIVERS).unwrap();
    // All of them wait by then.
    let first = polls().await;
    until(async || polls().await > first + 1).await;
    let before = polls().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let shared = polls().await - before;
    assert!(shared < all / 2, "{shared} polls");

    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    futures_util::future::try_join_all((0..RECEIVERS).map(|_| sender.send(Message::new("a")))).await.unwrap();
    for delivery in futures_util::future::try_join_all(waiting).await.unwrap() {
        delivery.complete().await.unwrap();
    }
    drop(client);
    fixture.end().await;
}
