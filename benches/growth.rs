//! What one cycle of a message costs while the broker holds little, and while it holds much: `cargo xtask growth` counts
//! the instructions under callgrind.
//!
//! `growth CASE SIZE CYCLES` fills a broker, warms up for as many cycles, says `ready`, waits for a line or the end of its
//! standard input, and runs the cycles inside `hot_phase`. Every cycle leaves the broker as full as it was.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::ready,
    hint::black_box,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    broker::{Broker, Queue, QueueLease, QueueReceiver, QueueSender},
    message::SequenceNumber,
    middleware::dedup::{DedupLayer, MemoryStore},
    rules::{CorrelationFilter, Rule},
    time::{Clock, ManualClock, Timestamp},
    transport::{Delivery, Lease, Receiver, Sender, SessionSource},
};
use futures_util::FutureExt;
use tower::{Layer, Service, service_fn};

type Cycle = Box<dyn FnMut(Message)>;

/// A name, and what fills a broker with so many things and answers with one cycle.
type Case = (&'static str, fn(usize) -> Cycle);

const CASES: &[Case] = &[
    ("depth", depth),
    ("peek", peek),
    ("peek_sessions", peek_sessions),
    ("peek_partitions", peek_partitions),
    ("locked", locked),
    ("deferred", deferred),
    ("sessions", sessions),
    ("schedule_and_cancel", schedule_and_cancel),
    ("schedule_and_activate", schedule_and_activate),
    ("duplicates", duplicates),
    ("handled", handled),
    ("handled_before", handled_before),
    ("expiries", expiries),
    ("entities", entities),
    ("others", others),
    ("waiting", waiting),
    ("filters", filters),
    ("filtered_subscriptions", filtered_subscriptions),
    ("subscriptions", subscriptions),
];

const HOUR: Duration = Duration::from_secs(3_600);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [name, size, cycles] = &*arguments else {
        println!("usage: growth CASE SIZE CYCLES, where CASE is one of");
        for (name, _) in CASES {
            println!("  {name}");
        }
        return;
    };
    let size = size.parse().expect("a size");
    let cycles: usize = cycles.parse().expect("a number of cycles");
    let (_, case) = CASES.iter().find(|(case, _)| case == name).expect("a case");
    // A receiver that waits sets a timer.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _guard = runtime.enter();
    let mut cycle = case(size);
    let mut messages: VecDeque<Message> = (0..2 * cycles).map(|n| message("new", n)).collect();
    messages.drain(..cycles).for_each(&mut cycle);
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("a line or the end");
    hot_phase(&mut || messages.drain(..).for_each(&mut cycle));
}

#[inline(never)]
fn hot_phase(phase: &mut dyn FnMut()) {
    phase();
    black_box(());
}

fn message(kind: &str, n: usize) -> Message {
    let builder = Message::builder().message_id(format!("{kind}-{n:09}")).subject("order.created");
    builder.session_id(format!("s-{n:09}")).build("a small message of a queue").expect("a valid message")
}

/// An unlimited queue on a clock that stands still.
struct Bench {
    clock: Arc<ManualClock>,
    broker: Broker,
    queue: Queue,
    sender: QueueSender,
    receiver: QueueReceiver,
    out: Vec<Delivery<QueueLease>>,
}

impl Bench {
    fn new(settings: QueueSettings) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        let broker = Broker::with_clock(Arc::clone(&clock));
        let queue = broker.create_queue("orders", settings.max_size(u64::MAX)).expect("a new queue");
        let (sender, receiver) = (queue.sender().expect("a queue"), queue.receiver());
        Self { clock, broker, queue, sender, receiver, out: Vec::new() }
    }

    fn plain() -> Self {
        Self::new(QueueSettings::default())
    }

    fn filled(settings: QueueSettings, size: usize) -> Self {
        let bench = Self::new(settings);
        (0..size).for_each(|n| bench.send(message("old", n)));
        bench
    }

    fn send(&self, message: Message) {
        sent(&self.sender, message);
    }

    fn receive(&mut self) -> Delivery<QueueLease> {
        received(&mut self.receiver, &mut self.out)
    }

    /// Send, receive, complete.
    fn cycle(mut self) -> Cycle {
        Box::new(move |message| {
            self.send(message);
            settle(self.receive(), Disposition::Complete);
        })
    }
}

fn sent(sender: &QueueSender, message: Message) {
    sender.send(message).wait().expect("accepted");
}

fn received(
    receiver: &mut impl Receiver<Lease = QueueLease>,
    out: &mut Vec<Delivery<QueueLease>>,
) -> Delivery<QueueLease> {
    let polled = receiver.poll_receive(&mut Context::from_waker(Waker::noop()), 1, out);
    assert!(matches!(polled, Poll::Ready(Ok(1))));
    out.pop().expect("one delivery")
}

fn settle(delivery: Delivery<QueueLease>, disposition: Disposition) {
    let Delivery { message, lease } = delivery;
    lease.settle(disposition).wait().expect("settled");
    drop(message);
}

/// So many messages wait.
fn depth(size: usize) -> Cycle {
    Bench::filled(QueueSettings::default(), size).cycle()
}

/// So many messages wait. A cycle is what a page of messages reads: 50 from the middle on, and the counters.
fn peek(size: usize) -> Cycle {
    peeks(QueueSettings::default(), size)
}

/// The same, each message in a session of its own.
fn peek_sessions(size: usize) -> Cycle {
    peeks(QueueSettings::default().requires_session(true), size)
}

fn peek_partitions(size: usize) -> Cycle {
    peeks(QueueSettings::default().partitioned(true), size)
}

fn peeks(settings: QueueSettings, size: usize) -> Cycle {
    let bench = Bench::filled(settings, size);
    let numbers = bench.queue.peek(SequenceNumber::default(), size);
    let middle = numbers[size / 2].received().expect("from a broker").sequence_number;
    Box::new(move |message| {
        assert_eq!(bench.queue.peek(middle, 50).len(), 50);
        assert_eq!(bench.broker.statistics()[0].counts.active, size);
        drop(message);
    })
}

/// So many messages are held by others.
fn locked(size: usize) -> Cycle {
    let mut bench = Bench::filled(QueueSettings::default(), size);
    std::mem::forget((0..size).map(|_| bench.receive()).collect::<Vec<_>>());
    bench.cycle()
}

/// So many messages are deferred; a cycle is to send, receive, defer, receive by number, complete.
fn deferred(size: usize) -> Cycle {
    let mut bench = Bench::filled(QueueSettings::default(), size);
    (0..size).for_each(|_| settle(bench.receive(), Disposition::DEFER));
    Box::new(move |message| {
        bench.send(message);
        let delivery = bench.receive();
        let number = delivery.message.received().expect("from a broker").sequence_number;
        settle(delivery, Disposition::DEFER);
        let mut fetched = bench.queue.receive_deferred(&[number]).expect("deferred");
        settle(fetched.pop().expect("one delivery"), Disposition::Complete);
    })
}

/// So many sessions have a message; a cycle is to send one of a new session, accept, receive, complete, close.
fn sessions(size: usize) -> Cycle {
    let mut bench = Bench::filled(QueueSettings::default().requires_session(true), size);
    let mut acceptor = bench.queue.session_acceptor().expect("a queue");
    Box::new(move |message| {
        bench.send(message);
        let accepted = acceptor.poll_accept(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(mut session)) = accepted else { panic!("no session") };
        settle(received(&mut session, &mut bench.out), Disposition::Complete);
        session.close().expect("held until now");
    })
}

fn with_scheduled(size: usize) -> Bench {
    let bench = Bench::plain();
    for n in 0..size {
        let due = bench.clock.now().utc.saturating_add(HOUR + Duration::from_millis(n as u64));
        bench.queue.schedule(vec![message("old", n)], due).wait().expect("accepted");
    }
    bench
}

/// So many messages are scheduled; a cycle schedules one behind them all and cancels it.
fn schedule_and_cancel(size: usize) -> Cycle {
    let bench = with_scheduled(size);
    let due = bench.clock.now().utc.saturating_add(24 * HOUR);
    Box::new(move |message| {
        let numbers = bench.queue.schedule(vec![message], due).wait().expect("accepted");
        bench.queue.cancel_scheduled(&numbers).wait().expect("scheduled");
    })
}

/// So many messages are scheduled; a cycle schedules one that is due before them all, lets it become active, receives and
/// completes it.
fn schedule_and_activate(size: usize) -> Cycle {
    let mut bench = with_scheduled(size);
    let step = Duration::from_millis(1);
    Box::new(move |message| {
        let due = bench.clock.now().utc.saturating_add(step);
        bench.queue.schedule(vec![message], due).wait().expect("accepted");
        bench.clock.advance(step);
        settle(bench.receive(), Disposition::Complete);
    })
}

/// So many ids are remembered; in each cycle one is added and one forgotten.
fn duplicates(size: usize) -> Cycle {
    // One id in 20 ms, so that as many are in the window.
    let step = Duration::from_millis(20);
    let window = step * u32::try_from(size).expect("fewer ids");
    let settings = QueueSettings::default().duplicate_detection(window).max_duplicate_ids(2 * size);
    let mut bench = Bench::new(settings);
    let mut cycle = move |message| {
        bench.clock.advance(step);
        bench.send(message);
        settle(bench.receive(), Disposition::Complete);
    };
    (0..size).for_each(|n| cycle(message("old", n)));
    Box::new(cycle)
}

/// A handler behind a layer that remembers so many ids for `step` each, one after the other.
fn knowing(size: usize, step: Duration) -> (Arc<ManualClock>, impl FnMut(Message)) {
    let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
    let window = step * u32::try_from(size).expect("fewer ids");
    let store = MemoryStore::with_clock(window, Arc::clone(&clock)).max_ids(2 * size);
    let handler = service_fn(|_: Message| ready(Ok::<_, Infallible>(Disposition::Complete)));
    let mut stack = DedupLayer::new(store, "orders").layer(handler);
    let mut handle = move |message| {
        let answer = stack.call(message).now_or_never().expect("ready at once");
        assert_eq!(answer.expect("no failure"), Disposition::Complete);
    };
    for n in 0..size {
        clock.advance(step);
        handle(message("old", n));
    }
    (clock, handle)
}

/// So many ids of handled messages are known; in each cycle one is added and one forgotten.
fn handled(size: usize) -> Cycle {
    let step = Duration::from_millis(20);
    let (clock, mut handle) = knowing(size, step);
    Box::new(move |message| {
        clock.advance(step);
        handle(message);
    })
}

/// The same; a cycle is a duplicate of one of them.
fn handled_before(size: usize) -> Cycle {
    let (_, mut handle) = knowing(size, Duration::from_millis(20));
    let known: Vec<_> = (1..size).step_by(size / 1_000).map(|n| message("old", n)).collect();
    let mut known = known.into_iter().cycle();
    Box::new(move |_| handle(known.next().expect("no end")))
}

/// So many messages with a time to live wait, and the one of the cycle has one too.
fn expiries(size: usize) -> Cycle {
    Bench::filled(QueueSettings::default().default_time_to_live(24 * HOUR), size).cycle()
}

/// There are so many queues, and the cycles are those of one.
fn entities(size: usize) -> Cycle {
    let bench = Bench::plain();
    for n in 1..size {
        bench.broker.create_queue(&format!("q-{n}"), QueueSettings::default()).expect("a new queue");
    }
    bench.cycle()
}

/// The cycles are those of a plain queue. The same broker has so many messages each of sessions, scheduled, with a time to
/// live, with ids, forwarded, and in a subscription, some of them held.
fn others(size: usize) -> Cycle {
    let bench = Bench::plain();
    let broker = &bench.broker;
    if size == 0 {
        return bench.cycle();
    }
    let settings = QueueSettings::default().max_size(u64::MAX);
    let by_session = broker.create_queue("sessions", settings.clone().requires_session(true)).expect("a new queue");
    let scheduled = broker.create_queue("scheduled", settings.clone()).expect("a new queue");
    let short = broker.create_queue("short", settings.clone().default_time_to_live(HOUR)).expect("a new queue");
    let once = broker.create_queue("once", settings.clone().duplicate_detection(HOUR)).expect("a new queue");
    let from = broker.create_queue("from", settings.forward_to("short")).expect("a new queue");
    let topic = broker.create_topic("topic", TopicSettings::default()).expect("a new topic");
    let copies = topic.create_subscription("copies", SubscriptionSettings::default()).expect("a new subscription");
    for n in 0..size {
        for queue in [&by_session, &short, &once, &from] {
            sent(&queue.sender().expect("a queue"), message("old", n));
        }
        scheduled.schedule(vec![message("old", n)], Timestamp::EPOCH.saturating_add(HOUR)).wait().expect("accepted");
        sent(&topic.sender(), message("old", n));
    }
    let mut acceptor = by_session.session_acceptor().expect("a queue");
    let mut out = Vec::new();
    for _ in 0..size / 2 {
        std::mem::forget(acceptor.poll_accept(&mut Context::from_waker(Waker::noop())));
        std::mem::forget(received(&mut copies.receiver(), &mut out));
    }
    bench.cycle()
}

/// So many receivers wait at other queues, and the timer is set for the lock that ends next.
fn waiting(size: usize) -> Cycle {
    let mut bench = Bench::filled(QueueSettings::default(), 1);
    std::mem::forget(bench.receive());
    for n in 0..size {
        let queue = bench.broker.create_queue(&format!("q-{n}"), QueueSettings::default()).expect("a new queue");
        let mut receiver = queue.receiver();
        let polled = receiver.poll_receive(&mut Context::from_waker(Waker::noop()), 1, &mut Vec::new());
        assert!(polled.is_pending());
        std::mem::forget(receiver);
    }
    bench.cycle()
}

fn never(n: usize) -> Rule {
    let filter = CorrelationFilter::builder().subject(format!("order.{n}")).build().expect("a filter");
    Rule::new(format!("r-{n}"), filter).expect("a rule")
}

/// One subscription has so many filters that do not match; a cycle is to send.
fn filters(size: usize) -> Cycle {
    let bench = Bench::plain();
    let topic = bench.broker.create_topic("topic", TopicSettings::default()).expect("a new topic");
    let settings = SubscriptionSettings::default();
    let subscription = topic.create_subscription_with("s", settings, never(0)).expect("a new subscription");
    (1..size).for_each(|n| subscription.create_rule(never(n)).expect("a new rule"));
    let sender = topic.sender();
    Box::new(move |message| sent(&sender, message))
}

/// A topic has so many subscriptions, each with one filter that does not match; a cycle is to send.
fn filtered_subscriptions(size: usize) -> Cycle {
    let bench = Bench::plain();
    let topic = bench.broker.create_topic("topic", TopicSettings::default()).expect("a new topic");
    for n in 0..size {
        let created = topic.create_subscription_with(&format!("s-{n}"), SubscriptionSettings::default(), never(n));
        created.expect("a new subscription");
    }
    let sender = topic.sender();
    Box::new(move |message| sent(&sender, message))
}

/// A topic has so many subscriptions, each of which gets a copy; a cycle is to send, and to receive and complete each copy.
fn subscriptions(size: usize) -> Cycle {
    let mut bench = Bench::plain();
    let topic = bench.broker.create_topic("topic", TopicSettings::default()).expect("a new topic");
    let create = |n| topic.create_subscription(&format!("s-{n}"), SubscriptionSettings::default());
    let mut receivers: Vec<_> = (0..size).map(|n| create(n).expect("a new subscription").receiver()).collect();
    let sender = topic.sender();
    Box::new(move |message| {
        sent(&sender, message);
        for receiver in &mut receivers {
            settle(received(receiver, &mut bench.out), Disposition::Complete);
        }
    })
}
