//! What outlives a holder.

use std::time::Duration;

use consign::transport::Session;
use consign_rabbitmq::lapin::{Connection, ConnectionProperties, options::QueueDeclareOptions, types::FieldTable};
use tokio::time::timeout;

use crate::{
    Bench, SOON, accept_soon, by_session, expect, next,
    support::{self, node::Node},
};

/// Rules: N-10.
/// What fails, and the state, are known to whoever comes next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_and_failures_go_from_one_client_to_another() {
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
    assert_eq!(session.state().await.unwrap().as_deref(), Some(&b"half"[..]));
    let (body, count, delivery) = next(&mut session).await;
    assert_eq!((body.as_str(), count), ("1", 3));
    delivery.complete().await.unwrap();
    session.set_state(None).await.unwrap();
    session.close().await.unwrap();

    let mut session = accept_soon(&bench.rabbit, &bench.queue, "a").await;
    assert_eq!(session.state().await.unwrap(), None);
    expect(&mut session, &[("2", 1)]).await;
    assert_eq!(bench.accept("b").await.state().await.unwrap().as_deref(), Some(&b"of b"[..]));
    drop(session);
    other.close().await.unwrap();
    bench.end().await;
}

/// Rules: N-10.
/// The holder may die before it gives the session up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_is_cleared_is_stored_before_the_answer() {
    let Some(bench) = Bench::new(by_session(1)).await else { return };
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let session = bench.accept("a").await;
    for (state, records) in [(Some("state".into()), 1), (None, 2)] {
        session.set_state(state).await.unwrap();
        let count = async || {
            let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
            let name = format!("{}/$note-00-01", bench.queue);
            channel.queue_declare(name.into(), options, FieldTable::default()).await.unwrap().message_count()
        };
        // A quorum queue on a machine that is busy answers 0.
        let counting = async { while count().await < records {} };
        timeout(SOON, counting).await.expect("it is stored");
        assert!(count().await <= records);
    }
    session.close().await.unwrap();
    assert_eq!(bench.accept("a").await.state().await.unwrap(), None);
    bench.end().await;
}

/// Rules: N-10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_that_are_replaced_do_not_pile_up() {
    const TIMES: u32 = 700;
    let mut settings = by_session(1);
    // Longer than a slow disk takes for that many states.
    settings.lock_duration = Duration::from_secs(300);
    let Some(bench) = Bench::new(settings).await else { return };
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
    assert_eq!(one.state().await.unwrap().unwrap(), (TIMES - 1).to_string());
    assert_eq!(two.state().await.unwrap().unwrap(), "of two");
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
    assert_eq!(bench.accept("one").await.state().await.unwrap(), None);
    connection.close(200, "OK".into()).await.unwrap();
    bench.end().await;
}

/// Rules: N-10.
/// The server dies, and with it the locks; what it has confirmed is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_and_failures_outlive_the_server() {
    let Some(node) = Node::start().await else { return };
    let options = support::options()
        .timeout(Duration::from_secs(5))
        .backoff(Duration::from_millis(50), Duration::from_millis(500));
    let bench = Bench::at(options, &node.address(), by_session(2)).await;
    for body in ["1", "2", "3"] {
        bench.send("a", body).await;
    }
    let mut session = bench.accept("a").await;
    session.set_state(Some("half".into())).await.unwrap();
    let (_, _, delivery) = next(&mut session).await;
    delivery.abandon().await.unwrap();
    let (_, _, held) = next(&mut session).await;
    node.restart().await.unwrap();
    assert!(held.complete().await.is_err() && session.renew().await.is_err());
    let again = async {
        loop {
            // A quorum queue elects its leader first.
            match bench.rabbit.accept_session(&bench.queue, "a").await {
                Ok(session) => break session,
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    };
    let mut session = timeout(3 * SOON, again).await.expect("the session can be had again");
    assert_eq!(session.state().await.unwrap().as_deref(), Some(&b"half"[..]));
    for expected in [("1", 2), ("2", 1), ("3", 1)] {
        let (body, count, delivery) = next(&mut session).await;
        assert_eq!((body.as_str(), count), expected);
        delivery.complete().await.unwrap();
    }
    session.close().await.unwrap();
    bench.rabbit.close().await.unwrap();
}
