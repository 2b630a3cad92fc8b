//! Times far from now.

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    settlement::Changes,
    time::Timestamp,
    transport::{Lease, ReceiverExt, Sender},
};

use crate::{Fixture, QUEUE};

const LONG: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_secs(86_400);

/// Rules: M-15, Q-20.
#[tokio::test]
async fn a_send_at_any_time_of_the_past_is_an_ordinary_one() {
    let settings = QueueSettings::default();
    // With duplicate detection a message takes another path.
    for settings in [settings.clone(), settings.duplicate_detection(Duration::from_secs(60))] {
        let Some(fixture) = Fixture::new(settings).await else { return };
        let sender = fixture.postgres.sender(QUEUE).await.unwrap();
        let mut receiver = fixture.postgres.receiver(QUEUE).await.unwrap();
        for at in [Timestamp::from_millis(i64::MIN), Timestamp::from_millis(-1), Timestamp::EPOCH] {
            let mut message = Message::new("a");
            message.properties_mut().set_scheduled_enqueue_time(at);
            sender.send(message).await.unwrap();
            let delivery = receiver.receive_within(LONG).await.unwrap();
            assert_eq!(delivery.message.scheduled_enqueue_time(), Some(at));
            delivery.complete().await.unwrap();
            sender.schedule(vec![Message::new("b")], at).await.unwrap();
            receiver.receive_within(LONG).await.unwrap().complete().await.unwrap();
        }
        fixture.end().await;
    }
}

/// Rules: K-212.
#[tokio::test]
async fn a_delay_of_months_is_not_shortened() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    let mut receiver = fixture.postgres.receiver(QUEUE).await.unwrap();
    for (delay, days) in [(DAY * 60, 60), (DAY * 36_500, 36_500), (Duration::MAX, 1_000_000)] {
        for counts in [true, false] {
            sender.send(Message::new("a")).await.unwrap();
            let lease = receiver.receive_within(LONG).await.unwrap().lease;
            let delayed = if counts { lease.abandon_after(Changes::NONE, delay) } else { lease.release_after(delay) };
            delayed.ok().unwrap().await.unwrap();
            let left = format!(
                "SELECT count(*) FROM {}.messages WHERE due > clock_timestamp() + ($1::int - 1) * interval '1 day'",
                &*fixture.schema
            );
            let client = fixture.postgres.pool().get().await.unwrap();
            assert_eq!(client.query_one(&left, &[&days]).await.unwrap().get::<_, i64>(0), 1, "{delay:?}");
            drop(client);
            fixture.run("DELETE FROM {s}.messages").await;
        }
    }
    fixture.end().await;
}
