use std::time::Duration;

use consign_amqp::{
    client::{Connection, Error, Options},
    engine::{self, Event, Reason, SaslCredentials, Violation},
    server,
    types::{Attach, Open, Role},
};
use tokio::time::Instant;

use super::{Node, message, receiver, stream};

fn options() -> Options {
    Options::new("client").timeout(Duration::from_secs(5))
}

/// Serves a connection on which links are attached, and nothing else is answered.
async fn attach_only(stream: tokio::io::DuplexStream, credit: u32) {
    let mut connection = server::Connection::accept(stream, engine::Options::default());
    while let Some(event) = connection.next_event().await {
        connection.command(|engine| match event {
            Event::Opened(_) => engine.open(Open { container_id: "silent".into(), ..Open::default() }).unwrap(),
            Event::AttachRequested { link, attach } => {
                let answer = Attach { source: attach.source, target: attach.target, ..Attach::default() };
                engine.accept(link, answer).unwrap();
                if attach.role == Role::Sender && credit > 0 {
                    engine.credit(link, credit).unwrap();
                }
            }
            _ => {}
        });
    }
}

/// Rules: A-62.
#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_ends_in_a_timeout() {
    let (client, _server) = tokio::io::duplex(4_096);
    let began = Instant::now();
    let error = Connection::open(client, options()).await.unwrap_err();
    assert_eq!(error.to_string(), "no open within 5s");
    assert_eq!(began.elapsed(), Duration::from_secs(5), "of the paused clock");
}

/// Rules: A-62.
#[tokio::test(start_paused = true)]
async fn timeouts_that_no_clock_reaches_are_none() {
    let engine = engine::Options::default().idle_timeout(Duration::MAX).handshake_timeout(Duration::MAX);
    let node = Node::with_options(engine.clone());
    let options = options().engine(engine).timeout(Duration::MAX);
    let connection = Connection::open(stream(&node, 4_096), options).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let session = connection.begin().await.unwrap();
    let sender = session.attach_sender("s", "orders").await.unwrap();
    sender.send(message("1")).await.unwrap();
    connection.close().await.unwrap();
}

/// Rules: A-62.
#[tokio::test(start_paused = true)]
async fn a_challenge_closes_the_connection_at_once() {
    let (client, server) = tokio::io::duplex(4_096);
    tokio::spawn(async move {
        let mechanism = engine::Options::default().sasl_mechanisms(["CRAM-MD5".try_into().unwrap()]);
        let mut connection = server::Connection::accept(server, mechanism);
        while let Some(event) = connection.next_event().await {
            if let Event::SaslInit(_) = event {
                connection.command(|engine| engine.sasl_challenge(b"<1@server>".to_vec().into())).unwrap();
            }
        }
    });
    let credentials = SaslCredentials { mechanism: "CRAM-MD5".try_into().unwrap(), ..SaslCredentials::default() };
    let began = Instant::now();
    let engine = engine::Options::default().sasl_client(credentials);
    let error = Connection::open(client, options().engine(engine)).await.unwrap_err();
    let expected = "the connection is closed: the server sent a SASL challenge, and this client answers none";
    assert_eq!((error.to_string().as_str(), began.elapsed()), (expected, Duration::ZERO), "of the paused clock");
}

/// Rules: A-62.
#[tokio::test(start_paused = true)]
async fn a_send_without_credit_or_without_an_outcome_ends_in_a_timeout() {
    for (credit, text) in [(0, "no credit within 5s"), (1, "no outcome within 5s")] {
        let (client, server) = tokio::io::duplex(4_096);
        tokio::spawn(attach_only(server, credit));
        let session = Connection::open(client, options()).await.unwrap().begin().await.unwrap();
        let sender = session.attach_sender("s", "orders").await.unwrap();
        assert_eq!(sender.send(message("1")).await.unwrap_err().to_string(), text);
    }
}

/// The time that it waits for the sends before it is a part of the timeout.
/// Rules: A-62.
#[tokio::test(start_paused = true)]
async fn a_send_behind_others_ends_after_its_timeout() {
    let (client, server) = tokio::io::duplex(4_096);
    tokio::spawn(attach_only(server, 0));
    let session = Connection::open(client, options()).await.unwrap().begin().await.unwrap();
    let sender = session.attach_sender("s", "orders").await.unwrap();
    let began = Instant::now();
    let second = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let error = sender.send(message("2")).await.unwrap_err();
        (error.to_string(), began.elapsed())
    };
    let (first, second) = tokio::join!(sender.send(message("1")), second);
    assert_eq!(first.unwrap_err().to_string(), "no credit within 5s");
    assert_eq!(second, ("no credit within 5s".to_owned(), Duration::from_secs(6)), "of the paused clock");
}

/// Rules: A-62.
#[tokio::test(start_paused = true)]
async fn a_drain_without_an_answer_ends_in_a_timeout() {
    let (client, server) = tokio::io::duplex(4_096);
    tokio::spawn(attach_only(server, 0));
    let session = Connection::open(client, options()).await.unwrap().begin().await.unwrap();
    let mut receiver = receiver(&session, "orders").await;
    receiver.set_credit(1).unwrap();
    assert_eq!(receiver.drain().await.unwrap_err().to_string(), "no end of the drain within 5s");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_stays_open_while_both_ends_are_there() {
    let engine = engine::Options::default().idle_timeout(Duration::from_secs(2));
    let node = Node::with_options(engine.clone());
    let connection = Connection::open(stream(&node, 4_096), options().engine(engine)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(!connection.is_closed());
    connection.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_ends_a_receive() {
    let (client, mut server) = tokio::io::duplex(4_096);
    let (mut near, far) = tokio::io::duplex(4_096);
    tokio::spawn(Node::new().serve(far));
    let relay = tokio::spawn(async move { tokio::io::copy_bidirectional(&mut server, &mut near).await });
    let engine = engine::Options::default().idle_timeout(Duration::from_secs(2));
    let connection = Connection::open(client, options().engine(engine)).await.unwrap();
    let session = connection.begin().await.unwrap();
    let mut receiver = receiver(&session, "orders").await;
    receiver.set_credit(1).unwrap();
    let waiting = tokio::spawn(async move { receiver.recv().await });
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!waiting.is_finished(), "the node sends empty frames");
    relay.abort();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Closed(Reason::Disconnected)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_noticed_by_the_idle_timeout() {
    let (client, server) = tokio::io::duplex(4_096);
    let (held, hold) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let mut connection = server::Connection::accept(server, engine::Options::default());
        let Some(Event::Opened(_)) = connection.next_event().await else { panic!("no open") };
        connection.command(|engine| engine.open(Open { container_id: "s".into(), ..Open::default() })).unwrap();
        let _ = held.send(connection);
    });
    let engine = engine::Options::default().idle_timeout(Duration::from_secs(2));
    let client = Connection::open(Silenced { stream: client, silent_at: None }, options().engine(engine)).await;
    let client = client.unwrap();
    let _connection = hold.await.unwrap();
    let error = client.closed().await;
    assert!(
        matches!(&error, Error::Closed(Reason::Violation(violation)) if **violation == Violation::IdleTimeout),
        "{error}"
    );
}

/// Rules: A-58.
#[tokio::test(start_paused = true)]
async fn a_server_that_reads_nothing_is_noticed_by_the_idle_timeout() {
    let (client, mut server) = tokio::io::duplex(65_536);
    let (mut near, far) = tokio::io::duplex(65_536);
    let limits = engine::Options::default().max_message_size(16 << 20);
    tokio::spawn(Node::with_options(limits.clone()).serve(far));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut server, &mut near) => {}
            _ = stopped => {}
        }
        // The streams stay open.
        std::future::pending::<()>().await;
    });
    let engine = limits.idle_timeout(Duration::from_secs(2));
    let connection = Connection::open(client, options().engine(engine)).await.unwrap();
    let session = connection.begin().await.unwrap();
    let sender = session.attach_sender("s", "orders").await.unwrap();
    stop.send(()).unwrap();
    let sent = tokio::spawn(async move { sender.send(message(vec![0; 4 << 20])).await });
    let closed = tokio::time::timeout(Duration::from_secs(60), connection.closed()).await;
    let error = closed.expect("closed by the idle timeout, of the paused clock");
    assert!(
        matches!(&error, Error::Closed(Reason::Violation(violation)) if **violation == Violation::IdleTimeout),
        "{error}"
    );
    assert!(matches!(sent.await.unwrap(), Err(Error::Closed(_))));
}

/// A stream on which nothing is read from half a second after its first read on.
struct Silenced {
    stream: tokio::io::DuplexStream,
    silent_at: Option<Instant>,
}

impl tokio::io::AsyncRead for Silenced {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        let silent_at = *self.silent_at.get_or_insert_with(|| Instant::now() + Duration::from_millis(500));
        if Instant::now() >= silent_at {
            return std::task::Poll::Pending;
        }
        std::pin::Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl tokio::io::AsyncWrite for Silenced {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        std::pin::Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
