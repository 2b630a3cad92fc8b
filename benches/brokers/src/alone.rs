//! One transport of this library alone, without what it stands beside elsewhere.

use std::time::Duration;

use consign::{administration::Administration, transport::Sessions};
use consign_nats::Nats;
use consign_postgres::Postgres;
use consign_rabbitmq::RabbitMq;
use serde_json::Value;

use crate::{
    contestant::{Error, Place, Unexpected},
    depth, kinds,
    processes::{Server, port_of},
    servers::{nats, postgres, variable},
};

/// A receive that takes longer has lost a message.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Kinds { rounds: usize },
    Depth,
}

/// Measures one transport.
pub(crate) async fn run(transport: &str, what: What, place: Place<'_>) -> Result<Value, Error> {
    let mut report = match transport {
        "rabbitmq" => {
            let address = variable("CONSIGN_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/%2f");
            measure(what, RabbitMq::connect(&address).await?, &address, place.name).await
        }
        "nats" => {
            let (server, address, _) = nats::start(place, false).await?;
            let report = measure(what, Nats::connect(&address).await?, &address, place.name).await;
            drop(server);
            report
        }
        "postgres" => {
            let address = variable("CONSIGN_POSTGRES", postgres::ADDRESS);
            let broker = Postgres::options().schema(place.name).connect(&address).await?;
            broker.migrate().await?;
            let report = measure(what, broker.clone(), &address, "bench").await;
            broker.pool().get().await?.batch_execute(&format!("DROP SCHEMA {} CASCADE", place.name)).await?;
            report
        }
        _ => return Err(Unexpected("there is no such transport").into()),
    }?;
    report["transport"] = transport.into();
    Ok(report)
}

async fn measure<T: Sessions + Administration>(
    what: What,
    transport: T,
    address: &str,
    prefix: &str,
) -> Result<Value, Error> {
    let server = Server::at(port_of(address))?;
    match what {
        What::Kinds { rounds } => kinds::measure(transport, &server, rounds, prefix).await,
        What::Depth => depth::measure(transport, &server, prefix).await,
    }
}
