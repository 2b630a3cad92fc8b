//! What many idle receivers of one process cost: each waits on a queue of its own.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use consign::{
    administration::QueueSettings,
    transport::{Receiver, ReceiverExt},
};
use consign_nats::Nats;
use consign_postgres::Postgres;
use consign_rabbitmq::RabbitMq;
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::sleep};

use crate::{
    contestant::{Error, Place, Unexpected},
    processes::{Server, port_of, resident},
    servers::{nats, postgres, variable},
};

/// Until requests that were made at the beginning have ended, and for how long requests are counted.
const SETTLE: Duration = Duration::from_secs(40);
const COUNTED: Duration = Duration::from_secs(40);

/// Receivers that wait, and how they are taken down.
struct Waiting {
    server: Server,
    /// Requests that the server has got so far, where it counts them.
    requests: Box<dyn Fn() -> Option<u64>>,
    stop: Vec<oneshot::Sender<()>>,
    /// Memory of this process and of the server without the queues.
    before: (u64, Option<u64>),
}

/// Measures one transport with so many queues, and prints it.
pub(crate) async fn run(transport: &str, queues: usize, place: Place<'_>) -> Result<Value, Error> {
    let name = |nth: usize| format!("{}-{nth}", place.name);
    let waiting = match transport {
        "rabbitmq" => {
            let address = variable("CONSIGN_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/%2f");
            let broker = RabbitMq::connect(&address).await?;
            let mut waiting = Waiting::at(port_of(&address), Box::new(|| None))?;
            for nth in 0..queues {
                broker.create_queue(&name(nth), consign_rabbitmq::QueueSettings::default()).await?;
                waiting.add(broker.receiver(&name(nth))?);
            }
            let report = waiting.report(transport, queues).await?;
            for nth in 0..queues {
                broker.delete(&name(nth)).await?;
            }
            return Ok(report);
        }
        "nats" => {
            let (server, address, monitor) = nats::start_monitored(place).await?;
            let broker = Nats::connect(&address).await?;
            let mut waiting = Waiting::at(port_of(&address), Box::new(move || in_messages(monitor)))?;
            for nth in 0..queues {
                broker.create_queue(&name(nth), consign_nats::QueueSettings::default()).await?;
                waiting.add(broker.receiver(&name(nth)).await?);
            }
            let report = waiting.report(transport, queues).await?;
            drop(server);
            report
        }
        "postgres" => {
            let address = variable("CONSIGN_POSTGRES", postgres::ADDRESS);
            let broker = Postgres::options().schema(place.name).connect(&address).await?;
            broker.migrate().await?;
            let mut waiting = Waiting::at(port_of(&address), Box::new(|| None))?;
            for nth in 0..queues {
                broker.create_queue(&format!("q{nth}"), QueueSettings::default()).await?;
                waiting.add(broker.receiver(&format!("q{nth}")).await?);
            }
            let report = waiting.report(transport, queues).await?;
            broker.pool().get().await?.batch_execute(&format!("DROP SCHEMA {} CASCADE", place.name)).await?;
            report
        }
        _ => return Err(Unexpected("there is no such transport").into()),
    };
    Ok(waiting)
}

impl Waiting {
    fn at(port: Option<u16>, requests: Box<dyn Fn() -> Option<u64>>) -> Result<Self, Error> {
        let server = Server::at(port)?;
        let before = (resident("self")?, server.memory()?);
        Ok(Self { server, requests, stop: Vec::new(), before })
    }

    /// Waits for a message that does not come.
    fn add<R: Receiver + Send + 'static>(&mut self, mut receiver: R)
    where
        R::Lease: Send,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        self.stop.push(stop);
        tokio::spawn(async move {
            tokio::select! {
                received = receiver.receive() => drop(received),
                _ = stopped => {}
            }
        });
    }

    async fn report(self, transport: &str, queues: usize) -> Result<Value, Error> {
        sleep(SETTLE).await;
        let (requests, cpu) = ((self.requests)(), self.server.cpu()?);
        let polls = tokio::runtime::Handle::current().metrics().worker_park_count(0);
        sleep(COUNTED).await;
        let per_second = |count: u64| count as f64 / COUNTED.as_secs_f64();
        let after = self.server.cpu()?;
        let metrics = tokio::runtime::Handle::current().metrics();
        let each = |now: u64, before: u64| now.saturating_sub(before) / queues.max(1) as u64;
        let server_memory = self.server.memory()?.zip(self.before.1).map(|(now, before)| each(now, before));
        let server_cpu = after.server.zip(cpu.server).map(|(after, before)| per_second(after - before) / 1e9);
        Ok(json!({
            "transport": transport,
            "queues": queues,
            "tasks": metrics.num_alive_tasks(),
            "wake_ups_per_second": per_second(metrics.worker_park_count(0) - polls),
            "requests_per_second": (self.requests)().zip(requests).map(|(now, before)| per_second(now - before)),
            "client_memory_per_queue": each(resident("self")?, self.before.0),
            "server_memory_per_queue": server_memory,
            "client_cpu_share": per_second(after.client - cpu.client) / 1e9,
            "server_cpu_share": server_cpu,
        }))
    }
}

/// The messages that a NATS server has got from its clients.
fn in_messages(monitor: u16) -> Option<u64> {
    let mut stream = TcpStream::connect(("127.0.0.1", monitor)).ok()?;
    stream.write_all(b"GET /varz HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    while answer.read_line(&mut line).ok()? > 2 {
        line.clear();
    }
    let mut body = String::new();
    answer.read_to_string(&mut body).ok()?;
    serde_json::from_str::<Value>(&body).ok()?["in_msgs"].as_u64()
}
