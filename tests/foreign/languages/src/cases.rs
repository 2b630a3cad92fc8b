//! The list of cases: for each transport and language, the calls and the messages of the page.

use std::time::Duration;

use consign::administration::QueueSettings;
use consign::message::EntityPath;
use consign::transport::{ReceiveMode, Transport};
use consign_outbox_postgres::{
    Outbox, Relay,
    tokio_postgres::{Config, NoTls},
};
use tokio::time::timeout;
use tower::BoxError;

use crate::{
    amqp10,
    environment::{Environment, unique},
    page,
    service::{Order, consume, respond},
    suite::{Case, same},
};

pub(crate) const CASES: &[Case<Environment>] = &[
    Case { name: "the page has the scripts", run: |env| Box::pin(page::has_the_scripts(env)) },
    Case { name: "RabbitMQ: Python", run: |env| Box::pin(on_rabbitmq(env, "py")) },
    Case { name: "RabbitMQ: JavaScript", run: |env| Box::pin(on_rabbitmq(env, "mjs")) },
    Case { name: "RabbitMQ: FastStream", run: |env| Box::pin(on_rabbitmq(env, "faststream.py")) },
    Case { name: "NATS: Python", run: |env| Box::pin(on_nats(env, "py")) },
    Case { name: "NATS: JavaScript", run: |env| Box::pin(on_nats(env, "mjs")) },
    Case { name: "NATS, requests of core NATS: Python", run: |env| Box::pin(on_core_nats(env, "py")) },
    Case { name: "NATS, requests of core NATS: JavaScript", run: |env| Box::pin(on_core_nats(env, "mjs")) },
    Case { name: "PostgreSQL: Python", run: |env| Box::pin(on_postgres(env, "py")) },
    Case { name: "PostgreSQL: JavaScript", run: |env| Box::pin(on_postgres(env, "mjs")) },
    Case { name: "outbox, PostgreSQL: Python", run: |env| Box::pin(on_outbox(env)) },
    Case { name: "Azure Service Bus: Python", run: |env| Box::pin(on_service_bus(env, "py")) },
    Case { name: "Azure Service Bus: JavaScript", run: |env| Box::pin(on_service_bus(env, "mjs")) },
    Case { name: "AMQP 1.0, RabbitMQ: Python", run: |env| Box::pin(amqp10::on_rabbitmq(env, "py")) },
    Case { name: "AMQP 1.0, RabbitMQ: JavaScript", run: |env| Box::pin(amqp10::on_rabbitmq(env, "mjs")) },
    Case { name: "AMQP 1.0, Qpid Proton: Python", run: |env| Box::pin(amqp10::on_proton(env, "py")) },
    Case { name: "AMQP 1.0, Qpid Proton: JavaScript", run: |env| Box::pin(amqp10::on_proton(env, "mjs")) },
    Case { name: "AMQP 1.0, consign-server: Python", run: |env| Box::pin(amqp10::on_server(env, "py")) },
    Case { name: "AMQP 1.0, consign-server: JavaScript", run: |env| Box::pin(amqp10::on_server(env, "mjs")) },
];

/// Longer than it takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);
const GOOD: &str = r#"{"id":7,"total":12.5}"#;
const WRONG: &str = r#"{"id":"seven"}"#;

async fn on_rabbitmq(env: &Environment, language: &str) -> Result<(), BoxError> {
    let [requests, orders] = [unique(), unique()];
    for queue in [&requests, &orders] {
        env.rabbit.create_queue(queue, consign_rabbitmq::QueueSettings::default()).await?;
    }
    let outcome = scripts(env, &env.rabbit, &env.rabbit_url, "rabbitmq", language, ["call", &requests, &orders]).await;
    for queue in [&requests, &orders] {
        env.rabbit.delete(queue).await?;
    }
    outcome
}

async fn on_nats(env: &Environment, language: &str) -> Result<(), BoxError> {
    let [requests, orders] = [unique(), unique()];
    for queue in [&requests, &orders] {
        env.nats.create_queue(queue, consign_nats::QueueSettings::default()).await?;
    }
    let names = ["call_queue", &requests, &orders];
    let outcome = scripts(env, &env.nats, &env.nats_url, "nats", language, names).await;
    for queue in [&requests, &orders] {
        env.nats.delete(queue).await?;
    }
    outcome
}

/// The subject of a request of core NATS is its Subject, so the caller sets no header.
async fn on_core_nats(env: &Environment, language: &str) -> Result<(), BoxError> {
    let subject = format!("services.{}", unique());
    let requests = env.nats.wrap_subscription(env.nats.client().subscribe(subject.clone()).await?);
    // The server has the subscription when it has answered.
    env.nats.client().flush().await?;
    let responder = respond(&env.nats, &subject, requests)?;
    let called = calls(env, &format!("nats/call.{language}"), &env.nats_url, &subject, &[]).await;
    responder.abort();
    called
}

async fn on_postgres(env: &Environment, language: &str) -> Result<(), BoxError> {
    let [requests, orders] = [unique(), unique()];
    for queue in [&requests, &orders] {
        env.postgres.create_queue(queue, QueueSettings::default()).await?;
    }
    scripts(env, &env.postgres, &env.postgres_url, "postgres", language, ["call", &requests, &orders]).await
}

/// The script adds to the outbox, and a relay sends to the embedded broker.
async fn on_outbox(env: &Environment) -> Result<(), BoxError> {
    let orders = unique();
    env.broker.declare_queue(&orders, QueueSettings::default())?;
    let config: Config = env.postgres_url.parse()?;
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    let outbox = Outbox::default();
    outbox.create_table(&client).await?;
    let receiver = Transport::receiver(&env.broker, &EntityPath::new(&orders)?, ReceiveMode::PeekLock).await?;
    let (consumer, mut received) = consume(receiver)?;
    // A notification, and not the poll, wakes the relay.
    let relay = Relay::new(outbox, config, NoTls, env.broker.clone()).poll_interval(2 * LONG);
    let relay = tokio::spawn(relay.run_until(std::future::pending()));
    let produced = async {
        env.run("outbox/produce.py", &[&env.postgres_url, &orders, GOOD]).await?;
        let order = timeout(LONG, received.recv()).await?;
        same("the order", order, Some((Order { id: 7, total: 12.5 }, Some("north".to_owned()))))
    };
    let outcome = produced.await;
    relay.abort();
    consumer.abort();
    outcome
}

async fn on_service_bus(env: &Environment, language: &str) -> Result<(), BoxError> {
    let [requests, orders] = [unique(), unique()];
    let settings = QueueSettings::default;
    for queue in [&requests, &orders] {
        env.broker.declare_queue(queue, settings())?;
    }
    env.broker.declare_queue(&format!("{requests}-replies"), settings().requires_session(true))?;
    let names = ["call", requests.as_str(), orders.as_str()];
    scripts(env, &env.service_bus, &env.service_bus_url, "servicebus", language, names).await
}

/// A call that succeeds and one that fails.
async fn calls(env: &Environment, script: &str, url: &str, to: &str, replies: &[&str]) -> Result<(), BoxError> {
    let call = async |number| env.run(script, &[&[url, to, number], replies].concat()).await;
    same("the reply", call("42").await?.trim(), "reply 21")?;
    same("the fault", call("7").await?.trim(), "fault Odd")
}

/// The scripts of a transport, and what they are given.
pub(crate) struct Scripts<'a> {
    pub(crate) url: &'a str,
    pub(crate) call: String,
    pub(crate) produce: String,
    pub(crate) dead_letters: String,
    /// The names of the queue of requests, that of orders, and its dead letters.
    pub(crate) to: [&'a str; 3],
    /// The queue for replies, if a call is given one.
    pub(crate) replies: &'a [&'a str],
}

/// Runs the scripts of a transport that are given the names of queues.
async fn scripts<T: Transport + Clone>(
    env: &Environment,
    transport: &T,
    url: &str,
    folder: &str,
    language: &str,
    [call, requests, orders]: [&str; 3],
) -> Result<(), BoxError> {
    // FastStream cannot read a queue of this name: `faststream.py` has its calls and messages only.
    let extension = language.strip_prefix("faststream.").unwrap_or(language);
    let scripts = Scripts {
        url,
        call: format!("{folder}/{call}.{language}"),
        produce: format!("{folder}/produce.{language}"),
        dead_letters: format!("{folder}/dead_letters.{extension}"),
        to: [requests, orders, orders],
        replies: &[],
    };
    run(env, transport, [requests, orders], &scripts).await
}

/// Runs scripts against queues that exist.
pub(crate) async fn run<T: Transport + Clone>(
    env: &Environment,
    transport: &T,
    [requests, orders]: [&str; 2],
    scripts: &Scripts<'_>,
) -> Result<(), BoxError> {
    let Scripts { url, to: [to_requests, to_orders, to_dead_letters], .. } = *scripts;
    let receiver = |path: EntityPath| async move { transport.receiver(&path, ReceiveMode::PeekLock).await };
    let responder = respond(transport, "half", receiver(EntityPath::new(requests)?).await?)?;
    let called = calls(env, &scripts.call, url, to_requests, scripts.replies).await;
    responder.abort();
    called?;
    let (consumer, mut received) = consume(receiver(EntityPath::new(orders)?).await?)?;
    let produced = async {
        env.run(&scripts.produce, &[url, to_orders, WRONG]).await?;
        env.run(&scripts.produce, &[url, to_orders, GOOD]).await?;
        let order = timeout(LONG, received.recv()).await?;
        same("the order", order, Some((Order { id: 7, total: 12.5 }, Some("north".to_owned()))))?;
        let printed = env.run(&scripts.dead_letters, &[url, to_dead_letters, "1"]).await?;
        same("the dead letter", printed.trim(), format!("DeserializationFailed order {WRONG}").as_str())
    };
    let outcome = produced.await;
    consumer.abort();
    outcome
}
