//! What the suite of all transports does not show: lost connections, options, and the differences between brokers.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../support/mod.rs"]
mod support;

mod dead_letters;
mod foreign;
mod lost;
mod on_rabbitmq;
mod plugin;
mod receiving;
mod replies;
mod sending;
mod settling;
mod stub;
mod too_large;
mod urls;

use std::time::Duration;

use consign::{
    Message,
    message::EntityPath,
    transport::{ReceiveMode, Sender, Transport},
};
use consign_amqp10::{Amqp10, Amqp10Receiver, Options};

use crate::support::{managed::Queues, proton::Proton, unique};

/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(30);

/// A queue on a broker of Qpid Proton.
struct Bench {
    proton: Proton,
    amqp: Amqp10,
    queue: EntityPath,
}

impl Bench {
    async fn new() -> Option<Self> {
        Self::with(Amqp10::options()).await
    }

    async fn with(options: Options) -> Option<Self> {
        let proton = Proton::start().await?;
        let amqp = options.connect(&proton.url()).await.unwrap();
        let queue = EntityPath::new(&unique("queue")).unwrap();
        for name in [queue.clone(), queue.dead_letter()] {
            proton.queues().create(name.as_str()).await.unwrap();
        }
        Some(Self { proton, amqp, queue })
    }

    async fn send<const N: usize>(&self, bodies: [&'static str; N]) {
        let sender = self.amqp.sender(&self.queue).await.unwrap();
        for body in bodies {
            sender.send(Message::new(body)).await.unwrap();
        }
    }

    async fn receiver(&self) -> Amqp10Receiver {
        receiver(&self.amqp, &self.queue).await
    }
}

async fn receiver(amqp: &Amqp10, queue: &EntityPath) -> Amqp10Receiver {
    amqp.receiver(queue, ReceiveMode::PeekLock).await.unwrap()
}

fn text(message: &Message) -> &str {
    std::str::from_utf8(message.payload().unwrap_or_default()).unwrap()
}

fn count(message: &Message) -> u32 {
    message.received().map_or(0, |received| received.delivery_count)
}
