use consign_amqp::value::Timestamp;

use crate::support::*;

/// Rules: M-15, Q-21, Q-22.
#[tokio::test(start_paused = true)]
async fn a_message_with_an_enqueue_time_is_scheduled() {
    let harness = Harness::new();
    let session = harness.session().await;
    let at = START.as_millis() + 30_000;
    let link = sender(&session, "orders").await;
    let scheduled = annotated("later", "x-opt-scheduled-enqueue-time", Timestamp(at));
    assert_eq!(link.send(scheduled).await.unwrap(), Some(accepted()));
    send(&session, "orders", &["now"]).await;
    let mut receiver = receiver(&session, "orders").await;
    assert_eq!(text_of(&receive(&mut receiver).await), "now");
    assert_eq!(text_of(&receive(&mut receiver).await), "later");
    assert_eq!(harness.broker().now().as_millis(), at);
}
