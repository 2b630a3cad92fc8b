//! Times far from now.

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    time::Timestamp,
    transport::{ReceiverExt, Sender},
};

use crate::{Fixture, QUEUE};

const LONG: Duration = Duration::from_secs(10);

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
