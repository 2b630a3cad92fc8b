//! Faults at every point of a pipeline, by the thousand: a queue, a consumer, the layer, the store, and a handler that
//! commits its effect and the id in one transaction.

mod fault;
mod handler;
mod lossy;

use std::{
    array::from_fn,
    collections::HashMap,
    env,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    consumer::Consumer,
    middleware::dedup::DedupLayer,
    transport::Sender,
};
use tokio::{select, sync::oneshot, task_local, time::sleep};
use tower::{BoxError, Layer, ServiceExt, service_fn};

use self::{
    fault::{Delivery, Fault},
    handler::Handler,
    lossy::Lossy,
};
use crate::support::Bench;

const SCOPE: &str = "orders";
const LEASE: Duration = Duration::from_millis(40);
/// Messages that are handled at once.
const AT_ONCE: usize = 32;
/// Messages that wait to be handled.
const WAITING: usize = 64;

task_local! {
    static DELIVERY: Arc<Delivery>;
}

/// What has happened so far.
struct Run {
    seed: u64,
    deliveries: Mutex<HashMap<u64, u64>>,
    faults: [AtomicU64; Fault::NAMES.len()],
}

impl Run {
    /// The next delivery of this message.
    fn deliver(&self, message: &Message) -> Arc<Delivery> {
        let message = message.message_id().unwrap().parse().unwrap();
        let mut deliveries = self.deliveries.lock().unwrap();
        let before = deliveries.entry(message).or_default();
        let fault = Fault::draw(self.seed, message, *before);
        *before += 1;
        Arc::new(Delivery::new(fault))
    }

    fn count(&self, delivery: &Delivery) {
        if let Some(fault) = delivery.has_come() {
            self.faults[fault.number()].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn faults(&self) -> u64 {
        self.faults.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// Sends messages until there were as many faults, and waits until the last one is handled. Each is sent twice.
async fn send(queue: &Queue, run: &Run, faults: u64) -> i64 {
    let sender = queue.sender().unwrap();
    let mut sent = 0;
    while run.faults() < faults {
        if queue.counts().active < WAITING {
            for _ in 0..2 {
                sender.send(Message::builder().message_id(sent.to_string()).build("body").unwrap()).await.unwrap();
            }
            sent += 1;
        } else {
            sleep(Duration::from_millis(1)).await;
        }
    }
    while queue.counts().active + queue.counts().locked > 0 {
        sleep(Duration::from_millis(1)).await;
    }
    sent
}

/// Rules: W-33.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_thousands_of_faults_none_doubles_or_loses_an_effect() {
    let number = |name, default| env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seed, faults) = (number("SEED", fastrand::u64(..)), number("CONSIGN_FAULTS", 2_000));
    let replay =
        format!("SEED={seed} CONSIGN_FAULTS={faults} cargo test -p consign-store-postgres thousands_of_faults");
    println!("{replay}");

    let Some(bench) = Bench::new().await else { return };
    let queue = Broker::new();
    let queue = queue.create_queue("orders", QueueSettings::default().max_delivery_count(u32::MAX)).unwrap();
    let run = Arc::new(Run { seed, deliveries: Mutex::default(), faults: from_fn(|_| AtomicU64::new(0)) });
    let handler = Arc::new(Handler::new(&bench, AT_ONCE).await);
    let layer = DedupLayer::new(Lossy(bench.store().as_ref().clone()), SCOPE).lease(LEASE);
    let stats = layer.stats();

    let inner = Arc::clone(&handler);
    let stack = layer.layer(service_fn(move |message| Arc::clone(&inner).handle(message)));
    let counts = Arc::clone(&run);
    let whole = service_fn(move |message: Message| {
        let (delivery, counts) = (counts.deliver(&message), Arc::clone(&counts));
        let call = stack.clone().oneshot(message);
        DELIVERY.scope(Arc::clone(&delivery), async move {
            let answer = select! {
                biased;
                () = delivery.give_up.notified() => Err(BoxError::from("dropped")),
                answer = call => answer,
            };
            let is_lost = answer.is_ok() && delivery.comes(Fault::Redeliver);
            counts.count(&delivery);
            if is_lost { Err(BoxError::from("the settlement is lost")) } else { answer }
        })
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let consumer = tokio::spawn(Consumer::new(queue.receiver(), whole).concurrency(AT_ONCE).run_until(stopped));
    let sent = send(&queue, &run, faults).await;
    stop.send(()).unwrap();
    let consumed = consumer.await.unwrap().unwrap();

    let (often, handled) = bench.effects().await;
    println!(
        "faults: {} faults, {sent} messages, {} deliveries, {} duplicates to the layer, {} to the transaction, {} effects \
         doubled, {} lost",
        run.faults(),
        run.deliveries.lock().unwrap().values().sum::<u64>(),
        stats.duplicates(),
        handler.duplicates(),
        often.len(),
        sent - handled
    );
    for (name, count) in Fault::NAMES.iter().zip(&run.faults) {
        let count = count.load(Ordering::Relaxed);
        println!("faults: {count} {name}");
        assert!(count > 0, "{name}: {replay}");
    }
    assert_eq!(often, Vec::<String>::new(), "doubled: {replay}");
    assert_eq!(handled, sent, "lost: {replay}");
    assert_eq!(consumed.dead_lettered(), 0, "{replay}");
    assert!(handler.duplicates() > 0, "the layer has stopped all of them: {replay}");
}
