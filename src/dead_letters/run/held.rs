//! Locks that a run holds.

use std::{
    convert::Infallible,
    future::{Future, pending},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until};

use super::super::{ActionError, action::NotCommitted};
use crate::{
    Disposition,
    settlement::cause_of,
    transport::{
        Escaped, Lease, SettleError,
        deadline::{Timed, clamped},
        log_limit,
    },
};

/// A lease that is given back uncounted when it is dropped.
pub(in super::super) struct Kept<L: Lease>(Option<L>);

impl<L: Lease> Kept<L> {
    pub(in super::super) fn new(lease: L) -> Self {
        Self(Some(lease))
    }

    /// The lease, which abandons the message when it is dropped.
    pub(in super::super) fn into_lease(mut self) -> Option<L> {
        self.0.take()
    }

    /// Completes the message together with a send.
    pub(super) async fn commit<F>(
        mut self,
        commit: impl FnOnce(L) -> F,
        operation: Duration,
    ) -> Result<(), NotCommitted<Self>>
    where
        F: Future<Output = Result<(), NotCommitted<L>>>,
    {
        let Some(lease) = self.0.take() else { return Ok(()) };
        match Timed::new(commit(lease), operation).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(NotCommitted { error, lease })) => Err(NotCommitted { error, lease: lease.map(Self::new) }),
            Err(unanswered) => {
                Err(NotCommitted { error: ActionError::transaction(SettleError::from(unanswered)), lease: None })
            }
        }
    }

    /// Completes the message: the broker removes it.
    pub(super) async fn complete(mut self, operation: Duration) -> Result<(), SettleError> {
        match self.0.take() {
            Some(lease) => Timed::new(lease.settle(Disposition::Complete), operation).await?,
            None => Ok(()),
        }
    }

    pub(super) fn release(mut self) -> Option<L::Settle> {
        Some(self.0.take()?.release())
    }

    pub(super) fn renew(&self) -> Option<L::Renew> {
        Some(self.0.as_ref()?.renew())
    }

    /// How long after a renewal the next is due. A transport may answer with any lock, and instants must not overflow.
    pub(super) fn renewal(&self) -> Option<Duration> {
        Some(clamped(self.0.as_ref()?.lock_duration()? / 2))
    }
}

impl<L: Lease> Drop for Kept<L> {
    fn drop(&mut self) {
        if let Some(lease) = self.0.take() {
            // It begins when it is called, and nothing can wait here.
            drop(lease.release());
        }
    }
}

#[cold]
fn not_renewed(error: &SettleError) {
    let reason = "RenewalFailed";
    if let Some(suppressed) = log_limit("dead_letters", reason) {
        let suppressed = Some(suppressed).filter(|suppressed| *suppressed > 0);
        tracing::warn!(
            reason,
            error = %Escaped(&cause_of(error)),
            suppressed,
            "the lock of a dead letter was not renewed: the renewal is tried again, or the dead letter is received again"
        );
    }
}

/// What stays is held until the end of the run, so that a receiver meets what is behind it and meets nothing twice.
pub(super) struct Held<L: Lease> {
    leases: Vec<Kept<L>>,
    /// So many have been renewed in this round, or were taken after the last one.
    renewed: usize,
    renewing: FuturesUnordered<Timed<L::Renew>>,
    due: Instant,
    /// How long an answer may take.
    operation: Duration,
}

impl<L: Lease> Held<L> {
    /// Most renewals, or releases, at once.
    const AT_ONCE: usize = 64;

    pub(super) fn new(operation: Duration) -> Self {
        Self { leases: Vec::new(), renewed: 0, renewing: FuturesUnordered::new(), due: Instant::now(), operation }
    }

    pub(super) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(super) fn push(&mut self, lease: Kept<L>) {
        if self.leases.is_empty() {
            self.due = Instant::now() + lease.renewal().unwrap_or_default();
        }
        if self.renewed == self.leases.len() {
            self.renewed += 1;
        }
        self.leases.push(lease);
    }

    /// Renews each lock before its time. It can be dropped and called again at any point. A lost lock does no harm: the
    /// dead letter is received again.
    pub(super) async fn keep(&mut self) -> Infallible {
        loop {
            let Some(every) = self.leases.first().and_then(Kept::renewal) else {
                return pending().await;
            };
            if self.renewed == self.leases.len() && self.renewing.is_empty() {
                sleep_until(self.due).await;
                self.due = Instant::now() + every;
                self.renewed = 0;
            }
            while self.renewed < self.leases.len() && self.renewing.len() < Self::AT_ONCE {
                let renewal = self.leases[self.renewed].renew();
                self.renewing.extend(renewal.map(|renewal| Timed::new(renewal, self.operation.min(every))));
                self.renewed += 1;
            }
            match self.renewing.next().await {
                None | Some(Ok(Ok(_))) => {}
                Some(Ok(Err(refused))) => not_renewed(&refused),
                Some(Err(unanswered)) => not_renewed(&unanswered.into()),
            }
        }
    }

    /// Gives all of them back, uncounted.
    pub(super) async fn release(mut self) {
        let mut releasing = FuturesUnordered::new();
        let mut unanswered = 0_usize;
        while let Some(lease) = self.leases.pop() {
            if unanswered > 0 {
                // The release begins and is not awaited: each might take the whole of the time.
                drop(lease.release());
                continue;
            }
            releasing.extend(lease.release().map(|release| Timed::new(release, self.operation)));
            if releasing.len() == Self::AT_ONCE {
                unanswered += usize::from(matches!(releasing.next().await, Some(Err(_))));
            }
        }
        while let Some(released) = releasing.next().await {
            unanswered += usize::from(released.is_err());
        }
        if unanswered > 0 {
            tracing::warn!(
                unanswered,
                "the locks of dead letters were not released in time: the dead letters are free when their locks end"
            );
        }
    }
}
