//! The broker that the tests use.

#![allow(dead_code, unused_imports, reason = "not every test uses all of it")]

pub(crate) mod backend;
pub(crate) mod node;

use std::{fmt::Debug, time::Duration};

use consign::transport::ErrorKind;
use consign_conformance::left_out;
pub(crate) use consign_rabbitmq::Options;
use consign_rabbitmq::{
    RabbitMq,
    lapin::{
        self,
        options::{ExchangeDeleteOptions, QueueDeleteOptions},
    },
};

pub(crate) const VARIABLE: &str = "CONSIGN_RABBITMQ";

pub(crate) fn address() -> String {
    std::env::var(VARIABLE).unwrap_or_else(|_| "amqp://guest:guest@127.0.0.1:5672/%2f".into())
}

/// Options with names that no other run has.
pub(crate) fn options() -> Options {
    RabbitMq::options().delays(unique("delays"))
}

/// A name that no other run has.
pub(crate) fn unique(name: &str) -> String {
    format!("t{:016x}-{name}", fastrand::u64(..))
}

/// Connects. Without a broker, and if nobody said where one should be, there is nothing to test.
pub(crate) async fn connect(options: Options) -> Option<RabbitMq> {
    match options.connect(&address()).await {
        Ok(rabbit) => Some(rabbit),
        Err(error) if error.kind() == ErrorKind::CommunicationProblem && std::env::var_os(VARIABLE).is_none() => {
            left_out(&format!("tests on RabbitMQ: none at {}; scripts/brokers starts one", address()));
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// Repeats a call for 60 s at most, until it succeeds: one that precedes a test has its short timeout too.
pub(crate) async fn repeated<T, E: Debug>(mut call: impl AsyncFnMut() -> Result<T, E>) -> T {
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        match call().await {
            Ok(done) => return done,
            Err(error) => assert!(tokio::time::Instant::now() < until, "{error:?}"),
        }
    }
}

/// Deletes the queues and exchanges that delays were made of.
pub(crate) async fn delete_delays(prefix: &str) {
    let connection = lapin::Connection::connect(&address(), lapin::ConnectionProperties::default())
        .await
        .expect("a broker that answers");
    let channel = connection.create_channel().await.expect("a broker that answers");
    let levels = (0..26).map(|level| format!("{prefix}.level-{level:02}"));
    for name in levels.chain([format!("{prefix}.due"), format!("{prefix}.lost")]) {
        channel.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await.expect("a broker that answers");
        channel
            .exchange_delete(name.as_str().into(), ExchangeDeleteOptions::default())
            .await
            .expect("a broker that answers");
    }
    connection.close(200, "OK".into()).await.expect("a broker that answers");
}
