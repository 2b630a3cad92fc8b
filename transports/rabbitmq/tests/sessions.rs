//! I24: a session has one holder, and its messages come in order, whoever else wants them and whatever breaks.

mod support;

use std::{collections::HashMap, future::poll_fn, pin::pin, task::Poll, time::Duration};

use consign::{
    Message,
    settlement::{DeadLetter, DeadLetterReason},
    time::{Clock, SystemClock},
    transport::{Delivery, ErrorKind, Lease, ReceiverExt, Sender as _, Session},
};
use consign_conformance::faults::Proxy;
use consign_rabbitmq::{
    Options, QueueSettings, RabbitMq, RabbitMqLease, RabbitMqSession, TopicSettings,
    lapin::{Connection, ConnectionProperties, options::QueueDeclareOptions, types::FieldTable},
};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::timeout;

/// For what happens at once, on a machine that is busy.
const SOON: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(300);

fn by_session(slots: u16) -> QueueSettings {
    let mut settings = QueueSettings::default();
    settings.requires_session = true;
    settings.session_slots = slots;
    settings
}

struct Bench {
    rabbit: RabbitMq,
    queue: String,
    settings: QueueSettings,
}

impl Bench {
    async fn new(settings: QueueSettings) -> Option<Self> {
        Self::with(support::options(), settings).await
    }

    async fn with(options: Options, settings: QueueSettings) -> Option<Self> {
        let rabbit = support::connect(options).await?;
        let queue = support::unique("sessions");
        rabbit.create_queue(&queue, settings.clone()).await.expect("a broker that answers");
        Some(Self { rabbit, queue, settings })
    }

    /// What another process would be.
    async fn other(&self, options: Options, address: &str) -> RabbitMq {
        let other = options.connect(address).await.expect("a broker that answers");
        other.know(&self.queue, self.settings.clone()).expect("a broker that answers");
        other
    }

    async fn send(&self, id: &str, body: &str) {
        let message =
            Message::builder().session_id(id.to_owned()).build(body.to_owned()).expect("a broker that answers");
        self.rabbit
            .sender(&self.queue)
            .expect("a broker that answers")
            .send(message)
            .await
            .expect("a broker that answers");
    }

    async fn accept(&self, id: &str) -> RabbitMqSession {
        self.rabbit.accept_session(&self.queue, id).await.expect("a broker that answers")
    }

    async fn end(self) {
        self.rabbit.delete(&self.queue).await.expect("a broker that answers");
        self.rabbit.close().await;
    }
}

fn text(delivery: &Delivery<RabbitMqLease>) -> String {
    String::from_utf8_lossy(delivery.message.payload().expect("a broker that answers")).into_owned()
}

fn count(delivery: &Delivery<RabbitMqLease>) -> u32 {
    delivery.message.received().expect("a broker that answers").delivery_count
}

/// The next message, with its delivery count.
async fn next(session: &mut RabbitMqSession) -> (String, u32, Delivery<RabbitMqLease>) {
    let delivery = session.receive_within(SOON).await.expect("a broker that answers");
    (text(&delivery), count(&delivery), delivery)
}

async fn expect(session: &mut RabbitMqSession, expected: &[(&str, u32)]) {
    for (body, deliveries) in expected {
        let (text, count, delivery) = next(session).await;
        assert_eq!((text.as_str(), count), (*body, *deliveries));
        delivery.complete().await.expect("a broker that answers");
    }
    assert!(session.receive_within(MOMENT).await.is_err());
}

/// The session, when another has given it up, well before its lock ends.
async fn accept_soon(rabbit: &RabbitMq, queue: &str, id: &str) -> RabbitMqSession {
    let accepting = async {
        loop {
            match rabbit.accept_session(queue, id).await {
                Err(error) if error.kind() == ErrorKind::SessionCannotBeLocked => tokio::task::yield_now().await,
                accepted => break accepted.expect("a broker that answers"),
            }
        }
    };
    timeout(SOON, accepting).await.expect("no lock is left")
}

async fn proxy() -> (Proxy, String) {
    let address = support::address();
    let (login, rest) = address.rsplit_once('@').expect("a broker that answers");
    let (server, rest) = rest.split_once('/').expect("a broker that answers");
    let server = tokio::net::lookup_host(server)
        .await
        .expect("a broker that answers")
        .find(std::net::SocketAddr::is_ipv4)
        .expect("a broker that answers");
    let proxy = Proxy::to(server).await.expect("a broker that answers");
    let address = format!("{login}@{}/{rest}", proxy.address());
    (proxy, address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i_24_of_many_that_want_a_session_one_gets_it() {
    let Some(bench) = Bench::new(by_session(2)).await else { return };
    let other = bench.other(support::options(), &support::address()).await;
    for round in 0..10 {
        let id = format!("session {round}");
        let accepts = (0..8).map(|one| {
            let rabbit = if one % 2 == 0 { &bench.rabbit } else { &other };
            rabbit.accept_session(&bench.queue, &id)
        });
        let (held, refused): (Vec<_>, Vec<_>) = join_all(accepts).await.into_iter().partition(Result::is_ok);
        assert_eq!(held.len(), 1);
        for error in refused.into_iter().filter_map(Result::err) {
            assert_eq!(error.kind(), ErrorKind::SessionCannotBeLocked, "{error}");
        }
        for session in held {
            session.unwrap().close().await.unwrap();
        }
    }
    other.close().await;
    bench.end().await;
}

/// What the holders of a session have completed, in their order: by which client, and which message.
type Log = Mutex<HashMap<String, Vec<(usize, usize)>>>;

/// Takes whatever session is next, until there is none for a while, and gives messages and sessions back at random.
async fn work(rabbit: &RabbitMq, client: usize, queue: &str, log: &Log) {
    let mut acceptor = rabbit.session_acceptor(queue).expect("a broker that answers");
    while let Ok(mut session) = acceptor.accept_next_within(Duration::from_secs(3)).await {
        let id = session.session_id().to_owned();
        let last = log.lock().get(&id).and_then(|done| done.last()).map(|(_, number)| number.to_string());
        assert_eq!(session.state().expect("a broker that answers"), last.map(Into::into), "{id}");
        for _ in 0..fastrand::usize(1..12) {
            let Ok(delivery) = session.receive_within(Duration::from_millis(100)).await else { break };
            let (body, count) = (text(&delivery), count(&delivery));
            match fastrand::u8(..6) {
                0 => {
                    delivery.abandon().await.expect("a broker that answers");
                    let (again, counted, delivery) = next(&mut session).await;
                    assert_eq!((again, counted), (body, count + 1));
                    delivery.lease.release().await.expect("a broker that answers");
                }
                1 => delivery.lease.release().await.expect("a broker that answers"),
                // It goes with the session, and comes first again.
                2 => {
                    std::mem::forget(delivery);
                    break;
                }
                _ => {
                    log.lock()
                        .entry(id.clone())
                        .or_default()
                        .push((client, body.parse().expect("a broker that answers")));
                    session.set_state(Some(body.into())).await.expect("a broker that answers");
                    delivery.complete().await.expect("a broker that answers");
                }
            }
        }
        if fastrand::bool() {
            session.close().await.expect("a broker that answers");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i_24_sessions_that_go_from_one_client_to_another_keep_their_order() {
    const SESSIONS: usize = 6;
    const MESSAGES: usize = 30;
    let mut settings = by_session(3);
    settings.max_delivery_count = 1_000;
    let Some(bench) = Bench::new(settings).await else { return };
    let mut clients = vec![bench.rabbit.clone()];
    for _ in 0..2 {
        clients.push(bench.other(support::options(), &support::address()).await);
    }
    let sending = async {
        for number in 0..MESSAGES {
            for session in 0..SESSIONS {
                bench.send(&format!("s{session}"), &number.to_string()).await;
            }
        }
    };
    let log = Log::default();
    let workers = clients.iter().enumerate().map(|(client, rabbit)| work(rabbit, client, &bench.queue, &log));
    tokio::join!(join_all(workers), sending);
    let log = log.into_inner();
    assert_eq!(log.len(), SESSIONS);
    let mut changes = 0;
    for (id, done) in log {
        let numbers: Vec<usize> = done.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, (0..MESSAGES).collect::<Vec<_>>(), "{id}");
        changes += done.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
    }
    assert!(changes > SESSIONS, "{changes} changes of the client");
    for other in &clients[1..] {
        other.close().await;
    }
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_03_a_session_is_had_by_another_client_when_its_slot_is_given_up() {
    let Some(bench) = Bench::new(by_session(1)).await else { return };
    let other = bench.other(support::options(), &support::address()).await;
    for (id, body) in [("a", "1"), ("b", "x"), ("a", "2")] {
        bench.send(id, body).await;
    }
    let (mut a, mut b) = (bench.accept("a").await, bench.accept("b").await);
    let (_, _, first) = next(&mut a).await;
    for id in ["a", "b", "c"] {
        let refused = other.accept_session(&bench.queue, id).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::SessionCannotBeLocked);
    }
    a.close().await.unwrap();
    assert_eq!(first.complete().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    // Here it can be had at once, from where it was; the slot stays as it is.
    let mut a = bench.accept("a").await;
    for body in ["1", "2"] {
        let (text, count, delivery) = next(&mut a).await;
        assert_eq!((text.as_str(), count), (body, 1));
        std::mem::forget(delivery);
    }
    a.close().await.unwrap();
    // The slot has another session that is held.
    assert!(other.accept_session(&bench.queue, "a").await.is_err());
    expect(&mut b, &[("x", 1)]).await;
    b.close().await.unwrap();
    let mut a = other.accept_session(&bench.queue, "a").await.unwrap();
    expect(&mut a, &[("1", 1), ("2", 1)]).await;
    drop(a);
    accept_soon(&bench.rabbit, &bench.queue, "b").await.close().await.unwrap();
    other.close().await;
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_04_the_next_session_may_be_in_a_slot_that_is_held() {
    let Some(bench) = Bench::new(by_session(2)).await else { return };
    let mut acceptor = bench.rabbit.session_acceptor(&bench.queue).unwrap();
    let ids: Vec<String> = (0..8).map(|number| format!("s{number}")).collect();
    let mut held = Vec::new();
    for id in &ids {
        bench.send(id, "1").await;
        bench.send(id, "2").await;
    }
    for id in &ids {
        let session = acceptor.accept_next_within(SOON).await.unwrap();
        assert_eq!(session.session_id(), id);
        held.push(session);
    }
    // One waits while there is none, and gets what is given up.
    let waiting = tokio::spawn(async move { acceptor.accept_next_within(SOON).await.unwrap() });
    tokio::time::sleep(MOMENT).await;
    held.remove(3).close().await.unwrap();
    let mut again = waiting.await.unwrap();
    assert_eq!(again.session_id(), ids[3]);
    expect(&mut again, &[("1", 1), ("2", 1)]).await;
    drop((held, again));
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_06_a_lock_that_ends_counts_for_whoever_comes_next() {
    let mut settings = by_session(1);
    settings.lock_duration = Duration::from_millis(1_500);
    let Some(bench) = Bench::new(settings).await else { return };
    let other = bench.other(support::options(), &support::address()).await;
    for body in ["1", "2"] {
        bench.send("a", body).await;
    }
    let mut session = bench.accept("a").await;
    // It is neither settled nor given up in time, and the second message not received.
    let (_, _, delivery) = next(&mut session).await;
    session.renew().await.unwrap();
    let lost = async {
        while session.state().is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, lost).await.expect("the lock ends");
    assert_eq!(session.receive().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(delivery.complete().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    let mut next = accept_soon(&other, &bench.queue, "a").await;
    expect(&mut next, &[("1", 2), ("2", 1)]).await;
    next.close().await.unwrap();
    other.close().await;
    bench.end().await;
}

/// What fails, and the state, are known to whoever comes next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_10_states_and_failures_go_from_one_client_to_another() {
    let Some(bench) = Bench::new(by_session(1)).await else { return };
    let other = bench.other(support::options(), &support::address()).await;
    for body in ["1", "2"] {
        bench.send("a", body).await;
    }
    let mut session = bench.accept("a").await;
    session.set_state(Some("half".into())).await.unwrap();
    for failures in 1..=2 {
        let (body, count, delivery) = next(&mut session).await;
        assert_eq!((body.as_str(), count), ("1", failures));
        delivery.abandon().await.unwrap();
    }
    bench.accept("b").await.set_state(Some("of b".into())).await.unwrap();
    session.close().await.unwrap();

    let mut session = accept_soon(&other, &bench.queue, "a").await;
    assert_eq!(session.state().unwrap().as_deref(), Some(&b"half"[..]));
    let (body, count, delivery) = next(&mut session).await;
    assert_eq!((body.as_str(), count), ("1", 3));
    delivery.complete().await.unwrap();
    session.set_state(None).await.unwrap();
    session.close().await.unwrap();

    let mut session = accept_soon(&bench.rabbit, &bench.queue, "a").await;
    assert_eq!(session.state().unwrap(), None);
    expect(&mut session, &[("2", 1)]).await;
    assert_eq!(bench.accept("b").await.state().unwrap().as_deref(), Some(&b"of b"[..]));
    drop(session);
    other.close().await;
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_08_a_lost_connection_loses_its_sessions_and_counts_nothing() {
    let Some(bench) = Bench::new(by_session(2)).await else { return };
    for body in ["1", "2", "3"] {
        bench.send("a", body).await;
    }
    let (proxy, address) = proxy().await;
    let quick = support::options().backoff(Duration::from_millis(20), Duration::from_millis(200));
    let broken = bench.other(quick, &address).await;
    let mut session = broken.accept_session(&bench.queue, "a").await.unwrap();
    session.set_state(Some("kept".into())).await.unwrap();
    let (_, _, first) = next(&mut session).await;
    let (_, _, second) = next(&mut session).await;
    first.complete().await.unwrap();
    // An acknowledgement has no answer, and this one comes behind it.
    session.set_state(Some("kept again".into())).await.unwrap();
    proxy.cut();
    // Who waits is told.
    let lost = loop {
        match timeout(SOON, session.receive()).await.expect("the holder is told") {
            Ok(delivery) => std::mem::forget(delivery),
            Err(error) => break error,
        }
    };
    assert_eq!(lost.kind(), ErrorKind::SessionLockLost);
    assert_eq!(second.complete().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(session.set_state(None).await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(session.state().unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(session.renew().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(session.close().await.unwrap_err().kind(), ErrorKind::SessionLockLost);

    let mut session = accept_soon(&bench.rabbit, &bench.queue, "a").await;
    assert_eq!(session.state().unwrap().as_deref(), Some(&b"kept again"[..]));
    expect(&mut session, &[("2", 1), ("3", 1)]).await;
    session.close().await.unwrap();
    // The one that was cut comes back.
    accept_soon(&broken, &bench.queue, "a").await.close().await.unwrap();
    broken.close().await;
    bench.end().await;
}

/// Whether it ended within so many polls. It is dropped.
async fn ends_within<T, E>(polls: usize, future: impl Future<Output = Result<T, E>>) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        future.as_mut().poll(cx).map(|outcome| outcome.is_ok())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i_35_an_accept_that_is_dropped_at_any_poll_leaves_no_lock() {
    let Some(bench) = Bench::new(by_session(2)).await else { return };
    let other = bench.other(support::options(), &support::address()).await;
    bench.send("a", "1").await;
    let mut acceptor = bench.rabbit.session_acceptor(&bench.queue).unwrap();
    for polls in 0.. {
        let one = ends_within(polls, bench.rabbit.accept_session(&bench.queue, "a")).await;
        accept_soon(&other, &bench.queue, "a").await.close().await.unwrap();
        let next = ends_within(polls, acceptor.accept_next()).await;
        accept_soon(&other, &bench.queue, "a").await.close().await.unwrap();
        if one && next {
            assert!(polls >= 2, "{polls}");
            break;
        }
    }
    expect(&mut accept_soon(&bench.rabbit, &bench.queue, "a").await, &[("1", 1)]).await;
    other.close().await;
    bench.end().await;
}

/// Each slot that is opened takes two channels, and each that another has is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_outlive_the_numbers_of_a_connection() {
    let Some(bench) = Bench::new(by_session(2)).await else { return };
    let few = bench.other(support::options(), &format!("{}?channel_max=12", support::address())).await;
    let ids: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let mut kept = few.accept_session(&bench.queue, &ids[0]).await.unwrap();
    let mut refused = 0;
    for id in &ids[1..] {
        // In the slot that is kept, and in the other.
        few.accept_session(&bench.queue, id).await.unwrap().close().await.unwrap();
        match bench.rabbit.accept_session(&bench.queue, id).await {
            Ok(session) => session.close().await.unwrap(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::SessionCannotBeLocked);
                refused += 1;
            }
        }
    }
    assert!((1..19).contains(&refused), "{refused}");
    bench.send(&ids[0], "1").await;
    expect(&mut kept, &[("1", 1)]).await;
    few.close().await;
    assert_eq!(kept.receive_within(SOON).await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    for id in &ids {
        accept_soon(&bench.rabbit, &bench.queue, id).await.close().await.unwrap();
    }
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_10_states_that_are_replaced_do_not_pile_up() {
    const TIMES: u32 = 1_500;
    let Some(bench) = Bench::new(by_session(1)).await else { return };
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let records = async || {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        let name = format!("{}/$note-00-01", bench.queue);
        channel.queue_declare(name.into(), options, FieldTable::default()).await.unwrap().message_count()
    };
    let (one, two) = (bench.accept("one").await, bench.accept("two").await);
    two.set_state(Some("of two".into())).await.unwrap();
    let mut most = 0;
    for number in 0..TIMES {
        one.set_state(Some(number.to_string().into())).await.unwrap();
        if number % 50 == 0 {
            most = most.max(records().await);
        }
    }
    assert!((100..600).contains(&most), "{most} records");
    one.close().await.unwrap();
    two.close().await.unwrap();
    let (one, two) = (bench.accept("one").await, bench.accept("two").await);
    assert_eq!(one.state().unwrap().unwrap(), (TIMES - 1).to_string());
    assert_eq!(two.state().unwrap().unwrap(), "of two");
    // What was of no use is gone when the slot was read again.
    let is_short = async {
        while records().await > 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, is_short).await.expect("two records");
    for session in [one, two] {
        session.set_state(None).await.unwrap();
        session.close().await.unwrap();
    }
    assert_eq!(bench.accept("one").await.state().unwrap(), None);
    connection.close(200, "OK".into()).await.unwrap();
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_07_what_fails_is_the_next_one_and_then_a_dead_letter() {
    let mut settings = by_session(2);
    settings.max_delivery_count = 3;
    let Some(bench) = Bench::new(settings).await else { return };
    for body in ["1", "2", "3"] {
        bench.send("a", body).await;
    }
    let mut session = bench.accept("a").await;
    // Whatever the settlement: those behind the message do not pass it.
    let (_, _, delivery) = next(&mut session).await;
    let too_long = DeadLetter::new(DeadLetterReason::HandlerPermanent, "x".repeat(5_000));
    assert_eq!(delivery.dead_letter(too_long).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let (_, count, delivery) = next(&mut session).await;
    assert_eq!(count, 2);
    assert_eq!(delivery.defer().await.unwrap_err().kind(), ErrorKind::NotSupported);
    let (body, count, delivery) = next(&mut session).await;
    assert_eq!((body.as_str(), count), ("1", 2));
    drop(delivery);
    let (body, count, delivery) = next(&mut session).await;
    assert_eq!((body.as_str(), count), ("1", 3));
    delivery.abandon().await.unwrap();
    expect(&mut session, &[("2", 1), ("3", 1)]).await;
    let dead = format!("{}/$deadletterqueue", bench.queue);
    let letter = bench.rabbit.receiver(&dead).unwrap().receive_within(SOON).await.unwrap();
    assert_eq!((text(&letter).as_str(), letter.message.dead_letter_reason()), ("1", Some("MaxDeliveryCountExceeded")));
    assert_eq!(letter.message.session_id(), Some("a"));
    letter.complete().await.unwrap();
    session.close().await.unwrap();
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_scheduled_and_what_comes_by_a_topic_is_in_its_session() {
    let delays = support::unique("delays");
    let Some(bench) = Bench::with(support::options().delays(&*delays), by_session(3)).await else { return };
    let message = |id: &str| Message::builder().session_id(id.to_owned()).build(id.to_owned()).unwrap();
    let at = SystemClock::new().now().utc.saturating_add(Duration::from_millis(200));
    let sender = bench.rabbit.sender(&bench.queue).unwrap();
    sender.schedule(vec![message("a"), message("b")], at).await.unwrap();

    let topic = support::unique("topic");
    bench.rabbit.create_topic(&topic, TopicSettings::default()).await.unwrap();
    let path = bench.rabbit.create_subscription(&topic, "all", by_session(5)).await.unwrap();
    for id in ["a", "b"] {
        bench.rabbit.sender(&topic).unwrap().send(message(id)).await.unwrap();
    }
    for id in ["a", "b"] {
        expect(&mut bench.rabbit.accept_session(path.as_str(), id).await.unwrap(), &[(id, 1)]).await;
        let mut session = bench.accept(id).await;
        let (body, _, delivery) = next(&mut session).await;
        assert_eq!(body, id);
        delivery.complete().await.unwrap();
    }
    bench.rabbit.delete(&topic).await.unwrap();
    bench.end().await;
    support::delete_delays(&delays).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_sessions_cannot_be_had_by_is_refused() {
    let Some(bench) = Bench::new(by_session(2)).await else { return };
    let queue = &bench.queue;
    // One that goes by another number of slots, or knows of none, finds nothing, and sends nothing to the wrong place.
    let other = support::options().connect(&support::address()).await.unwrap();
    other.know(queue, by_session(4)).unwrap();
    let message = || Message::builder().session_id("a").build("1").unwrap();
    assert_eq!(other.sender(queue).unwrap().send(message()).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    assert_eq!(other.accept_session(queue, "a").await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    let mut acceptor = other.session_acceptor(queue).unwrap();
    assert_eq!(acceptor.accept_next_within(SOON).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    other.know(queue, QueueSettings::default()).unwrap();
    assert_eq!(other.sender(queue).unwrap().send(message()).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    assert_eq!(other.accept_session(queue, "a").await.unwrap_err().kind(), ErrorKind::InvalidOperation);
    other.close().await;

    assert_eq!(bench.rabbit.receiver(queue).unwrap_err().kind(), ErrorKind::InvalidOperation);
    let dead = format!("{queue}/$deadletterqueue");
    assert_eq!(bench.rabbit.accept_session(&dead, "a").await.unwrap_err().kind(), ErrorKind::InvalidOperation);
    let long = "x".repeat(129);
    assert_eq!(bench.rabbit.accept_session(queue, &long).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let again = bench.rabbit.create_queue(queue, by_session(2)).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
    for slots in [0, 65] {
        let refused = bench.rabbit.create_queue(&support::unique("refused"), by_session(slots)).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    let wrapped = RabbitMq::wrap(connection.create_channel().await.unwrap());
    wrapped.know(queue, by_session(2)).unwrap();
    assert_eq!(wrapped.accept_session(queue, "a").await.unwrap_err().kind(), ErrorKind::InvalidOperation);
    connection.close(200, "OK".into()).await.unwrap();
    bench.end().await;
}

/// A queue that goes takes its sessions with it, and nothing stays behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_08_a_queue_that_is_deleted_loses_its_sessions() {
    let Some(bench) = Bench::new(by_session(2)).await else { return };
    let mut session = bench.accept("a").await;
    bench.rabbit.delete(&bench.queue).await.unwrap();
    let lost = timeout(SOON, session.receive()).await.expect("the holder is told");
    assert_eq!(lost.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(session.close().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    bench.rabbit.create_queue(&bench.queue, by_session(2)).await.unwrap();
    accept_soon(&bench.rabbit, &bench.queue, "a").await.close().await.unwrap();
    bench.end().await;
}
