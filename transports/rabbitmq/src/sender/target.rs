//! The target of a sender: what its entity is. It is read from the server with the first send, if this client does not have it.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use consign_core::{
    Message,
    transport::{Batch, SendError},
};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{RabbitMqSender, RabbitMqSending};
use crate::{
    QueueSettings,
    entities::{Found, Known},
    error::Failure,
};

#[derive(Clone, Debug)]
pub(crate) enum Target {
    Queue(Arc<QueueSettings>),
    /// An exchange, with the time to live that its messages have at most.
    Topic(Option<Duration>),
    /// An exchange of another program, which routes by the Subject.
    Exchange,
    /// A requester, by direct reply-to.
    Reply(String),
}

impl From<Found> for Target {
    fn from(found: Found) -> Self {
        match found.known {
            Known::Queue(settings) => Self::Queue(settings),
            Known::Topic(_) if found.is_foreign => Self::Exchange,
            Known::Topic(ttl) => Self::Topic(ttl),
        }
    }
}

/// A send that waits for the target.
pub(super) enum Work {
    One(Box<Message>),
    Batch(Batch),
}

pub(super) struct Resolving {
    target: OnceLock<Target>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// In the order of the calls.
    sends: Vec<(Work, oneshot::Sender<Result<(), SendError>>)>,
    /// Whether a task finds the target for them.
    is_searched: bool,
}

impl Resolving {
    pub(super) fn new(target: Option<Target>) -> Self {
        let this = Self { target: OnceLock::new(), waiting: Mutex::default() };
        if let Some(target) = target {
            let _ = this.target.set(target);
        }
        this
    }

    pub(super) fn get(&self) -> Option<&Target> {
        self.target.get()
    }
}

impl RabbitMqSender {
    /// Returns the target. Sends that wait for it are published before those of later calls.
    pub(crate) async fn resolve(&self) -> Result<Target, Failure> {
        if let Some(target) = self.0.target.get() {
            return Ok(target.clone());
        }
        let target = Target::from(self.0.shared.entities.find(&self.0.shared, &self.0.path).await?);
        let waiting = self.0.target.waiting.lock();
        if !waiting.is_searched {
            let _ = self.0.target.target.set(target.clone());
        }
        Ok(target)
    }

    /// Sends when the target is found.
    pub(super) fn wait(&self, work: Work) -> RabbitMqSending {
        let mut waiting = self.0.target.waiting.lock();
        if let Some(target) = self.0.target.get() {
            return self.start(target, work);
        }
        if waiting.sends.len() >= self.0.shared.link.options.sends_in_flight {
            drop(waiting);
            let sender = self.clone();
            return RabbitMqSending::awaited(async move {
                let target = sender.resolve().await?;
                sender.start(&target, work).await
            });
        }
        let (done, answer) = oneshot::channel();
        waiting.sends.push((work, done));
        if !waiting.is_searched {
            waiting.is_searched = true;
            tokio::spawn(search(self.clone()));
        }
        RabbitMqSending::awaited(async move {
            let ended = |_| SendError::from(Failure::gone("the runtime of the sender has ended"));
            answer.await.map_err(ended).and_then(|sent| sent)
        })
    }
}

async fn search(sender: RabbitMqSender) {
    let found = sender.0.shared.entities.find(&sender.0.shared, &sender.0.path).await;
    let started: Vec<_> = {
        // A send that finds the target set is behind these.
        let mut waiting = sender.0.target.waiting.lock();
        waiting.is_searched = false;
        let sends = std::mem::take(&mut waiting.sends).into_iter().filter(|(_, done)| !done.is_closed());
        match found {
            Ok(known) => {
                let target = Target::from(known);
                let started = sends.map(|(work, done)| (sender.start(&target, work), done)).collect();
                let _ = sender.0.target.target.set(target);
                started
            }
            Err(failure) => {
                for (_, done) in sends {
                    let _ = done.send(Err(failure.clone().into()));
                }
                return;
            }
        }
    };
    join_all(started.into_iter().map(|(sending, done)| async {
        let _ = done.send(sending.await);
    }))
    .await;
}
