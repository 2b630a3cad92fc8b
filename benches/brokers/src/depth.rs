//! What a message costs on a transport while its queue holds more messages or sessions, and the memory of a message in flight.

use std::{future::poll_fn, time::Instant};

use bytes::Bytes;
use consign::{
    Message,
    administration::{Administration, QueueSettings},
    message::EntityPath,
    transport::{ReceiveMode, Receiver, ReceiverExt, Sender, Session, SessionSource, Sessions},
};
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    alone::LONGEST,
    contestant::{Error, body_of},
    processes::{Server, resident},
    report::median,
};

/// How many messages wait, and how many sessions have one.
const DEPTHS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
const SESSIONS: [usize; 4] = [10, 100, 1_000, 10_000];
/// Messages of a cycle.
const WINDOW: usize = 64;
/// Messages that are sent at once to fill a queue.
const FILL: usize = 512;
/// Each figure is the median of so many cycles.
const CYCLES: usize = 31;
/// PostgreSQL holds 10,000 at most for a client.
const IN_FLIGHT: usize = 8_192;
/// A million of them fit on the disk.
const SIZE: usize = 64;

pub(crate) async fn measure<T: Sessions + Administration>(
    transport: T,
    server: &Server,
    prefix: &str,
) -> Result<Value, Error> {
    let path = |name: &str| EntityPath::new(&format!("{prefix}-{name}"));
    let (plain, sessions) = (path("deep")?, path("sessions")?);
    transport.declare(&plain, &QueueSettings::default().into()).await?;
    transport.declare(&sessions, &QueueSettings::default().requires_session(true).into()).await?;
    let body = Bytes::from(body_of(SIZE));

    let (sender, mut receiver) =
        (transport.sender(&plain).await?, transport.receiver(&plain, ReceiveMode::PeekLock).await?);
    let message = |_| Ok(Message::new(body.clone()));
    let in_flight = in_flight(&sender, &mut receiver, server, message).await?;
    let mut depth = Vec::new();
    let mut waiting = 0;
    for target in DEPTHS {
        fill(&sender, waiting..target, message).await?;
        waiting = target;
        depth.push((target, at_depth(&sender, &mut receiver, message).await?));
    }

    let (sender, mut source) = (transport.sender(&sessions).await?, transport.sessions(&sessions).await?);
    let message = |nth: usize| Ok(Message::builder().session_id(format!("s-{nth}")).build(body.clone())?);
    let mut of_sessions = Vec::new();
    let (mut waiting, mut sent) = (0, 0);
    for target in SESSIONS {
        fill(&sender, sent..sent + target - waiting, message).await?;
        (sent, waiting) = (sent + target - waiting, target);
        let mut times = Vec::new();
        for _ in 0..CYCLES {
            let began = Instant::now();
            sender.send(message(sent)?).await?;
            sent += 1;
            let mut session = timeout(LONGEST, poll_fn(|cx| source.poll_accept(cx))).await??;
            session.receive_within(LONGEST).await?.complete().await?;
            session.close().await?;
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
        of_sessions.push((target, median(times.into_iter())));
    }
    for queue in [&plain, &sessions] {
        transport.delete(queue).await?;
    }
    Ok(
        json!({ "depth": depth, "sessions": of_sessions, "client_in_flight": in_flight.0, "server_in_flight": in_flight.1 }),
    )
}

/// Sends messages of these numbers.
async fn fill<S: Sender>(
    sender: &S,
    numbers: std::ops::Range<usize>,
    message: impl Fn(usize) -> Result<Message, Error>,
) -> Result<(), Error> {
    for first in numbers.clone().step_by(FILL) {
        let window = (first..numbers.end.min(first + FILL)).map(&message).collect::<Result<Vec<_>, _>>()?;
        try_join_all(window.into_iter().map(|message| sender.send(message))).await?;
    }
    Ok(())
}

/// Returns the median time of a message of a window that is sent, received and completed, in microseconds.
async fn at_depth<S: Sender, R: Receiver>(
    sender: &S,
    receiver: &mut R,
    message: impl Fn(usize) -> Result<Message, Error>,
) -> Result<f64, Error> {
    let mut times = Vec::new();
    for _ in 0..CYCLES {
        let began = Instant::now();
        fill(sender, 0..WINDOW, &message).await?;
        let mut left = WINDOW;
        while left > 0 {
            let received = timeout(LONGEST, receiver.receive_batch(left)).await??;
            left -= received.len();
            try_join_all(received.into_iter().map(|delivery| delivery.complete())).await?;
        }
        times.push(began.elapsed().as_secs_f64() * 1e6 / WINDOW as f64);
    }
    Ok(median(times.into_iter()))
}

/// Returns the memory of a message that is locked, in bytes: of this process, and of the server beside the waiting message.
async fn in_flight<S: Sender, R: Receiver>(
    sender: &S,
    receiver: &mut R,
    server: &Server,
    message: impl Fn(usize) -> Result<Message, Error>,
) -> Result<(u64, Option<u64>), Error> {
    fill(sender, 0..IN_FLIGHT, message).await?;
    let mut held = Vec::with_capacity(IN_FLIGHT);
    let before = (resident("self")?, server.memory()?);
    while held.len() < IN_FLIGHT {
        held.extend(timeout(LONGEST, receiver.receive_batch(FILL.min(IN_FLIGHT - held.len()))).await??);
    }
    let each = |now: u64, before: u64| now.saturating_sub(before) / IN_FLIGHT as u64;
    let client = each(resident("self")?, before.0);
    let server = server.memory()?.zip(before.1).map(|(now, before)| each(now, before));
    // In order: RabbitMQ looks for each delivery behind those that are older.
    let mut held = held.into_iter();
    while held.len() > 0 {
        try_join_all(held.by_ref().take(FILL).map(|delivery| delivery.complete())).await?;
    }
    Ok((client, server))
}
