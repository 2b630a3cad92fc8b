//! A broker on a disk at work: `cargo xtask space` and `cargo xtask latency`.
//!
//! ```text
//! store space FOLDER MESSAGES CYCLES   fills a queue and completes everything in random order, again and again
//! store latency FOLDER SECONDS         sends at shares of the maximum rate, while the store is compacted
//! ```
//!
//! Prints lines `NAME VALUE`: bytes, messages in a second, microseconds.

#![expect(clippy::disallowed_methods, reason = "it measures how long a disk takes")]

use std::{
    fs, io,
    path::Path,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    transport::{Delivery, ReceiverExt, Sender},
};
use futures_util::{
    StreamExt, TryStreamExt,
    future::{join_all, try_join_all},
    stream,
};
use tokio::task::JoinHandle;

type Error = Box<dyn std::error::Error + Send + Sync>;

const BODY: usize = 1_024;
const BATCH: usize = 256;
/// Batches that are on their way at once, and tasks that send at once where the maximum rate is measured.
const BATCHES: usize = 4;
const SENDERS: usize = 256;
/// Shares of the maximum rate, in percent.
const SHARES: [u64; 3] = [10, 50, 90];
/// How long the store is left alone between two compactions.
const PAUSE: Duration = Duration::from_millis(500);
const LOCK: Duration = Duration::from_secs(300);
const QUEUE: &str = "busy";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match &*arguments {
        ["space", folder, messages, cycles] => space(Path::new(folder), messages, cycles),
        ["latency", folder, seconds] => latency(Path::new(folder), seconds),
        rest => {
            println!("usage: space FOLDER MESSAGES CYCLES | latency FOLDER SECONDS");
            // `cargo test --benches` gives none.
            return if rest.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn message() -> Message {
    Message::new(Bytes::from_static(&[b'x'; BODY]))
}

fn open(folder: &Path) -> Result<(Broker, Queue), Error> {
    let broker = Broker::open(folder)?;
    let settings = QueueSettings::default().max_size(u64::MAX).lock_duration(LOCK);
    let queue = match broker.queue(QUEUE) {
        Ok(queue) => queue,
        Err(_) => broker.create_queue(QUEUE, settings)?,
    };
    Ok((broker, queue))
}

/// Bytes of all segments of the store. The reserve, which has always the same size, is not counted.
fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "log") {
            // A segment may be removed meanwhile.
            match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                metadata => bytes += metadata?.len(),
            }
        }
    }
    Ok(bytes)
}

/// Bytes of an entry of the log beside its key and its value, and those of a removal: see docs/store-format.md.
const ENTRY: u64 = 11;
const REMOVAL: u64 = ENTRY + 16 + 8;

/// The most that a cycle took of the disk, and how far that was above twice the entries in use.
#[derive(Default)]
struct Space {
    most: u64,
    over: u64,
}

impl Space {
    fn look(&mut self, folder: &Path, in_use: u64) -> io::Result<()> {
        let bytes = size(folder)?;
        self.most = self.most.max(bytes);
        self.over = self.over.max(bytes.saturating_sub(2 * in_use));
        Ok(())
    }
}

/// Returns the bytes of the entry of a message.
async fn entry(folder: &Path) -> Result<u64, Error> {
    const SOME: usize = 1_000;
    let (broker, queue) = open(folder)?;
    fill(&queue, SOME).await?;
    broker.close().await?;
    let (broker, queue) = open(folder)?;
    let recovery = broker.recovery().ok_or("the broker is not on a disk")?;
    let mut receiver = queue.receiver();
    let mut left = SOME;
    while left > 0 {
        let deliveries = receiver.receive_batch(left).await?;
        left -= deliveries.len();
        try_join_all(deliveries.into_iter().map(Delivery::complete)).await?;
    }
    broker.close().await?;
    Ok(recovery.bytes / recovery.messages.max(1) + ENTRY)
}

fn space(folder: &Path, messages: &str, cycles: &str) -> Result<(), Error> {
    let (messages, cycles): (usize, usize) = (messages.parse()?, cycles.parse()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let entry = entry(folder).await?;
        print("entry_bytes", entry);
        let (broker, queue) = open(folder)?;
        let mut random = fastrand::Rng::with_seed(1);
        for cycle in 1..=cycles {
            let (mut filled, mut drained) = (Space::default(), Space::default());
            fill(&queue, messages).await?;
            filled.look(folder, messages as u64 * entry)?;
            let mut receiver = queue.receiver();
            let mut held = Vec::with_capacity(messages);
            while held.len() < messages {
                held.extend(receiver.receive_batch(messages - held.len()).await?);
            }
            random.shuffle(&mut held);
            while !held.is_empty() {
                let rest = held.len().saturating_sub(BATCH);
                try_join_all(held.drain(rest..).map(Delivery::complete)).await?;
                drained.look(folder, rest as u64 * entry + (messages - rest) as u64 * REMOVAL)?;
            }
            print(&format!("cycle_{cycle}_full_bytes"), filled.most);
            print(&format!("cycle_{cycle}_most_bytes"), drained.most);
            print(&format!("cycle_{cycle}_over_bytes"), filled.over.max(drained.over));
            print(&format!("cycle_{cycle}_empty_bytes"), size(folder)?);
        }
        broker.close().await?;
        print("closed_bytes", size(folder)?);
        Ok(())
    })
}

async fn fill(queue: &Queue, messages: usize) -> Result<(), Error> {
    let sender = queue.sender()?;
    let batches = stream::iter((0..messages).step_by(BATCH)).map(|sent| {
        let size = BATCH.min(messages - sent);
        sender.send_batch((0..size).map(|_| message()).collect())
    });
    Ok(batches.buffered(BATCHES).try_collect::<()>().await?)
}

fn latency(folder: &Path, seconds: &str) -> Result<(), Error> {
    let time = Duration::from_secs(seconds.parse()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (broker, queue) = open(folder)?;
    // What is sent is received and completed, so that there is always something to compact.
    let consumer = runtime.spawn(consume(queue.clone()));
    let compactor = runtime.spawn(compact(broker.clone()));
    let rate = runtime.block_on(most(&queue, time))?;
    print("most_per_second", rate);
    for share in SHARES {
        let took = at_rate(&runtime, &queue, rate * share / 100, time)?;
        for (name, thousandths) in [("p50", 500), ("p99", 990), ("p99.9", 999)] {
            print(&format!("at_{share}_{name}_us"), took[(took.len() - 1) * thousandths / 1_000].as_micros());
        }
        print(&format!("at_{share}_most_us"), took.last().map_or(0, Duration::as_micros));
        print(&format!("at_{share}_messages"), took.len());
    }
    consumer.abort();
    compactor.abort();
    for ended in [runtime.block_on(consumer), runtime.block_on(compactor)] {
        match ended {
            Err(error) if error.is_cancelled() => {}
            ended => ended??,
        }
    }
    Ok(runtime.block_on(broker.close())?)
}

async fn consume(queue: Queue) -> Result<(), Error> {
    let mut receiver = queue.receiver();
    loop {
        let deliveries = receiver.receive_batch(BATCH).await?;
        try_join_all(deliveries.into_iter().map(Delivery::complete)).await?;
    }
}

async fn compact(broker: Broker) -> Result<(), Error> {
    loop {
        tokio::time::sleep(PAUSE).await;
        broker.compact().await?;
    }
}

/// Messages in a second that tasks send which wait for one at a time.
async fn most(queue: &Queue, time: Duration) -> Result<u64, Error> {
    let started = Instant::now();
    let sender = queue.sender()?;
    let tasks = (0..SENDERS).map(|_| {
        let sender = sender.clone();
        tokio::spawn(async move {
            let mut sent = 0_u64;
            while started.elapsed() < time {
                sender.send(message()).await?;
                sent += 1;
            }
            Ok::<u64, Error>(sent)
        })
    });
    let mut sent = 0;
    for task in join_all(tasks).await {
        sent += task??;
    }
    Ok(sent / time.as_secs().max(1))
}

/// How long each of the messages took from when it was due, in ascending order. Messages are due at this rate,
/// whatever becomes of those before them.
fn at_rate(
    runtime: &tokio::runtime::Runtime,
    queue: &Queue,
    rate: u64,
    time: Duration,
) -> Result<Vec<Duration>, Error> {
    let sender = queue.sender()?;
    let between = Duration::from_secs(1) / u32::try_from(rate.max(1))?;
    let started = Instant::now();
    let mut sends: Vec<JoinHandle<Result<Duration, Error>>> = Vec::new();
    for nth in 0.. {
        let due = started + between * nth;
        if due.duration_since(started) >= time {
            break;
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let sent = sender.send(message());
        sends.push(runtime.spawn(async move {
            sent.await?;
            Ok(due.elapsed())
        }));
    }
    let mut took = Vec::with_capacity(sends.len());
    for send in sends {
        took.push(runtime.block_on(send)??);
    }
    took.sort_unstable();
    Ok(took)
}

fn print(name: &str, value: impl std::fmt::Display) {
    println!("{name} {value}");
}
