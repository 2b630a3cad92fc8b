//! Random runs: every delivery that a handler sees ends in exactly one settlement, whatever happens on the way.

use std::{
    collections::HashMap,
    env,
    future::{Future, pending},
    ops::Range,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    thread,
};

use consign::{
    Disposition, Message,
    consumer::{Consumer, Stats},
    settlement::DeadLetterReason,
};
use tokio::{
    task::yield_now,
    time::{Duration, sleep},
};
use tower::{BoxError, Service, ServiceBuilder, service_fn};

use crate::{delivery, fill, hush, number, panic_on_purpose, queue_with_lock, until, within};

/// Which runs: `SEED` is one, `CONSIGN_SEEDS` is how many.
pub(crate) fn seeds(count: u64) -> Range<u64> {
    let read = |name| env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    match read("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..read("CONSIGN_SEEDS").unwrap_or(count),
    }
}

/// Says how to repeat a run if it fails.
pub(crate) struct Replay(pub(crate) &'static str, pub(crate) u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("seed {}; replay: SEED={} cargo test --test consumer {}", self.1, self.1, self.0);
        }
    }
}

/// A stream of numbers that follow from a seed. Clones share it.
#[derive(Clone)]
pub(crate) struct Random(Arc<AtomicU64>);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    /// The next number, less than `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut bits = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % bound
    }

    pub(crate) fn size(&self, range: Range<usize>) -> usize {
        range.start + usize::try_from(self.below((range.end - range.start) as u64)).unwrap()
    }
}

/// What handlers have seen of each message.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Deliveries>>);

#[derive(Default)]
struct Deliveries {
    seen: HashMap<u64, u32>,
    wrong: Vec<Wrong>,
}

/// A delivery whose count is not what handlers have seen.
#[derive(Debug, PartialEq)]
struct Wrong {
    message: u64,
    delivery: u32,
    seen: u32,
}

impl Seen {
    /// A handler starts. What the broker has counted must be what handlers have seen: a delivery that ended in no
    /// settlement, or in two, or was counted without a handler, shows here.
    fn starts(&self, message: &Message) {
        let Deliveries { seen, wrong } = &mut *self.0.lock().unwrap();
        let count = seen.entry(number(message)).or_default();
        *count += 1;
        if *count != delivery(message) {
            wrong.push(Wrong { message: number(message), delivery: delivery(message), seen: *count });
        }
    }
}

struct MayPanicOnDrop(bool);

impl Drop for MayPanicOnDrop {
    fn drop(&mut self) {
        if self.0 && !thread::panicking() {
            panic_on_purpose();
        }
    }
}

/// A handler that does anything at any of its await points.
fn chaos(
    seen: Seen,
    random: Random,
) -> impl Service<Message, Response = Disposition, Error = BoxError, Future: Send> + Clone {
    service_fn(move |message: Message| {
        seen.starts(&message);
        let random = random.clone();
        if random.below(20) == 0 {
            panic_on_purpose();
        }
        async move {
            let _kept = MayPanicOnDrop(random.below(20) == 0);
            for _ in 0..random.below(6) {
                match random.below(12) {
                    0 => panic_on_purpose(),
                    1 => return Err("an error".into()),
                    2 => pending().await,
                    3..6 => sleep(Duration::from_millis(random.below(8_000))).await,
                    6..9 => sleep(Duration::from_millis(random.below(10))).await,
                    _ => yield_now().await,
                }
            }
            Ok(match random.below(12) {
                0 => Disposition::ABANDON,
                1 => Disposition::DEFER,
                2 => Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "never"),
                _ => Disposition::Complete,
            })
        }
    })
}

/// Drops a future after it was polled so many times.
struct DropAfter<F> {
    future: Option<Pin<Box<F>>>,
    polls: usize,
}

impl<F: Future> Future for DropAfter<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(left) = self.polls.checked_sub(1) else {
            self.future = None;
            return Poll::Ready(None);
        };
        self.polls = left;
        match &mut self.future {
            Some(future) => future.as_mut().poll(cx).map(Some),
            None => Poll::Ready(None),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn sim_settle_once() {
    hush();
    for seed in seeds(300) {
        let _replay = Replay("sim_settle_once", seed);
        run(seed).await;
    }
}

async fn run(seed: u64) {
    let random = Random::new(seed);
    let queue = queue_with_lock(5 + random.below(10));
    let messages = random.size(1..40);
    fill(&queue, messages).await;
    let deliveries = Seen::default();
    let mut ended = 0;
    let mut all = vec![];
    for _ in 0..random.size(1..6) {
        let chaos = chaos(deliveries.clone(), random.clone());
        let stack = ServiceBuilder::new()
            .option_layer((random.below(2) == 0).then(|| tower::timeout::TimeoutLayer::new(Duration::from_secs(3))))
            .option_layer((random.below(3) == 0).then(|| tower::limit::ConcurrencyLimitLayer::new(random.size(1..4))))
            .service(chaos);
        let consumer = Consumer::new(queue.receiver(), stack)
            .concurrency(random.size(1..10))
            .prefetch(random.size(0..10))
            .renew_for(Duration::from_secs(random.below(2) * random.below(40)))
            .drain_timeout(Duration::from_secs(random.below(4)));
        all.push(consumer.stats());
        let stop = sleep(Duration::from_millis(random.below(60_000)));
        let polls = if random.below(2) == 0 { usize::MAX } else { random.size(1..80) };
        let run = DropAfter { future: Some(Box::pin(consumer.run_until(stop))), polls };
        if let Some(result) = within(3_600, run).await {
            result.unwrap();
        }
        let counts = queue.counts();
        assert_eq!(counts.locked, 0, "no lock outlives its consumer");
        ended = counts.deferred + counts.dead_lettered;
    }

    let counting = deliveries.clone();
    let last = service_fn(move |message: Message| {
        counting.starts(&message);
        async { Ok::<_, BoxError>(Disposition::Complete) }
    });
    let last = Consumer::new(queue.receiver(), last);
    all.push(last.stats());
    let waiting = queue.clone();
    within(600, last.run_until(until(move || waiting.counts().active + waiting.counts().locked == 0))).await.unwrap();

    let sum = |of: fn(&Stats) -> u64| all.iter().map(of).sum::<u64>();
    let counts = queue.counts();
    assert_eq!(
        (counts.deferred as u64, counts.dead_lettered as u64),
        (sum(Stats::deferred), sum(Stats::dead_lettered))
    );
    assert_eq!(ended, counts.deferred + counts.dead_lettered);
    let ended = sum(|stats| stats.completed() + stats.deferred() + stats.dead_lettered());
    assert_eq!(ended, messages as u64, "each message ends once");
    assert_eq!(sum(Stats::settle_failed), 0);
    let deliveries = deliveries.0.lock().unwrap();
    assert_eq!(deliveries.wrong, []);
    assert_eq!(u64::from(deliveries.seen.values().sum::<u32>()), sum(Stats::handled));
}
