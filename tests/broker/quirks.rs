//! What the hosted service does otherwise, on demand.

use std::{sync::Arc, time::Duration};

use consign::{
    Message,
    broker::{Broker, Queue, Quirks},
    message::SequenceNumber,
    time::ManualClock,
    transport::{ErrorKind, Sender},
};

use crate::support::{MS, START, settings, take, text};

const SECOND: Duration = Duration::from_secs(1);

fn queue(quirks: Quirks) -> (Arc<ManualClock>, Queue) {
    let clock = Arc::new(ManualClock::new(START));
    let broker = Broker::with_quirks(Arc::clone(&clock), quirks);
    assert_eq!(broker.quirks(), quirks);
    let queue = broker.create_queue("orders", settings()).unwrap();
    (clock, queue)
}

/// Rules: T-07.
#[test]
fn lazily_an_expired_message_stays_until_someone_receives() {
    for (quirks, stays) in [(Quirks::default(), 0), (Quirks::default().lazy_expiry(true), 1)] {
        let (clock, queue) = queue(quirks);
        let message = Message::builder().time_to_live(SECOND).build("a").unwrap();
        queue.sender().unwrap().send(message).wait().unwrap();
        clock.advance(SECOND);
        assert_eq!(queue.peek(SequenceNumber::new(1), 9).len(), stays);
        assert_eq!(queue.counts().active, stays);
        assert!(take(&mut queue.receiver(), 1).is_empty());
        assert_eq!(queue.counts().active, 0);
    }
}

/// Rules: Q-25.
#[test]
fn like_hosted_a_cancel_after_activation_reports_success() {
    for (quirks, succeeds) in [(Quirks::default(), false), (Quirks::default().race_like_hosted(true), true)] {
        let (clock, queue) = queue(quirks);
        let numbers = queue.schedule(vec![Message::new("a")], START.saturating_add(MS)).wait().unwrap();
        clock.advance(MS);
        let cancelled = queue.cancel_scheduled(&numbers).wait();
        assert_eq!(cancelled.is_ok(), succeeds);
        assert!(cancelled.err().is_none_or(|error| error.kind() == ErrorKind::MessageNotFound));
        let received = take(&mut queue.receiver(), 1);
        assert_eq!(text(&received[0].message), "a");
        assert_eq!(queue.counts().scheduled, 0);
    }
}
