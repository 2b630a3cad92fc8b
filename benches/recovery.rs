//! A queue on a disk with many messages of 1 KiB in it: `cargo xtask recovery`.
//!
//! ```text
//! recovery fill FOLDER MESSAGES    makes the store, sends, and closes it
//! recovery open FOLDER MESSAGES    opens it and closes it
//! recovery crash FOLDER MESSAGES   opens it, completes a message, sends one, and ends without a close
//! recovery drain FOLDER MESSAGES   opens it, receives and completes everything in order, and closes it
//! ```
//!
//! Prints lines `NAME VALUE`: milliseconds, those that a processor was at it, bytes of the file, and the most memory that the process had (Linux's `VmHWM`).

#![expect(clippy::disallowed_methods, reason = "it measures how long a disk takes")]

use std::{
    fs,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use bytes::Bytes;
use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    message::SequenceNumber,
    transport::{ReceiverExt, Sender},
};
use futures_util::{
    StreamExt, TryStreamExt,
    future::{join_all, try_join_all},
    stream,
};

type Error = Box<dyn std::error::Error>;

const BODY: usize = 1_024;
const BATCH: usize = 256;
/// Batches that are on their way at once.
const BATCHES: usize = 4;
const QUEUE: &str = "many";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [word, folder, messages] = &*arguments else {
        println!("usage: fill|open|crash|drain FOLDER MESSAGES");
        return ExitCode::SUCCESS;
    };
    match run(word, Path::new(folder), messages) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(word: &str, folder: &Path, messages: &str) -> Result<(), Error> {
    let messages: usize = messages.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let started = Instant::now();
    let broker = Broker::open(folder)?;
    print("open_ms", milliseconds(started.elapsed()));
    print("open_cpu_ms", cpu_milliseconds()?);
    runtime.block_on(async {
        match word {
            "fill" => fill(&broker, messages).await?,
            "open" => hold(&broker, messages)?,
            "crash" => {
                hold(&broker, messages)?;
                let queue = queue(&broker)?;
                queue.receiver().receive().await?.complete().await?;
                queue.sender()?.send(message()).await?;
                memory()?;
                // As a crash does, it leaves the store as the last commit did.
                std::process::exit(0);
            }
            "drain" => drain(&broker, messages).await?,
            _ => return Err("the word is one of fill, open, crash and drain".into()),
        }
        let closing = Instant::now();
        broker.close().await?;
        print("close_ms", milliseconds(closing.elapsed()));
        Ok::<(), Error>(())
    })?;
    memory()?;
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    print("file_bytes", bytes);
    Ok(())
}

fn queue(broker: &Broker) -> Result<Queue, Error> {
    Ok(broker.queue(QUEUE)?)
}

fn message() -> Message {
    Message::new(Bytes::from_static(&[b'x'; BODY]))
}

async fn fill(broker: &Broker, messages: usize) -> Result<(), Error> {
    let sender = broker.create_queue(QUEUE, QueueSettings::default().max_size(u64::MAX))?.sender()?;
    let started = Instant::now();
    let batches = stream::iter((0..messages).step_by(BATCH)).map(|sent| {
        let size = BATCH.min(messages - sent);
        sender.send_batch((0..size).map(|_| message()).collect())
    });
    batches.buffered(BATCHES).try_collect::<()>().await?;
    print("fill_ms", milliseconds(started.elapsed()));
    Ok(())
}

fn hold(broker: &Broker, messages: usize) -> Result<(), Error> {
    let found = broker.recovery().map(|recovery| recovery.messages);
    if found == Some(messages as u64) { Ok(()) } else { Err(format!("{found:?} messages were found").into()) }
}

async fn drain(broker: &Broker, messages: usize) -> Result<(), Error> {
    hold(broker, messages)?;
    let mut receiver = queue(broker)?.receiver();
    let started = Instant::now();
    let (mut left, mut last) = (messages, SequenceNumber::default());
    let mut before = Vec::new();
    while left > 0 {
        let deliveries = receiver.receive_batch(left.min(BATCH)).await?;
        left -= deliveries.len();
        let mut completions = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let received = delivery.message.received().ok_or("a delivery without a sequence number")?;
            let number = received.sequence_number;
            if number <= last || delivery.message.body().size() != BODY {
                return Err(format!("after message {last} came {number}").into());
            }
            last = number;
            completions.push(delivery.complete());
        }
        // One batch is completed while the next is received.
        try_join_all(std::mem::replace(&mut before, completions)).await?;
    }
    for completed in join_all(before).await {
        completed?;
    }
    print("drain_ms", milliseconds(started.elapsed()));
    Ok(())
}

fn print(name: &str, value: impl std::fmt::Display) {
    println!("{name} {value}");
}

fn milliseconds(time: Duration) -> u128 {
    time.as_millis()
}

/// What this thread has taken of a processor: on a machine that others use the rest is waiting.
fn cpu_milliseconds() -> Result<u64, Error> {
    let statistics = fs::read_to_string("/proc/self/schedstat")?;
    let (nanoseconds, _) = statistics.split_once(' ').ok_or("the system does not say how long the thread ran")?;
    let nanoseconds: u64 = nanoseconds.parse()?;
    Ok(nanoseconds / 1_000_000)
}

fn memory() -> Result<(), Error> {
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    print(
        "peak_bytes",
        peak.ok_or("the system does not say how much memory there was")?.trim().parse::<u64>()? * 1_024,
    );
    Ok(())
}
