//! The task that owns a slot: it takes the slot's lock, reads its queue, and gives it up when it is not in use any more.

use std::sync::Arc;

use consign_core::transport::ErrorKind;
use futures_util::{StreamExt, stream::FuturesUnordered};
use lapin::{
    Consumer,
    options::{BasicConsumeOptions, BasicQosOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions},
    types::FieldTable,
};
use tokio::time::Instant;

use super::{
    job,
    ledger::Ledger,
    request,
    slot::{Slot, Stage},
};
use crate::{
    error::{Failure, within},
    link::Leased,
    log,
    receiver::delivered::{Held, Origin},
};

/// How many messages of a slot wait here at most, for sessions that are held and for others.
const AHEAD: u16 = 2_048;

pub(super) async fn run(slot: Arc<Slot>, before: Option<Arc<Slot>>) {
    if let Some(before) = before {
        before.ended().await;
    }
    match open(&slot).await {
        Ok(opened) => {
            slot.opened();
            read(&slot, opened).await;
            slot.client.slots.forget(&slot);
            slot.stage.send_replace(Stage::Ended);
            slot.client.slots.changed.notify_waiters();
        }
        Err(failure) => {
            slot.lose();
            slot.client.slots.forget(&slot);
            slot.stage.send_replace(Stage::Failed(failure.of_slot()));
        }
    }
}

/// A slot that this client has.
struct Opened {
    /// Holds the exclusive queue. An error of the other channel does not close this one.
    lock: Leased,
    reading: Leased,
    consumer: Consumer,
    /// Requests that other clients publish to the lock.
    requests: Consumer,
}

async fn open(slot: &Slot) -> Result<Opened, Failure> {
    let link = &slot.client.link;
    if link.is_wrapped() {
        let detail = "sessions need channels of their own, and one was wrapped";
        return Err(Failure::new(ErrorKind::InvalidOperation, detail));
    }
    let (lock, reading) = channels(slot).await?;
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let locking = lock.channel.queue_declare(slot.lock().into(), options, FieldTable::default());
    let opened = match within(link.deadline(), "the lock of a slot", locking).await {
        Ok(_) => match subscribe(slot, &lock, &reading).await {
            Ok((consumer, requests)) => return Ok(Opened { lock, reading, consumer, requests }),
            Err(failure) => {
                unlock(slot, &lock).await;
                Err(failure)
            }
        },
        Err(failure) => Err(failure),
    };
    reading.close(link.deadline()).await;
    lock.close(link.deadline()).await;
    opened
}

/// Opens two channels of one connection: the lock must not outlive the messages.
async fn channels(slot: &Slot) -> Result<(Leased, Leased), Failure> {
    let link = &slot.client.link;
    let mut one = link.channel().await?;
    loop {
        let two = link.channel().await?;
        if one.is_beside(&two) {
            return Ok((one, two));
        }
        one.close(link.deadline()).await;
        one = two;
    }
}

/// Subscribes to the messages of a slot, and to the requests of other clients.
async fn subscribe(slot: &Slot, lock: &Leased, reading: &Leased) -> Result<(Consumer, Consumer), Failure> {
    let deadline = slot.client.link.deadline();
    let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let listening = lock.channel.basic_consume(slot.lock().into(), "".into(), options, FieldTable::default());
    let requests = within(deadline, "basic.consume", listening);
    let both = futures_util::future::try_join(subscribe_messages(slot, reading), requests).await?;
    reading.check()?;
    Ok(both)
}

async fn subscribe_messages(slot: &Slot, reading: &Leased) -> Result<Consumer, Failure> {
    let channel = &reading.channel;
    let deadline = slot.client.link.deadline();
    within(deadline, "confirm.select", channel.confirm_select(ConfirmSelectOptions::default())).await?;
    let notes = slot.notes();
    let ledger = within(deadline, "the records of sessions", Ledger::read(channel, &notes)).await?;
    slot.state().ledger = ledger;
    let limiting = channel.basic_qos(AHEAD, BasicQosOptions { global: false });
    let (queue, options) = (slot.queue().into(), BasicConsumeOptions::default());
    let consuming = channel.basic_consume(queue, "".into(), options, FieldTable::default());
    let both = async { futures_util::future::try_join(limiting, consuming).await };
    within(deadline, "basic.consume", both).await.map(|((), consumer)| consumer)
}

async fn read(slot: &Arc<Slot>, opened: Opened) {
    let Opened { lock, reading, mut consumer, mut requests } = opened;
    let link = &slot.client.link;
    let origin = Arc::new(Origin { subscription: 0, leased: reading.clone() });
    let mut jobs = FuturesUnordered::new();
    loop {
        slot.end_locks(Instant::now());
        let new = std::mem::take(&mut slot.state().jobs);
        let channel = &reading.channel;
        jobs.extend(new.into_iter().map(|job| job::run(job, Arc::clone(slot), channel.clone())));
        if jobs.is_empty() && slot.is_done() {
            break;
        }
        if jobs.is_empty() && slot.state().ledger.is_long() {
            shorten(slot, &reading).await;
        }
        let (next_end, kept_until) = (slot.next_end(), slot.kept_until());
        tokio::select! {
            delivery = consumer.next() => match delivery {
                Some(Ok(delivery)) => {
                    let now = slot.client.now();
                    let origin = Arc::clone(&origin);
                    slot.arrive(Held::read(&slot.client, &slot.source, origin, delivery, now, Instant::now()));
                }
                // The channel has ended, or the queue was deleted.
                Some(Err(_)) | None => break,
            },
            Some(Ok(request)) = requests.next() => {
                if let Some(theirs) = request::read(&request.properties) {
                    slot.request(theirs);
                }
            }
            Some(()) = jobs.next(), if !jobs.is_empty() => {}
            () = slot.changed.notified() => {}
            () = at(next_end) => {}
            // A slot with jobs ends after them.
            () = at(kept_until), if jobs.is_empty() => {}
        }
    }
    let has_messages = slot.has_messages();
    slot.lose();
    slot.client.slots.leave(slot, has_messages);
    for job in std::mem::take(&mut slot.state().jobs) {
        job.fail();
    }
    while jobs.next().await.is_some() {}
    let now = slot.client.now();
    let dirty = slot.state().ledger.dirty(now);
    let notes = slot.notes();
    for note in dirty {
        let written = tokio::time::timeout(link.deadline(), note.write(&reading.channel, &notes)).await;
        if !matches!(written, Ok(Ok(()))) {
            break;
        }
    }
    // Unsettled messages are requeued in their order. The next client's consumer is not active before that.
    reading.close(link.deadline()).await;
    unlock(slot, &lock).await;
    lock.close(link.deadline()).await;
}

/// Waits until a time, without one forever.
pub(super) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Deletes the exclusive queue. Otherwise it exists as long as its connection, which others use.
async fn unlock(slot: &Slot, lock: &Leased) {
    if lock.channel.status().connected() {
        let deleting = lock.channel.queue_delete(slot.lock().into(), QueueDeleteOptions::default());
        if let Err(failure) = within(slot.client.link.deadline(), "queue.delete", deleting).await {
            log::failed(
                &slot.source.path,
                "the lock of a group of sessions was not released: it ends with the connection",
                &failure,
            );
        }
    }
}

/// Removes outdated records from the log of a slot that is open for long.
async fn shorten(slot: &Slot, reading: &Leased) {
    let notes = slot.notes();
    let shortening = Ledger::read(&reading.channel, &notes);
    let shortened = within(slot.client.link.deadline(), "the records of sessions", shortening).await;
    slot.state().ledger.was_shortened();
    if let Err(failure) = shortened {
        log::failed(&slot.source.path, "the session records were not compacted: it is tried again", &failure);
    }
}
