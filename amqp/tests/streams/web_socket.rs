use consign_amqp::{
    bytes::Bytes,
    client::{Connection, Connector},
    server::Acceptor,
    stream::{ErrorKind, Subprotocol, WebSocketOptions},
};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::{self, Message, protocol::frame::coding::CloseCode};

use super::{Node, client_of_web_socket, exchange, options, peers, serve, server_of_web_socket};

/// Rules: A-69.
#[tokio::test(start_paused = true)]
async fn the_ends_of_messages_mean_nothing() {
    for seed in 0..40 {
        let node = Node::new();
        let (near, middle) = tokio::io::duplex(4_096);
        let (other, far) = tokio::io::duplex(4_096);
        serve(&node, server_of_web_socket(), far);
        let relay = tokio::spawn(async move {
            let near = peers::server(middle, Some("AMQPWSB10")).await;
            peers::relay(near, peers::service_bus_client(other).await, seed).await;
        });
        let stream = client_of_web_socket().handshake(near).await.unwrap();
        exchange(stream).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        relay.abort();
    }
}

/// Rules: A-69.
#[tokio::test(start_paused = true)]
async fn a_protocol_header_and_the_open_are_separate_messages() {
    // The server's end.
    let (near, far) = tokio::io::duplex(4_096);
    serve(&Node::new(), server_of_web_socket(), far);
    let mut client = peers::service_bus_client(near).await;
    client.send(Message::Binary(Bytes::from_static(b"AMQP\x03\x01\0\0"))).await.unwrap();
    assert_eq!(peers::binary(&mut client).await, &b"AMQP\x03\x01\0\0"[..]);
    let mechanisms = peers::binary(&mut client).await;
    assert_eq!(mechanisms.get(5), Some(&1), "a SASL frame");

    // The client's end, whose open does not wait for an answer.
    let (near, far) = tokio::io::duplex(4_096);
    let opening = tokio::spawn(async move {
        let stream = client_of_web_socket().handshake(near).await.unwrap();
        Connection::open(stream, options()).await.map(drop)
    });
    let mut server = peers::server(far, Some("AMQPWSB10")).await;
    let header = peers::binary(&mut server).await;
    assert_eq!(header.len(), 8);
    assert!(header.starts_with(b"AMQP"));
    assert!(!peers::binary(&mut server).await.starts_with(b"AMQP"));
    opening.abort();
}

/// Rules: A-69.
#[tokio::test(start_paused = true)]
async fn a_text_message_is_refused_with_a_code() {
    let (near, far) = tokio::io::duplex(4_096);
    serve(&Node::new(), server_of_web_socket(), far);
    let mut client = peers::service_bus_client(near).await;
    client.send(Message::text("AMQP")).await.unwrap();
    assert_eq!(close_code(&mut client).await, CloseCode::Unsupported);

    let (near, far) = tokio::io::duplex(4_096);
    let reading = tokio::spawn(async move {
        let mut stream = client_of_web_socket().handshake(near).await.unwrap();
        let error = stream.read_u8().await.unwrap_err();
        (error.kind(), stream.read(&mut [0]).await.unwrap())
    });
    let mut server = peers::server(far, Some("AMQPWSB10")).await;
    server.send(Message::text("AMQP")).await.unwrap();
    assert_eq!(close_code(&mut server).await, CloseCode::Unsupported);
    assert_eq!(reading.await.unwrap(), (std::io::ErrorKind::InvalidData, 0));
}

async fn close_code(socket: &mut peers::Socket) -> CloseCode {
    loop {
        match socket.next().await.unwrap().unwrap() {
            Message::Close(frame) => return frame.unwrap().code,
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other}"),
        }
    }
}

/// Rules: A-69.
#[tokio::test(start_paused = true)]
async fn a_message_over_the_limit_is_refused_with_a_code() {
    for (size, whole, passes) in [(1_000, true, true), (1_001, true, false), (600, false, false)] {
        let (near, far) = tokio::io::duplex(4_096);
        let options = WebSocketOptions::service_bus().max_message_size(1_000);
        let reading = tokio::spawn(async move {
            let mut stream = Acceptor::new().web_socket(options).accept(far).await.unwrap();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.map(|_| bytes.len()).map_err(|error| error.kind())
        });
        let mut client = peers::service_bus_client(near).await;
        if whole {
            client.send(Message::Binary(vec![0; size].into())).await.unwrap();
        } else {
            use tokio_tungstenite::tungstenite::protocol::frame::{
                Frame,
                coding::{Data, OpCode},
            };
            for (code, last) in [(Data::Binary, false), (Data::Continue, true)] {
                client.send(Message::Frame(Frame::message(vec![0; size], OpCode::Data(code), last))).await.unwrap();
            }
        }
        if passes {
            client.close(None).await.unwrap();
            assert_eq!(reading.await.unwrap(), Ok(size));
        } else {
            assert_eq!(close_code(&mut client).await, CloseCode::Size);
            assert_eq!(reading.await.unwrap(), Err(std::io::ErrorKind::InvalidData));
        }
    }
}

/// Rules: A-69.
#[tokio::test(start_paused = true)]
async fn a_ping_is_answered_while_nothing_else_is_sent() {
    let (near, far) = tokio::io::duplex(4_096);
    serve(&Node::new(), server_of_web_socket(), far);
    let mut client = peers::service_bus_client(near).await;
    client.send(Message::Ping(Bytes::from_static(b"there?"))).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Pong(Bytes::from_static(b"there?")));
}

/// Rules: A-69.
#[tokio::test(start_paused = true)]
async fn a_close_of_the_peer_ends_the_stream_and_is_answered() {
    let (near, far) = tokio::io::duplex(4_096);
    let reading = tokio::spawn(async move {
        let mut stream = server_of_web_socket().accept(far).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        assert!(stream.write_all(b"late").await.is_err());
        stream.shutdown().await.unwrap();
        bytes
    });
    let mut client = peers::service_bus_client(near).await;
    client.send(Message::Binary(Bytes::from_static(b"all of it"))).await.unwrap();
    client.send(Message::Close(None)).await.unwrap();
    assert!(matches!(client.next().await, Some(Ok(Message::Close(_)))));
    assert_eq!(reading.await.unwrap(), b"all of it");
}

/// Rules: A-69.
#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_a_close_is_an_error() {
    let (near, far) = tokio::io::duplex(4_096);
    let reading = tokio::spawn(async move {
        let mut stream = server_of_web_socket().accept(far).await.unwrap();
        stream.read_u8().await.unwrap_err().kind()
    });
    drop(peers::service_bus_client(near).await);
    assert_eq!(reading.await.unwrap(), std::io::ErrorKind::UnexpectedEof);
}

/// Rules: A-69.
#[tokio::test(start_paused = true)]
async fn a_path_or_subprotocol_that_the_server_does_not_speak_is_refused() {
    let both = WebSocketOptions::service_bus().subprotocols([Subprotocol::Amqp, Subprotocol::ServiceBus]);
    let path = "/$servicebus/websocket";
    for (path, offers, expected) in [
        (path, &["AMQPWSB10"][..], Ok("AMQPWSB10")),
        (path, &["binary", "AMQPWSB10", "amqp"], Ok("AMQPWSB10")),
        ("/$servicebus/websocket?a=b", &["amqp"], Ok("amqp")),
        ("/", &["amqp"], Err(404)),
        ("/$servicebus/websocket/", &["amqp"], Ok("amqp")),
        ("/$servicebus/websocket/a", &["amqp"], Err(404)),
        (path, &["mqtt"], Err(400)),
        (path, &[], Err(400)),
    ] {
        let (near, far) = tokio::io::duplex(4_096);
        let acceptor = Acceptor::new().web_socket(both.clone());
        let accepting = tokio::spawn(async move { acceptor.accept(far).await });
        let outcome = peers::client(near, path, offers).await;
        let accepted = accepting.await.unwrap();
        match (expected, outcome) {
            (Ok(_), Ok(_)) => assert!(accepted.is_ok()),
            (Err(status), Err(tungstenite::Error::Http(answer))) => {
                assert_eq!(answer.status().as_u16(), status);
                let kind = ErrorKind::WebSocket { status: Some(status) };
                assert_eq!(accepted.unwrap_err().kind(), kind);
            }
            (_, outcome) => panic!("{path} {offers:?}: {:?}", outcome.map(drop)),
        }
    }
}

/// Rules: A-69.
#[tokio::test(start_paused = true)]
async fn a_server_that_takes_no_subprotocol_of_the_client_is_refused() {
    for answer in [None, Some("mqtt")] {
        let (near, far) = tokio::io::duplex(4_096);
        tokio::spawn(peers::server(far, answer));
        let error = client_of_web_socket().handshake(near).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WebSocket { status: None });
    }
    let (near, far) = tokio::io::duplex(4_096);
    tokio::spawn(async move { server_of_web_socket().accept(far).await });
    let options = WebSocketOptions::new("/elsewhere").subprotocols([Subprotocol::ServiceBus]);
    let error = Connector::new("::1", 80).web_socket(options).handshake(near).await.unwrap_err();
    assert_eq!(error.to_string(), "the WebSocket handshake was refused with HTTP status 404");
}
