mod deferred;
mod deliveries;
mod lock;
mod receive;

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
};

use consign_core::{
    message::EntityPath,
    transport::{BoxFuture, Capabilities, Delivery, EntityInfo, Lease, ReceiveError, Receiver},
};
use futures_util::future::join_all;
use uuid::Uuid;

pub(crate) use self::{deferred::receive_deferred, deliveries::until_due};
use crate::{
    Inner, PostgresLease,
    capabilities::CAPABILITIES,
    entity::Entity,
    fetch::{Fetch, Locked},
};

/// The source of messages.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) entity: Entity,
    pub(crate) part: i16,
    /// Whether messages are removed as they are delivered.
    pub(crate) deletes: bool,
    /// The session and its lock.
    pub(crate) session: Option<(Vec<u8>, Uuid)>,
}

pub(crate) type Deliveries = Vec<Delivery<PostgresLease>>;

impl Locked for Deliveries {
    fn give_back(self) -> BoxFuture<()> {
        // Each begins when it is called. What was received and deleted has nothing to release.
        let releases: Vec<_> = self.into_iter().map(|delivery| delivery.lease.release()).collect();
        Box::pin(async { drop(join_all(releases).await) })
    }
}

/// Receives from a queue, a subscription, or a dead-letter sub-queue.
///
/// A message is locked in the database when it is fetched, never ahead, and no more than the caller has requested. A dropped
/// receive releases the messages that it has locked, without counting the delivery.
///
/// When the connection is lost a receive fails as [`CommunicationProblem`](consign_core::transport::ErrorKind::CommunicationProblem) or
/// [`ServiceTimeout`](consign_core::transport::ErrorKind::ServiceTimeout), which is retryable: the next call connects again, after 25 ms at first and
/// 2 s at most.
///
/// # Errors
///
/// Besides these: [`EntityNotFound`](consign_core::transport::ErrorKind::EntityNotFound), [`EntityDisabled`](consign_core::transport::ErrorKind::EntityDisabled), and
/// [`InvalidOperation`](consign_core::transport::ErrorKind::InvalidOperation) on an entity that requires sessions.
pub struct PostgresReceiver {
    inner: Arc<Inner>,
    pub(crate) source: Arc<Source>,
    fetch: Fetch<Deliveries>,
    /// Messages that a caller had requested and then did not take, the oldest last.
    spare: Deliveries,
}

impl PostgresReceiver {
    pub(crate) fn new(inner: Arc<Inner>, source: Source) -> Self {
        Self { inner, source: Arc::new(source), fetch: Fetch::new(), spare: Vec::new() }
    }

    /// Returns the path of the entity.
    #[must_use]
    pub fn path(&self) -> EntityPath {
        match self.source.part {
            0 => self.source.entity.path.clone(),
            _ => self.source.entity.path.dead_letter(),
        }
    }
}

impl Receiver for PostgresReceiver {
    type Lease = PostgresLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<PostgresLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let max = max.max(1);
        if self.spare.is_empty() {
            let (inner, source) = (&self.inner, &self.source);
            let fetched =
                self.fetch.poll(cx, |call| receive::receive(Arc::clone(inner), Arc::clone(source), max, call));
            self.spare = ready!(fetched)?;
            self.spare.reverse();
        }
        let taken = self.spare.len().min(max);
        let rest = self.spare.len() - taken;
        out.extend(self.spare.drain(rest..).rev());
        Poll::Ready(Ok(taken))
    }

    fn stop(&mut self) {
        self.fetch.stop();
        if !self.spare.is_empty() {
            self.fetch.release(std::mem::take(&mut self.spare));
        }
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.fetch.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn entity_info(&self) -> EntityInfo {
        let info = EntityInfo::new(self.path().as_str());
        match self.source.part {
            0 => info.max_delivery_count(self.source.entity.max_deliveries),
            _ => info,
        }
    }
}

impl Drop for PostgresReceiver {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for PostgresReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresReceiver").field("path", &self.path()).finish_non_exhaustive()
    }
}
