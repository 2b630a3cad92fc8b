//! Sends that wait for each other are committed together.

use std::sync::Arc;

use consign_core::transport::{ErrorKind, SendError};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Inner,
    entity::{Entity, missing},
    failure::{Failure, send_error},
    pending::Work,
    plain,
    prepared::{Origin, Prepared, insert},
    quota,
    sender::{arrived, bytes, rejection},
};

/// Several messages that are sent together, and the caller that waits for them.
pub(crate) struct Request {
    pub(crate) messages: Vec<Prepared>,
    pub(crate) answer: oneshot::Sender<Result<(), SendError>>,
    pub(crate) _work: Work,
}

impl Request {
    fn bytes(&self) -> u64 {
        bytes(&self.messages)
    }
}

/// The maximum of requests that are committed together.
const TOGETHER: usize = 1_000;
/// A commit of this many bytes takes no further request. A statement has less than 1 GiB.
const TOGETHER_BYTES: u64 = 4 << 20;

/// Sends requests in order, until all senders of requests are dropped.
pub(crate) async fn run(inner: Arc<Inner>, mut entity: Entity, mut requests: mpsc::Receiver<Request>) {
    let mut waiting = Vec::new();
    let mut changes = inner.quota.changes(entity.id);
    while requests.recv_many(&mut waiting, TOGETHER).await > 0 {
        while !waiting.is_empty() {
            let now = inner.quota.changes(entity.id);
            // It may forward from now on, or no longer. If that cannot be read, the next process that checks forwards.
            if changes != now {
                let found = inner.find(&entity.path).await;
                let is_gone = match &found {
                    // Its id may be that of another entity by now, where the database was restored.
                    Ok(found) => found.id != entity.id,
                    Err(error) => error.kind() == ErrorKind::EntityNotFound,
                };
                if is_gone {
                    let gone = rejection(send_error(missing(&entity.path)));
                    Lost(Arc::new(gone)).answer(waiting.drain(..));
                    continue;
                }
                if let Ok(found) = found {
                    (entity, changes) = (found, now);
                }
            }
            let mut bytes = 0;
            let large = waiting.iter().position(|request| {
                bytes += request.bytes();
                bytes >= TOGETHER_BYTES
            });
            let count = large.map_or(waiting.len(), |last| last + 1);
            if let Some(lost) = send_together(&inner, &entity, waiting.drain(..count).collect()).await {
                // Each statement would wait as long in turn.
                lost.answer(waiting.drain(..));
            }
        }
    }
}

/// Why requests after the failed ones are not sent either.
struct Lost(Arc<SendError>);

impl Lost {
    /// Returns `None` if the next request may have another outcome. A connection that was lost at once is replaced by the next one.
    fn new(error: &SendError, cause: Cause) -> Option<Self> {
        let behind = match cause {
            Cause::NotConnected => copy(error),
            Cause::Unanswered => {
                SendError::new(ErrorKind::ServiceBusy).with_detail("a send before this one has no answer in time")
            }
            Cause::Other => return None,
        };
        Some(Self(Arc::new(behind)))
    }

    /// They were not executed.
    fn answer(&self, requests: impl IntoIterator<Item = Request>) {
        for request in requests {
            let _ = request.answer.send(Err(repeated(&self.0)));
        }
    }
}

/// Sends requests, and returns why those after them are not to be sent.
async fn send_together(inner: &Arc<Inner>, entity: &Entity, batch: Vec<Request>) -> Option<Lost> {
    let outcome = if batch.len() > 1 { send(inner, entity, &batch).await } else { Ok(false) };
    match outcome {
        Ok(true) => {
            arrived(inner, entity).await;
            for request in batch {
                let _ = request.answer.send(Ok(()));
            }
            None
        }
        // One of them may be refused, so they are sent one by one.
        Ok(false) => {
            let mut batch = batch.into_iter();
            while let Some(request) = batch.next() {
                let outcome = send(inner, entity, std::slice::from_ref(&request)).await;
                if outcome.is_ok() {
                    arrived(inner, entity).await;
                }
                let lost = outcome.as_ref().err().and_then(|(error, cause)| Lost::new(error, *cause));
                let _ = request.answer.send(outcome.map(drop).map_err(|(error, _)| error));
                if let Some(lost) = lost {
                    lost.answer(batch);
                    return Some(lost);
                }
            }
            None
        }
        Err((error, cause)) => {
            let lost = Lost::new(&error, cause);
            Lost(Arc::new(error)).answer(batch);
            lost
        }
    }
}

/// Returns the failure of several sends for one of them.
fn repeated(error: &Arc<SendError>) -> SendError {
    copy(error).with_source(Arc::clone(error))
}

fn copy(error: &SendError) -> SendError {
    let detail = error.description().unwrap_or_default().to_owned();
    let one = SendError::new(error.kind()).with_detail(detail).with_retryable(error.is_retryable());
    match error.condition() {
        Some(condition) => one.with_condition(condition.to_owned()),
        None => one,
    }
}

/// Why a send has failed.
#[derive(Clone, Copy)]
enum Cause {
    /// There was no connection within the timeout, or none was opened.
    NotConnected,
    /// There was no answer within the timeout.
    Unanswered,
    Other,
}

/// Sends requests in one transaction. `false` if several are refused together, and none is sent.
async fn send(inner: &Arc<Inner>, entity: &Entity, requests: &[Request]) -> Result<bool, (SendError, Cause)> {
    let messages: Vec<&Prepared> = requests.iter().flat_map(|request| &request.messages).collect();
    let bytes = requests.iter().map(Request::bytes).sum();
    let sent = async {
        if let Err(full) = quota::check(inner, &inner.database, entity.id, messages.len(), bytes).await? {
            return Ok(Err(full));
        }
        let inserted = inner
            .database
            .with(async |client| {
                let client = inner.database.on(client);
                if plain::send(&client, inner, entity, &messages).await? {
                    return Ok(());
                }
                let entity = (entity.id, entity.has_window);
                insert(&client, &inner.schema, entity, &messages, Origin::default()).await.map(drop)
            })
            .await;
        if inserted.as_ref().is_err_and(|failure| !failure.is_unanswered()) {
            quota::refused(inner, entity.id, messages.len(), bytes);
        }
        inserted.map(Ok)
    };
    let sent: Result<Result<(), SendError>, Failure> = sent.await;
    let cause = match sent {
        Err(Failure::Pool(_) | Failure::NotConnected(_)) => Cause::NotConnected,
        Err(Failure::TooLate(_)) => Cause::Unanswered,
        _ => Cause::Other,
    };
    match sent.map_err(SendError::from).flatten() {
        Ok(()) => Ok(true),
        // Without a connection each of them would wait for one in turn.
        Err(error) if requests.len() > 1 && matches!(cause, Cause::Other) && !error.is_outcome_unknown() => Ok(false),
        Err(error) => Err((rejection(error), cause)),
    }
}
