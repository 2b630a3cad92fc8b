//! The servers, and the programs in Python.

use std::path::PathBuf;

use consign_nats::Nats;
use consign_rabbitmq::RabbitMq;
use serde_json::Value;
use tokio::process::Command;
use tower::BoxError;

use crate::suite::answer;

/// What is there for every case.
pub(crate) struct Environment {
    folder: PathBuf,
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
        let options = Nats::options().namespace("peers").server_syncs();
        let nats = options.connect(&nats_url).await.map_err(|error| format!("NATS: {error}"))?;
        Ok(Self { folder, rabbit_url, rabbit, nats_url, nats })
    }

    /// Takes a step of a program of this package, such as `calls.py`. What it prints is its answer.
    pub(crate) async fn python(&self, program: &str, step: &str, arguments: Value) -> Result<Value, BoxError> {
        let mut command = Command::new(self.folder.join("venv/bin/python"));
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(program);
        let text = answer(command.arg(path).arg(step).arg(arguments.to_string())).await?;
        Ok(serde_json::from_str(&text)?)
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

/// The name of an entity that no other case has.
pub(crate) fn unique() -> String {
    format!("peers-{:016x}", fastrand::u64(..))
}
