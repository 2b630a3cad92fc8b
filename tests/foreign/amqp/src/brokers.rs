//! The client of this library beside brokers on the containers of Qpid Proton and rhea. Each case has a broker of its own.

use std::{process::Stdio, time::Duration};

use bytes::Bytes;
use consign_amqp::{
    client::{Connection, Connector, Options, ReceiverLink, Session},
    codec::{Encoder, decode},
    engine::{self, Delivery, SaslCredentials},
    message::{Data, EncodedMessage, Section},
    stream::{Subprotocol, WebSocketOptions},
    types::{Accepted, DeliveryState, Modified, Rejected, Released, condition},
};
use futures_util::future::LocalBoxFuture;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::sleep,
};
use tower::BoxError;

use crate::{node_clients::Environment, suite::same};

/// Those of the broker and of the client. On a busy machine an empty frame can be late by seconds.
const IDLE: Duration = Duration::from_secs(8);

/// A broker of its own for a case, stopped when this is dropped.
struct Broker {
    _process: Child,
    port: u16,
}

impl Broker {
    async fn start(env: &Environment) -> Result<Self, BoxError> {
        Self::run(env.python("proton_broker.py")).await
    }

    async fn run(mut command: Command) -> Result<Self, BoxError> {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(process.stdout.take().ok_or("no standard output")?).lines();
        let port = lines.next_line().await?.ok_or("the broker did not start")?.parse()?;
        Ok(Self { _process: process, port })
    }

    async fn connect(&self, credentials: Option<SaslCredentials>) -> Result<Connection, BoxError> {
        self.connect_with(options(credentials)).await
    }

    async fn connect_with(&self, options: Options) -> Result<Connection, BoxError> {
        Ok(Connection::connect(("127.0.0.1", self.port), options).await?)
    }
}

fn options(credentials: Option<SaslCredentials>) -> Options {
    let mut engine = engine::Options::default().max_message_size(2 << 20);
    engine.sasl_client = credentials;
    Options::new("client").timeout(Duration::from_secs(20)).engine(engine)
}

type Outcome<'e> = LocalBoxFuture<'e, Result<(), BoxError>>;

/// A message with a body of bytes.
fn message(body: impl Into<Bytes>) -> Result<Bytes, BoxError> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.encode(&Data(body.into().into()));
    encoder.finish()?;
    Ok(bytes.into())
}

async fn send(session: &Session, address: &str, body: impl Into<Bytes>) -> Result<(), BoxError> {
    let sender = session.attach_sender(format!("to {address}"), address).await?;
    same("the outcome", sender.send(message(body)?).await?, Some(accepted()))?;
    Ok(sender.detach().await?)
}

async fn attach(session: &Session, address: &str) -> Result<ReceiverLink, BoxError> {
    Ok(session.attach_receiver(format!("from {address}"), address).await?)
}

/// The body of a delivery, and its delivery count.
fn read(delivery: &Delivery) -> Result<(Bytes, u32), BoxError> {
    let message = EncodedMessage::split(delivery.payload.clone().into_bytes())?;
    let count = message.header()?.map_or(0, |header| header.delivery_count);
    let body: Data = decode(&message.from_section(Section::Body))?;
    Ok((body.0.0, count))
}

fn accepted() -> DeliveryState {
    Accepted {}.into()
}

pub(crate) fn settlements(env: &Environment) -> Outcome<'_> {
    Box::pin(async {
        let broker = Broker::start(env).await?;
        let session = broker.connect(Some(SaslCredentials::anonymous())).await?.begin().await?;
        let mut receiver = attach(&session, "orders").await?;
        let failed = Modified { delivery_failed: true, ..Modified::default() };
        let rejected: DeliveryState = Rejected { error: None }.into();
        // With the confirmation of the broker, and without.
        for confirmed in [true, false] {
            send(&session, "orders", "1").await?;
            let states = [Released {}.into(), failed.clone().into(), accepted(), rejected.clone()];
            for (state, count) in states.into_iter().zip([0, 0, 1, 0]) {
                if state == rejected {
                    send(&session, "orders", "1").await?;
                }
                receiver.set_credit(1)?;
                let delivery = receiver.recv().await?;
                same("the delivery", read(&delivery)?, (Bytes::from_static(b"1"), count))?;
                if confirmed {
                    let outcome = receiver.settler().settle_confirmed(delivery.id, &state).await?;
                    same("the outcome", outcome, Some(state))?;
                } else {
                    same("the deliveries", receiver.settle([delivery.id], &state)?, 1_usize)?;
                }
            }
        }
        let mut dead = attach(&session, "dead/orders").await?;
        for _ in 0..2 {
            dead.set_credit(1)?;
            let delivery = dead.recv().await?;
            dead.settle([delivery.id], &accepted())?;
        }
        dead.set_credit(1)?;
        Ok(dead.drain().await?)
    })
}

pub(crate) fn large(env: &Environment) -> Outcome<'_> {
    Box::pin(async {
        let broker = Broker::start(env).await?;
        let session = broker.connect(None).await?.begin().await?;
        let body: Bytes = (0..1_u32 << 20).map(|n| u8::try_from(n * 31 % 251).unwrap_or_default()).collect();
        send(&session, "large", body.clone()).await?;
        let mut receiver = attach(&session, "large").await?;
        receiver.set_credit(1)?;
        let delivery = receiver.recv().await?;
        same("the body is the same", read(&delivery)?.0 == body, true)?;
        same("the deliveries", receiver.settle([delivery.id], &accepted())?, 1_usize)
    })
}

pub(crate) fn drain_and_detach(env: &Environment) -> Outcome<'_> {
    Box::pin(async {
        let broker = Broker::start(env).await?;
        let session = broker.connect(None).await?.begin().await?;
        for body in ["1", "2"] {
            send(&session, "orders", body).await?;
        }
        let mut first = attach(&session, "orders").await?;
        first.set_credit(10)?;
        first.drain().await?;
        for body in ["1", "2"] {
            same("the delivery", read(&first.recv().await?)?, (Bytes::from_static(body.as_bytes()), 0))?;
        }
        // The credit is used up: this is not sent.
        send(&session, "orders", "3").await?;
        first.drain().await?;
        first.detach().await?;
        // What the link had locked is available again, in its order.
        let mut second = attach(&session, "orders").await?;
        second.set_automatic_credit(10)?;
        for body in ["1", "2", "3"] {
            let delivery = second.recv().await?;
            same("the delivery", read(&delivery)?.0, Bytes::from_static(body.as_bytes()))?;
            same("the outcome", second.settler().settle_confirmed(delivery.id, &accepted()).await?, Some(accepted()))?;
        }
        Ok(second.detach().await?)
    })
}

pub(crate) fn refusals(env: &Environment) -> Outcome<'_> {
    Box::pin(async {
        let broker = Broker::start(env).await?;
        let connection = broker.connect(None).await?;
        let session = connection.begin().await?;
        let outcomes = [
            session.attach_sender("a", "missing").await.map(drop),
            session.attach_receiver("b", "missing").await.map(drop),
        ];
        for outcome in outcomes {
            let error = outcome.err().ok_or("the link is not refused")?;
            same("the condition", error.condition(), Some(&condition::NOT_FOUND))?;
        }
        // The session goes on, and each part is ended in turn.
        send(&session, "orders", "1").await?;
        session.end().await?;
        Ok(connection.close().await?)
    })
}

pub(crate) fn idle(env: &Environment) -> Outcome<'_> {
    Box::pin(async {
        let broker = Broker::start(env).await?;
        let mut options = options(Some(SaslCredentials::anonymous()));
        options.engine.idle_timeout = Some(IDLE);
        let connection = broker.connect_with(options).await?;
        let session = connection.begin().await?;
        same("the broker has an idle timeout", connection.peer().idle_time_out.is_some(), true)?;
        sleep(IDLE * 3 / 2).await;
        send(&session, "orders", "1").await?;
        drop(session);
        Ok(connection.close().await?)
    })
}

pub(crate) fn web_socket(env: &Environment) -> Outcome<'_> {
    Box::pin(async {
        let broker = Broker::run(env.javascript("rhea_broker.mjs")).await?;
        for subprotocol in [Subprotocol::Amqp, Subprotocol::ServiceBus] {
            let socket = WebSocketOptions::new("/").subprotocols([subprotocol]);
            let stream = Connector::new("127.0.0.1", broker.port).web_socket(socket).connect().await?;
            let connection = Connection::open(stream, options(Some(SaslCredentials::anonymous()))).await?;
            let session = connection.begin().await?;
            let body: Bytes = (0..1_u32 << 20).map(|n| u8::try_from(n * 31 % 251).unwrap_or_default()).collect();
            let sender = session.attach_sender("to large", "large").await?;
            same("the outcome", sender.send(message(body.clone())?).await?, Some(accepted()))?;
            let mut receiver = attach(&session, "large").await?;
            for state in [Released {}.into(), accepted()] {
                receiver.set_credit(1)?;
                let delivery = receiver.recv().await?;
                same("the body is the same", read(&delivery)?.0 == body, true)?;
                same("the deliveries", receiver.settle([delivery.id], &state)?, 1_usize)?;
            }
            receiver.detach().await?;
            session.end().await?;
            connection.close().await?;
        }
        Ok(())
    })
}
