//! Ten times as many messages as are received.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use consign_amqp::types::DeliveryState;
use futures_util::{StreamExt, stream};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    Failure, Options,
    client::{accepted, connect, message, receiver},
    process::{Server, mib},
};

/// The queue holds 64 MiB.
const CONFIG: &str = "[queues.orders]\nmax_size_in_megabytes = 64\n";
const SENDERS: u32 = 20;
/// Unsettled messages of a sender.
const WINDOW: usize = 100;

/// What the senders have seen.
#[derive(Default)]
struct Seen {
    accepted: AtomicU64,
    refused: AtomicU64,
    conditions: Mutex<BTreeMap<String, u64>>,
}

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let time = Duration::from_secs(options.scaled(300).into()) / 10;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("config.toml");
    std::fs::write(&config, CONFIG)?;
    // The rate of one consumer is measured first. Then it receives a tenth of that, and senders go as fast as they can.
    let possible = measure(&options.program, &config, time / 6).await?;
    let server = Server::consign(&options.program, &["--config", &config.to_string_lossy()])?;
    let (before, _) = server.memory()?;
    let seen = Arc::new(Seen::default());
    let until = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for _ in 0..SENDERS {
        tasks.spawn(send(server.address, Arc::clone(&seen), until));
    }
    let rate = (possible / 10).max(1);
    let received = consumer(server.address, rate, until).await?;
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let (after, peak) = server.memory()?;
    let (accepted, refused) = (seen.accepted.load(Ordering::Relaxed), seen.refused.load(Ordering::Relaxed));
    println!("overload: {SENDERS} senders of 1 KiB messages, a queue of 64 MiB, {time:?}");
    let wanted = rate * u64::try_from(time.as_millis())? / 1_000;
    println!("overload: one consumer can receive {possible} a second beside one sender, and has time for {rate}");
    println!(
        "overload: received {received} of the {wanted} that it had time for, accepted {accepted}, refused {refused}"
    );
    let conditions = seen.conditions.lock().unwrap_or_else(PoisonError::into_inner).clone();
    println!("overload: refused with {conditions:?}");
    println!(
        "overload: memory {:.1} MiB before, {:.1} MiB after, at most {:.1} MiB",
        mib(before),
        mib(after),
        mib(peak)
    );
    if conditions.keys().any(|condition| condition != "amqp:resource-limit-exceeded") {
        return Err("a refusal has another condition".into());
    }
    let times = (accepted + refused) / received.max(1);
    println!("overload: {times} times as many were sent as received");
    Ok(())
}

/// Messages a second that are sent, received and completed.
async fn measure(program: &Path, config: &Path, time: Duration) -> Result<u64, Failure> {
    let server = Server::consign(program, &["--config", &config.to_string_lossy()])?;
    let until = Instant::now() + time;
    let sending = tokio::spawn(send(server.address, Arc::default(), until));
    let received = consumer(server.address, u64::MAX, until).await?;
    sending.await??;
    Ok(received * 1_000 / u64::try_from(time.as_millis())?.max(1))
}

async fn send(address: SocketAddr, seen: Arc<Seen>, until: Instant) -> Result<(), Failure> {
    let (_connection, session) = connect(address).await?;
    let sender = session.attach_sender("sender", "orders").await?;
    let message = message(1_024)?;
    let sends = stream::iter(std::iter::repeat(())).map(|()| sender.send(message.clone()));
    let mut outcomes = std::pin::pin!(sends.buffer_unordered(WINDOW));
    while let Some(outcome) = outcomes.next().await {
        match outcome? {
            Some(DeliveryState::Rejected(rejected)) => {
                seen.refused.fetch_add(1, Ordering::Relaxed);
                let condition = rejected.error.map_or_else(|| "none".to_owned(), |error| error.condition.to_string());
                *seen.conditions.lock().unwrap_or_else(PoisonError::into_inner).entry(condition).or_default() += 1;
            }
            outcome if outcome == Some(accepted()) => drop(seen.accepted.fetch_add(1, Ordering::Relaxed)),
            other => return Err(format!("an unexpected outcome: {other:?}").into()),
        }
        if Instant::now() >= until {
            break;
        }
    }
    Ok(())
}

/// Receives on a thread of its own, so that it does not wait for the senders of this process.
async fn consumer(address: SocketAddr, rate: u64, until: Instant) -> Result<u64, Failure> {
    let received = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(receive(address, rate, until))
    });
    received.await?
}

/// Receives and completes up to so many messages a second.
async fn receive(address: SocketAddr, rate: u64, until: Instant) -> Result<u64, Failure> {
    let (_connection, session) = connect(address).await?;
    let mut link = receiver(&session, "receiver", "orders").await?;
    link.set_automatic_credit(100)?;
    let began = Instant::now();
    let mut received = 0;
    loop {
        let delivery = tokio::select! {
            delivery = link.recv() => delivery?,
            () = sleep_until(until) => return Ok(received),
        };
        link.settle([delivery.id], &accepted())?;
        received += 1;
        if rate < u64::MAX {
            let due = Duration::from_millis(received * 1_000 / rate.max(1));
            let ahead = due.saturating_sub(began.elapsed());
            // A timer waits for a millisecond at least.
            if ahead >= Duration::from_millis(1) {
                sleep(ahead).await;
            }
        }
    }
}
