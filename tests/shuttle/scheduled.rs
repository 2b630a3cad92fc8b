//! Scheduled messages that are cancelled as they become active.

use std::time::Duration;

use consign::{Message, transport::ErrorKind};

use crate::{
    explore::random_and_pct,
    support::{Bench, START, settings, text, wait},
};

const DELAY: Duration = Duration::from_secs(5);

/// Rules: I-22.
#[test]
fn cancel_against_activation() {
    random_and_pct("cancel_against_activation", || {
        let bench = Bench::new(settings());
        let at = START.saturating_add(DELAY);
        let number = bench.queue.schedule(vec![Message::new("scheduled")], at).wait().unwrap()[0];
        let cancelled = bench.spawn(move |bench| {
            let cancelled = bench.queue.cancel_scheduled(&[number]).wait();
            if cancelled.is_ok() {
                bench.send("other");
            }
            cancelled
        });
        let clock = bench.spawn(|bench| bench.advance(DELAY));
        // It ends only if the message is delivered or was cancelled.
        let received = bench.spawn(|bench| wait(&mut bench.queue.receiver()).unwrap());
        let (cancelled, received) = (cancelled.join().unwrap(), received.join().unwrap());
        clock.join().unwrap();
        match cancelled {
            Ok(()) => assert_eq!(text(&received.message), "other"),
            Err(error) => {
                assert_eq!((error.kind(), text(&received.message)), (ErrorKind::MessageNotFound, "scheduled"));
                let facts = received.message.received().unwrap();
                assert!(facts.sequence_number != number && facts.enqueued_time >= at);
            }
        }
        assert_eq!(bench.counts(), [0, 1, 0, 0]);
        assert_eq!(bench.queue.counts().scheduled, 0);
    });
}
