mod deferred;
mod deliveries;
mod group;
mod kept;
mod lock;
mod receive;
mod shares;

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
};

use consign_core::{
    message::EntityPath,
    transport::{Capabilities, Delivery, EntityInfo, ReceiveError, Receiver},
};
use uuid::Uuid;

pub(crate) use self::{deferred::receive_deferred, deliveries::until_due, group::Groups};
use self::{
    group::Group,
    kept::{Answer, Kept},
};
use crate::{Inner, PostgresLease, capabilities::CAPABILITIES, entity::Entity, fetch::Fetch};

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

/// Receives from a queue, a subscription, or a dead-letter sub-queue.
///
/// A message is locked in the database when it is fetched, never ahead, and no more than callers have requested. Receivers of one
/// entity and mode that wait at the same time, in one process, are served by one statement. If there are fewer messages than they
/// want, these are shared out equally. A failure of the statement is that of all of them.
///
/// Messages that were locked for a dropped receive go to others that wait, or are released, without counting the delivery.
///
/// In the mode receive-and-delete, messages that were removed for a receive that was cancelled go to others that wait, or are
/// returned by the next receive. Those that a dropped receiver has are lost, and a `WARN` has their number.
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
    group: Arc<Group>,
    fetch: Fetch<Answer>,
    /// Messages that a caller had requested and then did not take, the oldest last.
    spare: Deliveries,
    /// In the mode receive-and-delete, those of cancelled calls.
    kept: Option<Arc<Kept>>,
}

impl PostgresReceiver {
    pub(crate) fn new(inner: Arc<Inner>, source: Source) -> Self {
        let group = inner.groups.of(source);
        let mut receiver = Self { inner, group, fetch: Fetch::new(), spare: Vec::new(), kept: None };
        if receiver.source().deletes {
            receiver.kept = Some(Kept::new(receiver.path().as_str().to_owned()));
        }
        receiver
    }

    pub(crate) fn source(&self) -> &Source {
        &self.group.source
    }

    /// Returns the path of the entity.
    #[must_use]
    pub fn path(&self) -> EntityPath {
        match self.source().part {
            0 => self.source().entity.path.clone(),
            _ => self.source().entity.path.dead_letter(),
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
        if let Some(kept) = &self.kept
            && self.spare.is_empty()
        {
            // A cancelled call may still receive messages, which come before those of another call.
            ready!(self.fetch.poll_stopped(cx));
            self.spare = kept.take();
            self.spare.reverse();
        }
        if self.spare.is_empty() {
            let (inner, group, kept) = (&self.inner, &self.group, &self.kept);
            let fetched = self.fetch.poll(cx, |not_before| group.join(inner, max, not_before, kept.clone()));
            self.spare = ready!(fetched)?.deliveries;
            self.spare.reverse();
        }
        let taken = self.spare.len().min(max);
        let rest = self.spare.len() - taken;
        out.extend(self.spare.drain(rest..).rev());
        Poll::Ready(Ok(taken))
    }

    fn stop(&mut self) {
        self.fetch.stop();
        if self.kept.is_none() && !self.spare.is_empty() {
            self.fetch.release(Answer { deliveries: std::mem::take(&mut self.spare), kept: None });
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
        match self.source().part {
            0 => info.max_delivery_count(self.source().entity.max_deliveries),
            _ => info,
        }
    }
}

impl Drop for PostgresReceiver {
    fn drop(&mut self) {
        self.stop();
        if let Some(kept) = &self.kept {
            kept.close(self.spare.len());
        }
    }
}

impl fmt::Debug for PostgresReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresReceiver").field("path", &self.path()).finish_non_exhaustive()
    }
}
