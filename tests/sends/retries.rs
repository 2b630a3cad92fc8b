//! Sends that are tried again, to a queue that detects duplicates.

use std::{
    future::{Ready, ready},
    time::Duration,
};

use consign::{
    Message,
    administration::QueueSettings,
    middleware::{in_flight::InFlightLayer, message_id::MessageIdLayer},
    testing::{Faults, Link, SendFault, TestBroker},
    transport::{ErrorKind, SendError, SendExt, SendService},
};
use tower::{
    ServiceBuilder,
    retry::{Policy, RetryLayer},
};

use crate::support::far;

/// Tries again what may succeed later, once.
#[derive(Clone)]
struct Once(bool);

impl Policy<Message, (), SendError> for Once {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut Message, result: &mut Result<(), SendError>) -> Option<Ready<()>> {
        let again = result.as_ref().is_err_and(SendError::is_retryable) && !std::mem::replace(&mut self.0, true);
        again.then(|| ready(()))
    }

    fn clone_request(&mut self, message: &Message) -> Option<Message> {
        Some(message.clone())
    }
}

/// How many messages a queue has after a send whose first attempt meets `fault`.
async fn messages_after(settings: QueueSettings, fault: SendFault) -> usize {
    let queue = TestBroker::new().queue_with("orders", settings);
    let link = Link::new(far().faults(Faults::none().on_send(1, fault)));
    let bound = InFlightLayer::new(1);
    let mut sender = ServiceBuilder::new()
        .layer(MessageIdLayer::new())
        .layer(RetryLayer::new(Once(false)))
        .layer(&bound)
        .service(SendService::new(link.sender(queue.sender().unwrap())));
    sender.send(Message::new("an order")).await.unwrap();
    assert_eq!((link.transfers(), bound.available()), (2, 1));
    queue.messages().len()
}

/// Rules: X-22.
#[tokio::test(start_paused = true)]
async fn with_duplicate_detection_a_retry_after_a_lost_answer_makes_one_message() {
    for kind in [ErrorKind::ServiceTimeout, ErrorKind::CommunicationProblem] {
        let detecting = || QueueSettings::default().duplicate_detection(Duration::from_secs(600));
        for fault in [SendFault::LoseAnswer(kind), SendFault::LoseMessage(kind)] {
            assert_eq!(messages_after(detecting(), fault).await, 1, "{fault:?}");
        }
        // Without it the same retry makes two, which is what the rule is for.
        assert_eq!(messages_after(QueueSettings::default(), SendFault::LoseAnswer(kind)).await, 2);
    }
}
