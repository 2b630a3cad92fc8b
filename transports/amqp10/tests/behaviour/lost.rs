//! Connections that are lost.

use std::time::Duration;

use consign::{
    Message,
    transport::{Delivery, ErrorKind, ReceiveMode, ReceiverExt, Sender, Transport},
};
use consign_amqp::{
    codec,
    engine::{self, CommandError, Event, OutboundDelivery},
    message::{Body, Sections},
    types::{Accepted, Error, Role, SaslCode},
    value::Symbol,
};
use consign_amqp10::{Amqp10, Options};
use consign_conformance::faults::{Direction, How, Proxy, Trip};
use tokio::{net::TcpListener, time::timeout};

use super::{Bench, SOON, count, receiver, stub, text};

fn options() -> Options {
    Amqp10::options().backoff(Duration::from_millis(10), Duration::from_millis(100))
}

/// A connection through a proxy.
async fn behind_proxy(bench: &Bench) -> (Proxy, Amqp10) {
    let proxy = Proxy::to(bench.proton.socket()).await.unwrap();
    let amqp = options().connect(&format!("amqp10://{}", proxy.address())).await.unwrap();
    (proxy, amqp)
}

/// Rules: K-271.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_a_lost_connection_settles_nothing() {
    let Some(bench) = Bench::new().await else { return };
    bench.send(["a", "b", "c", "d"]).await;
    let (proxy, amqp) = behind_proxy(&bench).await;
    let mut lost = receiver(&amqp, &bench.queue).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(lost.receive().await.unwrap());
    }
    proxy.cut();
    let mut other = bench.receiver().await;
    let again = timeout(SOON, other.receive()).await.unwrap().unwrap();
    assert_eq!((text(&again.message), count(&again.message)), ("a", 1));
    // The client opens the next link on another connection when it knows that the first one has ended.
    let knows = async { while amqp.sender(&bench.queue).await.is_err() {} };
    timeout(SOON, knows).await.unwrap();
    let [a, b, c, d] = held.try_into().unwrap();
    assert_eq!(a.complete().await.unwrap_err().kind(), ErrorKind::MessageLockLost);
    assert_eq!(b.lease_released().await.unwrap_err().kind(), ErrorKind::MessageLockLost);
    let batch = Delivery::complete_all([c, d]).await.unwrap_err();
    assert!(batch.failures().all(|(_, error)| error.kind() == ErrorKind::MessageLockLost), "{batch:?}");
    assert_eq!(batch.failures().len(), 2);
    again.complete().await.unwrap();
    for body in ["b", "c", "d"] {
        let again = timeout(SOON, other.receive()).await.unwrap().unwrap();
        assert_eq!(text(&again.message), body);
        again.complete().await.unwrap();
    }
}

trait Released {
    async fn lease_released(self) -> Result<(), consign::transport::SettleError>;
}

impl Released for Delivery<consign_amqp10::Amqp10Lease> {
    async fn lease_released(self) -> Result<(), consign::transport::SettleError> {
        consign::transport::Lease::release(self.lease).await
    }
}

/// Rules: K-270.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn senders_and_receivers_go_on_after_a_lost_connection() {
    let Some(bench) = Bench::new().await else { return };
    let (proxy, amqp) = behind_proxy(&bench).await;
    let sender = amqp.sender(&bench.queue).await.unwrap();
    let mut waiting = receiver(&amqp, &bench.queue).await;
    for round in 0..3 {
        let body = format!("{round}");
        // The outcome of the first send after the cut may be unknown.
        let sent = async { while sender.send(Message::new(body.clone())).await.is_err() {} };
        timeout(SOON, sent).await.unwrap();
        loop {
            let delivery = timeout(SOON, waiting.receive()).await.unwrap().unwrap();
            let is_next = text(&delivery.message) == body;
            delivery.complete().await.unwrap();
            if is_next {
                break;
            }
        }
        proxy.cut();
    }
}

/// A receive that waits while its connection is lost receives from the next one.
///
/// Rules: K-270.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_receive_survives_a_lost_connection() {
    let Some(bench) = Bench::new().await else { return };
    let (proxy, amqp) = behind_proxy(&bench).await;
    let mut waiting = receiver(&amqp, &bench.queue).await;
    let receiving = tokio::spawn(async move { waiting.receive().await });
    proxy.cut();
    bench.send(["a"]).await;
    let delivery = timeout(SOON, receiving).await.unwrap().unwrap().unwrap();
    assert_eq!(text(&delivery.message), "a");
    delivery.complete().await.unwrap();
}

/// Rules: A-42, K-272.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_without_an_answer_has_an_unknown_outcome() {
    let Some(bench) = Bench::new().await else { return };
    for how in [How::Before, How::After] {
        let (proxy, amqp) = behind_proxy(&bench).await;
        let sender = amqp.sender(&bench.queue).await.unwrap();
        // The next bytes to the server are the transfer.
        proxy.arm(Trip { direction: Direction::ToServer, steps: 0, how });
        let error = timeout(SOON, sender.send(Message::new("a"))).await.unwrap().unwrap_err();
        assert!(error.is_outcome_unknown() && error.is_retryable(), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::CommunicationProblem);
        sender.send(Message::new("b")).await.unwrap();
    }
    // One of the two was stored, and none was sent twice.
    let mut receiver = bench.receiver().await;
    let mut bodies = Vec::new();
    while bodies.iter().filter(|body| *body == "b").count() < 2 {
        let delivery = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
        bodies.push(text(&delivery.message).to_owned());
        delivery.complete().await.unwrap();
    }
    bodies.sort();
    assert_eq!(bodies, ["a", "b", "b"]);
}

/// Rules: K-270.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_host_is_tried_when_one_does_not_answer() {
    let Some(bench) = Bench::new().await else { return };
    let (one, two) = (Proxy::to(bench.proton.socket()).await.unwrap(), Proxy::to(bench.proton.socket()).await.unwrap());
    one.refuse(true);
    let url = format!("amqp10://{},{}", one.address(), two.address());
    let amqp = options().connect(&url).await.unwrap();
    let sender = amqp.sender(&bench.queue).await.unwrap();
    sender.send(Message::new("a")).await.unwrap();
    one.refuse(false);
    two.refuse(true);
    two.cut();
    let sent = async { while sender.send(Message::new("b")).await.is_err() {} };
    timeout(SOON, sent).await.unwrap();
    let mut receiver = amqp.receiver(&bench.queue, ReceiveMode::ReceiveAndDelete).await.unwrap();
    assert_eq!(text(&receiver.receive().await.unwrap().message), "a");
    assert_eq!(text(&receiver.receive().await.unwrap().message), "b");
}

/// Rules: K-270.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_to_connect_ends_with_the_transport() {
    let Some(bench) = Bench::new().await else { return };
    let (proxy, amqp) = behind_proxy(&bench).await;
    let sender = amqp.sender(&bench.queue).await.unwrap();
    proxy.freeze(true);
    proxy.cut();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..50 {
        let _ = timeout(Duration::from_millis(20), sender.send(Message::new("a"))).await;
    }
    assert!(tasks() < before + 10, "{} tasks, and {before} before", tasks());
    // The server does not answer, which takes half a minute to be an error.
    timeout(Duration::from_secs(15), amqp.close()).await.unwrap().unwrap();
    let error = sender.send(Message::new("a")).await.unwrap_err();
    assert!(!error.is_retryable(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_transport_does_not_connect_again() {
    let Some(bench) = Bench::new().await else { return };
    let sender = bench.amqp.sender(&bench.queue).await.unwrap();
    let mut receiver = bench.receiver().await;
    bench.amqp.close().await.unwrap();
    let sent = timeout(SOON, sender.send(Message::new("a"))).await.unwrap().unwrap_err();
    let received = timeout(SOON, receiver.receive()).await.unwrap().unwrap_err();
    assert!(!sent.is_retryable() && !received.is_retryable(), "{sent:?} {received:?}");
}

/// Rules: K-270.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_receive_survives_a_server_that_is_away_for_a_while() {
    let Some(bench) = Bench::new().await else { return };
    let (proxy, amqp) = behind_proxy(&bench).await;
    let mut waiting = receiver(&amqp, &bench.queue).await;
    let receiving = tokio::spawn(async move { waiting.receive().await });
    proxy.refuse(true);
    proxy.cut();
    // A send that fails has tried to connect.
    let sender = Amqp10::options().timeout(SOON).connect(&format!("amqp10://{}", proxy.address())).await;
    assert_eq!(sender.unwrap_err().kind(), ErrorKind::CommunicationProblem);
    tokio::time::sleep(Duration::from_millis(500)).await;
    proxy.refuse(false);
    bench.send(["a"]).await;
    let delivery = timeout(SOON, receiving).await.unwrap().unwrap().unwrap();
    assert_eq!(text(&delivery.message), "a");
    delivery.complete().await.unwrap();
}

/// Rules: K-270.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_receive_fails_if_no_connection_is_opened_within_the_timeout() {
    let Some(bench) = Bench::new().await else { return };
    let proxy = Proxy::to(bench.proton.socket()).await.unwrap();
    let options = options().timeout(Duration::from_secs(5));
    let amqp = options.connect(&format!("amqp10://{}", proxy.address())).await.unwrap();
    let mut waiting = receiver(&amqp, &bench.queue).await;
    proxy.refuse(true);
    proxy.cut();
    let error = timeout(SOON, waiting.receive()).await.unwrap().unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
}

/// The first server ends each connection at its first session.
fn answer(engine: &mut engine::Connection, event: Event, ends: bool) -> Result<(), CommandError> {
    match event {
        Event::Begun { .. } if ends => {
            let forced = Error::new(Symbol::from_static("amqp:connection:forced"), "maintenance");
            engine.close(Some(forced))
        }
        Event::AttachRequested { link, attach } => {
            let is_sender = attach.role == Role::Sender;
            stub::accept(engine, link, *attach)?;
            if is_sender { engine.credit(link, 100) } else { Ok(()) }
        }
        Event::Delivery(delivery) => {
            engine.settle(delivery.link, [delivery.id], Some(&Accepted {}.into()), true).map(drop)
        }
        _ => Ok(()),
    }
}

/// Rules: K-270.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_host_is_tried_when_one_ends_each_connection_at_its_first_session() {
    let (one, two) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let url = format!("amqp10://{},{}", one.local_addr().unwrap(), two.local_addr().unwrap());
    tokio::spawn(stub::serve(one, |engine, event| answer(engine, event, true)));
    tokio::spawn(stub::serve(two, |engine, event| answer(engine, event, false)));
    let amqp = options().connect(&url).await.unwrap();
    let path = super::EntityPath::new("orders").unwrap();
    for attempt in 0.. {
        if let Ok(sender) = timeout(SOON, amqp.sender(&path)).await.unwrap() {
            timeout(SOON, sender.send(Message::new("a"))).await.unwrap().unwrap();
            break;
        }
        assert!(attempt < 20, "the second server is not tried");
    }
}

/// Rules: K-48.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ping_does_not_wait_for_the_end_of_its_session() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::to(listener.local_addr().unwrap()).await.unwrap();
    tokio::spawn(stub::serve(listener, |_, _| Ok(())));
    let amqp = Amqp10::options().connect(&format!("amqp10://{}", proxy.address())).await.unwrap();
    // The begin passes. The end is lost with the connection.
    proxy.arm(Trip { direction: Direction::ToServer, steps: 1, how: How::Before });
    timeout(SOON, amqp.ping()).await.unwrap().unwrap();
}

/// Rules: K-48, K-270.
/// A broker may end a connection on which there are no links, as one that only pings use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_ends_after_a_ping_is_followed_by_no_pause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp10://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut sessions = 0;
            tokio::spawn(stub::serve_one(stream, move |engine, event| {
                sessions += usize::from(matches!(event, Event::Begun { .. }));
                if sessions < 2 {
                    return Ok(());
                }
                sessions = 0;
                engine.close(Some(Error::new(Symbol::from_static("amqp:connection:forced"), "no links")))
            }));
        }
    });
    // The first pause would be longer than the test may take.
    let day = Duration::from_secs(24 * 3_600);
    let amqp = Amqp10::options().backoff(day, day).connect(&url).await.unwrap();
    let pinged = async {
        for _ in 0..5 {
            // Every second one ends its connection.
            while amqp.ping().await.is_err() {}
        }
    };
    timeout(SOON, pinged).await.unwrap();
}

/// Rules: A-50.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_system_error_of_the_server_is_not_one_of_the_credentials() {
    for (code, kind, retryable) in [
        (SaslCode::Auth, ErrorKind::Unauthorized, false),
        (SaslCode::Sys, ErrorKind::CommunicationProblem, true),
        (SaslCode::SysPerm, ErrorKind::InvalidOperation, false),
        (SaslCode::SysTemp, ErrorKind::CommunicationProblem, true),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("amqp10://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            stub::serve_if(stream, code, |_, _| Ok(())).await;
        });
        let error = timeout(SOON, options().connect(&url)).await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (kind, retryable), "{error:?}");
        assert_eq!(error.to_string().contains("refused the credentials"), code == SaslCode::Auth, "{error}");
    }
}

/// The first connection ends at the receive. The second is refused with a transient error, and the third delivers.
///
/// Rules: A-50, K-270.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_receive_survives_a_transient_error_of_the_authentication() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp10://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            let code = if number == 1 { SaslCode::SysTemp } else { SaslCode::Ok };
            tokio::spawn(stub::serve_if(stream, code, move |engine, event| match event {
                Event::AttachRequested { link, attach } => stub::accept(engine, link, *attach),
                Event::CreditChanged { .. } if number == 0 => {
                    engine.close(Some(Error::new(Symbol::from_static("amqp:connection:forced"), "maintenance")))
                }
                Event::CreditChanged { link, credit: 1.., .. } => {
                    let message = Sections { body: Body::Data(vec![b"a".to_vec().into()]), ..Sections::default() };
                    engine.send(link, OutboundDelivery::default(), &[codec::encode(&message).unwrap()]).map(drop)
                }
                _ => Ok(()),
            }));
        }
    });
    let amqp = options().connect(&url).await.unwrap();
    let mut waiting = receiver(&amqp, &super::EntityPath::new("orders").unwrap()).await;
    let delivery = timeout(SOON, waiting.receive()).await.unwrap().unwrap();
    assert_eq!(text(&delivery.message), "a");
}
