use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    middleware::catch_panic::{CatchPanicLayer, Panicked},
};
use tokio_test::{assert_ready_err, assert_ready_ok, task};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use tower_test::mock;

use super::support::{Boxed, message};

fn panicked(error: &BoxError) -> &Panicked {
    error.downcast_ref().expect("a panic")
}

/// Rules: I-33.
#[tokio::test(start_paused = true)]
async fn a_panic_costs_one_delivery() {
    let stack = CatchPanicLayer::new().layer(service_fn(|message: Message| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_ne!(message.subject(), Some("bad"), "canary");
        Ok::<_, BoxError>(Disposition::Complete)
    }));
    for _ in 0..10 {
        let error = stack.oneshot(message("bad")).await.unwrap_err();
        assert!(panicked(&error).payload().unwrap().contains("canary"));
        assert_eq!(stack.oneshot(message("good")).await.unwrap(), Disposition::Complete);
    }
}

/// Panics at the place it is told.
#[derive(Clone)]
struct Panics(&'static str);

impl Service<Message> for Panics {
    type Response = Disposition;
    type Error = BoxError;
    type Future = Boxed<Disposition, BoxError>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        assert_ne!(self.0, "ready");
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Message) -> Self::Future {
        assert_ne!(self.0, "call");
        let place = self.0;
        Box::pin(async move { if place == "poll" { std::panic::panic_any(7) } else { Ok(Disposition::Complete) } })
    }
}

/// Rules: I-33.
#[tokio::test]
async fn a_panic_is_caught_wherever_it_happens() {
    for place in ["ready", "call", "poll"] {
        let error = CatchPanicLayer::new().layer(Panics(place)).oneshot(message("m")).await.unwrap_err();
        assert_eq!(panicked(&error).payload().is_some(), place != "poll", "only text is kept");
    }
}

/// Rules: I-33.
#[tokio::test]
async fn values_of_a_panicking_handler_are_dropped_and_may_panic_again() {
    struct PanicsOnDrop(Arc<AtomicBool>);
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
            panic!("second");
        }
    }
    struct Handler(#[expect(dead_code, reason = "dropped")] PanicsOnDrop);
    impl Future for Handler {
        type Output = Result<Disposition, BoxError>;
        fn poll(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
            panic!("first")
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&dropped);
    let mut stack =
        CatchPanicLayer::new().layer(service_fn(move |_: Message| Handler(PanicsOnDrop(Arc::clone(&seen)))));
    let mut call = task::spawn(stack.call(message("m")));
    let error = assert_ready_err!(call.poll());
    assert!(dropped.load(Ordering::Relaxed), "at once");
    assert_eq!(panicked(&error).payload(), Some("first"));
}

/// Rules: I-40.
#[tokio::test]
async fn the_message_of_a_panic_is_in_no_text() {
    let stack = CatchPanicLayer::new().layer(service_fn(|_: Message| async move {
        let text = format!("canary \u{1b}[31m{}", "x".repeat(1_000));
        if text.is_empty() { Ok::<_, BoxError>(Disposition::Complete) } else { panic!("{text}") }
    }));
    let error = stack.oneshot(message("m")).await.unwrap_err();
    assert_eq!(error.to_string(), "the handler panicked");
    assert!(!format!("{error:?}").contains("canary"));
    let payload = panicked(&error).payload().unwrap();
    assert!(payload.starts_with("canary \\u{1b}[31mxxx"), "{payload}");
    assert_eq!(payload.chars().count(), 256);
}

#[tokio::test]
async fn the_text_of_a_panic_has_its_quotes_and_no_cut_escape() {
    let long = format!("can't read \"a\\b\"{}\u{1b}", "x".repeat(256 - 17 - 3));
    for (text, shown) in [("can't read \"a\\b\"", "can't read \"a\\b\""), (&*long, &long[..long.len() - 1])] {
        let text = text.to_owned();
        let stack = CatchPanicLayer::new().layer(service_fn(move |_: Message| {
            let text = text.clone();
            async move { if text.is_empty() { Ok::<_, BoxError>(Disposition::Complete) } else { panic!("{text}") } }
        }));
        let error = stack.oneshot(message("m")).await.unwrap_err();
        assert_eq!(panicked(&error).payload(), Some(shown));
    }
}

#[tokio::test]
async fn without_a_panic_nothing_changes() {
    let (mut stack, mut handle) = mock::spawn_layer::<Message, Disposition, _>(CatchPanicLayer::new());
    let mut calls = ["a", "b"].map(|subject| {
        assert_ready_ok!(stack.poll_ready::<Message>());
        task::spawn(stack.call(message(subject)))
    });
    handle.next_request().await.unwrap().1.send_response(Disposition::DEFER);
    handle.next_request().await.unwrap().1.send_error("no");
    assert_eq!(assert_ready_ok!(calls[0].poll()), Disposition::DEFER);
    assert_eq!(assert_ready_err!(calls[1].poll()).to_string(), "no");
}
