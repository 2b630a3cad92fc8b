use std::time::Duration;

use consign_amqp::{
    client::Error,
    engine::Reason,
    value::{Array, ValueType},
};
use consign_server::{Limits, Timeouts};
use tokio::{
    io::AsyncReadExt,
    time::{Instant, timeout},
};

use crate::support::*;

fn condition(error: &Error) -> &str {
    error.condition().unwrap_or_else(|| panic!("{error}"))
}

/// Rules: A-41.
#[tokio::test(start_paused = true)]
async fn an_idle_link_is_detached_after_ten_minutes() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let mut receiver = receiver(&session, "orders").await;
    tokio::time::sleep(Duration::from_secs(540)).await;
    link.send(message("a")).await.unwrap();
    let began = Instant::now();
    let error = receiver.recv().await.unwrap_err();
    assert_eq!((condition(&error), began.elapsed().as_secs()), ("amqp:link:detach-forced", 60));
    // The other was used.
    tokio::time::sleep(Duration::from_secs(500)).await;
    link.send(message("b")).await.unwrap();
}

/// Rules: A-41.
#[tokio::test(start_paused = true)]
async fn a_link_on_which_the_client_waits_is_not_idle() {
    let harness = Harness::new();
    let session = harness.session().await;
    let mut link = receiver(&session, "orders").await;
    link.set_credit(1).unwrap();
    timeout(Duration::from_secs(3_600), link.recv()).await.unwrap_err();
    send(&session, "orders", &["a"]).await;
    assert_eq!(text_of(&link.recv().await.unwrap()), "a");
}

/// A consumer that renews the lock of one message for long.
/// Rules: A-41, G-11.
#[tokio::test(start_paused = true)]
async fn requests_for_a_link_keep_it() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let attach = receiver_attach("orders");
    let name = attach.name.clone();
    let mut link = session.attach_receiver_with(attach).await.unwrap();
    let delivery = receive(&mut link).await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let tokens = Array::new(ValueType::Uuid, vec![token(&delivery).into()]).unwrap();
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_secs(30)).await;
        let request = fields([("lock-tokens", tokens.clone().into())]);
        let of_link = [("associated-link-name", name.as_str().into())];
        assert_eq!(manage.call_with("com.microsoft:renew-lock", &of_link, None, request).await.status(), 200);
    }
    complete(&link, &delivery).await;
}

/// Rules: A-41.
#[tokio::test(start_paused = true)]
async fn a_connection_without_links_is_closed() {
    let harness = Harness::new();
    let connection = harness.connect().await;
    let began = Instant::now();
    assert_eq!(condition(&connection.closed().await), "amqp:connection:forced");
    assert_eq!(began.elapsed().as_secs(), 60);

    let connection = harness.connect().await;
    let session = connection.begin().await.unwrap();
    let link = sender(&session, "orders").await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    link.detach().await.unwrap();
    // Links of `$cbs` do not keep it.
    Requester::attach(&session, "$cbs").await;
    let began = Instant::now();
    assert_eq!(condition(&connection.closed().await), "amqp:connection:forced");
    assert_eq!(began.elapsed().as_secs(), 300);
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_is_disconnected_after_the_handshake_timeout() {
    let harness = Harness::new();
    let mut stream = harness.stream();
    let began = Instant::now();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 20);
    assert_eq!(harness.server.connections(), 0);
}

/// Rules: A-73.
#[tokio::test(start_paused = true)]
async fn strangers_do_not_take_the_places_of_clients() {
    let limits = Limits::default().max_connections(2).max_unauthenticated(3);
    let harness = Harness::with(|builder| builder.limits(limits));
    let one = harness.connect().await;
    let mut strangers: Vec<_> = (0..10).map(|_| harness.stream()).collect();
    let other = harness.connect().await;
    // Two clients, and two strangers: the other took the place of one before it had authenticated.
    assert_eq!(harness.server.connections(), 4);
    let began = Instant::now();
    let mut rest = Vec::new();
    for stranger in &mut strangers[..8] {
        stranger.read_to_end(&mut rest).await.unwrap();
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    let refused = harness.try_connect(consign_amqp::engine::Options::default()).await.unwrap_err();
    assert_eq!(condition(&refused), "amqp:resource-limit-exceeded");
    drop((one, other, strangers));
}

/// Rules: A-74.
#[tokio::test(start_paused = true)]
async fn one_link_more_in_a_connection_ends_its_session() {
    let harness = Harness::with(|builder| builder.limits(Limits::default().max_connection_links(3)));
    let connection = harness.connect().await;
    let (first, second) = (connection.begin().await.unwrap(), connection.begin().await.unwrap());
    let one = sender(&first, "orders").await;
    sender(&first, "orders").await.detach().await.unwrap();
    let two = sender(&second, "orders").await;
    let three = sender(&second, "orders").await;
    let error = try_sender(&second, "orders").await.unwrap_err();
    assert_eq!(condition(&error), "amqp:resource-limit-exceeded");
    assert!(two.send(message("a")).await.is_err() && three.send(message("a")).await.is_err());
    // The other session goes on, and the links of the ended one have left their places.
    assert_eq!(one.send(message("a")).await.unwrap(), Some(accepted()));
    let third = connection.begin().await.unwrap();
    let _links = (sender(&third, "orders").await, sender(&third, "orders").await);
}

#[tokio::test(start_paused = true)]
async fn a_connection_over_the_limit_is_told_so() {
    let harness = Harness::with(|builder| builder.limits(Limits::default().max_connections(2)));
    let (one, other) = (harness.connect().await, harness.connect().await);
    let refused = harness.try_connect(consign_amqp::engine::Options::default()).await.unwrap_err();
    assert_eq!(condition(&refused), "amqp:resource-limit-exceeded");
    one.close().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let session = harness.connect().await.begin().await.unwrap();
    sender(&session, "orders").await;
    drop(other);
}

/// Some clients begin two sessions for each sender or receiver.
#[tokio::test(start_paused = true)]
async fn a_connection_has_hundreds_of_sessions_and_links() {
    let harness = Harness::new();
    let connection = harness.try_connect(consign_amqp::engine::Options::default().max_sessions(2_000)).await.unwrap();
    let mut links = Vec::new();
    for _ in 0..1_100 {
        links.push(sender(&connection.begin().await.unwrap(), "orders").await);
    }
    links.last().unwrap().send(message("a")).await.unwrap();
}

/// Attacks: 88.
#[tokio::test(start_paused = true)]
async fn links_and_sessions_over_the_limit_end_what_they_are_on() {
    let limits = Limits::default().max_links(2).max_sessions(2);
    let harness = Harness::with(|builder| builder.limits(limits));
    let connection = harness.connect().await;
    let session = connection.begin().await.unwrap();
    let mut links = Vec::new();
    let refused = loop {
        match try_sender(&session, "orders").await {
            Ok(link) => links.push(link),
            Err(error) => break error,
        }
    };
    assert!(links.len() <= 4, "{}", links.len());
    assert!(matches!(refused, Error::Command(_) | Error::Ended(_) | Error::Closed(_)), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_closes_connections_and_refuses_new_ones() {
    let harness = Harness::new();
    let connection = harness.connect().await;
    let session = connection.begin().await.unwrap();
    send(&session, "orders", &["a"]).await;
    let mut link = receiver(&session, "orders").await;
    receive(&mut link).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = tokio::spawn({
        let server = harness.server.clone();
        async move { server.serve(listener).await }
    });
    let (closed, ()) = tokio::join!(connection.closed(), harness.server.shutdown());
    assert_eq!(condition(&closed), "amqp:connection:forced");
    serving.await.unwrap().unwrap();
    let queue = harness.broker().queue("orders").unwrap();
    assert_eq!((queue.counts().active, queue.counts().locked), (1, 0));
    // A later one is closed too.
    let late = harness.try_connect(consign_amqp::engine::Options::default()).await;
    match late {
        Ok(late) => assert_eq!(condition(&late.closed().await), "amqp:connection:forced"),
        Err(error) => assert!(matches!(error, Error::Closed(_)), "{error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_closed() {
    let timeouts = Timeouts::default().silence(Duration::from_secs(30));
    let harness = Harness::with(|builder| builder.timeouts(timeouts));
    let connection = harness.connect().await;
    assert_eq!(connection.peer().idle_time_out, Some(15_000));
    // Our client sends empty frames.
    timeout(Duration::from_secs(50), connection.closed()).await.unwrap_err();
    assert!(!matches!(connection.close().await, Err(Error::Closed(Reason::Violation(_)))));
}

/// Attacks: 86.
/// Bytes that are no AMQP, and a well-behaved client beside them.
#[tokio::test(start_paused = true)]
async fn garbage_ends_its_connection_alone() {
    use tokio::io::AsyncWriteExt;

    let harness = Harness::new();
    let session = harness.session().await;
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..50 {
        let mut stream = harness.stream();
        let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(200).collect();
        let _ = stream.write_all(&bytes).await;
        let mut rest = Vec::new();
        timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    }
    send(&session, "orders", &["a"]).await;
}
