//! URLs: several addresses, parameters, and errors without secrets.

use consign::{
    Message,
    administration::Administration,
    transport::{ConnectErrorKind, ErrorKind, ManageError, ReceiveMode, ReceiverExt, Sender, Transport},
};
use consign_conformance::faults::Proxy;
use consign_rabbitmq::lapin::{Connection, ConnectionProperties, options::QueueDeclareOptions, types::FieldTable};

use crate::{SOON, connect, counted, declared, end, registry, settings, support};

const REFUSING: &str = "127.0.0.1:1";

/// The address of the server in its parts: scheme and login, host and port, virtual host.
fn parts() -> (String, String, String) {
    let address = support::address();
    let (login, rest) = address.rsplit_once('@').expect("a login");
    let (server, rest) = rest.split_once('/').expect("a virtual host");
    (login.to_owned(), server.to_owned(), rest.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_addresses_are_tried_in_turn_also_to_connect_again() {
    let Some(transport) = connect().await else { return };
    let orders = declared(&transport, "orders", settings()).await;
    let (login, server, rest) = parts();
    let server = tokio::net::lookup_host(server).await.unwrap().find(std::net::SocketAddr::is_ipv4).unwrap();
    let (first, second) = (Proxy::to(server).await.unwrap(), Proxy::to(server).await.unwrap());
    let hosts = format!("{REFUSING},{},{}", first.address(), second.address());
    let url = format!("{login}@{hosts}/{rest}?timeout=5s&backoff=20ms&max_backoff=200ms");
    let failing = registry().connect(&url).await.unwrap();
    let sender = failing.sender(&orders).await.unwrap();
    sender.send(Message::new("one")).await.unwrap();
    // The next one takes over when the first is lost, and gives back when it is lost itself.
    for (lost, back) in [(&first, &second), (&second, &first)] {
        back.refuse(false);
        lost.refuse(true);
        lost.cut();
        let sending = async {
            while let Err(error) = sender.send(Message::new("again")).await {
                assert!(error.is_retryable() || error.is_outcome_unknown(), "{error}");
            }
        };
        tokio::time::timeout(SOON, sending).await.unwrap();
    }
    let mut receiver = transport.receiver(&orders, ReceiveMode::ReceiveAndDelete).await.unwrap();
    for _ in 0..3 {
        drop(receiver.receive_within(SOON).await.unwrap());
    }
    failing.close().await.unwrap();
    end(transport, &[&orders]).await;
}

#[tokio::test]
async fn parameters_are_checked_before_a_connection_is_made() {
    use ConnectErrorKind::{InvalidParameter, InvalidUrl, UnknownParameter};
    for (name, parameters, kind) in [
        ("frame_max", "frame_max=s3cret", UnknownParameter),
        ("time_out", "timeout=5s&time_out=s3cret", UnknownParameter),
        ("timeout", "timeout=s3cret", InvalidParameter),
        ("timeout", "timeout=0ms", InvalidParameter),
        ("timeout", "timeout=1441m", InvalidParameter),
        ("heartbeat", "heartbeat=1500ms", InvalidParameter),
        ("heartbeat", "heartbeat=0s", InvalidParameter),
        ("backoff", "backoff=2000m", InvalidParameter),
        ("max_backoff", "backoff=2s&max_backoff=1s", InvalidParameter),
        ("linger", "linger=-1s", InvalidParameter),
        ("delays", "delays=", InvalidParameter),
        ("sends_in_flight", "sends_in_flight=0", InvalidParameter),
        ("sends_in_flight", "sends_in_flight=65537", InvalidParameter),
        ("session_slots", "session_slots=65", InvalidParameter),
        ("certificates", "certificates=/nowhere/s3cret.pem", InvalidParameter),
    ] {
        let url = format!("amqp://ledger:s3cret@{REFUSING}/%2f?{parameters}");
        let error = registry().connect(&url).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert_eq!(error.kind(), kind, "{parameters}: {text}");
        assert!(text.contains(&format!("`{name}`")) && !text.contains("s3cret"), "{parameters}: {text}");
    }
    for url in ["amqp:s3cret", "amqp://ledger:s3cret@one,,two/", "amqps://ledger:s3cret@one:s3cret/"] {
        let error = registry().connect(url).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(error.kind() == InvalidUrl && !text.contains("s3cret"), "{url}: {text}");
    }
}

#[tokio::test]
async fn no_error_of_a_connection_has_the_password() {
    let all = "timeout=5s&heartbeat=5s&backoff=1ms&max_backoff=2ms&linger=0s&name=s3cret&delays=d&sends_in_flight=2&session_slots=3";
    let url = format!("amqp://ledger:s3cret@{REFUSING},{REFUSING}/%2f?{all}");
    let error = registry().connect(&url).await.unwrap_err();
    let source = std::error::Error::source(&error).and_then(<dyn std::error::Error>::downcast_ref::<ManageError>);
    assert_eq!(source.map(ManageError::kind), Some(ErrorKind::CommunicationProblem));
    assert_eq!(error.kind(), ConnectErrorKind::Connection);
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");

    // A server that refuses the login.
    let Some(transport) = connect().await else { return };
    let (_, server, rest) = parts();
    let error = registry().connect(&format!("amqp://ledger:s3cret@{server}/{rest}")).await.unwrap_err();
    let source = std::error::Error::source(&error).and_then(<dyn std::error::Error>::downcast_ref::<ManageError>);
    assert_eq!(source.map(ManageError::kind), Some(ErrorKind::Unauthorized), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    end(transport, &[]).await;
}

#[tokio::test]
async fn the_session_slots_of_a_url_are_those_of_what_it_declares() {
    let Some(transport) = connect().await else { return };
    let bills = declared(&transport, "bills", settings().requires_session(true)).await;
    // Two, by the URL: a client with another number finds them by what is stored.
    let rabbit = transport.extension::<consign_rabbitmq::RabbitMq>().unwrap();
    let message = |id: &str| Message::builder().session_id(id.to_owned()).build("a bill").unwrap();
    rabbit.sender(bills.as_str()).unwrap().send(message("a")).await.unwrap();
    let four = registry().connect(&crate::url("session_slots=4")).await.unwrap();
    four.declare(&bills, &settings().requires_session(true).into()).await.unwrap();
    four.sender(&bills).await.unwrap().send(message("b")).await.unwrap();
    counted(&transport, &bills, (2, 0)).await;
    four.close().await.unwrap();
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let last = format!("{bills}/$slot-01-02");
    channel.queue_declare(last.as_str().into(), passive, FieldTable::default()).await.unwrap();
    connection.close(200, "OK".into()).await.unwrap();
    end(transport, &[&bills]).await;
}
