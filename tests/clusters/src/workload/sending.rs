//! Producers, which repeat a send that was not acknowledged under the same MessageId.

use consign::{
    Message,
    transport::{DynSender, Sender, Transport},
};
use tokio::time::sleep;

use super::{
    Part,
    pace::{PAUSE, RETRY, bounded, chain, retried},
};
use crate::history::{Queue, What};

/// Sends numbered messages to a queue, one in ten of them twice.
pub(super) async fn produce(part: Part, queue: Queue) {
    let sender = sender(&part, queue).await;
    let mut number = 0_u64;
    while part.is_producing() {
        number += 1;
        let id = format!("{}-{number}", part.client.number);
        let message = Message::builder().message_id(id.clone()).build(id.clone()).expect("a valid message");
        send(&part, &sender, queue, &message).await;
        if number.is_multiple_of(10) {
            send(&part, &sender, queue, &message).await;
        }
        sleep(PAUSE).await;
    }
}

pub(super) async fn sender(part: &Part, queue: Queue) -> DynSender {
    let path = part.queue(queue);
    retried(&part.recorder, "sender", || part.transport.sender(&path)).await
}

/// Sends a message until it is acknowledged.
pub(super) async fn send(part: &Part, sender: &DynSender, queue: Queue, message: &Message) {
    let id = message.message_id().unwrap_or_default().to_owned();
    loop {
        part.recorder.record(What::Sending { queue, id: id.clone() });
        let error = match bounded(&part.recorder, "send", sender.send(message.clone())).await {
            Some(Ok(())) => return part.recorder.record(What::Sent { queue, id }),
            Some(Err(error)) => (error.is_outcome_unknown(), chain(&error)),
            None => (true, "hung".into()),
        };
        part.recorder.record(What::Unsent { queue, id: id.clone(), is_unknown: error.0, error: error.1 });
        sleep(RETRY).await;
    }
}
