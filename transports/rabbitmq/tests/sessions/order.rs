//! Messages come in the order of their session, whoever gets them.

use std::{collections::HashMap, convert::Infallible, time::Duration};

use consign::{
    Disposition, Message,
    consumer::SessionConsumer,
    settlement::{DeadLetter, DeadLetterReason},
    time::{Clock, SystemClock},
    transport::{ErrorKind, Lease, ReceiverExt, Sender as _, Session},
};
use consign_rabbitmq::{
    RabbitMq, TopicSettings,
    lapin::{Connection, ConnectionProperties, options::BasicConsumeOptions, types::FieldTable},
};
use futures_util::{StreamExt, future::join_all};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tower::service_fn;

use crate::{Bench, MOMENT, SOON, accept_soon, by_long_session, by_session, count, expect, next, support, text};

/// What the holders of a session have completed, in their order: by which client, and which message.
type Log = Mutex<HashMap<String, Vec<(usize, usize)>>>;

const SESSIONS: usize = 6;
const MESSAGES: usize = 30;

/// Takes whatever session is next, until all is completed and there is none for a while, and gives messages and sessions back
/// at random.
async fn work(rabbit: &RabbitMq, client: usize, queue: &str, log: &Log) {
    let mut acceptor = rabbit.session_acceptor(queue).expect("a broker that answers");
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let mut session = match acceptor.accept_next_within(Duration::from_secs(3)).await {
            Ok(session) => session,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ServiceTimeout, "{error}");
                let completed: usize = log.lock().values().map(Vec::len).sum();
                if completed >= SESSIONS * MESSAGES {
                    return;
                }
                assert!(Instant::now() < until, "{completed} are completed");
                continue;
            }
        };
        let id = session.session_id().to_owned();
        let last = log.lock().get(&id).and_then(|done| done.last()).map(|(_, number)| number.to_string());
        assert_eq!(session.state().await.expect("a broker that answers"), last.map(Into::into), "{id}");
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

/// Rules: I-24.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_go_from_one_client_to_another_keep_their_order() {
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
        other.close().await.unwrap();
    }
    bench.end().await;
}

/// Rules: N-07.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_message_is_delivered_next_and_then_dead_lettered() {
    let mut settings = by_session(2);
    settings.max_delivery_count = 4;
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
    assert_eq!((body.as_str(), count), ("1", 3));
    drop(delivery);
    let (body, count, delivery) = next(&mut session).await;
    assert_eq!((body.as_str(), count), ("1", 4));
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

/// Rules: N-06.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_ends_counts_for_the_next_receiver() {
    let mut settings = by_session(1);
    settings.lock_duration = Duration::from_secs(6);
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
        while session.state().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(2 * SOON, lost).await.expect("the lock ends");
    assert_eq!(session.receive().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(delivery.complete().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    let mut next = accept_soon(&other, &bench.queue, "a").await;
    expect(&mut next, &[("1", 2), ("2", 1)]).await;
    next.close().await.unwrap();
    other.close().await.unwrap();
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scheduled_messages_and_messages_of_a_topic_are_in_their_session() {
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

/// Rules: I-24.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_its_holder_reads_a_slot() {
    let Some(bench) = Bench::new(by_session(1)).await else { return };
    let mut session = bench.accept("a").await;
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let queue = format!("{}/$slot-00-01", bench.queue);
    let options = BasicConsumeOptions::default();
    let mut beside = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await.unwrap();
    for body in ["1", "2", "3"] {
        bench.send("a", body).await;
    }
    let (_, _, first) = next(&mut session).await;
    let (_, _, second) = next(&mut session).await;
    first.complete().await.unwrap();
    assert!(timeout(MOMENT, beside.next()).await.is_err());
    session.close().await.unwrap();
    drop(second);
    for body in ["2", "3"] {
        let delivery = timeout(SOON, beside.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(delivery.data, body.as_bytes());
    }
    connection.close(200, "OK".into()).await.unwrap();
    bench.end().await;
}

/// Rules: N-07.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_works_sessions_off_side_by_side_and_each_in_order() {
    const MESSAGES: usize = 8;
    let Some(bench) = Bench::new(by_session(3)).await else { return };
    for number in 0..MESSAGES {
        for id in ["a", "b", "c", "d"] {
            bench.send(id, &number.to_string()).await;
        }
    }
    let log: std::sync::Arc<Mutex<HashMap<String, Vec<String>>>> = std::sync::Arc::default();
    let noted = std::sync::Arc::clone(&log);
    let handler = service_fn(move |message: Message| {
        let body = String::from_utf8_lossy(message.payload().unwrap()).into_owned();
        // Every message fails once.
        let is_again = message.received().unwrap().delivery_count > 1;
        if is_again {
            noted.lock().entry(message.session_id().unwrap().to_owned()).or_default().push(body);
        }
        async move {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..4))).await;
            Ok::<_, Infallible>(if is_again { Disposition::Complete } else { Disposition::ABANDON })
        }
    });
    let consumer = SessionConsumer::new(bench.rabbit.session_acceptor(&bench.queue).unwrap(), handler).concurrency(3);
    let stats = consumer.stats();
    let all = async move {
        while stats.completed() < 4 * MESSAGES as u64 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(2 * SOON, consumer.run_until(all)).await.unwrap().unwrap();
    let expected: Vec<String> = (0..MESSAGES).map(|number| number.to_string()).collect();
    for id in ["a", "b", "c", "d"] {
        assert_eq!(log.lock()[id], expected, "{id}");
        expect(&mut accept_soon(&bench.rabbit, &bench.queue, id).await, &[]).await;
    }
    bench.end().await;
}

/// What waits for sessions that nobody holds is in the way of those that are held, when there is much of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_is_read_2_048_messages_ahead() {
    const AHEAD: usize = 2_048;
    // All are on their way at once, and so in their order.
    let options = support::options().sends_in_flight(AHEAD);
    let Some(bench) = Bench::with(options, by_long_session(1)).await else { return };
    let sender = bench.rabbit.sender(&bench.queue).unwrap();
    let message = |id: &'static str, body: usize| Message::builder().session_id(id).build(body.to_string()).unwrap();
    let sends = join_all((0..AHEAD).map(|number| sender.send(message("b", number)))).await;
    assert!(sends.iter().all(Result::is_ok));
    sender.send(message("a", 0)).await.unwrap();
    let mut a = bench.accept("a").await;
    assert!(a.receive_within(MOMENT).await.is_err());
    // Each that is settled makes room for the next.
    let mut b = bench.rabbit.session_acceptor(&bench.queue).unwrap().accept_next_within(SOON).await.unwrap();
    assert_eq!(b.session_id(), "b");
    let (body, _, first) = next(&mut b).await;
    assert_eq!(body, "0");
    first.complete().await.unwrap();
    expect(&mut a, &[("0", 1)]).await;
    let mut received = 1;
    while received < AHEAD {
        for delivery in timeout(SOON, b.receive_batch(100)).await.unwrap().unwrap() {
            assert_eq!(text(&delivery), received.to_string());
            delivery.complete().await.unwrap();
            received += 1;
        }
    }
    b.close().await.unwrap();
    drop(a);
    bench.end().await;
}
