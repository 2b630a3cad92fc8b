//! The scripts of AMQP 1.0, through brokers of three kinds.

use std::{path::Path, process::Stdio};

use consign::{administration::QueueSettings, message::EntityPath, transport::Transport as _};
use consign_amqp10::Amqp10;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};
use tower::BoxError;

use crate::{
    cases::{Scripts, run},
    environment::{Environment, unique},
};

/// The broker of the tests of `consign-amqp10`, which makes addresses for replies.
pub(crate) struct Proton {
    url: String,
    pub(crate) amqp: Amqp10,
    /// It ends when this is dropped.
    _process: Child,
}

impl Proton {
    pub(crate) async fn start(folder: &Path) -> Result<Self, BoxError> {
        let broker = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../transports/amqp10/tests/support/broker.py");
        let mut process = Command::new(folder.join("venv/bin/python"))
            .arg(broker)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let printed = process.stdout.take().ok_or("it has no output")?;
        let port = BufReader::new(printed).lines().next_line().await?.ok_or("it prints no port")?;
        let url = format!("amqp://127.0.0.1:{port}");
        Ok(Self { amqp: Amqp10::connect(&transport_url(&url)).await?, url, _process: process })
    }

    /// Creates a queue with its dead-letter queue, by senders to addresses that the broker takes as commands.
    async fn create_queue(&self, name: &str) -> Result<(), BoxError> {
        let queue = EntityPath::new(name)?;
        for command in ["$create/{path}", "$create/{path}/$deadletterqueue"] {
            let amqp = Amqp10::options().address(command).connect(&transport_url(&self.url)).await?;
            amqp.sender(&queue).await?;
            amqp.close().await?;
        }
        Ok(())
    }
}

/// Returns the URL for a script, without the virtual host of AMQP 0-9-1.
pub(crate) fn script_url(rabbitmq: &str) -> String {
    rabbitmq.splitn(4, '/').take(3).collect::<Vec<_>>().join("/")
}

/// Returns the URL for the transport, whose scheme is not that of AMQP 0-9-1.
pub(crate) fn transport_url(script: &str) -> String {
    script.replacen("amqp:", "amqp10:", 1)
}

/// RabbitMQ 3 makes no addresses for replies: a caller has a queue.
pub(crate) async fn on_rabbitmq(env: &Environment, language: &str) -> Result<(), BoxError> {
    let queues = [unique(), unique(), unique()];
    for queue in &queues {
        env.rabbit.create_queue(queue, consign_rabbitmq::QueueSettings::default()).await?;
    }
    let address = |queue: &str| format!("/amq/queue/{}", queue.replace('/', "%2F"));
    let outcome = scripts(env, &env.rabbit10, &script_url(&env.rabbit_url), language, &queues, address).await;
    for queue in &queues {
        env.rabbit.delete(queue).await?;
    }
    outcome
}

pub(crate) async fn on_proton(env: &Environment, language: &str) -> Result<(), BoxError> {
    let queues = [unique(), unique()];
    for queue in &queues {
        env.proton.create_queue(queue).await?;
    }
    scripts(env, &env.proton.amqp, &env.proton.url, language, &queues, str::to_owned).await
}

pub(crate) async fn on_server(env: &Environment, language: &str) -> Result<(), BoxError> {
    let queues = [unique(), unique(), unique()];
    for queue in &queues {
        env.broker.declare_queue(queue, QueueSettings::default())?;
    }
    scripts(env, &env.service_bus, &env.server_url, language, &queues, str::to_owned).await
}

/// Runs the scripts with a queue of requests, one of orders, and perhaps one for replies.
async fn scripts<T: consign::transport::Transport + Clone>(
    env: &Environment,
    transport: &T,
    url: &str,
    language: &str,
    queues: &[String],
    address: impl Fn(&str) -> String,
) -> Result<(), BoxError> {
    let [requests, orders, replies @ ..] = queues else { return Err("two queues are needed".into()) };
    let dead_letters = address(EntityPath::new(orders)?.dead_letter().as_str());
    let to = [address(requests), address(orders), dead_letters];
    let replies: Vec<_> = replies.iter().map(|queue| address(queue)).collect();
    let scripts = Scripts {
        url,
        call: format!("amqp10/call.{language}"),
        produce: format!("amqp10/produce.{language}"),
        dead_letters: format!("amqp10/dead_letters.{language}"),
        to: to.each_ref().map(String::as_str),
        replies: &replies.iter().map(String::as_str).collect::<Vec<_>>(),
    };
    run(env, transport, [requests, orders], &scripts).await
}
