use std::time::Duration;

use consign::{
    message::EntityPath,
    transport::{DynReceiver, DynTransport, ErrorKind, ReceiveMode, ReceiverExt, Transport},
};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::sleep;

use super::{Account, Direction, How, Server, Trip, report::FaultReport, worker::Worker};
use crate::{Failure, failure::ensure};

/// The three kinds of a cut at one step.
const ENDS: [(Direction, How); 3] =
    [(Direction::ToServer, How::Before), (Direction::ToServer, How::After), (Direction::ToClient, How::Torn)];
/// Connections at once: after a cut most of a step is waiting for a lock to end.
const AT_ONCE: usize = 12;
/// More than any protocol needs for one message.
const STEPS: u64 = 120;

/// Cuts a connection before and after each step of connecting, sending, receiving and completing.
pub(super) async fn run<S: Server>(
    server: &S,
    direct: &DynTransport,
    queue: &EntityPath,
    report: &mut FaultReport,
) -> Result<(), Failure> {
    let account = Account::default();
    let ran = cut_each(server, queue, &account).await;
    if let Ok(cuts) = &ran {
        report.faults += cuts.iter().filter(|is_cut| **is_cut).count() as u64;
        report.steps = cuts.len() as u64 / 3;
    }
    // A message that was received and not completed is locked.
    let mut receiver = direct.receiver(queue, ReceiveMode::PeekLock).await?;
    drain(server, &account, &mut receiver).await;
    report.take(&account);
    ran.map(drop)
}

/// Returns whether each cut happened. Groups of steps are tried until one has no cut at all.
async fn cut_each<S: Server>(server: &S, queue: &EntityPath, account: &Account) -> Result<Vec<bool>, Failure> {
    let mut cuts = Vec::new();
    loop {
        let first = cuts.len() as u64 / 3;
        ensure!(first < STEPS, "a message takes more than {STEPS} steps");
        let group =
            (first..first + 4).flat_map(|step| ENDS.map(|(direction, how)| Trip { direction, steps: step, how }));
        let group = stream::iter(group.map(|trip| one(server, queue, account, trip)));
        let group: Vec<bool> = group.buffered(AT_ONCE).try_collect().await?;
        if !group.contains(&true) {
            return Ok(cuts);
        }
        cuts.extend(group);
    }
}

/// Sends and completes one message over a connection that is cut once.
async fn one<S: Server>(server: &S, queue: &EntityPath, account: &Account, trip: Trip) -> Result<bool, Failure> {
    let worker = Worker::new(server, queue, account).await?;
    worker.proxy.arm(trip);
    let transport = worker.connect().await;
    let id = format!("{:?}-{:?}-{}", trip.direction, trip.how, trip.steps);
    worker.send(&transport, &id).await?;
    let mut receiver = worker.receiver(&transport).await;
    // Another worker may have taken the message, and has then left its own.
    let mut tries = 0;
    while !worker.handle(&mut receiver).await && tries < 40 {
        tries += 1;
    }
    ensure!(tries < 40, "{id}: nothing was received");
    Ok(!worker.proxy.is_armed())
}

/// Receives the remaining messages, until none has arrived for longer than a lock holds.
pub(super) async fn drain<S: Server>(server: &S, account: &Account, receiver: &mut DynReceiver) {
    let quiet = server.queue().lock_duration + Duration::from_secs(2);
    let mut failures = 0;
    loop {
        match receiver.receive_within(quiet).await {
            Ok(delivery) => {
                let id = delivery.message.message_id().unwrap_or_default().to_owned();
                account.arrived(&id);
                if delivery.complete().await.is_ok() {
                    account.completed(&id);
                }
            }
            Err(error) if error.kind() == ErrorKind::ServiceTimeout => return,
            Err(error) if failures == 10 => return account.failed(format!("draining: {error}")),
            Err(_) => {
                failures += 1;
                sleep(Duration::from_millis(200)).await;
            }
        }
    }
}
