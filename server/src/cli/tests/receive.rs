//! A batch of which some settlements fail.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, QueueLease, QueueReceiver, QueueSender},
    message::EntityPath,
    time::{ManualClock, Timestamp},
    transport::{
        Capabilities, Delivery, DynTransport, ReceiveError, ReceiveMode, Receiver, SendError, Sender, Transport,
    },
};

use super::run_line;

const LOCK: Duration = Duration::from_secs(60);

/// The embedded broker, whose first lock of a batch has run out when the batch is received.
#[derive(Clone)]
struct Late {
    broker: Broker,
    clock: Arc<ManualClock>,
}

struct LateReceiver {
    receiver: QueueReceiver,
    clock: Arc<ManualClock>,
}

impl Transport for Late {
    type Sender = QueueSender;
    type Lease = QueueLease;
    type Receiver = LateReceiver;

    fn capabilities(&self) -> Capabilities {
        Transport::capabilities(&self.broker)
    }

    async fn sender(&self, path: &EntityPath) -> Result<QueueSender, SendError> {
        Transport::sender(&self.broker, path).await
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<LateReceiver, ReceiveError> {
        let receiver = Transport::receiver(&self.broker, path, mode).await?;
        Ok(LateReceiver { receiver, clock: Arc::clone(&self.clock) })
    }
}

impl Receiver for LateReceiver {
    type Lease = QueueLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        ready!(self.receiver.poll_receive(cx, 1, out))?;
        self.clock.advance(LOCK / 2);
        let others = ready!(self.receiver.poll_receive(cx, max - 1, out))?;
        self.clock.advance(LOCK / 2);
        Poll::Ready(Ok(1 + others))
    }
}

#[tokio::test]
async fn a_settlement_that_fails_leaves_the_others_of_its_batch_done() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
    let broker = Broker::with_clock(Arc::clone(&clock));
    let queue = broker.create_queue("orders", QueueSettings::default().lock_duration(LOCK)).unwrap();
    for body in ["1", "2", "3"] {
        queue.sender().unwrap().send(Message::new(body)).await.unwrap();
    }
    let transport = DynTransport::builder(Late { broker, clock }).build();
    let (code, text) = run_line("receive orders -n 3 --no-body".split(' '), &transport).await;
    assert_eq!((code, text.lines().count()), (6, 3), "{text}");
    assert_eq!(queue.counts().active, 1);
}
