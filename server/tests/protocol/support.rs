//! A server on a virtual clock, and clients of it.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use consign_amqp::{
    bytes::Bytes,
    client::{Connection, Error, Options, ReceiverLink, SenderLink, Session},
    codec,
    engine::{self, Delivery, OutboundDelivery},
    message::{ApplicationProperties, Body, EncodedMessage, MessageAnnotations, MessageId, Properties, Sections},
    types::{
        Accepted, Attach, DeliveryState, Error as AmqpError, Modified, ReceiverSettleMode, Rejected, Released, Source,
        Target,
    },
    value::{Map, Str, Symbol, Uuid, Value},
};
use consign_broker::{Broker, Quirks};
use consign_core::time::{Clock, Moment, Timestamp};
use consign_server::{Builder, Server};
use tokio::time::Instant;

/// The clock of tokio, which a test can pause.
pub(crate) struct TokioClock {
    began: Instant,
}

impl TokioClock {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Moment {
        let elapsed = self.began.elapsed();
        Moment { elapsed, utc: START.saturating_add(elapsed) }
    }
}

/// The time at which every test begins.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

pub(crate) fn broker() -> Broker {
    Broker::with_clock(TokioClock::new())
}

pub(crate) fn broker_with(quirks: Quirks) -> Broker {
    Broker::with_quirks(TokioClock::new(), quirks)
}

/// A server, and connections to it.
pub(crate) struct Harness {
    pub(crate) server: Server,
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub(crate) fn with(build: impl FnOnce(Builder) -> Builder) -> Self {
        Self { server: build(Server::builder().broker(broker())).build() }
    }

    pub(crate) fn broker(&self) -> &Broker {
        self.server.broker()
    }

    /// The client's end of a stream to the server.
    pub(crate) fn stream(&self) -> tokio::io::DuplexStream {
        let (client, server) = tokio::io::duplex(1 << 16);
        tokio::spawn(self.server.serve_stream(server));
        client
    }

    pub(crate) async fn connect(&self) -> Connection {
        self.try_connect(engine::Options::default()).await.unwrap()
    }

    pub(crate) async fn try_connect(&self, engine: engine::Options) -> Result<Connection, Error> {
        Connection::open(self.stream(), Options::new("client").engine(engine).timeout(LONG)).await
    }

    /// A session of a connection of its own. The connection is kept by the session.
    pub(crate) async fn session(&self) -> Session {
        self.connect().await.begin().await.unwrap()
    }
}

/// Longer than any test.
pub(crate) const LONG: Duration = Duration::from_secs(86_400);

fn name() -> Str {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("link-{}", NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

pub(crate) async fn sender(session: &Session, address: &str) -> SenderLink {
    try_sender(session, address).await.unwrap()
}

pub(crate) async fn try_sender(session: &Session, address: &str) -> Result<SenderLink, Error> {
    session.attach_sender(name(), address).await
}

/// A receiver in peek-lock mode, without credit.
pub(crate) async fn receiver(session: &Session, address: &str) -> ReceiverLink {
    try_receiver(session, address).await.unwrap()
}

pub(crate) async fn try_receiver(session: &Session, address: &str) -> Result<ReceiverLink, Error> {
    session.attach_receiver_with(receiver_attach(address)).await
}

pub(crate) fn receiver_attach(address: &str) -> Attach {
    let source = Source { address: Some(address.into()), ..Source::default() };
    Attach {
        name: name(),
        source: Some(Box::new(source)),
        target: Some(Target::default().into()),
        rcv_settle_mode: ReceiverSettleMode::Second,
        ..Attach::default()
    }
}

/// An attach of a receiver for a session: that of an id, or the next.
pub(crate) fn session_attach(address: &str, id: Option<&str>) -> Attach {
    let mut attach = receiver_attach(address);
    let mut filter = Map::default();
    filter.push(Symbol::from_static("com.microsoft:session-filter"), id.map(Value::from));
    attach.source.as_mut().unwrap().filter = Some(filter);
    attach
}

pub(crate) async fn session_receiver(session: &Session, address: &str, id: Option<&str>) -> ReceiverLink {
    session.attach_receiver_with(session_attach(address, id)).await.unwrap()
}

/// An encoded message with a body.
pub(crate) fn message(body: &str) -> Bytes {
    encode(&sections(body))
}

pub(crate) fn sections(body: &str) -> Sections {
    Sections { body: Body::Data(vec![body.as_bytes().to_vec().into()]), ..Sections::default() }
}

pub(crate) fn encode(sections: &Sections) -> Bytes {
    codec::encode(sections).unwrap()
}

/// A message of a session.
pub(crate) fn of_session(body: &str, session: &str) -> Bytes {
    let properties = Properties { group_id: Some(session.into()), ..Properties::default() };
    encode(&Sections { properties: Some(properties), ..sections(body) })
}

/// A message with an annotation.
pub(crate) fn annotated(body: &str, name: &'static str, value: impl Into<Value>) -> Bytes {
    let mut annotations = consign_amqp::message::Annotations::default();
    annotations.push(Symbol::from_static(name), value);
    encode(&Sections { message_annotations: Some(MessageAnnotations(annotations)), ..sections(body) })
}

/// A delivery, decoded.
pub(crate) fn read(delivery: Delivery) -> Sections {
    decode(delivery.payload.into_bytes())
}

pub(crate) fn decode(encoded: Bytes) -> Sections {
    Sections::decode(&EncodedMessage::split(encoded).unwrap()).unwrap()
}

/// The text of the body.
pub(crate) fn body(sections: &Sections) -> &str {
    match &sections.body {
        Body::Data(data) => str::from_utf8(&data[0]).unwrap(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn text_of(delivery: &Delivery) -> String {
    body(&decode(delivery.payload.clone().into_bytes())).to_owned()
}

/// Sends messages with these bodies.
pub(crate) async fn send(session: &Session, address: &str, bodies: &[&str]) {
    let link = sender(session, address).await;
    for body in bodies {
        assert_eq!(link.send(message(body)).await.unwrap(), Some(accepted()));
    }
    link.detach().await.unwrap();
}

/// Receives one message, with a credit for it alone.
pub(crate) async fn receive(link: &mut ReceiverLink) -> Delivery {
    link.set_credit(1).unwrap();
    link.recv().await.unwrap()
}

/// The bodies of the messages that a link has, none of them settled.
pub(crate) async fn drain(link: &mut ReceiverLink) -> Vec<String> {
    link.set_credit(100).unwrap();
    link.drain().await.unwrap();
    let mut bodies = Vec::new();
    while let Ok(Ok(delivery)) = tokio::time::timeout(Duration::from_millis(1), link.recv()).await {
        bodies.push(text_of(&delivery));
    }
    bodies
}

/// Settles a delivery, and returns the state that the server confirms.
pub(crate) async fn settle(link: &ReceiverLink, delivery: &Delivery, state: impl Into<DeliveryState>) -> DeliveryState {
    link.settler().settle_confirmed(delivery.id, &state.into()).await.unwrap().unwrap()
}

pub(crate) async fn complete(link: &ReceiverLink, delivery: &Delivery) {
    assert_eq!(settle(link, delivery, Accepted {}).await, accepted());
}

pub(crate) fn accepted() -> DeliveryState {
    Accepted {}.into()
}

pub(crate) fn released() -> DeliveryState {
    Released {}.into()
}

pub(crate) fn abandoned() -> DeliveryState {
    DeliveryState::Modified(Modified::default())
}

pub(crate) fn deferred() -> DeliveryState {
    DeliveryState::Modified(Modified { undeliverable_here: true, ..Modified::default() })
}

pub(crate) fn rejected(error: Option<AmqpError>) -> DeliveryState {
    DeliveryState::Rejected(Box::new(Rejected { error }))
}

/// The condition of a rejection.
pub(crate) fn condition_of(state: &DeliveryState) -> &str {
    match state {
        DeliveryState::Rejected(rejected) => rejected.error.as_ref().map_or("none", |error| error.condition.as_str()),
        other => panic!("{other:?}"),
    }
}

/// The condition of a failed attach, and that the server has reported all of it.
pub(crate) fn refused<T>(outcome: Result<T, Error>) -> String {
    let error = outcome.err().expect("the attach is refused");
    let reported = error.reported().unwrap_or_else(|| panic!("{error}"));
    assert!(reported.description.is_some());
    reported.condition.to_string()
}

/// The sequence number of a message.
pub(crate) fn sequence_number(sections: &Sections) -> i64 {
    match annotation(sections, "x-opt-sequence-number") {
        Some(Value::Long(number)) => number,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn annotation(sections: &Sections, name: &str) -> Option<Value> {
    sections.message_annotations.as_ref()?.0.get(name).cloned()
}

/// The lock token of a delivery, by its tag.
pub(crate) fn token(delivery: &Delivery) -> Uuid {
    Uuid::from_guid_bytes(delivery.tag.as_ref().try_into().unwrap())
}

/// A client of a node that answers requests.
pub(crate) struct Requester {
    sender: SenderLink,
    receiver: ReceiverLink,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) properties: ApplicationProperties,
    pub(crate) correlation_id: Option<MessageId>,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn status(&self) -> i32 {
        match self.properties.get("statusCode").or_else(|| self.properties.get("status-code")) {
            Some(Value::Int(status)) => *status,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn condition(&self) -> Option<&str> {
        self.properties.get("errorCondition").and_then(Value::as_str)
    }

    pub(crate) fn field(&self, name: &str) -> &Value {
        match &self.body {
            Value::Map(map) => map.get(name).unwrap(),
            other => panic!("{other:?}: {:?}", self.properties),
        }
    }
}

impl Requester {
    /// Attaches to a node, such as `orders/$management`. The links have no addresses of their own, as those of Python.
    pub(crate) async fn attach(session: &Session, node: &str) -> Self {
        let sender = sender(session, node).await;
        let mut receiver = receiver(session, node).await;
        receiver.set_automatic_credit(10).unwrap();
        Self { sender, receiver }
    }

    pub(crate) async fn call(&mut self, operation: &str, body: impl Into<Value>) -> Answer {
        self.call_with(operation, &[], None, body).await
    }

    pub(crate) async fn call_with(
        &mut self,
        operation: &str,
        more: &[(&str, Value)],
        state: Option<DeliveryState>,
        body: impl Into<Value>,
    ) -> Answer {
        let mut properties = ApplicationProperties::default();
        properties.push("operation", operation);
        for (name, value) in more {
            properties.push(*name, value.clone());
        }
        let id = MessageId::Uuid(Uuid([7; 16]));
        let sections = Sections {
            properties: Some(Properties { message_id: Some(id.clone()), ..Properties::default() }),
            application_properties: Some(properties),
            body: Body::Value(body.into()),
            ..Sections::default()
        };
        let delivery = OutboundDelivery { state, ..OutboundDelivery::default() };
        let outcome = self.sender.send_with(delivery, &[encode(&sections)]).await.unwrap();
        assert_eq!(outcome, Some(accepted()));
        let delivery = self.receiver.recv().await.unwrap();
        assert!(delivery.settled);
        let answer = read(delivery);
        let answer = Answer {
            properties: answer.application_properties.unwrap(),
            correlation_id: answer.properties.and_then(|properties| properties.correlation_id),
            body: match answer.body {
                Body::Value(value) => value,
                other => panic!("{other:?}"),
            },
        };
        assert_eq!(answer.correlation_id, Some(id));
        answer
    }
}

/// A map of a request.
pub(crate) fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map {
    fields.into_iter().map(|(name, value)| (Value::from(name), value)).collect()
}

/// A queue with sessions, and these messages: a body and the id of a session.
pub(crate) async fn with_messages(messages: &[(&str, &str)]) -> Harness {
    let harness = Harness::new();
    let settings = consign_core::administration::QueueSettings::default().requires_session(true);
    harness.broker().create_queue("orders", settings).unwrap();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    for (body, id) in messages {
        assert_eq!(link.send(of_session(body, id)).await.unwrap(), Some(accepted()));
    }
    harness
}
