use std::{sync::Arc, time::Duration};

use consign::{
    Disposition, Message,
    message::{Received, SequenceNumber},
    middleware::expiry::{ExpiryLayer, LockExpired},
    time::{Clock, ManualClock, SystemClock, Timestamp},
};
use tokio_test::{assert_pending, assert_ready_err, assert_ready_ok, task};
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, service_fn};
use tower_test::mock;

use super::support::{message, received};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Rules: S-60.
#[tokio::test]
async fn a_message_whose_lock_has_run_out_is_not_dispatched() {
    let clock = Arc::new(ManualClock::new(NOW));
    let layer = ExpiryLayer::new(Arc::clone(&clock));
    let (mut stack, mut handle) = mock::spawn_layer::<Message, Disposition, _>(layer.clone());
    let locked = received(Some(NOW.saturating_add(millis(1))), NOW);

    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut call = task::spawn(stack.call(locked.clone()));
    handle.next_request().await.unwrap().1.send_response(Disposition::Complete);
    assert_eq!(assert_ready_ok!(call.poll()), Disposition::Complete);

    clock.advance(millis(1));
    assert_ready_ok!(stack.poll_ready::<Message>());
    let error = assert_ready_err!(task::spawn(stack.call(locked)).poll());
    assert!(error.is::<LockExpired>());
    assert_pending!(handle.poll_request());
    assert_eq!((layer.counts().locks(), layer.counts().messages()), (1, 0));
}

fn expiring(expires_at: Timestamp, dead_lettered: bool, locked_until: Option<Timestamp>) -> Message {
    let mut received = Received::new(SequenceNumber::new(1), NOW, 1);
    (received.expires_at, received.dead_lettered) = (expires_at, dead_lettered);
    received.locked_until = locked_until;
    message("m").with_received(received)
}

/// Rules: S-38.
#[tokio::test]
async fn an_expired_message_is_released_for_the_broker_to_decide() {
    let layer = ExpiryLayer::new(ManualClock::new(NOW));
    let stack = layer.layer(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) }));
    let soon = NOW.saturating_add(millis(1));
    for (message, answer, count) in [
        (expiring(soon, false, Some(soon)), Disposition::Complete, 0),
        (expiring(Timestamp::MAX, false, Some(soon)), Disposition::Complete, 0),
        (expiring(NOW, false, Some(soon)), Disposition::ABANDON, 1),
        (expiring(NOW, false, None), Disposition::ABANDON, 2),
        (message("not received"), Disposition::Complete, 2),
    ] {
        assert_eq!(stack.clone().oneshot(message).await.unwrap(), answer);
        assert_eq!(layer.counts().messages(), count);
    }
    // Its lock comes first: with that gone, abandoning is no longer possible.
    stack.oneshot(expiring(NOW, false, Some(NOW))).await.unwrap_err();
    assert_eq!((layer.counts().locks(), layer.counts().messages()), (1, 2));
}

/// Rules: S-42.
#[tokio::test]
async fn nothing_expires_in_a_dead_letter_sub_queue() {
    let layer = ExpiryLayer::new(ManualClock::new(NOW));
    let stack = layer.layer(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) }));
    let soon = NOW.saturating_add(millis(1));
    assert_eq!(stack.oneshot(expiring(NOW, true, Some(soon))).await.unwrap(), Disposition::Complete);
}

/// Rules: S-60.
#[tokio::test(start_paused = true)]
async fn a_lock_ticks_while_its_message_waits_for_a_turn() {
    let clock = SystemClock::new();
    let now = clock.now().utc;
    let layer = ExpiryLayer::new(clock);
    let stack = ServiceBuilder::new().layer(ConcurrencyLimitLayer::new(1)).layer(layer.clone()).service(service_fn(
        |_: Message| async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok::<_, BoxError>(Disposition::Complete)
        },
    ));
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let locked = received(Some(now.saturating_add(Duration::from_secs(30))), now);
            tokio::spawn(stack.clone().oneshot(locked))
        })
        .collect();
    let mut handled = 0;
    for call in calls {
        handled += usize::from(call.await.unwrap().is_ok());
    }
    assert_eq!((handled, layer.counts().locks()), (2, 1));
}
