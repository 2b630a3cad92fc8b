//! Processes with a relay that are killed while they send: `CONSIGN_CYCLES` of them on each transport.

use std::{
    collections::{BTreeSet, HashMap},
    env, fmt,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::{Administration, QueueSettings},
    message::EntityPath,
    middleware::dedup::{DedupLayer, MemoryStore},
    transport::{DynTransport, ErrorKind, ReceiveMode, ReceiverExt, Transport},
};
use consign_conformance::left_out;
use consign_nats::Nats;
use consign_outbox_postgres::{Outbox, OutboxError, Relay, Relayed, Table, tokio_postgres::NoTls};
use consign_postgres::Postgres;
use consign_rabbitmq::RabbitMq;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use crate::support::{self, Bench};

/// Set for a process that is killed: a transport and a table.
const CHILD: &str = "CONSIGN_OUTBOX_CHILD";
const THIS: &str = "kills::a_process_that_is_killed";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Postgres,
    Nats,
    RabbitMq,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Postgres, Self::Nats, Self::RabbitMq];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "postgres",
            Self::Nats => "nats",
            Self::RabbitMq => "rabbitmq",
        })
    }
}

/// A transport, and what the relay sends by.
#[derive(Clone)]
enum Target {
    SameDatabase(Postgres),
    Other(DynTransport),
}

impl Target {
    /// `None` without a server.
    async fn connect(kind: Kind, name: &str) -> Option<Self> {
        let (variable, default) = match kind {
            Kind::Postgres => {
                let options = Postgres::options().schema(name);
                return Some(Self::SameDatabase(options.connect(&support::address()).await.unwrap()));
            }
            Kind::Nats => ("CONSIGN_NATS", "nats://127.0.0.1:4222"),
            Kind::RabbitMq => ("CONSIGN_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/%2f"),
        };
        let address = env::var(variable).unwrap_or_else(|_| default.to_owned());
        let connected = match kind {
            Kind::Nats => Nats::options().namespace("outbox").connect(&address).await.map(DynTransport::from),
            _ => RabbitMq::connect(&address).await.map(DynTransport::from),
        };
        match connected {
            Ok(transport) => Some(Self::Other(transport)),
            Err(error) if error.kind() == ErrorKind::CommunicationProblem && env::var_os(variable).is_none() => {
                left_out(&format!("kills of a relay to {kind}: no server; scripts/brokers starts one"));
                None
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    fn transport(&self) -> DynTransport {
        match self {
            Self::SameDatabase(postgres) => DynTransport::from(postgres.clone()),
            Self::Other(transport) => transport.clone(),
        }
    }

    async fn relay(self, outbox: Outbox, shutdown: impl Future<Output = ()> + Send) -> Result<Relayed, OutboxError> {
        let poll = Duration::from_millis(20);
        match self {
            Self::SameDatabase(postgres) => {
                let relay = Relay::same_database(outbox, support::config(), NoTls, postgres);
                relay.poll_interval(poll).batch_size(10).run_until(shutdown).await
            }
            Self::Other(transport) => {
                Relay::new(outbox, support::config(), NoTls, transport).poll_interval(poll).run_until(shutdown).await
            }
        }
    }
}

/// The process that is killed. As one of the tests it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed() {
    let Ok(argument) = env::var(CHILD) else { return };
    let (kind, name) = argument.split_once(' ').unwrap();
    let kind = Kind::ALL.into_iter().find(|one| one.to_string() == kind).unwrap();
    let target = Target::connect(kind, name).await.unwrap();
    let outbox = Outbox::new(Table::new(name).unwrap());
    target.relay(outbox, std::future::pending()).await.unwrap();
}

/// Rules.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_relay_loses_nothing() {
    let seed = env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let cycles = env::var("CONSIGN_CYCLES").ok().and_then(|cycles| cycles.parse().ok()).unwrap_or(12);
    println!(
        "replay: SEED={seed} CONSIGN_CYCLES={cycles} cargo test --package consign-outbox-postgres --features full \
         a_killed_relay_loses_nothing"
    );
    for kind in Kind::ALL {
        kill(kind, cycles, fastrand::Rng::with_seed(seed)).await;
    }
}

async fn kill(kind: Kind, cycles: u32, mut random: fastrand::Rng) {
    let mut bench = Bench::new().await;
    let Some(target) = Target::connect(kind, &bench.name).await else { return bench.end().await };
    if let Target::SameDatabase(postgres) = &target {
        postgres.migrate().await.unwrap();
    }
    let queue = EntityPath::new(&bench.name).unwrap();
    let settings = match kind {
        // The relay sends again within this window.
        Kind::Nats => QueueSettings::default().with_duplicate_detection(Duration::from_secs(600)),
        _ => QueueSettings::default(),
    };
    target.transport().declare(&queue, &settings.into()).await.unwrap();

    let (mut number, mut committed) = (0, Vec::new());
    for _ in 0..cycles {
        let mut child = Command::new(env::current_exe().unwrap());
        let child = child.args(["--exact", THIS]).env(CHILD, format!("{kind} {}", bench.name));
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        for _ in 0..random.usize(1..8) {
            let transaction = bench.client.transaction().await.unwrap();
            let mut added = Vec::new();
            for _ in 0..random.usize(1..12) {
                number += 1;
                let session = random.bool().then(|| format!("s{}", random.u8(..3)));
                let mut message = support::message(format!("{number:06}"));
                if let Some(session) = session.clone() {
                    message.properties_mut().set_session_id(session).unwrap();
                }
                bench.outbox.add(&transaction, queue.as_str(), &message).await.unwrap();
                added.push((session, number));
            }
            if random.u8(..5) == 0 {
                transaction.rollback().await.unwrap();
            } else {
                transaction.commit().await.unwrap();
                committed.extend(added);
            }
            tokio::time::sleep(Duration::from_millis(random.u64(..15))).await;
        }
        tokio::time::sleep(Duration::from_millis(random.u64(20..200))).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let left = bench.outbox.waiting(&bench.client).await.unwrap();
    let shutdown = bench.until_sent();
    let (table, relaying) = (bench.outbox.clone(), target.clone());
    relaying.relay(table, shutdown).await.unwrap();
    let received = receive_all(&target.transport(), &queue).await;
    let doubled = check(kind, &committed, &received).await;
    println!(
        "kill: {cycles} killed on {kind}: {} committed, {} received, {doubled} doubled, {left} left to the last relay, 0 lost",
        committed.len(),
        received.len()
    );
    assert!(bench.outbox.refused(&bench.client, 1).await.unwrap().is_empty());
    target.transport().delete(&queue).await.unwrap();
    if let Target::SameDatabase(_) = &target {
        bench.client.batch_execute(&format!("DROP SCHEMA {} CASCADE", bench.name)).await.unwrap();
    }
    bench.end().await;
}

async fn receive_all(transport: &DynTransport, queue: &EntityPath) -> Vec<Message> {
    let mut receiver = transport.receiver(queue, ReceiveMode::PeekLock).await.unwrap();
    let mut all = Vec::new();
    loop {
        match receiver.receive_within(Duration::from_secs(2)).await {
            Ok(delivery) => {
                all.push(delivery.message.clone());
                delivery.complete().await.unwrap();
            }
            Err(error) if error.kind() == ErrorKind::ServiceTimeout => return all,
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Checks what was received, and returns how many were doubled.
async fn check(kind: Kind, committed: &[(Option<String>, u32)], received: &[Message]) -> usize {
    let number = |message: &Message| message.message_id().unwrap().parse::<u32>().unwrap();
    let sent: BTreeSet<u32> = committed.iter().map(|(_, number)| *number).collect();
    let found: BTreeSet<u32> = received.iter().map(number).collect();
    assert_eq!(sent.difference(&found).collect::<Vec<_>>(), Vec::<&u32>::new(), "lost on {kind}");
    assert_eq!(found.difference(&sent).collect::<Vec<_>>(), Vec::<&u32>::new(), "not committed, on {kind}");
    // The first copies of a session are in the order in which they were added.
    let mut last: HashMap<Option<&str>, u32> = HashMap::new();
    let mut seen = BTreeSet::new();
    for message in received {
        let number = number(message);
        if seen.insert(number) {
            let before = last.insert(message.session_id(), number).unwrap_or(0);
            assert!(before < number, "{before} before {number} in {:?} on {kind}", message.session_id());
        }
    }
    let doubled = received.len() - found.len();
    assert!(kind == Kind::RabbitMq || doubled == 0, "{doubled} doubled on {kind}");

    let handled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&handled);
    let layer = DedupLayer::new(MemoryStore::new(Duration::from_secs(600)), "orders");
    let mut stack = layer.layer(service_fn(move |_: Message| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, BoxError>(Disposition::Complete) }
    }));
    for message in received {
        let settled = stack.ready().await.unwrap().call(message.clone()).await.unwrap();
        assert_eq!(settled, Disposition::Complete);
    }
    assert_eq!(handled.load(Ordering::Relaxed), sent.len(), "behind the layer none is doubled");
    doubled
}
