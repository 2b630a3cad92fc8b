//! The servers, and the programs of the other languages.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use consign::{
    Message,
    codecs::{Cbor, Codecs, Json, MessagePack},
    message::MessageBuilder,
    transport::{Receiver, ReceiverExt, Sender},
};
use consign_nats::Nats;
use consign_rabbitmq::RabbitMq;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::process::Command;
use tower::BoxError;

use crate::suite::answer;
pub(crate) use crate::suite::same;

/// Longer than a message takes.
const LONG: Duration = Duration::from_secs(20);

/// What the producers send.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) customer: String,
    pub(crate) total: f64,
}

impl Order {
    pub(crate) fn new() -> Self {
        // Of 17 digits, and none can be left out.
        Self { id: 7, customer: "Müller & Söhne".into(), total: 434.590_000_000_000_03 }
    }
}

/// What is there for every case.
pub(crate) struct Environment {
    folder: PathBuf,
    package: PathBuf,
    pub(crate) rabbit_url: String,
    pub(crate) rabbit: RabbitMq,
    pub(crate) nats_url: String,
    pub(crate) nats: Nats,
}

impl Environment {
    pub(crate) async fn new(folder: PathBuf) -> Result<Self, BoxError> {
        let variable = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.into());
        let rabbit_url = variable("CONSIGN_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/%2f");
        let nats_url = variable("CONSIGN_NATS", "nats://127.0.0.1:4222");
        let rabbit = RabbitMq::connect(&rabbit_url).await.map_err(|error| format!("RabbitMQ: {error}"))?;
        let options = Nats::options().namespace("foreign").server_syncs();
        let nats = options.connect(&nats_url).await.map_err(|error| format!("NATS: {error}"))?;
        let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        Ok(Self { folder, package, rabbit_url, rabbit, nats_url, nats })
    }

    /// Takes a step of `peers.py`. What it prints is its answer.
    pub(crate) async fn python(&self, step: &str, arguments: Value) -> Result<Value, BoxError> {
        let mut command = Command::new(self.folder.join("venv/bin/python"));
        command.arg(self.package.join("peers.py")).arg(step).arg(arguments.to_string());
        let text = answer(&mut command).await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Takes a step of `peers.mjs`.
    pub(crate) async fn node(&self, step: &str, input: Option<Value>) -> Result<Value, BoxError> {
        let mut command = Command::new("node");
        command.arg(self.package.join("peers.mjs")).arg(self.folder.join("node_modules")).arg(step);
        command.args(input.map(|input| input.to_string()));
        let text = answer(&mut command).await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Runs a file of Python or JavaScript in this package.
    pub(crate) async fn script(&self, path: &str, arguments: &[PathBuf]) -> Result<String, BoxError> {
        let is_python = Path::new(path).extension().is_some_and(|extension| extension == "py");
        let program = if is_python { self.folder.join("venv/bin/python") } else { "node".into() };
        let mut command = Command::new(program);
        answer(command.arg(self.package.join(path)).args(arguments)).await
    }

    /// The folder of the packages for Node.
    pub(crate) fn modules(&self) -> PathBuf {
        self.folder.join("node_modules")
    }

    /// A path inside the repository.
    pub(crate) fn repository(&self, path: &str) -> PathBuf {
        self.package.join("../../..").join(path)
    }

    pub(crate) async fn close(self) {
        if let Err(error) = self.rabbit.close().await {
            eprintln!("RabbitMQ: {error}");
        }
        if let Err(error) = self.nats.close().await {
            eprintln!("NATS: {error}");
        }
    }
}

/// The name of a queue that no other case has.
pub(crate) fn unique() -> String {
    format!("foreign-{:016x}", fastrand::u64(..))
}

/// A set with the self-describing formats.
pub(crate) fn codecs() -> Result<Codecs<impl consign::codecs::CodecSet>, BoxError> {
    Ok(Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor).build()?)
}

/// A message with an order, as JSON.
pub(crate) fn order(message: MessageBuilder) -> Result<Message, BoxError> {
    let encoded = codecs()?.encode(&Order::new())?;
    Ok(message.content_type(encoded.content_type).build(encoded.body)?)
}

/// One message, which is completed.
pub(crate) async fn receive(mut receiver: impl Receiver) -> Result<Message, BoxError> {
    let delivery = receiver.receive_within(LONG).await?;
    let message = delivery.message.clone();
    delivery.complete().await?;
    Ok(message)
}

pub(crate) async fn send(sender: impl Sender, message: Message) -> Result<(), BoxError> {
    Ok(sender.send(message).await.map(drop)?)
}
