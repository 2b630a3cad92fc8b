//! A consumer that knows what it has handled, where dead letters are resubmitted more than once.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    broker::Queue,
    consumer::Consumer,
    dead_letters::{DeadLetterFilter, DeadLetterQueue, DeadLetters},
    message::SequenceNumber,
    middleware::dedup::{DedupLayer, DedupStats, MemoryStore},
    settlement::DeadLetterReason,
    testing::{DeliveryFault, Faults, Link, LinkReceiver, LinkSettings},
    transport::{ErrorKind, ReceiveError},
};
use tokio::time::sleep;
use tower::{Layer, Service, service_fn};

use crate::support::Bench;

const MESSAGES: usize = 50;

/// Dead letters over a connection that loses every settlement.
struct NothingSettles(Queue, Link);

impl DeadLetterQueue for NothingSettles {
    type Receiver = LinkReceiver<<Queue as DeadLetterQueue>::Receiver>;

    async fn receiver(&self) -> Result<Self::Receiver, ReceiveError> {
        Ok(self.1.receiver(DeadLetterQueue::receiver(&self.0).await?))
    }

    async fn peek(&self, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        Ok(self.0.peek(from, max))
    }
}

/// A handler that dead-letters what it sees until it is mended, and then has an effect for each message, by the id that it
/// was first sent under.
#[derive(Clone, Default)]
struct Handler {
    is_mended: Arc<AtomicBool>,
    effects: Arc<Mutex<HashMap<String, u32>>>,
}

impl Handler {
    fn service(
        &self,
    ) -> impl Service<Message, Response = Disposition, Error = Infallible, Future: Send> + Clone + Send + use<> {
        let handler = self.clone();
        service_fn(move |message: Message| {
            let handler = handler.clone();
            async move {
                sleep(Duration::from_millis(20)).await;
                if !handler.is_mended.load(Ordering::Relaxed) {
                    return Ok(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "broken"));
                }
                let first = message.original_message_id().unwrap().to_owned();
                *handler.effects.lock().unwrap().entry(first).or_default() += 1;
                Ok(Disposition::Complete)
            }
        })
    }
}

/// Kills all messages, resubmits each twice, and consumes what is there. How often the effect of each was had.
async fn resubmitted_twice(dedup: Option<&DedupLayer<MemoryStore>>) -> Vec<u32> {
    let (bench, handler) = (Bench::new(), Handler::default());
    let consume = async || {
        let (receiver, service) = (bench.queue.receiver(), handler.service());
        let minute = sleep(Duration::from_secs(60));
        match dedup {
            Some(dedup) => {
                Consumer::new(receiver, dedup.layer(service)).concurrency(8).run_until(minute).await.unwrap()
            }
            None => Consumer::new(receiver, service).concurrency(8).run_until(minute).await.unwrap(),
        }
    };
    for id in 0..MESSAGES {
        bench.queue.send_message(Message::builder().message_id(id.to_string()).build("body").unwrap());
    }
    consume().await;
    assert_eq!(bench.queue.dead_letters().len(), MESSAGES);

    handler.is_mended.store(true, Ordering::Relaxed);
    let lost = DeliveryFault::LoseSettlement(ErrorKind::CommunicationProblem);
    let link = Link::new(LinkSettings::default().faults(Faults::seeded(1).deliveries(1.0, lost)));
    let dead = DeadLetters::new(NothingSettles(bench.queue.dead_letter(), link));
    let report = dead.resubmit(DeadLetterFilter::all(), bench.queue.sender().unwrap()).run().await.unwrap();
    assert_eq!((report.resubmitted, bench.queue.dead_letters().len()), (MESSAGES as u64, MESSAGES));
    let report = bench.dead().resubmit(DeadLetterFilter::all(), bench.queue.sender().unwrap()).run().await.unwrap();
    assert_eq!((report.resubmitted, bench.queue.dead_letters().len()), (MESSAGES as u64, 0));
    assert_eq!(bench.queue.counts().active, 2 * MESSAGES);

    consume().await;
    bench.queue.assert_empty();
    assert!(bench.queue.dead_letters().is_empty());
    handler.effects.lock().unwrap().values().copied().collect()
}

/// Rules: W-20.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_is_resubmitted_twice_has_one_effect() {
    assert_eq!(resubmitted_twice(None).await, [2; MESSAGES], "without the layer");
    let layer = DedupLayer::new(MemoryStore::new(Duration::from_secs(600)), "orders");
    let stats: DedupStats = layer.stats();
    assert_eq!(resubmitted_twice(Some(&layer)).await, [1; MESSAGES]);
    // Once as they died, and once each of the two copies.
    let once = MESSAGES as u64;
    assert_eq!(
        (stats.handled(), stats.forgotten(), stats.committed(), stats.duplicates()),
        (2 * once, once, once, once)
    );
}
