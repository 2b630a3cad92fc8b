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
    time::{Clock, SystemClock},
    transport::{AcceptSession, Capability, ReceiveMode, ReceiverExt, SendService, Sender, Session, Sessions},
};
use serde_json::{Value, json};

use crate::{
    alone::LONGEST,
    contestant::{Error, Unexpected, body},
    processes::Server,
    report::median,
};

/// Messages of one kind in a round.
const MESSAGES: usize = 200;

/// How far ahead messages are scheduled. All of them are sent before.
const AHEAD: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Abandoned,
    DeadLettered,
    Scheduled,
    InSession,
    SessionEach,
    Call,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Plain,
        Self::Abandoned,
        Self::DeadLettered,
        Self::Scheduled,
        Self::InSession,
        Self::SessionEach,
        Self::Call,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Abandoned => "abandoned",
            Self::DeadLettered => "dead-lettered",
            Self::Scheduled => "scheduled",
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
pub(crate) async fn measure<T: Sessions + Administration>(
    transport: T,
    server: &Server,
    rounds: usize,
    prefix: &str,
) -> Result<Value, Error> {
    let mut queues = Queues::new(transport, prefix).await?;
    let client = queues.caller().await?;
    let schedules = queues.transport.capabilities().supports(Capability::Scheduling);
    let kinds = Kind::ALL.into_iter().filter(|kind| schedules || *kind != Kind::Scheduled);
    let mut costs: Vec<(Kind, Vec<Cost>)> = kinds.map(|kind| (kind, Vec::new())).collect();
    // The first round is not counted.
    for round in 0..=rounds {
        for (kind, costs) in &mut costs {
            let (before, began) = (server.cpu()?, Instant::now());
            let idle = queues.handle(*kind, &client).await?;
            let worked = began.elapsed().saturating_sub(idle);
            let (seconds, after) = (worked.as_secs_f64() / MESSAGES as f64, server.cpu()?);
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
    Ok(json!({ "kinds": costs.iter().map(figure).collect::<Vec<_>>() }))
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

    /// Sends and handles messages of one kind, one after the other. Returns for how long it has waited for scheduled ones.
    async fn handle(
        &mut self,
        kind: Kind,
        client: &Client<Requester<SendService<T::Sender>>>,
    ) -> Result<Duration, Error> {
        let text = "x".repeat(self.body.len());
        let in_session = |id: &str| Message::builder().session_id(id.to_owned()).build(self.body.clone());
        let due = (Instant::now() + AHEAD, SystemClock::new().now().utc.saturating_add(AHEAD));
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
                Kind::Scheduled => {
                    let message = Message::builder().scheduled_enqueue_time(due.1).build(self.body.clone())?;
                    self.sender.send(message).await?;
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
        if kind != Kind::Scheduled {
            return Ok(Duration::ZERO);
        }
        let idle = due.0.checked_duration_since(Instant::now()).ok_or(Unexpected("the sends took too long"))?;
        tokio::time::sleep(idle).await;
        for _ in 0..MESSAGES {
            self.receiver.receive_within(LONGEST).await?.complete().await?;
        }
        Ok(idle)
    }

    async fn delete(self) -> Result<(), Error> {
        for queue in [&self.plain, &self.sessions, &self.requests, &self.replies] {
            self.transport.delete(queue).await?;
        }
        Ok(())
    }
}
