use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use consign::{
    Message,
    message::{EntityPath, PropertyValue},
    transport::{Delivery, DynTransport, ReceiveMode, ReceiverExt, Sender, Transport},
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::{
    super::{
        failure::{Exit, Failure},
        progress::Progress,
    },
    Bench,
    times::Times,
};

/// How long no message may arrive, after which a run has failed.
const SILENCE: Duration = Duration::from_secs(30);
/// The property with the time of the send, in microseconds from the beginning.
pub(super) const SENT: &str = "x-bench-sent";

pub(super) struct Measured {
    pub(super) sent: usize,
    pub(super) received: usize,
    /// From a send to its acceptance.
    pub(super) sending: Times,
    /// From a send to the delivery.
    pub(super) delivery: Times,
    pub(super) send_rate: f64,
    pub(super) receive_rate: f64,
}

/// How many messages were sent, or may have been, and how many were completed.
#[derive(Default)]
pub(super) struct Passed {
    sent: AtomicU64,
    completed: AtomicU64,
}

impl Passed {
    /// How many may be in the queue.
    pub(super) fn left(&self) -> u64 {
        let completed = self.completed.load(Ordering::Relaxed);
        self.sent.load(Ordering::Relaxed).saturating_sub(completed)
    }
}

/// What the two tasks do.
#[derive(Clone)]
struct Load {
    passed: Arc<Passed>,
    transport: DynTransport,
    path: EntityPath,
    messages: u32,
    size: u32,
    concurrency: usize,
    json: bool,
    began: Instant,
}

/// The times of one task, and how long all of it took.
type Taken = Result<(Vec<u32>, Duration), Failure>;

/// A task that is aborted when this is dropped.
struct Task(JoinHandle<Taken>);

impl Task {
    async fn finished(mut self) -> Taken {
        match (&mut self.0).await {
            Ok(taken) => taken,
            Err(error) => Err(Failure::new(Exit::Failure, "Task", error.to_string())),
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends and receives at the same time, over two links of one connection.
pub(super) async fn measure(
    transport: &DynTransport,
    path: &EntityPath,
    options: &Bench,
    passed: &Arc<Passed>,
) -> Result<Measured, Failure> {
    let began = Instant::now();
    let load = Load {
        passed: Arc::clone(passed),
        transport: transport.clone(),
        path: path.clone(),
        messages: options.messages,
        size: options.size,
        concurrency: options.concurrency.into(),
        json: options.target.json,
        began,
    };
    // Tasks of their own: a broker that answers at once would leave no time to the other one.
    let sending = Task(tokio::spawn(send(load.clone())));
    let receiving = Task(tokio::spawn(receive(load)));
    let (sent, received) = tokio::try_join!(sending.finished(), receiving.finished())?;
    let rate = |count: usize, took: Duration| {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        f64::from(count) / took.as_secs_f64().max(1e-9)
    };
    Ok(Measured {
        sent: sent.0.len(),
        received: received.0.len(),
        send_rate: rate(sent.0.len(), sent.1),
        receive_rate: rate(received.0.len(), received.1),
        sending: Times::new(sent.0),
        delivery: Times::new(received.0),
    })
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Sends all messages, and returns the times from a send to its acceptance.
async fn send(load: Load) -> Taken {
    let sender = load.transport.sender(&load.path).await?;
    let body = Bytes::from(vec![b'x'; load.size as usize]);
    let (mut times, mut in_flight) = (Vec::new(), FuturesUnordered::new());
    let first = Instant::now();
    let mut left = load.messages;
    while left > 0 || !in_flight.is_empty() {
        while left > 0 && in_flight.len() < load.concurrency {
            left -= 1;
            let message = Message::builder().property(SENT, micros(load.began.elapsed())).build(body.clone())?;
            load.passed.sent.fetch_add(1, Ordering::Relaxed);
            let start = Instant::now();
            let send = sender.send(message);
            in_flight.push(async move { send.await.map(|()| start.elapsed()) });
        }
        if let Some(took) = in_flight.next().await {
            times.push(u32::try_from(micros(took?)).unwrap_or(u32::MAX));
        }
    }
    Ok((times, first.elapsed()))
}

/// Receives and completes all messages, and returns the times from a send to the delivery.
async fn receive(load: Load) -> Taken {
    let mut receiver = load.transport.receiver(&load.path, ReceiveMode::PeekLock).await?;
    let mut progress = Progress::new("measuring", Some(load.messages.into()), load.json);
    let mut times = Vec::new();
    let first = Instant::now();
    while times.len() < load.messages as usize {
        let batch = timeout(SILENCE, receiver.receive_batch(load.concurrency)).await;
        let batch = batch.map_err(|_| {
            let text = format!("no message arrived within {SILENCE:?}, after {}", times.len());
            Failure::new(Exit::NoMessage, "ServiceTimeout", text)
        })??;
        let now = micros(load.began.elapsed());
        for delivery in &batch {
            let sent = delivery.message.application_properties().get(SENT).and_then(PropertyValue::to_u64);
            let Some(sent) = sent else {
                return Err(Failure::usage("the queue has messages of others: a measurement needs an empty queue"));
            };
            times.push(u32::try_from(now.saturating_sub(sent)).unwrap_or(u32::MAX));
        }
        let count = batch.len() as u64;
        if let Err(error) = Delivery::complete_all(batch).await {
            return Err(Failure::new(Exit::Failure, "SettleFailed", error.to_string()));
        }
        load.passed.completed.fetch_add(count, Ordering::Relaxed);
        progress.set(times.len() as u64);
    }
    let took = first.elapsed();
    receiver.stopped().await;
    Ok((times, took))
}
