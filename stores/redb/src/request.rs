use std::time::Duration;

use consign::{
    middleware::dedup::{Begin, StoreError},
    rpc::RecordedReply,
    time::Moment,
};
use tokio::sync::oneshot;

use crate::replies::NewReply;

/// The channel for the answer to a request.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// A request to the thread of a store.
pub(crate) enum Request {
    Begin { digest: u128, now: Moment, lease: Duration, answer: Answer<Begin<RedbToken>> },
    Renew { token: Holder, now: Moment, lease: Duration, answer: Answer<()> },
    Commit { token: Holder, now: Moment, answer: Answer<()> },
    Forget { token: Holder, answer: Answer<()> },
    PutReply { reply: NewReply, now: Moment, answer: Answer<()> },
    FindReply { digest: u128, now: Moment, answer: Answer<Option<RecordedReply>> },
}

impl Request {
    /// Answers with an error.
    pub(crate) fn refuse(self, error: StoreError) {
        match self {
            Self::Begin { answer, .. } => drop(answer.send(Err(error))),
            Self::Renew { answer, .. }
            | Self::Commit { answer, .. }
            | Self::Forget { answer, .. }
            | Self::PutReply { answer, .. } => drop(answer.send(Err(error))),
            Self::FindReply { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}

/// The right to end a reservation in a [`RedbStore`](crate::RedbStore).
#[derive(Debug)]
pub struct RedbToken(Holder);

/// One reservation of one id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) digest: u128,
    pub(crate) number: u64,
}

impl RedbToken {
    pub(crate) const fn new(holder: Holder) -> Self {
        Self(holder)
    }

    pub(crate) const fn inner(&self) -> &Holder {
        &self.0
    }
}
