//! The transports of this repository, by the URLs of their brokers:
//!
//! | URL | broker |
//! |---|---|
//! | `memory:` | the embedded broker, in this process |
//! | `file:PATH` | the embedded broker, in the folder at `PATH` |
//! | `amqp://guest:guest@127.0.0.1:5672/%2f`, `amqps:` | RabbitMQ |
//! | `amqp10://127.0.0.1:5672`, `amqps10:` | any broker of AMQP 1.0 |
//! | `nats://127.0.0.1:4222`, `tls:` | NATS JetStream |
//! | `postgres://user:password@127.0.0.1:5432/database`, `postgresql:` | PostgreSQL |
//! | `servicebus://key-name:key@example.servicebus.windows.net` | Azure Service Bus |
//! | `servicebus://any:any@127.0.0.1:5672?emulator=true` | `consign serve`, or another server for development |
//!
//! `consumer` runs on each of them without a change. AMQP 1.0 and the transport of Service Bus create no queues, so there it needs the
//! name of a queue that exists; on AMQP 1.0, with its dead-letter queue. `tour` and `multi_format` declare their queues, and run on
//! all others.
#![forbid(unsafe_code)]

use consign::{broker, transport::TransportRegistry};

/// Returns a registry of all transports.
#[must_use]
pub fn transports() -> TransportRegistry {
    TransportRegistry::new()
        .with(broker::connector())
        .with(consign_amqp10::connector())
        .with(consign_nats::connector())
        .with(consign_postgres::connector())
        .with(consign_rabbitmq::connector())
        .with(consign_servicebus::connector())
}
