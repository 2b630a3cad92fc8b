//! RabbitMQ through the URL of a server: the operations of a `DynTransport`, and what other clients find.

#[path = "../support/mod.rs"]
mod support;

mod declare;
mod errors;
mod operations;
mod stored;
mod telemetry;

use std::time::Duration;

use consign::{
    administration::{Administration, EntitySettings, QueueSettings},
    message::EntityPath,
    transport::{DynTransport, ErrorKind, Transport, TransportRegistry},
};

/// For what happens at once, on a machine that is busy.
const SOON: Duration = Duration::from_secs(40);
/// For what does not happen.
const MOMENT: Duration = Duration::from_millis(300);

/// The address of the server with parameters.
fn url(parameters: &str) -> String {
    format!("{}?{parameters}", support::address())
}

fn registry() -> TransportRegistry {
    TransportRegistry::new().with(consign_rabbitmq::connector())
}

/// A client of its own connection, or `None` without a server. Its delays are left, as those of a program are.
async fn connect() -> Option<DynTransport> {
    support::connect(support::options()).await?.close().await.expect("an open connection");
    Some(registry().connect(&url("session_slots=2&delays=consign.tests.delays&name=tests")).await.expect("a server"))
}

fn path(name: &str) -> EntityPath {
    EntityPath::new(&support::unique(name)).expect("a path")
}

/// Settings that are not the defaults.
fn settings() -> QueueSettings {
    QueueSettings::default().lock_duration(Duration::from_secs(5)).max_delivery_count(2)
}

async fn declared(transport: &DynTransport, name: &str, settings: impl Into<EntitySettings>) -> EntityPath {
    let path = path(name);
    transport.declare(&path, &settings.into()).await.expect("a server");
    path
}

/// Waits until an entity has so many active messages and dead letters. A quorum queue on a machine that is busy answers 0.
async fn counted(transport: &DynTransport, path: &EntityPath, expected: (usize, usize)) {
    let mut found = (0, 0);
    let counting = async {
        loop {
            let counts = transport.counts(path).await.expect("a server");
            found = (counts.active, counts.dead_lettered);
            if found == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let is_counted = tokio::time::timeout(SOON, counting).await.is_ok();
    assert!(is_counted, "{path}: {found:?} instead of {expected:?}");
}

/// Deletes entities, and checks that the server has nothing of them.
async fn end(transport: DynTransport, entities: &[&EntityPath]) {
    for path in entities {
        transport.delete(path).await.expect("a server");
        let gone = transport.settings(path).await.expect_err("it is deleted");
        assert_eq!(gone.kind(), ErrorKind::EntityNotFound, "{gone}");
    }
    transport.close().await.expect("a server");
}
