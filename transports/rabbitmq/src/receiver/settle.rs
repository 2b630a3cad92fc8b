//! Settlements of more than one step.

use std::{sync::Arc, time::Duration};

use consign_core::{
    settlement::{Changes, DeadLetter},
    transport::{ErrorKind, SendError, SettleError},
};

use super::{
    copy,
    delivered::Held,
    job::{Action, Job},
    settling::lost,
    source::Source,
    state::Shared,
};
use crate::{client, dead_letters, error::Failure, log, publisher::Publication};

/// The pause before a message is released whose copy no queue takes.
pub(crate) const UNROUTABLE: Duration = Duration::from_secs(1);

/// Settles. If a copy cannot be published the message is released unchanged.
pub(super) async fn run(job: Job, shared: Arc<Shared>) {
    let Job { held, action, done } = job;
    let origin = Arc::clone(&held.ticket.origin);
    let result = settle(held, action, &shared).await;
    if let (Err(error), None) = (&result, &done)
        && error.kind() != ErrorKind::MessageLockLost
    {
        log::failed(&shared.source.path, "a message was not settled: it is redelivered", error);
    }
    shared.settled(&origin);
    if let Some(done) = done {
        let _ = done.send(result);
    }
}

async fn settle(held: Held, action: Action, shared: &Shared) -> Result<(), SettleError> {
    let source = &shared.source;
    let settings = &source.settings;
    let (now, delays) = (shared.client.now(), shared.client.link.options.delays.as_str());
    let is_expired = held.facts.expires_at.is_some_and(|at| at <= now);
    match action {
        Action::Complete => ack(held, shared).await,
        // A dead-letter queue does not count.
        Action::Abandon(_) | Action::AbandonAfter(..) | Action::ReleaseAfter(_) | Action::Expire
            if source.path.is_dead_letter() =>
        {
            give_back(held, shared).await
        }
        Action::Abandon(_) | Action::AbandonAfter(..) | Action::Expire if is_expired => {
            if !settings.dead_letter_on_expiration {
                return ack(held, shared).await;
            }
            let dead_letter = DeadLetter::ttl_expired();
            replace_by(copy::dead(&held, source, held.facts.failed, dead_letter), held, shared).await
        }
        Action::GiveBack | Action::Expire => give_back(held, shared).await,
        Action::Abandon(changes) | Action::AbandonAfter(changes, _)
            if held.facts.failed + 1 >= settings.max_delivery_count =>
        {
            let mut dead_letter = DeadLetter::max_delivery_count_exceeded(held.facts.failed + 1, None);
            dead_letter.changes = changes;
            dead_letter.fit(held.message.properties());
            replace_by(copy::dead(&held, source, held.facts.failed + 1, dead_letter), held, shared).await
        }
        Action::Abandon(changes) | Action::AbandonAfter(changes, _) if copy::outgrows(&held, &changes) => {
            replace_by(copy::dead(&held, source, held.facts.failed, DeadLetter::header_size_exceeded()), held, shared)
                .await
        }
        Action::Abandon(changes) => {
            replace_by(copy::abandoned(&held, source, changes, now, delays), held, shared).await
        }
        Action::AbandonAfter(changes, steps) => {
            let copy = copy::delayed(&held, source, changes, held.facts.failed + 1);
            replace_by(delayed(copy, steps, shared).await, held, shared).await
        }
        Action::ReleaseAfter(steps) => {
            let copy = copy::delayed(&held, source, Changes::NONE, held.facts.failed);
            replace_by(delayed(copy, steps, shared).await, held, shared).await
        }
        Action::DeadLetter(dead_letter) => {
            replace_by(copy::dead(&held, source, held.facts.failed, *dead_letter), held, shared).await
        }
    }
}

/// Has the copy wait for so many steps of a delay.
async fn delayed(copy: Result<Publication, SendError>, steps: u32, shared: &Shared) -> Result<Publication, SendError> {
    let (mut copy, client) = (copy?, &shared.client);
    let delays = client.delays().await?;
    delays.route(&client.link, shared.source.path.as_str(), false).await?;
    (copy.exchange, copy.key) = delays.entry(steps);
    Ok(copy)
}

/// Publishes the copy, awaits its confirm, and acknowledges the original: a failure in between leaves two messages, never none.
async fn replace_by(copy: Result<Publication, SendError>, held: Held, shared: &Shared) -> Result<(), SettleError> {
    // Its lock is lost, and the broker redelivers it.
    if held.ticket.is_lost() {
        return Err(lost());
    }
    let published = match copy {
        Ok(copy) => publish(&shared.client, &shared.source, &held, copy).await,
        Err(error) => Err(Failure::new(error.kind(), error.to_string())),
    };
    match published {
        Ok(()) => ack(held, shared).await,
        Err(failure) => {
            // A message whose copy no queue takes, as one that is full, is not redelivered at once.
            if !held.ticket.is_lost() {
                log::failed(
                    &shared.source.path,
                    "the copy of a message was not stored: it is redelivered after a second",
                    &failure,
                );
                tokio::time::sleep(UNROUTABLE).await;
            }
            let _ = give_back(held, shared).await;
            Err(failure.into())
        }
    }
}

/// Publishes a copy. A dead letter of a queue that another program created goes to the exchange that was registered for the
/// queue, or to the dead-letter exchange of the queue. A dead-letter queue of this crate that was deleted is created again.
pub(crate) async fn publish(
    client: &client::Shared,
    source: &Source,
    held: &Held,
    mut copy: Publication,
) -> Result<(), Failure> {
    let (moves, delays) = (client.moves(), client.link.options.delays.as_str());
    let (path, dead) = (source.path.parent(), source.path.dead_letter());
    if copy.key.as_str() != dead.as_str() {
        return moves.publish(copy).await;
    }
    if let Some(exchange) = client.dead_letters.get(&path) {
        exchange.address(&mut copy, held, delays, path.as_str());
        let published = moves.publish(copy).await;
        if published.is_err() {
            client.dead_letters.doubt(&path);
        }
        return published;
    }
    let mut again = copy.clone();
    match moves.publish(copy).await {
        Err(failure) if failure.kind() == ErrorKind::EntityNotFound => {
            match dead_letters::find(client, &path).await? {
                Some(exchange) => exchange.address(&mut again, held, delays, path.as_str()),
                None => client.declare_dead_letters(&dead).await?,
            }
            moves.publish(again).await
        }
        outcome => outcome,
    }
}

async fn ack(held: Held, shared: &Shared) -> Result<(), SettleError> {
    written("basic.ack", held.ticket.ack(), shared.client.link.deadline()).await
}

async fn give_back(held: Held, shared: &Shared) -> Result<(), SettleError> {
    written("basic.nack", held.ticket.nack(), shared.client.link.deadline()).await
}

pub(crate) async fn written(
    what: &str,
    writing: impl Future<Output = Result<(), Failure>>,
    deadline: Duration,
) -> Result<(), SettleError> {
    let written = tokio::time::timeout(deadline, writing).await;
    Ok(written.unwrap_or_else(|_| Err(Failure::late(what, deadline)))?)
}
