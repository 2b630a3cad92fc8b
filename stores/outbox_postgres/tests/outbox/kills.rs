//! Processes with a relay that are killed while they send: `CONSIGN_CYCLES` of them on each transport, or on the one that
//! `CONSIGN_TRANSPORT` names.
//!
//! They are killed in rounds of [`ROUND`], each with a queue and a table of its own. With `CONSIGN_RECORD`, the path of a file, each
//! round that was checked is added to it, and those that it has count, so that a run that was interrupted can be continued: with
//! the same `SEED`, and the same code, which `CONSIGN_CODE` names.

use std::{
    collections::{BTreeSet, HashMap},
    env, fmt, fs,
    io::{self, BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
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
/// The line that it prints when it is connected.
const CONNECTED: &str = "the relay is connected";
/// How many processes are killed before what they sent is checked.
const ROUND: u32 = 20;

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
    // Past the output capture of the test harness.
    writeln!(io::stdout(), "{CONNECTED}").unwrap();
    target.relay(outbox, std::future::pending()).await.unwrap();
}

fn spawn(kind: Kind, name: &str) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", THIS]).env(CHILD, format!("{kind} {name}"));
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until the process is connected. It has seconds for that on a busy machine, and is killed before otherwise.
async fn connected(child: &mut Child) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let found = tokio::task::spawn_blocking(move || lines.any(|line| line.unwrap().contains(CONNECTED)));
    assert!(found.await.unwrap(), "a relay ended before it was killed");
}

/// What was counted on one transport.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    killed: u32,
    connected: u32,
    committed: usize,
    received: usize,
    doubled: usize,
    left: usize,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.killed += other.killed;
        self.connected += other.connected;
        self.committed += other.committed;
        self.received += other.received;
        self.doubled += other.doubled;
        self.left += other.left;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connected, committed, received, doubled, left, .. } = self;
        write!(
            f,
            "{connected} after they had connected, {committed} committed, {received} received, {doubled} doubled, \
             {left} left to the last relay, 0 lost"
        )
    }
}

/// The rounds of a file that were checked: one a line, the transport and the counts. The first line has the code and the seed.
struct Record(Option<String>);

impl Record {
    /// Fails if the rounds of the file are of other code, or of another seed.
    fn open(path: Option<String>, seed: u64) -> Self {
        if let Some(path) = &path {
            let code = env::var("CONSIGN_CODE").unwrap_or_else(|_| "unknown".into());
            let head = format!("code {code}, seed {seed}");
            let text = if fs::exists(path).unwrap() { fs::read_to_string(path).unwrap() } else { String::new() };
            if let Some(first) = text.lines().next() {
                assert_eq!(
                    first, head,
                    "{path} has the kills of another run: repeat its seed and code, or name another file"
                );
            } else {
                fs::write(path, format!("{head}\n")).unwrap();
            }
        }
        Self(path)
    }

    fn total(&self, kind: Kind) -> Counts {
        let text = self.0.as_ref().map(|path| fs::read_to_string(path).unwrap()).unwrap_or_default();
        let mut total = Counts::default();
        for line in text.lines() {
            let Some(numbers) = line.strip_prefix(&format!("{kind} ")) else { continue };
            let numbers: Vec<u32> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
            let [killed, connected, rest @ ..] = &*numbers else { panic!("{line}") };
            let [committed, received, doubled, left] = *rest else { panic!("{line}") };
            let [committed, received, doubled, left] = [committed, received, doubled, left].map(|count| count as usize);
            total.add(Counts { killed: *killed, connected: *connected, committed, received, doubled, left });
        }
        total
    }

    fn add(&self, kind: Kind, round: Counts) {
        let Some(path) = &self.0 else { return };
        let Counts { killed, connected, committed, received, doubled, left } = round;
        let mut file = fs::File::options().append(true).open(path).unwrap();
        writeln!(file, "{kind} {killed} {connected} {committed} {received} {doubled} {left}").unwrap();
    }
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
    let only = env::var("CONSIGN_TRANSPORT").ok();
    let kinds: Vec<_> =
        Kind::ALL.into_iter().filter(|kind| only.as_ref().is_none_or(|only| *only == kind.to_string())).collect();
    assert!(!kinds.is_empty(), "CONSIGN_TRANSPORT names none of {:?}", Kind::ALL.map(|kind| kind.to_string()));
    let record = Record::open(env::var("CONSIGN_RECORD").ok(), seed);
    for kind in kinds {
        let mut total = record.total(kind);
        // A round has the seed of its place, whether it follows an interruption or not.
        while total.killed < cycles {
            let random = fastrand::Rng::with_seed(seed.wrapping_add(u64::from(total.killed)));
            let Some(round) = kill(kind, ROUND.min(cycles - total.killed), random).await else { break };
            record.add(kind, round);
            total.add(round);
        }
        if total.killed > 0 {
            println!("kill: {} killed on {kind}: {total}", total.killed);
        }
    }
}

/// Kills so many processes, and checks what they sent. `None` without a server.
async fn kill(kind: Kind, cycles: u32, mut random: fastrand::Rng) -> Option<Counts> {
    let mut bench = Bench::new().await?;
    let Some(target) = Target::connect(kind, &bench.name).await else {
        bench.end().await;
        return None;
    };
    if let Target::SameDatabase(postgres) = &target {
        postgres.migrate().await.unwrap();
    }
    let queue = EntityPath::new(&bench.name).unwrap();
    let settings = match kind {
        // The relay sends again within this window.
        Kind::Nats => QueueSettings::default().duplicate_detection(Duration::from_secs(600)),
        _ => QueueSettings::default(),
    };
    target.transport().declare(&queue, &settings.into()).await.unwrap();

    let (mut number, mut committed) = (0, Vec::new());
    let mut counts = Counts { killed: cycles, ..Counts::default() };
    for _ in 0..cycles {
        let mut child = spawn(kind, &bench.name);
        // The others are killed while they start, connect, or have just begun.
        if random.u8(..4) > 0 {
            connected(&mut child).await;
            counts.connected += 1;
        }
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
    counts.left = usize::try_from(bench.outbox.waiting(&bench.client).await.unwrap()).unwrap();
    let shutdown = bench.until_sent();
    let (table, relaying) = (bench.outbox.clone(), target.clone());
    relaying.relay(table, shutdown).await.unwrap();
    let received = receive_all(&target.transport(), &queue, committed.len()).await;
    (counts.committed, counts.received) = (committed.len(), received.len());
    counts.doubled = check(kind, &committed, &received).await;
    assert!(bench.outbox.refused(&bench.client, 1).await.unwrap().is_empty());
    target.transport().delete(&queue).await.unwrap();
    match &target {
        Target::SameDatabase(postgres) => bench.end_with(postgres).await,
        Target::Other(_) => bench.end().await,
    }
    Some(counts)
}

/// Receives until the queue is empty: for two seconds once there are as many as were committed, and until then for as long as a busy
/// machine may take.
async fn receive_all(transport: &DynTransport, queue: &EntityPath, committed: usize) -> Vec<Message> {
    let mut receiver = transport.receiver(queue, ReceiveMode::PeekLock).await.unwrap();
    let mut all = Vec::new();
    loop {
        let wait = if all.len() < committed { support::LONG } else { Duration::from_secs(2) };
        match receiver.receive_within(wait).await {
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
