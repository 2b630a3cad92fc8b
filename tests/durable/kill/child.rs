//! What a child does until it is killed, or told to end: four producers and four consumers on one store.

use std::{
    convert::Infallible,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    broker::{Acknowledged, Broker, Committed, Queue, QueueLease, TransactionError},
    consumer::Consumer,
    message::SequenceNumber,
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::{Clock, SystemClock},
    transport::{Batch, Delivery, ReceiverExt, Sender},
};
use fastrand::Rng;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinSet,
};
use tower::service_fn;

use super::told::{Act, Place, State, Told};

const PRODUCERS: u64 = 4;
const CONSUMERS: u64 = 4;
const HOUR: Duration = Duration::from_secs(3_600);
/// How long a consumer that is told to end waits for its handlers.
pub(super) const DRAIN: Duration = Duration::from_secs(5);

/// The bytes of a message follow from its id.
pub(super) fn body(id: u64) -> Vec<u8> {
    let length = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53;
    let mut rng = Rng::with_seed(id);
    std::iter::repeat_with(|| rng.u8(..)).take(usize::try_from(length).unwrap()).collect()
}

fn message(id: u64) -> Message {
    Message::builder().message_id(id.to_string()).build(body(id)).unwrap()
}

pub(super) fn id(message: &Message) -> u64 {
    message.message_id().unwrap().parse().unwrap()
}

/// What all tasks of a child share.
struct World {
    broker: Broker,
    next_id: AtomicU64,
    next_act: AtomicU64,
    is_ending: AtomicBool,
}

/// An answer that is waited for.
type Answer<T, E> = (u64, Acknowledged<T, E>);

impl World {
    fn open(path: &Path, first_id: u64) -> Self {
        Told::Opening.say();
        let broker = Broker::open(path).unwrap();
        let settings = || QueueSettings::default().lock_duration(Duration::from_secs(300)).max_delivery_count(2_000);
        let window = settings().duplicate_detection(HOUR);
        for (place, settings) in [(Place::Work, settings()), (Place::Done, settings()), (Place::Once, window)] {
            if broker.queue(place.path()).is_err() {
                broker.create_queue(place.path(), settings).unwrap();
            }
        }
        let topic = broker.topic(Place::TOPIC);
        let topic = topic.unwrap_or_else(|_| broker.create_topic(Place::TOPIC, TopicSettings::default()).unwrap());
        for (place, name) in [(Place::One, "one"), (Place::Two, "two")] {
            if broker.queue(place.path()).is_err() {
                topic.create_subscription(name, SubscriptionSettings::default()).unwrap();
            }
        }
        Told::Opened.say();
        let next_id = AtomicU64::new(first_id);
        Self { broker, next_id, next_act: AtomicU64::new(0), is_ending: AtomicBool::new(false) }
    }

    fn queue(&self, place: Place) -> Queue {
        self.broker.queue(place.path()).unwrap()
    }

    fn ids(&self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.next_id.fetch_add(1, Ordering::Relaxed)).collect()
    }

    /// Says that it is tried before it is.
    fn tries(&self, act: Act) -> u64 {
        let number = self.next_act.fetch_add(1, Ordering::Relaxed);
        Told::Tries(number, act).say();
        number
    }

    fn calls<T, E>(&self, act: Act, call: impl FnOnce() -> Acknowledged<T, E>) -> Answer<T, E> {
        let number = self.tries(act);
        (number, call())
    }

    fn goes_on(&self) -> bool {
        !self.is_ending.load(Ordering::Relaxed)
    }
}

async fn answered<T, E: std::error::Error>((number, answer): Answer<T, E>) -> Option<T> {
    match answer.await {
        Ok(value) => {
            Told::Acknowledged(number).say();
            Some(value)
        }
        Err(error) => {
            Told::Refused(number, error.to_string()).say();
            None
        }
    }
}

async fn all_answered<T, E: std::error::Error>(answers: Vec<Answer<T, E>>) {
    for answer in answers {
        answered(answer).await;
    }
}

/// Calls several operations before it waits for the first of them.
async fn produce(world: Arc<World>, mut rng: Rng) {
    let work = world.queue(Place::Work).sender().unwrap();
    let once = world.queue(Place::Once).sender().unwrap();
    let topic = world.broker.topic(Place::TOPIC).unwrap().sender();
    while world.goes_on() {
        match rng.u8(..10) {
            0..3 => {
                let send = |id: u64| world.calls(Act::Send(Place::Work, vec![id]), || work.send(message(id)));
                all_answered(world.ids(rng.usize(1..=16)).into_iter().map(send).collect()).await;
            }
            3..5 => {
                let ids = world.ids(rng.usize(2..=8));
                let batch = ids.iter().map(|&id| message(id)).collect::<Batch>();
                answered(world.calls(Act::Send(Place::Work, ids), || work.send_batch(batch))).await;
            }
            5..7 => {
                let send = |id: u64| world.calls(Act::Publish(id), || topic.send(message(id)));
                all_answered(world.ids(rng.usize(1..=8)).into_iter().map(send).collect()).await;
            }
            7..9 => {
                let mut answers = Vec::new();
                for id in world.ids(rng.usize(1..=8)) {
                    answers.push(world.calls(Act::Send(Place::Once, vec![id]), || once.send(message(id))));
                    answers.push(world.calls(Act::Repeat(id), || once.send(message(id))));
                }
                all_answered(answers).await;
            }
            _ => {
                let ids = world.ids(rng.usize(1..=4));
                let messages = ids.iter().map(|&id| message(id)).collect();
                let at = SystemClock::new().now().utc.saturating_add(HOUR);
                let scheduled = world.calls(Act::Schedule(ids.clone()), || work.schedule(messages, at));
                if let Some(numbers) = answered(scheduled).await.filter(|_| rng.bool()) {
                    answered(world.calls(Act::Cancel(ids), || work.cancel_scheduled(&numbers))).await;
                }
            }
        }
    }
}

/// Receives at any place, and settles in every way.
async fn consume(world: Arc<World>, mut rng: Rng) {
    let mut deferred: Vec<(Place, u64, SequenceNumber)> = Vec::new();
    while world.goes_on() {
        let place = Place::ALL[rng.usize(..Place::ALL.len())];
        let queue = world.queue(place);
        if rng.u8(..8) == 0 && !deferred.is_empty() {
            let (place, id, number) = deferred.swap_remove(rng.usize(..deferred.len()));
            let held = world.queue(place).receive_deferred(&[number]).unwrap().remove(0);
            Told::Received(place, id).say();
            answered(world.calls(Act::Settle(State::Absent, place, id), || held.complete())).await;
        }
        let is_dead = rng.u8(..8) == 0;
        let queue = if is_dead { queue.dead_letter() } else { queue };
        let mut receiver = queue.receiver();
        let wait = Duration::from_millis(1);
        let Ok(batch) = tokio::time::timeout(wait, receiver.receive_batch(rng.usize(1..=32))).await else { continue };
        let (mut answers, mut replaced) = (Vec::new(), Vec::new());
        for delivery in batch.unwrap() {
            let (id, number) = (id(&delivery.message), delivery.message.received().unwrap().sequence_number);
            Told::Received(place, id).say();
            if is_dead {
                answers.push(world.calls(Act::Settle(State::Absent, place, id), || delivery.complete()));
                continue;
            }
            match rng.u8(..10) {
                // The drop abandons it, and the process does not wait for that.
                0 => drop(delivery),
                1 | 2 if place == Place::Work => replaced.push(replace(&world, delivery)),
                _ => {
                    let (state, disposition) = disposition(&mut rng);
                    let settle = Act::Settle(state, place, id);
                    answers.push(world.calls(settle, || delivery.settle(disposition)));
                    if state == State::Deferred {
                        deferred.push((place, id, number));
                    }
                }
            }
        }
        all_answered(answers).await;
        all_answered(replaced).await;
    }
}

fn disposition(rng: &mut Rng) -> (State, Disposition) {
    match rng.u8(..10) {
        0 => (State::Ready, Disposition::ABANDON),
        1 | 2 => (State::Deferred, Disposition::Defer(Changes::NONE)),
        3 | 4 => {
            let dead_letter = DeadLetter::new(DeadLetterReason::Application("Chance".into()), "it was chosen");
            (State::Dead, Disposition::DeadLetter(Box::new(dead_letter)))
        }
        _ => (State::Absent, Disposition::Complete),
    }
}

/// Completes a message and sends another one in its place.
fn replace(world: &World, delivery: Delivery<QueueLease>) -> Answer<Committed, TransactionError> {
    let (old, new) = (id(&delivery.message), world.ids(1)[0]);
    let sender = world.queue(Place::Done).sender().unwrap().via(&world.queue(Place::Work));
    let mut transaction = world.broker.transaction();
    transaction.complete(delivery).unwrap();
    transaction.send(&sender, message(new)).unwrap();
    world.calls(Act::Replace(old, new), || transaction.commit())
}

fn spawn_producers(world: &Arc<World>, seed: u64) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for nth in 0..PRODUCERS {
        tasks.spawn(produce(Arc::clone(world), Rng::with_seed(seed.wrapping_add(nth))));
    }
    tasks
}

/// Goes on until it is killed.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(super) async fn until_killed(path: &Path, seed: u64, first_id: u64) {
    let world = Arc::new(World::open(path, first_id));
    let mut tasks = spawn_producers(&world, seed);
    for nth in 0..CONSUMERS {
        tasks.spawn(consume(Arc::clone(&world), Rng::with_seed(seed.wrapping_add(PRODUCERS + nth))));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

/// Goes on until SIGTERM, and ends as a program should: the producers, the consumers, the broker.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(super) async fn until_terminated(path: &Path, seed: u64, first_id: u64) {
    let mut terminated = signal(SignalKind::terminate()).unwrap();
    let world = Arc::new(World::open(path, first_id));
    let mut producers = spawn_producers(&world, seed);
    let (stop, stopped) = watch::channel(());
    let mut consumers = JoinSet::new();
    for (place, nth) in [Place::Work, Place::Once, Place::One, Place::Two].into_iter().zip(1..) {
        let (world, mut stopped) = (Arc::clone(&world), stopped.clone());
        let receiver = world.queue(place).receiver();
        let mut rng = Rng::with_seed(seed.wrapping_sub(nth));
        let handler = service_fn(move |message: Message| {
            let id = id(&message);
            Told::Received(place, id).say();
            let (state, disposition) = disposition(&mut rng);
            let pause = rng.u64(..8);
            let world = Arc::clone(&world);
            async move {
                // Some end at once, and are completed together.
                if pause > 4 {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                world.tries(Act::Settle(state, place, id));
                Ok::<_, Infallible>(disposition)
            }
        });
        let consumer = Consumer::new(receiver, handler).concurrency(16).prefetch(16).drain_timeout(DRAIN);
        consumers.spawn(consumer.run_until(async move { while stopped.changed().await.is_ok() {} }));
    }
    drop(stopped);
    terminated.recv().await;
    world.is_ending.store(true, Ordering::Relaxed);
    while let Some(ended) = producers.join_next().await {
        ended.unwrap();
    }
    drop(stop);
    while let Some(ended) = consumers.join_next().await {
        let stats = ended.unwrap().unwrap();
        assert_eq!((stats.cancelled(), stats.lock_lost(), stats.settle_failed()), (0, 0, 0));
        let settled = stats.completed() + stats.abandoned() + stats.dead_lettered() + stats.deferred();
        assert_eq!(settled, stats.handled());
    }
    world.broker.close().await.unwrap();
    Told::Closed.say();
}
