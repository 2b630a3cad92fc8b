//! What each kind of message costs on a transport, one message after the other, beside a plain one.

use std::time::{Duration, Instant};

use bytes::Bytes;
use consign::{
    Message,
    administration::{Administration, QueueSettings},
    codecs::Codecs,
    consumer::Consumer,
    message::EntityPath,
    routing::Body,
    rpc::{Client, Fault, ReplyQueue, Requester, Responder, reply_senders},
    settlement::{DeadLetter, DeadLetterReason},
    transport::{AcceptSession, ReceiveMode, ReceiverExt, SendService, Sender, Session, Sessions},
};
use consign_nats::Nats;
use consign_postgres::Postgres;
use consign_rabbitmq::RabbitMq;
use serde_json::{Value, json};

use crate::{
    contestant::{Error, Place, Unexpected, body},
    processes::{Server, port_of},
    report::median,
    servers::{nats, postgres, variable},
};

/// Messages of one kind in a round.
const MESSAGES: usize = 200;

/// A receive that takes longer has lost a message.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Abandoned,
    DeadLettered,
    InSession,
    SessionEach,
    Call,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Plain, Self::Abandoned, Self::DeadLettered, Self::InSession, Self::SessionEach, Self::Call];

    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Abandoned => "abandoned",
            Self::DeadLettered => "dead-lettered",
            Self::InSession => "in a session",
            Self::SessionEach => "a session each",
            Self::Call => "call",
        }
    }
}

/// The queues of one transport.
struct Queues<T: Sessions> {
    transport: T,
    plain: EntityPath,
    sessions: EntityPath,
    sender: T::Sender,
    receiver: T::Receiver,
    dead: T::Receiver,
    to_sessions: T::Sender,
    source: T::SessionSource,
    requests: EntityPath,
    replies: EntityPath,
    body: Bytes,
}

/// One kind in one round.
struct Cost {
    seconds: f64,
    client: f64,
    server: Option<f64>,
}

/// Measures one transport in so many rounds.
pub(crate) async fn run(transport: &str, rounds: usize, place: Place<'_>) -> Result<Value, Error> {
    match transport {
        "rabbitmq" => {
            let address = variable("CONSIGN_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/%2f");
            measured(transport, RabbitMq::connect(&address).await?, port_of(&address), rounds, place.name).await
        }
        "nats" => {
            let (server, address, _) = nats::start(place, false).await?;
            let report =
                measured(transport, Nats::connect(&address).await?, port_of(&address), rounds, place.name).await;
            drop(server);
            report
        }
        "postgres" => {
            let address = variable("CONSIGN_POSTGRES", postgres::ADDRESS);
            let broker = Postgres::options().schema(place.name).connect(&address).await?;
            broker.migrate().await?;
            let report = measured(transport, broker.clone(), port_of(&address), rounds, "bench").await;
            broker.pool().get().await?.batch_execute(&format!("DROP SCHEMA {} CASCADE", place.name)).await?;
            report
        }
        _ => Err(Unexpected("there is no such transport").into()),
    }
}

async fn measured<T: Sessions + Administration>(
    name: &str,
    transport: T,
    port: Option<u16>,
    rounds: usize,
    prefix: &str,
) -> Result<Value, Error> {
    let server = Server::at(port)?;
    let mut queues = Queues::new(transport, prefix).await?;
    let client = queues.caller().await?;
    let mut costs: Vec<(Kind, Vec<Cost>)> = Kind::ALL.map(|kind| (kind, Vec::new())).into();
    // The first round is not counted.
    for round in 0..=rounds {
        for (kind, costs) in &mut costs {
            let (before, began) = (server.cpu()?, Instant::now());
            queues.handle(*kind, &client).await?;
            let (seconds, after) = (began.elapsed().as_secs_f64() / MESSAGES as f64, server.cpu()?);
            if round > 0 {
                let each = |after: u64, before: u64| (after - before) as f64 / 1e3 / MESSAGES as f64;
                let of_server = after.server.zip(before.server).map(|(after, before)| each(after, before));
                costs.push(Cost { seconds, client: each(after.client, before.client), server: of_server });
            }
        }
    }
    queues.delete().await?;
    let plain: Vec<f64> = costs[0].1.iter().map(|cost| cost.seconds).collect();
    let figure = |(kind, costs): &(Kind, Vec<Cost>)| {
        let servers: Option<Vec<f64>> = costs.iter().map(|cost| cost.server).collect();
        json!({
            "what": kind.name(),
            "per_second": 1.0 / median(costs.iter().map(|cost| cost.seconds)),
            "to_plain": median(costs.iter().zip(&plain).map(|(cost, plain)| cost.seconds / plain)),
            "client_us": median(costs.iter().map(|cost| cost.client)),
            "server_us": servers.map(|all| median(all.into_iter())),
        })
    };
    Ok(json!({ "transport": name, "kinds": costs.iter().map(figure).collect::<Vec<_>>() }))
}

impl<T: Sessions + Administration> Queues<T> {
    async fn new(transport: T, prefix: &str) -> Result<Self, Error> {
        let path = |name: &str| EntityPath::new(&format!("{prefix}-{name}"));
        let (plain, sessions, requests, replies) =
            (path("plain")?, path("sessions")?, path("requests")?, path("replies")?);
        for queue in [&plain, &requests, &replies] {
            transport.declare(queue, &QueueSettings::default().into()).await?;
        }
        transport.declare(&sessions, &QueueSettings::default().requires_session(true).into()).await?;
        let locks = ReceiveMode::PeekLock;
        Ok(Self {
            sender: transport.sender(&plain).await?,
            receiver: transport.receiver(&plain, locks).await?,
            dead: transport.receiver(&plain.dead_letter(), locks).await?,
            to_sessions: transport.sender(&sessions).await?,
            source: transport.sessions(&sessions).await?,
            transport,
            plain,
            sessions,
            requests,
            replies,
            body: body().into(),
        })
    }

    /// Starts a responder in this process, and returns a client of it.
    async fn caller(&self) -> Result<Client<Requester<SendService<T::Sender>>>, Error> {
        async fn echo(Body(text): Body<String>) -> Result<String, Fault> {
            Ok(text)
        }

        let locks = ReceiveMode::PeekLock;
        let responder = Responder::builder(reply_senders(self.transport.clone()))
            .codecs(Codecs::json())
            .answer("echo", echo)
            .build()?;
        tokio::spawn(Consumer::new(self.transport.receiver(&self.requests, locks).await?, responder).run());
        let replies = self.transport.receiver(&self.replies, locks).await?;
        let (requester, receiving) = Requester::builder(SendService::new(self.transport.sender(&self.requests).await?))
            .timeout(LONGEST)
            .build(ReplyQueue::new(self.replies.as_str(), replies))?;
        tokio::spawn(receiving.run());
        Ok(Client::new(requester, Codecs::json()).subject("echo"))
    }

    /// Sends and handles messages of one kind, one after the other.
    async fn handle(&mut self, kind: Kind, client: &Client<Requester<SendService<T::Sender>>>) -> Result<(), Error> {
        let text = "x".repeat(self.body.len());
        let in_session = |id: &str| Message::builder().session_id(id.to_owned()).build(self.body.clone());
        let mut session = None;
        for nth in 0..MESSAGES {
            let message = Message::new(self.body.clone());
            match kind {
                Kind::Plain => {
                    self.sender.send(message).await?;
                    self.receiver.receive_within(LONGEST).await?.complete().await?;
                }
                Kind::Abandoned => {
                    self.sender.send(message).await?;
                    self.receiver.receive_within(LONGEST).await?.abandon().await?;
                    self.receiver.receive_within(LONGEST).await?.complete().await?;
                }
                Kind::DeadLettered => {
                    self.sender.send(message).await?;
                    let why = DeadLetter::new(DeadLetterReason::HandlerPermanent, "measured");
                    self.receiver.receive_within(LONGEST).await?.dead_letter(why).await?;
                    self.dead.receive_within(LONGEST).await?.complete().await?;
                }
                Kind::InSession => {
                    self.to_sessions.send(in_session("all")?).await?;
                    if session.is_none() {
                        session = Some(self.source.accept("all").await?);
                    }
                    let Some(session) = &mut session else { continue };
                    session.receive_within(LONGEST).await?.complete().await?;
                }
                Kind::SessionEach => {
                    let id = format!("s-{nth}");
                    self.to_sessions.send(in_session(&id)?).await?;
                    let mut session = self.source.accept(&id).await?;
                    session.receive_within(LONGEST).await?.complete().await?;
                    session.close().await?;
                }
                Kind::Call => {
                    if client.call::<String>(&text).await? != text {
                        return Err(Unexpected("a reply is that of another request").into());
                    }
                }
            }
        }
        if let Some(session) = session {
            session.close().await?;
        }
        Ok(())
    }

    async fn delete(self) -> Result<(), Error> {
        for queue in [&self.plain, &self.sessions, &self.requests, &self.replies] {
            self.transport.delete(queue).await?;
        }
        Ok(())
    }
}
