use consign::{
    Disposition, Message, MessageExt,
    codecs::Codecs,
    message::{Received, SequenceNumber},
    middleware::{
        catch_panic::CatchPanicLayer,
        delivery_limit::{COUNT, DeliveryLimitLayer, count_delivery},
        expiry::ExpiryLayer,
    },
    settlement::{Changes, DeadLetterReason, Undecodable},
    time::{ManualClock, Timestamp},
};
use tokio_test::{assert_pending, assert_ready, assert_ready_ok, task};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use tower_test::mock;

use super::support::message;

fn delivered(count: u32) -> Message {
    message("m").with_received(Received::new(SequenceNumber::new(1), Timestamp::EPOCH, count))
}

fn dead(result: Result<Disposition, BoxError>) -> (DeadLetterReason, String) {
    match result.unwrap() {
        Disposition::DeadLetter(letter) => (letter.reason, letter.description.into_owned()),
        other => panic!("{other:?}"),
    }
}

const LAST: &str = "Message could not be consumed after 3 delivery attempts. The last error: ";

/// Rules: Y-240.
#[tokio::test]
async fn the_failure_of_the_last_delivery_is_a_dead_letter() {
    let failing = service_fn(|_: Message| async { Err::<Disposition, _>(BoxError::from("away")) });
    let abandoning =
        service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Abandon(Changes::because("later"))) });
    let layer = DeliveryLimitLayer::new(3);
    for count in [1, 2] {
        assert_eq!(layer.layer(failing).oneshot(delivered(count)).await.unwrap_err().to_string(), "away");
        let answer = layer.layer(abandoning).oneshot(delivered(count)).await.unwrap();
        assert!(matches!(answer, Disposition::Abandon(_)), "{answer:?}");
    }
    let reason = DeadLetterReason::MaxDeliveryCountExceeded;
    assert_eq!(dead(layer.layer(failing).oneshot(delivered(3)).await), (reason.clone(), format!("{LAST}away")));
    assert_eq!(dead(layer.layer(abandoning).oneshot(delivered(3)).await), (reason, format!("{LAST}later")));
}

/// Rules: Y-241.
#[tokio::test]
async fn a_delivery_after_the_last_one_does_not_reach_the_handler() {
    let (mock, mut handle) = mock::pair::<Message, Disposition>();
    let mut stack = DeliveryLimitLayer::new(3).layer(mock);
    handle.allow(1);
    let (reason, description) =
        dead(assert_ready!(task::spawn(stack.ready().await.unwrap().call(delivered(4))).poll()));
    assert_eq!(reason, DeadLetterReason::MaxDeliveryCountExceeded);
    assert_eq!(description, format!("{LAST}no delivery was settled"));
    assert_pending!(task::spawn(handle.next_request()).poll());
}

/// Rules: Y-242.
#[tokio::test]
async fn a_client_that_does_not_count_counts_in_a_property() {
    let stack =
        DeliveryLimitLayer::new(3).layer(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::ABANDON) }));
    let mut message = Message::builder().message_id("m").subject("s").build("body").unwrap();
    for failed in 1..3_u64 {
        assert_eq!(stack.oneshot(message.clone()).await.unwrap(), Disposition::ABANDON);
        message = count_delivery(&message);
        assert_eq!(message.application_properties().get(COUNT), Some(&failed.into()));
        assert_eq!((message.message_id(), message.payload()), (Some("m"), Some(&b"body"[..])));
    }
    let text =
        "Message could not be consumed after 3 delivery attempts. The last error: the handler abandoned the message";
    assert_eq!(dead(stack.oneshot(message).await).1, text);

    // A client that does not count may deliver with a count of 0.
    let text = Message::builder().property(COUNT, 2).build("").unwrap();
    let uncounted = text.with_received(Received::new(SequenceNumber::new(1), Timestamp::EPOCH, 0));
    let (reason, _) = dead(stack.oneshot(uncounted.clone()).await);
    assert_eq!(reason, DeadLetterReason::MaxDeliveryCountExceeded);
    assert_eq!(count_delivery(&uncounted).application_properties().get(COUNT), Some(&3_u64.into()));

    // As text it is no number; a copy of a message that a client counts goes on from there.
    let text = Message::builder().property(COUNT, "many").build("").unwrap();
    assert_eq!(count_delivery(&text).application_properties().get(COUNT), Some(&1_u64.into()));
    assert_eq!(count_delivery(&delivered(2)).application_properties().get(COUNT), Some(&2_u64.into()));
}

/// Rules: Y-243.
#[tokio::test]
async fn what_no_later_delivery_changes_passes() {
    let layer = DeliveryLimitLayer::new(1);
    let reading = service_fn(|message: Message| async move {
        message.decode::<u64, _>(&Codecs::json()).map_err(BoxError::from)?;
        Ok::<_, BoxError>(Disposition::Complete)
    });
    let error = layer.layer(reading).oneshot(delivered(1)).await.unwrap_err();
    assert!(error.is::<Undecodable>());

    let mut received = Received::new(SequenceNumber::new(1), Timestamp::EPOCH, 1);
    received.locked_until = Some(Timestamp::EPOCH);
    let handler = service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) });
    let stack =
        ServiceBuilder::new().layer(layer).layer(ExpiryLayer::new(ManualClock::new(Timestamp::EPOCH))).service(handler);
    let error = stack.oneshot(message("m").with_received(received)).await.unwrap_err();
    assert!(error.is::<consign::middleware::expiry::LockExpired>(), "{error}");
    assert_eq!(layer.layer(handler).oneshot(delivered(1)).await.unwrap(), Disposition::Complete);
}

#[tokio::test]
async fn a_panic_in_the_last_delivery_is_a_dead_letter_and_zero_deliveries_are_one() {
    let stack = ServiceBuilder::new().layer(DeliveryLimitLayer::new(0)).layer(CatchPanicLayer::new()).service(
        service_fn(|_: Message| async { if true { panic!("oh") } else { Ok::<_, BoxError>(Disposition::Complete) } }),
    );
    let (_, description) = dead(stack.oneshot(message("m")).await);
    assert!(description.ends_with("oh"), "{description}");
    assert_eq!(DeliveryLimitLayer::default().limit(), 10);
}

#[tokio::test]
async fn it_is_as_ready_as_the_service_inside() {
    let (mock, mut handle) = mock::pair::<Message, Disposition>();
    let mut stack = task::spawn(DeliveryLimitLayer::new(3).layer(mock));
    handle.allow(0);
    assert_pending!(stack.enter(|cx, mut stack| stack.poll_ready(cx)));
    handle.allow(1);
    assert_ready_ok!(stack.enter(|cx, mut stack| stack.poll_ready(cx)));
}
