//! Receivers that settle by themselves, and record what they were told.

use consign::transport::{Delivery, Lease, ReceiveMode, ReceiverExt, Transport};
use tokio::time::sleep;

use super::{
    Part,
    pace::{RETRY, bounded, chain, retried},
};
use crate::history::{Queue, What};

/// Receives from a queue, and completes each message.
pub(super) async fn consume(part: Part, queue: Queue) {
    let path = part.queue(queue);
    let mode = ReceiveMode::PeekLock;
    let mut receiver = retried(&part.recorder, "receiver", || part.transport.receiver(&path, mode)).await;
    loop {
        match receiver.receive().await {
            Ok(delivery) => {
                complete(&part, queue, delivery, None).await;
            }
            Err(error) => {
                eprintln!("receive: {}", chain(&error));
                sleep(RETRY).await;
            }
        }
    }
}

/// Completes a delivery, and returns whether that was confirmed.
pub(super) async fn complete<L: Lease>(part: &Part, queue: Queue, delivery: Delivery<L>, hold: Option<u64>) -> bool {
    let recorder = &part.recorder;
    let id = delivery.message.message_id().unwrap_or_default().to_owned();
    let sequence = delivery.message.received().map(|received| received.sequence_number.get());
    recorder.record(What::Delivered { queue, id: id.clone(), sequence, hold });
    recorder.record(What::Completing { queue, id: id.clone(), hold });
    let error = match bounded(recorder, "complete", delivery.complete()).await {
        Some(Ok(())) => {
            recorder.record(What::Completed { queue, id, hold });
            return true;
        }
        Some(Err(error)) => chain(&error),
        None => "hung".into(),
    };
    recorder.record(What::Uncompleted { queue, id, error });
    false
}
