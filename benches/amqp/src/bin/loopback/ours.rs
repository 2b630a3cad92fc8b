//! The client of this library.

use std::{hint::black_box, time::Instant};

use consign_amqp::{
    client::{Connection, Options, Session},
    codec,
    engine::{self, SaslCredentials},
    types::{Accepted, DeliveryState},
};
use futures_util::{StreamExt, stream};

use crate::{Failure, Server, WINDOW, sample};

async fn open(server: &Server) -> Result<(Connection, Session), Failure> {
    let mut engine = engine::Options::default();
    engine.sasl_client = Some(SaslCredentials::plain("guest", "guest"));
    let options = Options::new("loopback").engine(engine);
    let connection = Connection::connect(&*server.address, options).await?;
    let session = connection.begin().await?;
    Ok((connection, session))
}

pub(crate) async fn send(server: &Server, messages: u32) -> Result<Instant, Failure> {
    let (connection, session) = open(server).await?;
    let sender = session.attach_sender("sender", server.queue).await?;
    let accepted: Option<DeliveryState> = Some(Accepted {}.into());
    let sections = sample::sent();
    let began = Instant::now();
    let sends = (0..messages).map(|_| async { sender.send(codec::encode(&sections)?).await.map_err(Failure::from) });
    let mut outcomes = stream::iter(sends).buffer_unordered(WINDOW as usize);
    while let Some(outcome) = outcomes.next().await {
        assert_eq!(outcome?, accepted);
    }
    drop(outcomes);
    connection.close().await?;
    Ok(began)
}

pub(crate) async fn receive(server: &Server, messages: u32) -> Result<Instant, Failure> {
    let (connection, session) = open(server).await?;
    let mut receiver = session.attach_receiver("receiver", server.queue).await?;
    let accepted = Accepted {}.into();
    let began = Instant::now();
    receiver.set_automatic_credit(WINDOW)?;
    for _ in 0..messages {
        let delivery = receiver.recv().await?;
        black_box(sample::decode(&delivery.payload.into_bytes()));
        receiver.settle([delivery.id], &accepted)?;
    }
    connection.close().await?;
    Ok(began)
}
