//! The bench of a case.

mod draining;
mod entities;
mod message;
mod receiving;
mod time;
mod waiting;

use std::{collections::HashMap, future::poll_fn, sync::atomic::AtomicUsize, time::Duration};

use consign::{
    Message,
    administration::Administration,
    message::EntityPath,
    transport::{
        AcceptSession, Capabilities, DynReceiver, DynSession, DynTransaction, DynTransport, ErrorKind, Sender,
        SessionSource, Sessions, Transactions, Transport,
    },
};
use tokio::sync::Mutex;

pub(crate) use self::message::{facts, number, numbers, text, texts, why};
use crate::{Backend, Failure, Timing, Verdict};

/// The bench of one case: the backend, entities of its own, and operations that cases share.
pub(crate) struct Bench<'b> {
    pub(crate) backend: &'b dyn Backend,
    pub(crate) transport: &'b DynTransport,
    timing: Timing,
    /// The prefix of its entities, which no other case and no other run has.
    prefix: String,
    entities: AtomicUsize,
    created: Mutex<Vec<EntityPath>>,
    /// One receiver for each entity, kept to the end: on some brokers a lock lives as long as its receiver.
    receivers: Mutex<HashMap<String, DynReceiver>>,
}

impl<'b> Bench<'b> {
    pub(crate) fn new(backend: &'b dyn Backend, prefix: String) -> Self {
        Self {
            backend,
            transport: backend.transport(),
            timing: backend.timing(),
            prefix,
            entities: AtomicUsize::new(0),
            created: Mutex::default(),
            receivers: Mutex::default(),
        }
    }

    /// Deletes the entities of the case, as far as possible. A missing entity is not a failure, nor is a transport that deletes
    /// nothing.
    pub(crate) async fn clear(&self) -> Verdict {
        self.receivers.lock().await.clear();
        let mut cleared = Ok(());
        for path in self.created.lock().await.drain(..).rev() {
            match self.transport.delete(&path).await {
                Err(error) if matches!(error.kind(), ErrorKind::EntityNotFound | ErrorKind::NotSupported) => {}
                Err(error) => cleared = Err(Failure::broken(format!("{path} could not be deleted: {error}"))),
                Ok(()) => {}
            }
        }
        cleared
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.transport.capabilities()
    }

    pub(crate) async fn begin(&self) -> Result<DynTransaction, Failure> {
        Ok(self.transport.begin().await?)
    }

    /// Locks one session. It does not wait.
    pub(crate) async fn accept_session(&self, path: &EntityPath, id: &str) -> Result<DynSession, Failure> {
        Ok(self.transport.sessions(path).await?.accept(id).await?)
    }

    /// Locks a session that has messages and no holder. Without one within `wait` it fails as
    /// [`ErrorKind::ServiceTimeout`].
    pub(crate) async fn accept_next_session(&self, path: &EntityPath, wait: Duration) -> Result<DynSession, Failure> {
        let mut sessions = self.session_source(path).await?;
        let Ok(accepted) = tokio::time::timeout(wait, poll_fn(|cx| sessions.poll_accept(cx))).await else {
            sessions.stop();
            return Err(Failure::answer(ErrorKind::ServiceTimeout, format!("{path} has no session to give")));
        };
        Ok(accepted?)
    }

    pub(crate) async fn send(&self, to: &EntityPath, message: Message) -> Verdict {
        Ok(self.transport.sender(to).await?.send(message).await?)
    }

    /// Sends one message for each body, one after the other.
    pub(crate) async fn send_bodies<const N: usize>(&self, to: &EntityPath, bodies: [&'static str; N]) -> Verdict {
        let sender = self.transport.sender(to).await?;
        for body in bodies {
            sender.send(Message::new(body)).await?;
        }
        Ok(())
    }
}
