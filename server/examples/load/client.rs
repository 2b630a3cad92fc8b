//! A client that works: it sends a message, receives it and completes it, again and again.

use std::{net::SocketAddr, time::Duration};

use consign_amqp::{
    client::{Connection, Options, ReceiverLink, SenderLink, Session},
    codec,
    engine::{self, SaslCredentials},
    message::{Body, Sections},
    types::{Accepted, Attach, DeliveryState, ReceiverSettleMode, Source, Target},
};
use tokio::time::Instant;

use crate::Failure;

/// Longer than any answer of a server that works.
const LONG: Duration = Duration::from_secs(60);

pub(crate) async fn connect(address: SocketAddr) -> Result<(Connection, Session), Failure> {
    let mut engine = engine::Options::default();
    engine.sasl_client = Some(SaslCredentials::plain("guest", "guest"));
    let options = Options::new("load").engine(engine).timeout(LONG);
    let connection = Connection::connect(address, options).await?;
    let session = connection.begin().await?;
    Ok((connection, session))
}

pub(crate) fn accepted() -> DeliveryState {
    Accepted {}.into()
}

/// An encoded message of so many bytes.
pub(crate) fn message(bytes: usize) -> Result<bytes::Bytes, Failure> {
    let sections = Sections { body: Body::Data(vec![vec![7; bytes].into()]), ..Sections::default() };
    Ok(codec::encode(&sections)?)
}

/// A receiver whose settlements the server confirms.
pub(crate) async fn receiver(session: &Session, name: &str, address: &str) -> Result<ReceiverLink, Failure> {
    let source = Source { address: Some(address.into()), ..Source::default() };
    let attach = Attach {
        name: name.into(),
        source: Some(Box::new(source)),
        target: Some(Target::default().into()),
        rcv_settle_mode: ReceiverSettleMode::Second,
        ..Attach::default()
    };
    Ok(session.attach_receiver_with(attach).await?)
}

/// Links to a queue and from it.
pub(crate) struct Client {
    _connection: Connection,
    _session: Session,
    sender: SenderLink,
    receiver: ReceiverLink,
    message: bytes::Bytes,
}

/// How long round trips took, in order of their length.
pub(crate) struct Times {
    sorted: Vec<Duration>,
    all: Duration,
}

impl Client {
    pub(crate) async fn new(address: SocketAddr, queue: &str) -> Result<Self, Failure> {
        let (connection, session) = connect(address).await?;
        let sender = session.attach_sender("sender", queue).await?;
        let mut receiver = receiver(&session, "receiver", queue).await?;
        receiver.set_automatic_credit(1)?;
        Ok(Self { _connection: connection, _session: session, sender, receiver, message: message(1_024)? })
    }

    /// Sends, receives and completes one message after the other for a time.
    pub(crate) async fn round_trips(&mut self, time: Duration) -> Result<Times, Failure> {
        let began = Instant::now();
        let mut sorted = Vec::new();
        while began.elapsed() < time {
            let one = Instant::now();
            if self.sender.send(self.message.clone()).await? != Some(accepted()) {
                return Err("a message was not accepted".into());
            }
            let delivery = self.receiver.recv().await?;
            self.receiver.settler().settle_confirmed(delivery.id, &accepted()).await?;
            sorted.push(one.elapsed());
        }
        let all = began.elapsed();
        sorted.sort_unstable();
        Ok(Times { sorted, all })
    }
}

impl Times {
    /// The time that a part of the round trips did not exceed, in thousandths.
    fn at(&self, part: usize) -> f64 {
        let index = (self.sorted.len() * part / 1_000).min(self.sorted.len().saturating_sub(1));
        self.sorted.get(index).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
    }
}

impl std::fmt::Display for Times {
    #[expect(clippy::cast_precision_loss, reason = "it is printed without digits")]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rate = self.sorted.len() as f64 / self.all.as_secs_f64();
        let (half, most, longest) = (self.at(500), self.at(990), self.at(1_000));
        write!(
            f,
            "{rate:.0} round trips a second, median {half:.2} ms, 99 % within {most:.2} ms, all within {longest:.2} ms"
        )
    }
}
