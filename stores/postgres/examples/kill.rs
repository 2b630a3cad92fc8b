//! A consumer that is killed, and the one that is started after it: `cargo run -p consign-store-postgres --example kill`, with
//! what `scripts/brokers` has at hand. It takes about a minute.
//!
//! A process handles 200 messages of 2 seconds, 16 at once, with `DedupLayer` on its defaults over PostgreSQL. It is killed
//! (`kill -9`) in the middle and started again. The program prints when the messages that no process had locked go on, and when
//! those go on whose ids the killed process had reserved.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    consumer::Consumer,
    middleware::dedup::{DedupLayer, OriginalMessageId},
    transport::Sender,
};
use consign_postgres::Postgres;
use consign_store_postgres::{
    PostgresStore, Table,
    tokio_postgres::{Config, NoTls},
};
use tokio::time::{Instant, sleep};
use tower::{BoxError, ServiceBuilder, service_fn};

const SCHEMA: &str = "consign_example_kill";
const WORKER: &str = "worker";
const MESSAGES: usize = 200;
const CONCURRENCY: usize = 16;
const HANDLER: Duration = Duration::from_secs(2);
const KILL_AFTER: Duration = Duration::from_millis(7_500);
/// Longer than everything takes.
const PATIENCE: Duration = Duration::from_secs(120);

type Anyway<T> = Result<T, Box<dyn Error>>;

fn address() -> String {
    let default = "postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test";
    env::var("CONSIGN_POSTGRES").unwrap_or_else(|_| default.to_owned())
}

async fn connect() -> Anyway<Postgres> {
    Ok(Postgres::options().schema(SCHEMA).connect(&address()).await?)
}

/// The process that is killed: it prints `begin` and `done` with the id of each message.
async fn work() -> Anyway<()> {
    let config: Config = address().parse()?;
    let store = PostgresStore::builder(Duration::from_secs(600)).table(Table::new(&format!("{SCHEMA}.handled"))?);
    let store = store.create_table().connect(config, NoTls).await?;
    let handler = service_fn(async |order: Message| {
        let id = order.message_id().unwrap_or_default();
        println!("begin {id} {}", order.received().map_or(0, |received| received.delivery_count));
        sleep(HANDLER).await;
        println!("done {id}");
        Ok::<_, BoxError>(Disposition::Complete)
    });
    let stack = ServiceBuilder::new().layer(DedupLayer::new(store, "orders")).service(handler);
    let receiver = connect().await?.receiver("orders").await?;
    Consumer::new(receiver, stack).concurrency(CONCURRENCY).run().await?;
    Ok(())
}

/// A new queue with the messages.
async fn prepare() -> Anyway<()> {
    let postgres = connect().await?;
    drop_schema(&postgres).await?;
    postgres.migrate().await?;
    let settings = QueueSettings::default().lock_duration(Duration::from_secs(10));
    postgres.create_queue("orders", settings).await?;
    let sender = postgres.sender("orders").await?;
    for number in 0..MESSAGES {
        sender.send(Message::builder().message_id(format!("{number}")).build("an order")?).await?;
    }
    Ok(())
}

async fn drop_schema(postgres: &Postgres) -> Anyway<()> {
    let sql = format!("SET client_min_messages = warning; DROP SCHEMA IF EXISTS {SCHEMA} CASCADE");
    Ok(postgres.pool().get().await?.batch_execute(&sql).await?)
}

/// Starts a worker whose lines go to `lines`.
fn start(lines: &SyncSender<String>) -> Anyway<Child> {
    let mut child = Command::new(env::current_exe()?).arg(WORKER).stdout(Stdio::piped()).spawn()?;
    let (lines, output) = (lines.clone(), child.stdout.take().ok_or("a worker without output")?);
    thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
    Ok(child)
}

#[derive(Debug, PartialEq)]
enum State {
    Running,
    Done,
}

/// What the workers have said.
struct Watch {
    lines: Receiver<String>,
    states: BTreeMap<String, State>,
}

impl Watch {
    /// Reads lines until all messages are done, or until `until`. `begun` is told the id and the delivery of a message.
    fn read(&mut self, until: Instant, mut begun: impl FnMut(&str, &str)) -> Anyway<()> {
        while self.done() < MESSAGES {
            let left = until.saturating_duration_since(Instant::now());
            let line = match self.lines.recv_timeout(left) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["begin", id, delivery] => {
                    begun(id, delivery);
                    self.states.insert(id.to_owned(), State::Running);
                }
                ["done", id] => drop(self.states.insert(id.to_owned(), State::Done)),
                _ => return Err(format!("a worker said: {line}").into()),
            }
        }
        Ok(())
    }

    fn done(&self) -> usize {
        self.states.values().filter(|state| **state == State::Done).count()
    }
}

/// When the first and the last of some messages were handed to a handler, and what their deliveries read.
#[derive(Default)]
struct Span {
    times: Vec<Duration>,
    deliveries: BTreeMap<String, usize>,
}

impl Span {
    fn add(&mut self, at: Duration, delivery: &str) {
        self.times.push(at);
        *self.deliveries.entry(delivery.to_owned()).or_default() += 1;
    }

    fn print(&self, what: &str) {
        let (Some(first), Some(last)) = (self.times.first(), self.times.last()) else { return };
        println!("{what}: {} messages, the first after {first:.1?}, the last after {last:.1?}", self.times.len());
        println!("    by DeliveryCount: {:?}", self.deliveries);
    }
}

fn watch() -> Anyway<()> {
    let lease = DedupLayer::<PostgresStore, OriginalMessageId>::LEASE;
    println!("{MESSAGES} messages, handlers of {HANDLER:?}, {CONCURRENCY} at once, leases of {lease:?}, locks of 10s");
    let (to, lines) = sync_channel(1_024);
    let mut watch = Watch { lines, states: BTreeMap::new() };
    let mut first = start(&to)?;
    watch.read(Instant::now() + KILL_AFTER, |_, _| {})?;
    first.kill()?;
    first.wait()?;
    let killed = Instant::now();
    // What it had said before is read too.
    watch.read(killed + Duration::from_millis(200), |_, _| {})?;
    let held: Vec<_> =
        watch.states.iter().filter(|(_, state)| **state == State::Running).map(|(id, _)| id.clone()).collect();
    println!("kill -9 after {KILL_AFTER:?}: {} are done, {} were in hand", watch.done(), held.len());

    let mut second = start(&to)?;
    let (mut others, mut of_held) = (Span::default(), Span::default());
    watch.read(killed + PATIENCE, |id, delivery| {
        let span = if held.iter().any(|held| held == id) { &mut of_held } else { &mut others };
        span.add(killed.elapsed(), delivery);
    })?;
    println!("started again; times are from the kill, and include the start of the process");
    others.print("the others");
    of_held.print("in hand of the killed process");
    println!("all {} are done after {:.1?}", watch.done(), killed.elapsed());
    second.kill()?;
    second.wait()?;
    if watch.done() == MESSAGES { Ok(()) } else { Err("some messages were not handled".into()) }
}

fn main() -> Anyway<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if env::args().nth(1).as_deref() == Some(WORKER) {
        return runtime.block_on(work());
    }
    runtime.block_on(prepare())?;
    watch()?;
    runtime.block_on(async { drop_schema(&connect().await?).await })
}
