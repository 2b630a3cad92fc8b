//! A queue with its dead letters, wherever a URL says:
//!
//! | URL | broker |
//! |---|---|
//! | `memory:` | the embedded one, in this process |
//! | `amqp://guest:guest@127.0.0.1:5672/%2f`, `amqps:` | RabbitMQ |
//! | `nats://127.0.0.1:4222`, `tls:` | NATS JetStream |
//! | `postgres://user:password@127.0.0.1:5432/database`, `postgresql:` | PostgreSQL |
//!
//! Each broker has a type of its own, so a program that takes a URL is written once, over [`Place`], and compiled for each:
//! [`visit`] connects and calls it.
#![forbid(unsafe_code)]

use std::future::Future;

use consign::{
    administration::QueueSettings,
    broker::{Broker, QueueReceiver, QueueSender},
    message::EntityPath,
    transport::{Receiver, Sender},
};
use consign_nats::{Nats, NatsReceiver, NatsSender};
use consign_postgres::{Postgres, PostgresReceiver, PostgresSender};
use consign_rabbitmq::RabbitMq;
use tower::BoxError;

/// A queue and its dead-letter sub-queue.
pub trait Place: Send + Sync + 'static {
    /// Sends to the queue.
    type Sender: Sender;
    /// Receives from either.
    type Receiver: Receiver + 'static;

    /// What sends to the queue.
    fn sender(&self) -> impl Future<Output = Result<Self::Sender, BoxError>> + Send;

    /// What receives from the queue.
    fn receiver(&self) -> impl Future<Output = Result<Self::Receiver, BoxError>> + Send;

    /// What receives its dead letters.
    fn dead_letters(&self) -> impl Future<Output = Result<Self::Receiver, BoxError>> + Send;

    /// Deletes the queue with all that is in it, and ends the connection.
    fn delete(self) -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// What is done at a place.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<P: Place>(self, place: P) -> impl Future<Output = Result<Self::Output, BoxError>>;
}

/// Makes the queue at the broker of this URL, and calls the visitor.
pub async fn visit<V: Visitor>(url: &str, queue: &str, visitor: V) -> Result<V::Output, BoxError> {
    let path = EntityPath::new(queue)?;
    match url.split_once(':').unwrap_or((url, "")).0 {
        "memory" => {
            let broker = Broker::new();
            broker.create_queue(queue, QueueSettings::default())?;
            visitor.visit(At { broker, path }).await
        }
        "amqp" | "amqps" => {
            let broker = RabbitMq::connect(url).await?;
            broker.create_queue(queue, consign_rabbitmq::QueueSettings::default()).await?;
            visitor.visit(At { broker, path }).await
        }
        "nats" | "tls" => {
            let broker = Nats::connect(url).await?;
            broker.create_queue(queue, consign_nats::QueueSettings::default()).await?;
            visitor.visit(At { broker, path }).await
        }
        "postgres" | "postgresql" => {
            let broker = Postgres::connect(url).await?;
            broker.migrate().await?;
            broker.create_queue(queue, QueueSettings::default()).await?;
            visitor.visit(At { broker, path }).await
        }
        scheme => Err(format!("{scheme}: is none of memory:, amqp:, nats: and postgres:").into()),
    }
}

/// A queue at one broker.
struct At<B> {
    broker: B,
    path: EntityPath,
}

macro_rules! place {
    ($broker:ty, $sender:ty, $receiver:ty, |$at:ident| $close:expr) => {
        impl Place for At<$broker> {
            type Sender = $sender;
            type Receiver = $receiver;

            async fn sender(&self) -> Result<$sender, BoxError> {
                Ok(self.broker.sender(self.path.as_str()).await?)
            }

            async fn receiver(&self) -> Result<$receiver, BoxError> {
                Ok(self.broker.receiver(self.path.as_str()).await?)
            }

            async fn dead_letters(&self) -> Result<$receiver, BoxError> {
                Ok(self.broker.receiver(self.path.dead_letter().as_str()).await?)
            }

            async fn delete(self) -> Result<(), BoxError> {
                let $at = self;
                $at.broker.delete($at.path.as_str()).await?;
                $close;
                Ok(())
            }
        }
    };
}

place!(Nats, NatsSender, NatsReceiver, |at| at.broker.close().await?);
place!(Postgres, PostgresSender, PostgresReceiver, |at| drop(at.broker));

impl Place for At<RabbitMq> {
    type Sender = consign_rabbitmq::RabbitMqSender;
    type Receiver = consign_rabbitmq::RabbitMqReceiver;

    async fn sender(&self) -> Result<Self::Sender, BoxError> {
        Ok(self.broker.sender(self.path.as_str())?)
    }

    async fn receiver(&self) -> Result<Self::Receiver, BoxError> {
        Ok(self.broker.receiver(self.path.as_str())?)
    }

    async fn dead_letters(&self) -> Result<Self::Receiver, BoxError> {
        Ok(self.broker.receiver(self.path.dead_letter().as_str())?)
    }

    async fn delete(self) -> Result<(), BoxError> {
        self.broker.delete(self.path.as_str()).await?;
        self.broker.close().await;
        Ok(())
    }
}

impl Place for At<Broker> {
    type Sender = QueueSender;
    type Receiver = QueueReceiver;

    async fn sender(&self) -> Result<QueueSender, BoxError> {
        Ok(self.broker.queue(self.path.as_str())?.sender()?)
    }

    async fn receiver(&self) -> Result<QueueReceiver, BoxError> {
        Ok(self.broker.queue(self.path.as_str())?.receiver())
    }

    async fn dead_letters(&self) -> Result<QueueReceiver, BoxError> {
        Ok(self.broker.queue(self.path.as_str())?.dead_letter().receiver())
    }

    async fn delete(self) -> Result<(), BoxError> {
        Ok(self.broker.delete(self.path.as_str())?)
    }
}
