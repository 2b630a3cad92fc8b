//! A connection with one session, and what the scenarios share.

use std::{error::Error, fmt::Debug, time::Duration};

use fe2o3_amqp::{
    Connection, Delivery, Receiver, Sender, Session,
    connection::ConnectionHandle,
    link::receiver::CreditMode,
    sasl_profile::SaslProfile,
    session::SessionHandle,
    types::{
        definitions::{ReceiverSettleMode, SenderSettleMode},
        messaging::{ApplicationProperties, Body, Data, Message, Outcome, Properties, Source},
        primitives::{Binary, OrderedMap, SimpleValue, Symbol, Value},
    },
};
use serde_json::Value as Json;
use tokio::time::timeout;

pub(crate) type Failure = Box<dyn Error>;
pub(crate) type Plain = Message<Data>;

/// For a message that must not be there.
const SHORT: Duration = Duration::from_millis(500);

/// The server of a file of settings.
pub(crate) struct Server(Json);

impl Server {
    pub(crate) const fn new(settings: Json) -> Self {
        Self(settings)
    }

    /// Connects with the key of a setting, by SASL PLAIN.
    pub(crate) async fn connect(&self, setting: &str, queue: &str) -> Result<Client, Failure> {
        let connection = self.0[setting].as_str().ok_or("no connection string")?;
        let part = |name: &str| {
            let found = connection.split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            found.map(str::to_owned).ok_or(format!("no {name} in the connection string"))
        };
        let profile = SaslProfile::Plain { username: part("SharedAccessKeyName")?, password: part("SharedAccessKey")? };
        let url = part("Endpoint")?.replace("sb://", "amqp://");
        let mut connection =
            Connection::builder().container_id("fe2o3").sasl_profile(profile).open(url.as_str()).await?;
        let session = Session::begin(&mut connection).await?;
        Ok(Client { connection, session, queue: queue.to_owned(), links: 0 })
    }
}

pub(crate) struct Client {
    connection: ConnectionHandle<()>,
    pub(crate) session: SessionHandle<()>,
    pub(crate) queue: String,
    links: u32,
}

impl Client {
    pub(crate) fn link(&mut self) -> String {
        self.links += 1;
        format!("link {}", self.links)
    }

    pub(crate) async fn sender(&mut self) -> Result<Sender, Failure> {
        let (name, queue) = (self.link(), self.queue.clone());
        Ok(Sender::attach(&mut self.session, name, queue).await?)
    }

    /// Sends messages, which the server accepts.
    pub(crate) async fn send(&mut self, messages: impl IntoIterator<Item = Plain>) -> Result<(), Failure> {
        let mut sender = self.sender().await?;
        for message in messages {
            let outcome = sender.send(message).await?;
            same("the outcome", matches!(outcome, Outcome::Accepted(_)), true)?;
        }
        Ok(sender.close().await?)
    }

    /// A link in peek-lock mode whose credit is given by [`receive`].
    pub(crate) async fn receiver(&mut self, source: impl Into<Source>) -> Result<Receiver, Failure> {
        let builder = Receiver::builder().name(self.link()).source(source);
        let builder = builder.receiver_settle_mode(ReceiverSettleMode::Second).credit_mode(CreditMode::Manual);
        Ok(builder.attach(&mut self.session).await?)
    }

    pub(crate) async fn of_queue(&mut self) -> Result<Receiver, Failure> {
        let queue = self.queue.clone();
        self.receiver(queue).await
    }

    /// A link of a session of the queue, or of the next one.
    pub(crate) async fn of_session(&mut self, id: Option<&str>) -> Result<Receiver, Failure> {
        let mut filter = OrderedMap::new();
        let id = id.map_or(Value::Null, |id| Value::String(id.to_owned()));
        filter.insert(Symbol::from("com.microsoft:session-filter"), id);
        let source = Source::builder().address(self.queue.clone()).filter(filter).build();
        self.receiver(source).await
    }

    /// A link in receive-and-delete mode.
    pub(crate) async fn deleting(&mut self) -> Result<Receiver, Failure> {
        let builder = Receiver::builder().name(self.link()).source(self.queue.clone());
        let builder = builder.sender_settle_mode(SenderSettleMode::Settled).credit_mode(CreditMode::Manual);
        Ok(builder.attach(&mut self.session).await?)
    }

    pub(crate) async fn close(mut self) -> Result<(), Failure> {
        self.session.end().await?;
        Ok(self.connection.close().await?)
    }
}

/// Requests to the `$management` of a queue.
pub(crate) struct Management {
    requests: Sender,
    answers: Receiver,
}

impl Management {
    pub(crate) async fn of(client: &mut Client) -> Result<Self, Failure> {
        let address = format!("{}/$management", client.queue);
        let name = client.link();
        let requests = Sender::attach(&mut client.session, name, address.clone()).await?;
        let builder = Receiver::builder().name(client.link()).source(address).target("answers");
        Ok(Self { requests, answers: builder.attach(&mut client.session).await? })
    }

    /// The status and the body of the answer.
    pub(crate) async fn call(&mut self, operation: &str, body: &[(&str, Value)]) -> Result<(i32, Value), Failure> {
        let mut map = OrderedMap::new();
        for (name, value) in body {
            map.insert(Value::String((*name).to_owned()), value.clone());
        }
        let operation = SimpleValue::String(format!("com.microsoft:{operation}"));
        let request = Message::builder()
            .properties(Properties::builder().message_id("request".to_owned()).reply_to("answers").build())
            .application_properties(ApplicationProperties::builder().insert("operation", operation).build())
            .value(Value::Map(map))
            .build();
        self.requests.send(request).await?;
        let answer = self.answers.recv::<Body<Value>>().await?;
        self.answers.accept(&answer).await?;
        let message = answer.into_message();
        let status = message.application_properties.as_ref().and_then(|properties| properties.get("statusCode"));
        let Some(SimpleValue::Int(status)) = status else { return Err(format!("the status is {status:?}").into()) };
        let body = match message.body {
            Body::Value(value) => value.0,
            _ => Value::Null,
        };
        Ok((*status, body))
    }

    /// A field of the body of an answer whose status is 200.
    pub(crate) async fn field(
        &mut self,
        operation: &str,
        body: &[(&str, Value)],
        name: &str,
    ) -> Result<Value, Failure> {
        let (status, body) = self.call(operation, body).await?;
        same("the status", status, 200)?;
        field(&body, name)
    }
}

pub(crate) fn field(map: &Value, name: &str) -> Result<Value, Failure> {
    let Value::Map(map) = map else { return Err(format!("{map:?} is not a map").into()) };
    Ok(map.get(&Value::String(name.to_owned())).ok_or(format!("no {name}"))?.clone())
}

pub(crate) fn message(body: &[u8]) -> Plain {
    Message::builder().data(Binary::from(body)).build()
}

pub(crate) fn of_session(session: &str, body: &[u8]) -> Plain {
    let properties = Properties::builder().group_id(session.to_owned()).build();
    Message::builder().properties(properties).data(Binary::from(body)).build()
}

pub(crate) async fn receive(link: &mut Receiver) -> Result<Delivery<Data>, Failure> {
    link.set_credit(1).await?;
    Ok(link.recv().await?)
}

/// Fails if the link has a message. Credit stays with it.
pub(crate) async fn nothing(link: &mut Receiver) -> Result<(), Failure> {
    link.set_credit(1).await?;
    same("what is left", timeout(SHORT, link.recv::<Data>()).await.is_err(), true)
}

pub(crate) fn text(delivery: &Delivery<Data>) -> String {
    String::from_utf8_lossy(&delivery.body().0).into_owned()
}

pub(crate) fn same<T: PartialEq<U> + Debug, U: Debug>(what: &str, got: T, expected: U) -> Result<(), Failure> {
    if got == expected { Ok(()) } else { Err(format!("{what}: {got:?} instead of {expected:?}").into()) }
}

/// Fails unless a call failed with a text.
pub(crate) fn refused<T>(what: &str, result: Result<T, impl Debug>, text: &str) -> Result<(), Failure> {
    match result {
        Ok(_) => Err(format!("{what} is not refused").into()),
        Err(error) => {
            let error = format!("{error:?}");
            if error.contains(text) { Ok(()) } else { Err(format!("{what}: {error} instead of {text}").into()) }
        }
    }
}
