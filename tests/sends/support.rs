use std::time::Duration;

use consign::{
    Message,
    testing::{Link, LinkSender, LinkSettings, Store, TestBroker, TestQueue, TestSender},
    transport::{SendError, Sender},
};
use tokio::task::JoinSet;

pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(70);
pub(crate) const STORE: Duration = Duration::from_millis(10);

/// 70 ms to the broker and back.
pub(crate) fn far() -> LinkSettings {
    LinkSettings::default().round_trip(ROUND_TRIP).store(Store::OneAtATime(STORE))
}

/// A queue at the other end of a link.
pub(crate) fn linked(settings: LinkSettings) -> (TestQueue, Link, LinkSender<TestSender>) {
    let queue = TestBroker::new().queue("orders");
    let link = Link::new(settings);
    let sender = link.sender(queue.sender().unwrap());
    (queue, link, sender)
}

/// A message that is known by its subject.
pub(crate) fn numbered(number: usize) -> Message {
    Message::builder().subject(number.to_string()).build("body").unwrap()
}

pub(crate) fn subjects(messages: &[Message]) -> Vec<usize> {
    messages.iter().map(|message| message.subject().unwrap().parse().unwrap()).collect()
}

/// Sends `count` messages without waiting for any, and then for all.
pub(crate) async fn pipelined(sender: &LinkSender<TestSender>, count: usize) -> Vec<Result<(), SendError>> {
    let mut sends = JoinSet::new();
    for number in 0..count {
        let send = sender.send(numbered(number));
        sends.spawn(async move { (number, send.await) });
    }
    let mut answers = sends.join_all().await;
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Lets everything happen that needs no time to pass.
pub(crate) async fn settle_down() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}
