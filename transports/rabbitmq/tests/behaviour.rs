//! What the suite of all transports does not ask: what becomes of messages when futures are dropped, connections break and
//! consumers stop.

mod alarms;
mod direct_replies;
#[path = "foreign/headers.rs"]
mod foreign;
#[path = "foreign/history.rs"]
mod history;
#[path = "foreign/kept.rs"]
mod kept;
#[path = "foreign/kinds.rs"]
mod kinds;
mod support;
#[path = "foreign/wrapped.rs"]
mod wrapped;

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use consign::{
    Disposition, Message,
    consumer::Consumer,
    message::EntityPath,
    settlement::{DeadLetter, DeadLetterReason},
    time::{Clock, SystemClock},
    transport::{Batch, Delivery, ErrorKind, Lease, Receiver as _, ReceiverExt, Sender as _},
};
use consign_conformance::faults::{Direction, How, Proxy, Trip};
use consign_rabbitmq::{
    Options, QueueSettings, RabbitMq, RabbitMqReceiver, TopicSettings,
    lapin::{BasicProperties, Connection, ConnectionProperties, options::BasicPublishOptions},
};
use futures_util::future::join_all;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tower::service_fn;

/// For what happens at once, on a machine that is busy.
const SOON: Duration = Duration::from_secs(40);

/// A queue of its own, and what it is deleted by.
struct Bench {
    rabbit: RabbitMq,
    queue: String,
}

impl Bench {
    async fn new(settings: QueueSettings) -> Option<Self> {
        Self::with(support::options(), settings).await
    }

    async fn with(options: Options, settings: QueueSettings) -> Option<Self> {
        let rabbit = support::connect(options).await?;
        let queue = support::unique("queue");
        rabbit.create_queue(&queue, settings).await.expect("a broker that answers");
        Some(Self { rabbit, queue })
    }

    async fn send(&self, count: usize) {
        let sender = self.rabbit.sender(&self.queue).expect("a broker that answers");
        let sends = (0..count).map(|index| sender.send(Message::new(format!("{index:03}"))));
        join_all(sends).await.into_iter().collect::<Result<(), _>>().expect("a broker that answers");
    }

    fn receiver(&self) -> RabbitMqReceiver {
        self.rabbit.receiver(&self.queue).expect("a broker that answers")
    }

    /// Completes `count` messages, and all that comes then until nothing does for a while; bodies and delivery counts.
    async fn drain(&self, count: usize) -> Vec<(String, u32)> {
        let mut receiver = self.receiver();
        let mut all = Vec::new();
        loop {
            let wait = if all.len() < count { SOON } else { Duration::from_millis(500) };
            match receiver.receive_within(wait).await {
                Ok(delivery) => {
                    all.push((text(&delivery), crate::count(&delivery)));
                    delivery.complete().await.expect("a broker that answers");
                }
                Err(error) if error.kind() == ErrorKind::ServiceTimeout => return all,
                Err(error) => panic!("after {} messages: {error}", all.len()),
            }
        }
    }

    async fn end(self) {
        self.rabbit.delete(&self.queue).await.expect("a broker that answers");
        self.rabbit.close().await.expect("an open connection");
    }
}

fn text<L>(delivery: &Delivery<L>) -> String {
    String::from_utf8_lossy(delivery.message.payload().expect("a broker that answers")).into_owned()
}

fn count<L>(delivery: &Delivery<L>) -> u32 {
    delivery.message.received().expect("a broker that answers").delivery_count
}

fn expected(count: usize) -> Vec<(String, u32)> {
    (0..count).map(|index| (format!("{index:03}"), 1)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_outlives_its_receiver() {
    const MESSAGES: usize = 40;
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    bench.send(MESSAGES).await;
    for _ in 0..MESSAGES {
        let delivery = bench.receiver().receive().await.expect("a broker that answers");
        delivery.complete().await.expect("a broker that answers");
    }
    // What was not settled would come before it.
    bench.rabbit.sender(&bench.queue).unwrap().send(Message::new("marker")).await.unwrap();
    assert_eq!(bench.drain(1).await, [("marker".into(), 1)]);
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_outlive_their_receiver_in_any_order() {
    const MESSAGES: usize = 4;
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    bench.send(MESSAGES).await;
    let mut receiver = bench.receiver();
    let mut held = Vec::new();
    for _ in 0..MESSAGES {
        held.push(receiver.receive_within(SOON).await.unwrap());
    }
    drop(receiver);
    // All at once: the order of those that were released long ago is forgotten.
    let releases = join_all(held.into_iter().rev().map(|delivery| delivery.lease.release()));
    for released in timeout(SOON, releases).await.unwrap() {
        released.unwrap();
    }
    assert_eq!(bench.drain(MESSAGES).await, expected(MESSAGES));
    bench.end().await;
}

/// Rules: I-34.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receive_that_is_dropped_at_any_poll_takes_nothing() {
    const POLLS: usize = 12;
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    bench.send(3).await;
    // Kept, for a channel that closes gives everything back by itself.
    let mut kept = Vec::new();
    for polls in 0..POLLS {
        // A new one each time, so that the drop comes at every stage of a subscription.
        let mut receiver = bench.receiver();
        {
            let mut receive = Box::pin(receiver.receive());
            for _ in 0..polls {
                // No task is woken, so each poll finds whatever has come meanwhile.
                if receive.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                    break;
                }
                sleep(Duration::from_millis(3)).await;
            }
        }
        // What was handed out was dropped, which is an abandoned delivery.
        kept.push(receiver);
        sleep(Duration::from_millis(40)).await;
    }
    let mut all = bench.drain(3).await;
    all.sort();
    all.dedup_by(|one, other| one.0 == other.0);
    let bodies: Vec<_> = all.into_iter().map(|(body, _)| body).collect();
    assert_eq!(bodies, ["000", "001", "002"]);
    bench.end().await;
}

/// Rules: I-34.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receives_that_time_out_lose_and_count_nothing() {
    const MESSAGES: usize = 40;
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let mut receiver = bench.receiver();
    let sending = async {
        let sender = bench.rabbit.sender(&bench.queue).unwrap();
        for index in 0..MESSAGES {
            sender.send(Message::new(format!("{index:03}"))).await.unwrap();
        }
    };
    let receiving = async {
        let mut all = Vec::new();
        let until = Instant::now() + SOON;
        for round in 0_u64.. {
            if all.len() >= MESSAGES || Instant::now() > until {
                break;
            }
            if let Ok(received) = timeout(Duration::from_micros(round % 40 * 250), receiver.receive()).await {
                let delivery = received.unwrap();
                all.push((text(&delivery), count(&delivery)));
                delivery.complete().await.unwrap();
            }
        }
        all
    };
    let ((), mut all) = tokio::join!(sending, receiving);
    all.sort();
    assert_eq!(all, expected(MESSAGES));
    bench.end().await;
}

/// Rules: I-35.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_is_dropped_is_redelivered_soon_wherever_it_was_dropped() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    bench.send(1).await;
    let mut receiver = bench.receiver();
    for deliveries in 1..=3 {
        let delivery = receiver.receive_within(SOON).await.unwrap();
        assert_eq!(count(&delivery), deliveries);
        // A thread without a runtime.
        std::thread::spawn(move || drop(delivery)).join().unwrap();
    }
    receiver.receive_within(SOON).await.unwrap().complete().await.unwrap();
    bench.end().await;
}

/// Options for connections that break.
fn quick() -> Options {
    support::options()
        .timeout(Duration::from_secs(5))
        .backoff(Duration::from_millis(20), Duration::from_millis(200))
        .heartbeat(Duration::from_secs(2))
}

/// A way to the broker that can be cut, and its address.
async fn proxy() -> (Proxy, String) {
    let address = support::address();
    let (login, rest) = address.rsplit_once('@').expect("the address of a broker");
    let (server, rest) = rest.split_once('/').expect("the address of a broker");
    let server = tokio::net::lookup_host(server)
        .await
        .expect("the address of a broker")
        .find(std::net::SocketAddr::is_ipv4)
        .expect("the address of a broker");
    let proxy = Proxy::to(server).await.expect("the address of a broker");
    let address = format!("{login}@{}/{rest}", proxy.address());
    (proxy, address)
}

/// Rules: I-14.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_a_lost_connection_settles_nothing() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    bench.send(2).await;
    let (proxy, address) = proxy().await;
    let broken = quick().connect(&address).await.unwrap();
    let mut receiver = broken.receiver(&bench.queue).unwrap();
    let old: Vec<_> =
        [receiver.receive_within(SOON).await.unwrap(), receiver.receive_within(SOON).await.unwrap()].into();
    let until = old[0].lease.renew().await.unwrap();
    assert!(until > SystemClock::new().now().utc);
    // It says so once, to whoever waits, and goes on by a new connection.
    let cutting = async {
        sleep(Duration::from_millis(200)).await;
        proxy.cut();
    };
    let (received, ()) = tokio::join!(timeout(SOON, receiver.receive()), cutting);
    let mut errors = vec![received.unwrap().unwrap_err()];
    let again = loop {
        match receiver.receive_within(SOON).await {
            Ok(delivery) => break delivery,
            Err(error) => errors.push(error),
        }
        assert!(errors.len() < 50, "{errors:?}");
    };
    for error in &errors {
        assert!(error.kind() == ErrorKind::CommunicationProblem && error.is_retryable(), "{error}");
    }
    // The tags of the new channel are the same: 1 and 2.
    for delivery in old {
        assert_eq!(delivery.lease.renew().await.unwrap_err().kind(), ErrorKind::MessageLockLost);
        assert_eq!(delivery.complete().await.unwrap_err().kind(), ErrorKind::MessageLockLost);
    }
    // Both are held, so that nothing but these releases returns one of them.
    let rest = receiver.receive_within(SOON).await.unwrap();
    for delivery in [again, rest] {
        assert_eq!(count(&delivery), 1);
        delivery.lease.release().await.unwrap();
    }
    let mut left = bench.drain(2).await;
    // The broker does not restore the order of two releases at once.
    left.sort();
    assert_eq!(left, expected(2));
    broken.close().await.unwrap();
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_goes_on_when_its_connection_was_lost() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let (proxy, address) = proxy().await;
    let broken = quick().connect(&address).await.unwrap();
    let sender = broken.sender(&bench.queue).unwrap();
    sender.send(Message::new("000")).await.unwrap();
    proxy.cut();
    let until = Instant::now() + SOON;
    while let Err(error) = sender.send(Message::builder().message_id("m").build("001").unwrap()).await {
        assert!(error.is_retryable() && Instant::now() < until, "{error}");
    }
    let bodies = bench.drain(2).await;
    assert!(bodies.len() >= 2, "{bodies:?}");
    broken.close().await.unwrap();
    let error = sender.send(Message::new("")).await.unwrap_err();
    assert!(!error.is_retryable(), "{error}");
    bench.end().await;
}

/// Rules: T-24.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_says_nothing_ends_in_a_time_out() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let (proxy, address) = proxy().await;
    let options = || support::options().timeout(Duration::from_millis(500));
    let frozen = support::repeated(async || options().connect(&address).await).await;
    let sender = frozen.sender(&bench.queue).unwrap();
    support::repeated(async || sender.send(Message::new("000")).await).await;
    proxy.freeze(true);
    let sent = timeout(SOON, sender.send(Message::new("001"))).await.unwrap();
    assert!(sent.unwrap_err().is_outcome_unknown());
    proxy.freeze(false);
    let until = Instant::now() + SOON;
    while sender.send(Message::new("002")).await.is_err() {
        assert!(Instant::now() < until, "the sender does not come back");
    }
    bench.end().await;
}

/// Rules: I-20.
/// A copy is published, confirmed, and then the original is acknowledged. Whatever ends in between, one of them is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_not_lost_wherever_its_connection_is_cut() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let ends =
        [(Direction::ToServer, How::Before), (Direction::ToServer, How::After), (Direction::ToClient, How::Before)];
    let mut queues = Vec::new();
    for steps in 0..6 {
        for (direction, how) in ends {
            // The broker may take back what a connection held long after that is cut.
            let queue = support::unique("cut");
            bench.rabbit.create_queue(&queue, QueueSettings::default()).await.unwrap();
            bench.rabbit.sender(&queue).unwrap().send(Message::new("000")).await.unwrap();
            let (proxy, address) = proxy().await;
            let broken = quick().connect(&address).await.unwrap();
            let mut receiver = broken.receiver(&queue).unwrap();
            let delivery = receiver.receive_within(SOON).await.unwrap();
            proxy.arm(Trip { direction, steps, how });
            let dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
            // It may fail, and say so; it may have happened nevertheless.
            let _ = timeout(SOON, delivery.dead_letter(dead_letter)).await.unwrap();
            proxy.cut();
            broken.close().await.unwrap();
            queues.push((format!("{direction:?} {how:?} {steps}"), queue));
        }
    }
    let (mut moved, mut twice) = (0, 0);
    for (cut, queue) in queues {
        let until = Instant::now() + SOON;
        let (mut buried, mut left) = (0, 0);
        while buried + left == 0 {
            assert!(Instant::now() < until, "{cut}: it is lost");
            let mut letters = bench.rabbit.receiver(&format!("{queue}/$deadletterqueue")).unwrap();
            while let Ok(letter) = letters.receive_within(Duration::from_millis(300)).await {
                assert_eq!(letter.message.dead_letter_reason(), Some("HandlerPermanent"));
                assert_eq!(text(&letter), "000");
                letter.complete().await.unwrap();
                buried += 1;
            }
            let mut originals = bench.rabbit.receiver(&queue).unwrap();
            while let Ok(original) = originals.receive_within(Duration::from_millis(300)).await {
                original.complete().await.unwrap();
                left += 1;
            }
        }
        assert!(buried <= 1 && left <= 1, "{cut}: {buried} and {left}");
        moved += buried;
        twice += usize::from(buried + left == 2);
        bench.rabbit.delete(&queue).await.unwrap();
    }
    // The cuts came before, in between and afterwards.
    assert!((1..18).contains(&moved) && twice >= 1, "{moved} were moved, and {twice} are there twice");
    bench.end().await;
}

/// Rules: I-37.
/// Handlers that wait until they are let go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_drains_releases_what_no_handler_has_seen() {
    const MESSAGES: usize = 50;
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    bench.send(MESSAGES).await;
    let (gate, seen) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let handler = {
        let (gate, seen) = (Arc::clone(&gate), Arc::clone(&seen));
        service_fn(move |_: Message| {
            let (gate, seen) = (Arc::clone(&gate), Arc::clone(&seen));
            async move {
                seen.fetch_add(1, Ordering::Relaxed);
                gate.acquire().await.unwrap().forget();
                Ok::<_, Infallible>(Disposition::Complete)
            }
        })
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let consumer = Consumer::new(bench.receiver(), handler).concurrency(4).prefetch(8);
    let run = tokio::spawn(consumer.run_until(async {
        let _ = stopped.await;
    }));
    gate.add_permits(10);
    let until = Instant::now() + SOON;
    while seen.load(Ordering::Relaxed) < 14 {
        assert!(Instant::now() < until, "the handlers got {}", seen.load(Ordering::Relaxed));
        sleep(Duration::from_millis(5)).await;
    }
    stop.send(()).unwrap();
    gate.add_permits(MESSAGES);
    timeout(SOON, run).await.unwrap().unwrap().unwrap();

    let left = bench.drain(MESSAGES - seen.load(Ordering::Relaxed)).await;
    assert_eq!(seen.load(Ordering::Relaxed) + left.len(), MESSAGES, "{left:?}");
    assert!(left.iter().all(|(_, count)| *count == 1), "{left:?}");
    bench.end().await;
}

/// The message is dead-lettered, and nothing is to be redelivered later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delay_after_the_last_delivery_is_not_waited_for() {
    let delays = support::unique("delays");
    let mut settings = QueueSettings::default();
    settings.max_delivery_count = 1;
    let Some(bench) = Bench::with(support::options().delays(&*delays), settings).await else { return };
    bench.send(1).await;
    let delivery = bench.receiver().receive_within(SOON).await.unwrap();
    delivery.abandon_after(Duration::from_secs(60)).unwrap().await.unwrap();
    let mut dead_letters = bench.rabbit.receiver(&format!("{}/$deadletterqueue", bench.queue)).unwrap();
    let dead = dead_letters.receive_within(SOON).await.unwrap();
    assert_eq!(dead.message.dead_letter_reason(), Some("MaxDeliveryCountExceeded"));
    dead.complete().await.unwrap();
    bench.end().await;
    support::delete_delays(&delays).await;
}

/// Rules: K-15.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_delay_does_not_wait_behind_a_long_one() {
    let delays = support::unique("delays");
    let Some(bench) = Bench::with(support::options().delays(&*delays), QueueSettings::default()).await else { return };
    let sender = bench.rabbit.sender(&bench.queue).unwrap();
    let clock = SystemClock::new();
    let after = |delay| clock.now().utc.saturating_add(delay);
    // Declares what delays are made of.
    sender.schedule(vec![Message::new("an hour")], after(Duration::from_secs(3_600))).await.unwrap();
    let mut due = Vec::new();
    for millis in [60_000, 6_000, 3_300, 700] {
        let at = after(Duration::from_millis(millis));
        sender.schedule(vec![Message::new(millis.to_string())], at).await.unwrap();
        due.push((at, millis.to_string()));
    }
    let mut receiver = bench.receiver();
    // Not the first, which is one of the long ones.
    for (at, body) in due.into_iter().skip(1).rev() {
        let delivery = receiver.receive_within(SOON).await.unwrap();
        let now = clock.now().utc;
        assert_eq!(text(&delivery), body);
        assert!(now >= at, "{body} came too early");
        // Behind a long one it would be later than this.
        let late = now.saturating_since(at);
        assert!(late < Duration::from_secs(30), "{body} came {late:?} late");
        assert_eq!(delivery.message.received().unwrap().enqueued_time, at);
        delivery.complete().await.unwrap();
    }
    bench.end().await;
    support::delete_delays(&delays).await;
}

/// Rules: K-15.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_created_again_gets_what_is_scheduled() {
    let delays = support::unique("delays");
    let Some(rabbit) = support::connect(support::options().delays(&*delays)).await else { return };
    let topic = support::unique("topic");
    for body in ["000", "001"] {
        rabbit.create_topic(&topic, TopicSettings::default()).await.unwrap();
        let path = rabbit.create_subscription(&topic, "all", QueueSettings::default()).await.unwrap();
        let at = SystemClock::new().now().utc.saturating_add(Duration::from_millis(100));
        rabbit.sender(&topic).unwrap().schedule(vec![Message::new(body)], at).await.unwrap();
        let delivery = rabbit.receiver(path.as_str()).unwrap().receive_within(SOON).await.unwrap();
        assert_eq!(text(&delivery), body);
        delivery.complete().await.unwrap();
        rabbit.delete(&topic).await.unwrap();
    }
    rabbit.close().await.unwrap();
    support::delete_delays(&delays).await;
}

/// Rules: K-01.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_stored_in_part_is_not_reported_as_refused() {
    const MESSAGES: usize = 100;
    let mut settings = QueueSettings::default();
    settings.max_length_bytes = Some(10_000);
    // One after the other, for a quorum queue takes what is on its way when it is full.
    let Some(bench) = Bench::with(support::options().sends_in_flight(1), settings).await else { return };
    let sender = bench.rabbit.sender(&bench.queue).unwrap();
    let batch = || (0..MESSAGES).map(|_| Message::new(vec![0; 1_000])).collect::<Batch>();
    let error = sender.send_batch(batch()).await.unwrap_err();
    let stored = bench.drain(1).await.len();
    assert!((1..MESSAGES).contains(&stored), "{stored} are stored");
    assert!(error.is_outcome_unknown(), "{error}");
    bench.end().await;
}

/// Rules: E-15.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sends_to_a_queue_that_is_gone_fail_each_and_others_do_not() {
    const SENDS: usize = 100;
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let sender = bench.rabbit.sender(&bench.queue).unwrap();
    let send_all = async || join_all((0..SENDS).map(|index| sender.send(Message::new(format!("{index:03}"))))).await;
    assert!(send_all().await.iter().all(Result::is_ok));
    let (outcomes, ()) = tokio::join!(send_all(), async { bench.rabbit.delete(&bench.queue).await.unwrap() });
    assert!(outcomes.iter().flat_map(Result::as_ref).count() <= SENDS);
    for outcome in send_all().await {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::EntityNotFound);
    }
    bench.rabbit.create_queue(&bench.queue, QueueSettings::default()).await.unwrap();
    assert!(send_all().await.iter().all(Result::is_ok));
    assert_eq!(bench.drain(SENDS).await.len(), SENDS);
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_a_program_has_can_be_used() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let wrapped = RabbitMq::wrap(channel.clone());
    wrapped.sender(&bench.queue).unwrap().send(Message::new("000")).await.unwrap();
    let mut receiver = wrapped.receiver(&bench.queue).unwrap();
    let delivery = receiver.receive_within(SOON).await.unwrap();
    assert_eq!(text(&delivery), "000");
    delivery.complete().await.unwrap();
    drop((receiver, wrapped));
    // It is the program's, and stays open.
    assert!(channel.status().connected());
    connection.close(200, "OK".into()).await.unwrap();
    bench.end().await;
}

/// A broker ends the channel of what it refuses, and its number is lost to the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_use_no_connection_up() {
    let mut settings = QueueSettings::default();
    settings.lock_duration = Duration::from_secs(300);
    let Some(bench) = Bench::new(settings).await else { return };
    let few = support::options().connect(&format!("{}?channel_max=12", support::address())).await.unwrap();
    let sender = few.sender(&bench.queue).unwrap();
    sender.send(Message::new("000")).await.unwrap();
    let mut receiver = few.receiver(&bench.queue).unwrap();
    let held = receiver.receive_within(SOON).await.unwrap();
    for _ in 0..40 {
        assert_eq!(few.delete("no-such-queue").await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    }
    // What was begun on the first connection goes on there.
    held.complete().await.unwrap();
    sender.send(Message::new("001")).await.unwrap();
    let last = receiver.receive_within(SOON).await.unwrap();
    assert_eq!((text(&last).as_str(), count(&last)), ("001", 1));
    few.close().await.unwrap();
    // All of its connections are closed, the first as well.
    assert_eq!(last.complete().await.unwrap_err().kind(), ErrorKind::MessageLockLost);
    assert_eq!(sender.send(Message::new("002")).await.unwrap_err().kind(), ErrorKind::CommunicationProblem);
    assert_eq!(bench.drain(1).await, [("001".into(), 1)]);
    bench.end().await;
}

/// Most publishers send no `timestamp`, and one that they send has whole seconds of their own clock, which may be ahead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_another_publisher_is_not_older_than_the_broker_says() {
    // Two clocks of one machine are not read at the same time.
    const APART: Duration = Duration::from_secs(1);
    let mut settings = QueueSettings::default();
    settings.default_time_to_live = Some(Duration::from_secs(3_600));
    let Some(bench) = Bench::new(settings).await else { return };
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let before = SystemClock::new().now().utc;
    let plain = BasicProperties::default();
    let short = plain.clone().with_expiration("60000".into());
    let old = short.clone().with_timestamp(1_000_000_000);
    // Of a clock that is ahead: a year after this one.
    let ahead = short.clone().with_timestamp(before.as_millis().cast_unsigned() / 1_000 + 365 * 24 * 3_600);
    for (index, properties) in [plain, short, old, ahead].into_iter().enumerate() {
        let body = format!("{index:03}");
        let options = BasicPublishOptions::default();
        channel.basic_publish("".into(), (*bench.queue).into(), options, body.as_bytes(), properties).await.unwrap();
    }
    let mut receiver = bench.receiver();
    for index in 0..4 {
        let delivery = receiver.receive_within(SOON).await.unwrap();
        assert_eq!(text(&delivery), format!("{index:03}"));
        let received = delivery.message.received().unwrap();
        let (enqueued, after) = (received.enqueued_time, SystemClock::new().now().utc);
        assert!(enqueued.saturating_add(APART) >= before && received.expires_at > enqueued, "{received:?}");
        assert!(enqueued <= after.saturating_add(APART), "{received:?}");
        delivery.abandon().await.unwrap();
    }
    drop(receiver);
    // Each goes to the end of the queue, by a copy of its own.
    let again = [0, 1, 2, 3].map(|index| (format!("{index:03}"), 2));
    let mut all = bench.drain(4).await;
    all.sort();
    assert_eq!(all, again);
    connection.close(200, "OK".into()).await.unwrap();
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsupported_properties_and_settings_are_refused() {
    let Some(rabbit) = support::connect(support::options()).await else { return };
    let mut long = QueueSettings::default();
    long.lock_duration = Duration::from_secs(26 * 60);
    let mut never = QueueSettings::default();
    never.max_delivery_count = 0;
    let mut zero = QueueSettings::default();
    zero.default_time_to_live = Some(Duration::ZERO);
    let queue = support::unique("refused");
    for settings in [long, never, zero] {
        let error = rabbit.create_queue(&queue, settings).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let path = EntityPath::new(&queue).unwrap().dead_letter();
    let error = rabbit.create_queue(path.as_str(), QueueSettings::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation);
    let name = vec!["n".repeat(50); 5].join("/");
    assert_eq!(rabbit.sender(&name).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let mut receiver = rabbit.receiver(&queue).unwrap();
    assert_eq!(receiver.receive_within(SOON).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    receiver.stop();
    rabbit.close().await.unwrap();
}

#[tokio::test]
async fn an_address_without_a_broker_is_an_error_that_may_pass() {
    let error = RabbitMq::connect("amqp://guest:guest@127.0.0.1:1/%2f").await.unwrap_err();
    assert!(error.kind() == ErrorKind::CommunicationProblem && error.is_retryable(), "{error}");
    assert_eq!(RabbitMq::connect("http://127.0.0.1").await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}
