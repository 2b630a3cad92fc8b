//! Runs the jobs of a slot's task for holders.

use std::sync::Arc;

use consign_core::{
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, SettleError},
};
use lapin::Channel;

use super::{
    error::of_session,
    layout,
    ledger::Record,
    slot::Slot,
    work::{Job, Work},
};
use crate::{
    error::Failure,
    log,
    receiver::{
        copy,
        delivered::Held,
        settle::{UNROUTABLE, publish, written},
    },
};

/// The reason of a dead letter that another client has published to the queue of a wrong slot.
const WRONG_SLOT: &str = "WrongSessionSlot";

pub(super) async fn run(job: Job, slot: Arc<Slot>, channel: Channel) {
    let Job { id, work, done } = job;
    let result = match work {
        Work::Record => write(&slot, &id, &channel, |_| {}).await,
        Work::State { before, to } => {
            let undo = |record: &mut Record| {
                // Unless there is a newer one.
                if record.state == to {
                    record.state = before;
                }
            };
            write(&slot, &id, &channel, undo).await
        }
        Work::DeadLetter(held, dead_letter) => bury(&slot, &id, held, *dead_letter).await,
        Work::Refuse(held, dead_letter) => refuse(&slot, &id, held, *dead_letter).await,
        Work::Drop(held) => ack(&slot, &id, held).await,
        Work::Move(held) => move_to_slot(&slot, &id, held).await,
    };
    let result = result.map_err(of_session);
    if let (Err(error), None) = (&result, &done)
        && error.kind() != ErrorKind::SessionLockLost
    {
        log::failed(&slot.source.path, "a message of a session was not settled: it is redelivered", error);
    }
    if let Some(done) = done {
        let _ = done.send(result);
    }
}

async fn write(slot: &Slot, id: &str, channel: &Channel, undo: impl FnOnce(&mut Record)) -> Result<(), SettleError> {
    let now = slot.client.now();
    let note = slot.state().ledger.note(id, now);
    let deadline = slot.client.link.deadline();
    let queue = slot.notes();
    let writing = tokio::time::timeout(deadline, note.write(channel, &queue)).await;
    let result = writing.unwrap_or_else(|_| Err(Failure::late("the record of a session", deadline)));
    if result.is_err() {
        slot.state().ledger.change(id, undo);
    }
    Ok(result?)
}

/// Dead-letters a message. If no copy can be published the message is the next one again after a pause.
async fn bury(slot: &Slot, id: &str, held: Held, dead_letter: DeadLetter) -> Result<(), SettleError> {
    match publish_dead(slot, &held, dead_letter).await {
        Ok(()) => ack(slot, id, held).await,
        Err(error) if held.ticket.is_lost() => Err(error),
        Err(error) => {
            tokio::time::sleep(UNROUTABLE).await;
            slot.state().put_back(id, held);
            Err(error)
        }
    }
}

/// Dead-letters a message that belongs to no session, or that no holder can be given.
async fn refuse(slot: &Slot, id: &str, held: Held, dead_letter: DeadLetter) -> Result<(), SettleError> {
    match publish_dead(slot, &held, dead_letter.clone()).await {
        Ok(()) => ack(slot, id, held).await,
        Err(error) => {
            tokio::time::sleep(UNROUTABLE).await;
            // The slot ends when nothing else is left, and the message returns to the queue.
            if !held.ticket.is_lost() && !slot.is_left() {
                slot.state().jobs.push(Job::new(id, Work::Refuse(held, Box::new(dead_letter))));
            }
            Err(error)
        }
    }
}

/// Publishes the copy that is the dead letter. A failure after that leaves two messages, never none.
async fn publish_dead(slot: &Slot, held: &Held, dead_letter: DeadLetter) -> Result<(), SettleError> {
    if held.ticket.is_lost() {
        return Err(SettleError::new(ErrorKind::SessionLockLost));
    }
    let source = &slot.source;
    let copy = copy::dead(held, source, held.facts.failed, dead_letter);
    let copy = copy.map_err(|error| Failure::new(error.kind(), error.to_string()))?;
    Ok(publish(&slot.client, source, held, copy).await?)
}

/// Moves a message to its slot. A failure in between leaves two messages, never none. A message that its slot refuses is
/// dead-lettered. If that is refused too, it stays unacknowledged until this slot is given up.
async fn move_to_slot(slot: &Slot, id: &str, held: Held) -> Result<(), SettleError> {
    let source = &slot.source;
    let queue = layout::queue_of(&source.path, id, source.settings.session_slots);
    let published = match copy::moved(&held, &queue, slot.client.now()) {
        Ok(copy) => publish(&slot.client, source, &held, copy).await,
        Err(error) => Err(Failure::new(error.kind(), error.to_string())),
    };
    let failure = match published {
        Ok(()) => return ack(slot, id, held).await,
        Err(failure) if failure.kind() == ErrorKind::CommunicationProblem => return Err(failure.into()),
        Err(failure) => SettleError::from(failure),
    };
    let why = format!("the session belongs into {queue:?} and not into {:?}: {failure}", slot.queue());
    let mut dead_letter = DeadLetter::new(DeadLetterReason::Application(WRONG_SLOT.into()), why);
    dead_letter.fit(held.message.properties());
    let copy = copy::dead(&held, source, held.facts.failed, dead_letter)
        .map_err(|error| SettleError::from(Failure::new(error.kind(), error.to_string())))?;
    publish(&slot.client, source, &held, copy).await?;
    ack(slot, id, held).await
}

async fn ack(slot: &Slot, id: &str, held: Held) -> Result<(), SettleError> {
    slot.state().ledger.settled(id, held.facts.number);
    written("basic.ack", held.ticket.ack(), slot.client.link.deadline()).await
}
