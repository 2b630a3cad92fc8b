//! The client of fe2o3-amqp.

use std::{collections::VecDeque, hint::black_box, time::Instant};

use consign_amqp::codec;
use fe2o3_amqp::{
    Connection, Receiver, Sendable, Sender, Session,
    connection::ConnectionHandle,
    link::receiver::CreditMode,
    sasl_profile::SaslProfile,
    session::SessionHandle,
    types::{
        messaging::{Body, Outcome},
        primitives::Value,
    },
};
use tokio::net::TcpStream;

use crate::{Failure, Server, WINDOW, sample};

async fn open(server: &Server) -> Result<(ConnectionHandle<()>, SessionHandle<()>), Failure> {
    let stream = TcpStream::connect(&server.address).await?;
    stream.set_nodelay(true)?;
    let profile = SaslProfile::Plain { username: "guest".into(), password: "guest".into() };
    let builder =
        Connection::builder().container_id("loopback").sasl_profile(profile).scheme("amqp").hostname("localhost");
    let mut connection = builder.open_with_stream(stream).await?;
    let session = Session::begin(&mut connection).await?;
    Ok((connection, session))
}

pub(crate) async fn send(server: &Server, messages: u32) -> Result<Instant, Failure> {
    let (mut connection, mut session) = open(server).await?;
    let mut sender = Sender::attach(&mut session, "sender", server.queue).await?;
    let message = Sendable::from(sample::peer_decode(&codec::encode(&sample::sent())?));
    let began = Instant::now();
    let mut unsettled = VecDeque::new();
    for _ in 0..messages {
        if unsettled.len() == WINDOW as usize
            && let Some(first) = unsettled.pop_front()
        {
            accepted(first.await?);
        }
        unsettled.push_back(sender.send_batchable_ref(&message).await?);
    }
    for outcome in unsettled {
        accepted(outcome.await?);
    }
    // RabbitMQ's plugin confirms a close by a detach, which the client takes for a failure.
    let _detached = sender.detach().await.map_err(|(_, error)| error)?;
    session.end().await?;
    connection.close().await?;
    Ok(began)
}

fn accepted(outcome: Outcome) {
    assert!(matches!(outcome, Outcome::Accepted(_)));
}

pub(crate) async fn receive(server: &Server, messages: u32) -> Result<Instant, Failure> {
    let (mut connection, mut session) = open(server).await?;
    let builder = Receiver::builder().name("receiver").source(server.queue);
    let began = Instant::now();
    let mut receiver = builder.credit_mode(CreditMode::Auto(WINDOW)).attach(&mut session).await?;
    for _ in 0..messages {
        let delivery = receiver.recv::<Body<Value>>().await?;
        receiver.accept(&delivery).await?;
        black_box(delivery);
    }
    let _detached = receiver.detach().await.map_err(|(_, error)| error)?;
    session.end().await?;
    connection.close().await?;
    Ok(began)
}
