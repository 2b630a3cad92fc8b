//! RabbitMQ with its plugin for AMQP 1.0.

use std::{sync::Arc, time::Duration};

use consign::transport::{ErrorKind, ManageError};
use consign_amqp10::Amqp10;
use consign_conformance::left_out;
use lapin::{
    BasicProperties, Connection, ConnectionProperties,
    options::{QueueDeclareOptions, QueueDeleteOptions},
    types::FieldTable,
};

use super::{managed::Queues, node::Node};

/// A server, by its URL of AMQP 0-9-1.
pub(crate) struct RabbitMq {
    pub(crate) url: String,
    /// One that the test has started.
    node: Option<Node>,
}

impl RabbitMq {
    /// Returns the server that `CONSIGN_RABBITMQ` names, or starts one if that has no plugin. `None` if there is no RabbitMQ.
    pub(crate) async fn find() -> Option<Self> {
        if let Ok(url) = std::env::var("CONSIGN_RABBITMQ") {
            let connecting = Amqp10::options().timeout(Duration::from_secs(10)).connect(&of_amqp10(&url)).await;
            if let Ok(amqp) = connecting {
                let _ = consign::transport::Transport::close(&amqp).await;
                return Some(Self { url, node: None });
            }
        }
        let node = Node::start().await?;
        Some(Self { url: node.url(), node: Some(node) })
    }

    /// Returns the URL of AMQP 1.0.
    pub(crate) fn url(&self) -> String {
        of_amqp10(&self.url)
    }

    pub(crate) async fn queues(&self) -> RabbitMqQueues {
        RabbitMqQueues::connect(&self.url).await
    }
}

/// The same server, user and password, without the virtual host.
pub(crate) fn of_amqp10(url: &str) -> String {
    let rest = url.strip_prefix("amqp://").expect("a URL of AMQP 0-9-1");
    format!("amqp10://{}", rest.split('/').next().unwrap_or_default())
}

/// Queues by AMQP 0-9-1.
#[derive(Clone)]
pub(crate) struct RabbitMqQueues(Arc<Connection>);

impl RabbitMqQueues {
    pub(crate) async fn connect(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await;
        Self(Arc::new(connection.expect("a RabbitMQ that answers")))
    }

    async fn declare(&self, name: &str) -> Result<(), ManageError> {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let channel = self.0.create_channel().await.map_err(|error| failed(&error))?;
        let declared = channel.queue_declare(name.into(), options, FieldTable::default()).await;
        let _ = channel.close(200, "OK".into()).await;
        declared.map(drop).map_err(|error| failed(&error))
    }

    async fn exists(&self, name: &str) -> Result<bool, ManageError> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let channel = self.0.create_channel().await.map_err(|error| failed(&error))?;
        let exists = channel.queue_declare(name.into(), options, FieldTable::default()).await.is_ok();
        if exists {
            let _ = channel.close(200, "OK".into()).await;
        }
        Ok(exists)
    }

    /// Publishes a message by AMQP 0-9-1.
    pub(crate) async fn publish(&self, queue: &str, properties: BasicProperties, body: &[u8]) {
        let channel = self.0.create_channel().await.expect("a channel");
        channel
            .basic_publish("".into(), queue.into(), lapin::options::BasicPublishOptions::default(), body, properties)
            .await
            .expect("a connection");
        channel.close(200, "OK".into()).await.expect("a connection");
    }
}

fn failed(error: &lapin::Error) -> ManageError {
    ManageError::new(ErrorKind::General).with_detail(error.to_string())
}

impl Queues for RabbitMqQueues {
    async fn create(&self, name: &str) -> Result<(), ManageError> {
        if self.exists(name).await? {
            return Err(ManageError::new(ErrorKind::AlreadyExists));
        }
        self.declare(name).await
    }

    async fn delete(&self, name: &str) -> Result<(), ManageError> {
        if !self.exists(name).await? {
            return Err(ManageError::new(ErrorKind::EntityNotFound));
        }
        let channel = self.0.create_channel().await.map_err(|error| failed(&error))?;
        let deleted = channel.queue_delete(name.into(), QueueDeleteOptions::default()).await;
        let _ = channel.close(200, "OK".into()).await;
        deleted.map(drop).map_err(|error| failed(&error))
    }
}

/// What a test prints if there is no server.
pub(crate) fn without(what: &str) {
    left_out(&format!("{what}: there is no RabbitMQ; scripts/brokers installs it"));
}
