//! What the scenarios share.

use std::{error::Error, fmt::Debug, time::Duration};

use azservicebus::{
    ServiceBusClient, ServiceBusClientOptions, ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiver,
    ServiceBusReceiverOptions, ServiceBusSender, ServiceBusSessionReceiver, SubQueue, core::BasicRetryPolicy,
};
use serde_json::Value;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;
pub(crate) type Client = ServiceBusClient<BasicRetryPolicy>;

pub(crate) const SUBSCRIPTION: &str = "all";
/// For a message that is in the entity.
pub(crate) const WAIT: Duration = Duration::from_secs(20);
/// For a message that must not be there.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

/// The server, and the entity of a scenario.
pub(crate) struct Context {
    settings: Value,
    pub(crate) entity: String,
}

impl Context {
    pub(crate) const fn new(settings: Value, entity: String) -> Self {
        Self { settings, entity }
    }

    /// A client with the key of a setting. A call fails after the first attempt, so that a refusal is seen at once.
    pub(crate) async fn client_of(&self, setting: &str) -> Result<Client, Failure> {
        let connection = self.settings[setting].as_str().ok_or("no connection string")?;
        // The client has a function for plain TCP, connects to the port 5672 then, and refuses what it does not have.
        let connection = connection.replace(":5672", "").replace(";UseDevelopmentEmulator=true", "");
        let mut options = ServiceBusClientOptions::default();
        options.retry_options.set_max_retries(0)?;
        Ok(ServiceBusClient::unsecured().new_from_connection_string(connection, options).await?)
    }

    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        self.client_of("connection").await
    }

    pub(crate) async fn sender(&self, client: &mut Client) -> Result<ServiceBusSender, Failure> {
        Ok(client.create_sender(&self.entity, Default::default()).await?)
    }

    /// Sends by a sender of its own. The session of a client fails after a link of it is dropped without `dispose`.
    pub(crate) async fn send<M, I>(&self, client: &mut Client, messages: M) -> Result<(), Failure>
    where
        M: IntoIterator<Item = I>,
        M::IntoIter: ExactSizeIterator + Send,
        I: Into<ServiceBusMessage>,
    {
        let mut sender = self.sender(client).await?;
        sender.send_messages(messages).await?;
        Ok(sender.dispose().await?)
    }

    pub(crate) async fn receiver(&self, client: &mut Client) -> Result<ServiceBusReceiver, Failure> {
        Ok(client.create_receiver_for_queue(&self.entity, Default::default()).await?)
    }

    pub(crate) async fn dead_letters(&self, client: &mut Client) -> Result<ServiceBusReceiver, Failure> {
        let options = ServiceBusReceiverOptions { sub_queue: SubQueue::DeadLetter, ..Default::default() };
        Ok(client.create_receiver_for_queue(&self.entity, options).await?)
    }

    pub(crate) async fn subscription(&self, client: &mut Client) -> Result<ServiceBusReceiver, Failure> {
        Ok(client.create_receiver_for_subscription(&self.entity, SUBSCRIPTION, Default::default()).await?)
    }

    pub(crate) async fn session(&self, client: &mut Client, id: &str) -> Result<ServiceBusSessionReceiver, Failure> {
        Ok(client.accept_session_for_queue(&self.entity, id, Default::default()).await?)
    }
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

pub(crate) fn text(message: &ServiceBusReceivedMessage) -> Result<String, Failure> {
    Ok(String::from_utf8(message.body()?.to_vec())?)
}

pub(crate) async fn one(receiver: &mut ServiceBusReceiver) -> Result<ServiceBusReceivedMessage, Failure> {
    Ok(receiver.receive_message_with_max_wait_time(WAIT).await?.ok_or("no message within the wait")?)
}

pub(crate) async fn nothing(receiver: &mut ServiceBusReceiver) -> Result<(), Failure> {
    let message = receiver.receive_message_with_max_wait_time(SHORT).await?;
    same("what is left", message.as_ref().map(text).transpose()?, None::<String>)
}

/// The bodies of so many messages, which are completed.
pub(crate) async fn bodies(receiver: &mut ServiceBusReceiver, count: usize) -> Result<Vec<String>, Failure> {
    let mut bodies = Vec::new();
    while bodies.len() < count {
        let message = one(receiver).await?;
        bodies.push(text(&message)?);
        receiver.complete_message(&message).await?;
    }
    Ok(bodies)
}
