//! What a responder logs.

use std::{
    future::pending,
    io,
    sync::{Arc, Mutex},
};

use consign::{
    Disposition, Message,
    codecs::Codecs,
    message::{EntityPath, Received, SequenceNumber},
    routing::Body,
    rpc::{Reply, Responder},
    time::{Clock, SystemClock},
    transport::SendError,
};
use tower::{ServiceExt, service_fn};

use crate::{Bench, seconds, within};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Rules: R-202.
/// A clock that is ahead of the broker's has the same effect as a request that waited for too long.
#[tokio::test(start_paused = true)]
async fn requests_past_their_deadline_are_logged_with_how_late_they_are() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let bench = Bench::new();
    let clock = Arc::new(SystemClock::new());
    let answer = async |Body(number): Body<u32>| Reply(number);
    let responder = Responder::builder(bench.senders()).clock(Arc::clone(&clock)).codecs(Codecs::json());
    let responder = responder.answer("echo", answer).build().unwrap();
    let request =
        Message::builder().message_id("7").reply_to("replies").subject("echo").content_type("application/json");
    let request = request.property("x-timeout-ms", 5_000).build("1").unwrap();
    let an_hour_ago = clock.now().utc.saturating_add(seconds(1)).as_millis() - 3_600_000;
    let received = Received::new(SequenceNumber::default(), consign::time::Timestamp::from_millis(an_hour_ago), 1);
    let settled = responder.oneshot(request.with_received(received)).await.unwrap();
    assert_eq!(settled, Disposition::Complete);
    let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    for text in ["WARN", "a request was past its deadline", "by=3594s", "suppressed=0"] {
        assert!(lines.contains(text), "{text} is missing: {lines}");
    }
}

/// Rules: R-34.
#[tokio::test(start_paused = true)]
async fn a_fault_that_is_not_accepted_in_time_is_logged() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let stalled = |_: &EntityPath| Ok(service_fn(|_: Message| pending::<Result<(), SendError>>()));
    let answer = async |Body(number): Body<u32>| Reply(number);
    let responder = Responder::builder(stalled).codecs(Codecs::json()).answer("double", answer).build().unwrap();
    let poison = Message::builder().subject("double").message_id("7").reply_to("replies").build("{").unwrap();
    let settled = within(responder.oneshot(poison)).await.unwrap();
    assert!(matches!(settled, Disposition::DeadLetter(_)), "{settled:?}");
    let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    for text in ["WARN", "a reply could not be sent to the address in ReplyTo", "no answer within 5s"] {
        assert!(lines.contains(text), "{text} is missing: {lines}");
    }
}
