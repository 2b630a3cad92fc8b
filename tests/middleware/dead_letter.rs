use std::time::Duration;

use consign::{
    Disposition, Message,
    message::{ApplicationProperties, limits},
    middleware::{
        catch_panic::{CatchPanicLayer, Panicked},
        dead_letter::DeadLetterLayer,
    },
    settlement::{DeadLetter, DeadLetterReason},
};
use tokio_test::{assert_pending, assert_ready_err, assert_ready_ok, task};
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, service_fn};
use tower_test::mock;

use super::support::message;

fn letter(disposition: Disposition) -> DeadLetter {
    match disposition {
        Disposition::DeadLetter(letter) => *letter,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn errors_are_passed_on_unless_a_classifier_takes_them() {
    let (mut stack, mut handle) = mock::spawn_layer::<Message, Disposition, _>(DeadLetterLayer::new());
    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut call = task::spawn(stack.call(message("m")));
    assert_pending!(call.poll());
    handle.next_request().await.unwrap().1.send_error("passing");
    assert_eq!(assert_ready_err!(call.poll()).to_string(), "passing");

    let taken = |error: &BoxError| {
        (error.to_string() == "taken").then(|| DeadLetter::new(DeadLetterReason::HandlerPermanent, "mapped"))
    };
    let (mut stack, mut handle) = mock::spawn_layer::<Message, Disposition, _>(DeadLetterLayer::new().classify(taken));
    let mut calls = ["taken", "other"].map(|error| {
        assert_ready_ok!(stack.poll_ready::<Message>());
        (error, task::spawn(stack.call(message("m"))))
    });
    for (error, _) in &calls {
        handle.next_request().await.unwrap().1.send_error(*error);
    }
    let mapped = letter(assert_ready_ok!(calls[0].1.poll()));
    assert_eq!((mapped.reason, &*mapped.description), (DeadLetterReason::HandlerPermanent, "mapped"));
    assert_eq!(assert_ready_err!(calls[1].1.poll()).to_string(), "other");
}

#[tokio::test(start_paused = true)]
async fn every_dead_letter_fits_beside_the_properties_of_its_message() {
    let stack = DeadLetterLayer::new().property("x-consumer", "c".repeat(100)).layer(service_fn(|_: Message| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok::<_, BoxError>(Disposition::dead_letter(DeadLetterReason::LimitExceeded, "d".repeat(10_000)))
    }));
    for present in [0, 30_000, 60_000, 61_400, 65_000] {
        let mut full = message("m");
        for (key, share) in ["a", "b"].iter().zip([present / 2, present - present / 2]) {
            full.properties_mut().application_properties_mut().insert(*key, "x".repeat(share));
        }
        let size = full.properties().size();
        let letter = letter(stack.clone().oneshot(full).await.unwrap());
        let added = letter.changes.properties().map_or(0, ApplicationProperties::size);
        let description = letter.description.len() + DeadLetter::DESCRIPTION.len();
        let reason = letter.reason.as_str().len() + DeadLetter::REASON.len();
        assert!(size + reason + description + added <= limits::ALL_PROPERTIES_BYTES, "{present}");
        assert!(letter.description.encode_utf16().count() <= limits::DEAD_LETTER_TEXT);
        assert_eq!(added > 0, present < 61_400, "the named properties go first ({present})");
    }
}

#[tokio::test]
async fn named_properties_are_added_and_the_handlers_own_stay() {
    let stack = DeadLetterLayer::new().property("x-consumer", "layer").property("x-host", "layer").layer(service_fn(
        |_: Message| async {
            let mut letter = DeadLetter::new(DeadLetterReason::UnknownMessageType, "");
            letter.changes = [("x-consumer", "handler")].into_iter().collect::<ApplicationProperties>().into();
            Ok::<_, BoxError>(Disposition::DeadLetter(Box::new(letter)))
        },
    ));
    let letter = letter(stack.oneshot(message("m")).await.unwrap());
    let text = |key| letter.changes.properties().unwrap().get(key).unwrap().as_str().map(ToOwned::to_owned);
    assert_eq!((text("x-consumer").as_deref(), text("x-host").as_deref()), (Some("handler"), Some("layer")));
}

#[tokio::test]
async fn other_dispositions_are_left_alone() {
    for disposition in [Disposition::Complete, Disposition::ABANDON, Disposition::DEFER] {
        let answer = disposition.clone();
        let stack = DeadLetterLayer::new().property("x-consumer", "c").layer(service_fn(move |_: Message| {
            let answer = answer.clone();
            async { Ok::<_, BoxError>(answer) }
        }));
        assert_eq!(stack.oneshot(message("m")).await.unwrap(), disposition);
    }
}

#[tokio::test]
async fn an_error_of_another_layer_can_be_classified() {
    let panics = |error: &BoxError| {
        error.is::<Panicked>().then(|| DeadLetter::new(DeadLetterReason::Application("Panicked".into()), ""))
    };
    let stack = ServiceBuilder::new()
        .layer(DeadLetterLayer::new().classify(panics))
        .layer(CatchPanicLayer::new())
        .service(service_fn(|message: Message| async move {
            assert!(message.subject().is_none());
            Ok::<_, BoxError>(Disposition::Complete)
        }));
    assert_eq!(letter(stack.oneshot(message("m")).await.unwrap()).reason.as_str(), "Panicked");
}
