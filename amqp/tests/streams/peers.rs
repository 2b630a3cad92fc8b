//! Peers whose WebSocket messages the tests see.

use consign_amqp::bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::io::DuplexStream;
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async, client_async,
    tungstenite::{
        self, Message,
        client::ClientRequestBuilder,
        handshake::server::{ErrorResponse, Request, Response},
        http::HeaderValue,
        protocol::frame::{
            Frame,
            coding::{Data, OpCode},
        },
    },
};

pub(crate) type Socket = WebSocketStream<DuplexStream>;

pub(crate) async fn client(
    stream: DuplexStream,
    path: &str,
    subprotocols: &[&str],
) -> Result<Socket, tungstenite::Error> {
    let request = ClientRequestBuilder::new(format!("ws://broker.test{path}").parse().unwrap());
    let request = subprotocols.iter().fold(request, |request, name| request.with_sub_protocol(*name));
    client_async(request, stream).await.map(|(socket, _)| socket)
}

pub(crate) async fn service_bus_client(stream: DuplexStream) -> Socket {
    client(stream, "/$servicebus/websocket", &["AMQPWSB10"]).await.unwrap()
}

/// A server that answers with a subprotocol, or with none.
pub(crate) async fn server(stream: DuplexStream, subprotocol: Option<&'static str>) -> Socket {
    #[expect(clippy::result_large_err, reason = "the type is tungstenite's")]
    let answer = |_: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        if let Some(name) = subprotocol {
            response.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(name));
        }
        Ok(response)
    };
    accept_hdr_async(stream, answer).await.unwrap()
}

/// The next binary message.
pub(crate) async fn binary(socket: &mut Socket) -> Bytes {
    loop {
        match socket.next().await.unwrap().unwrap() {
            Message::Binary(bytes) => return bytes,
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other}"),
        }
    }
}

/// Passes bytes on in other messages: with other ends, in fragments, some of them empty, with pings between them.
pub(crate) async fn relay(mut near: Socket, mut far: Socket, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    loop {
        let (message, to) = tokio::select! {
            message = near.next() => (message, &mut far),
            message = far.next() => (message, &mut near),
        };
        let sent = match message {
            Some(Ok(Message::Binary(bytes))) => split(bytes, to, &mut random).await,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            _ => {
                let _ = to.close(None).await;
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn split(mut bytes: Bytes, to: &mut Socket, random: &mut fastrand::Rng) -> Result<(), tungstenite::Error> {
    while !bytes.is_empty() {
        let most = bytes.len().min(if random.bool() { 10 } else { 5_000 });
        let mut part = bytes.split_to(random.usize(0..=most));
        match random.u8(..4) {
            0 => to.send(Message::Ping(Bytes::from_static(b"still there?"))).await?,
            1 => {
                let first = part.split_to(random.usize(0..=part.len()));
                to.send(Message::Frame(Frame::message(first, OpCode::Data(Data::Binary), false))).await?;
                to.send(Message::Ping(Bytes::new())).await?;
                to.send(Message::Frame(Frame::message(part, OpCode::Data(Data::Continue), true))).await?;
                continue;
            }
            _ => {}
        }
        to.send(Message::Binary(part)).await?;
    }
    Ok(())
}
