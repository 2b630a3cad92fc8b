//! Locks that a run holds.

use std::{
    convert::Infallible,
    future::{Future, pending},
    time::Duration,
};

use futures_util::{
    future::{Join, Ready, join, ready},
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::{Instant, sleep_until};

use super::super::{ActionError, action::NotCommitted};
use crate::{
    Disposition,
    settlement::cause_of,
    transport::{
        EntityInfo, Escaped, Lease, SettleError,
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
fn not_renewed(entity: &str, error: &SettleError) {
    let reason = "RenewalFailed";
    if let Some(suppressed) = log_limit(entity, reason) {
        let suppressed = Some(suppressed).filter(|suppressed| *suppressed > 0);
        tracing::warn!(
            entity = %Escaped(entity),
            reason,
            error = %Escaped(&cause_of(error)),
            suppressed,
            "the lock of a message was not renewed: the renewal is tried again, or the message is received again"
        );
    }
}

/// What stays is held until the end of the run, so that a receiver meets what is behind it and meets nothing twice.
pub(super) struct Held<L: Lease> {
    /// With the number of each.
    leases: Vec<(usize, Kept<L>)>,
    /// So many were taken, those whose locks were lost among them.
    taken: usize,
    /// So many have been renewed in this round, or were taken after the last one.
    renewed: usize,
    renewing: FuturesUnordered<Join<Ready<usize>, Timed<L::Renew>>>,
    due: Instant,
    /// How long an answer may take.
    operation: Duration,
    /// The entity, for log lines.
    entity: Box<str>,
}

impl<L: Lease> Held<L> {
    /// Most renewals, or releases, at once.
    const AT_ONCE: usize = 64;

    pub(super) fn new(operation: Duration, info: EntityInfo) -> Self {
        Self {
            leases: Vec::new(),
            taken: 0,
            renewed: 0,
            renewing: FuturesUnordered::new(),
            due: Instant::now(),
            operation,
            entity: info.name.map_or_else(|| "unknown".into(), |name| Box::from(&*name)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.leases.len()
    }

    /// How many were taken.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    pub(super) fn push(&mut self, lease: Kept<L>) {
        if self.leases.is_empty() {
            self.due = Instant::now() + lease.renewal().unwrap_or_default();
        }
        if self.renewed == self.leases.len() {
            self.renewed += 1;
        }
        self.leases.push((self.taken, lease));
        self.taken += 1;
    }

    /// Renews each lock before its time. It can be dropped and called again at any point. A lost lock is held no longer, and the
    /// dead letter is received again.
    pub(super) async fn keep(&mut self) -> Infallible {
        loop {
            let Some(every) = self.leases.first().and_then(|(_, lease)| lease.renewal()) else {
                return pending().await;
            };
            if self.renewed == self.leases.len() && self.renewing.is_empty() {
                sleep_until(self.due).await;
                self.due = Instant::now() + every;
                self.renewed = 0;
            }
            while self.renewed < self.leases.len() && self.renewing.len() < Self::AT_ONCE {
                let (number, lease) = &self.leases[self.renewed];
                let within = self.operation.min(every);
                self.renewing.extend(lease.renew().map(|renewal| join(ready(*number), Timed::new(renewal, within))));
                self.renewed += 1;
            }
            match self.renewing.next().await {
                None | Some((_, Ok(Ok(_)))) => {}
                Some((number, Ok(Err(error)))) if error.is_lock_lost() => self.lose(number),
                Some((_, Ok(Err(refused)))) => not_renewed(&self.entity, &refused),
                Some((_, Err(unanswered))) => not_renewed(&self.entity, &unanswered.into()),
            }
        }
    }

    #[cold]
    fn lose(&mut self, number: usize) {
        tracing::debug!(entity = %Escaped(&self.entity), "the lock of a message was lost: it is received again");
        if let Ok(at) = self.leases.binary_search_by_key(&number, |(number, _)| *number) {
            self.leases.remove(at);
            self.renewed -= usize::from(at < self.renewed);
        }
    }

    /// Gives all of them back, uncounted. The oldest is the first: a broker may deliver them again in the order of the releases.
    pub(super) async fn release(mut self) {
        let mut releasing = FuturesUnordered::new();
        let mut unanswered = 0_usize;
        for (_, lease) in self.leases.drain(..) {
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
                "the locks of messages were not released in time: the messages are free when their locks end"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{Ready, ready},
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use tokio::time::timeout;

    use super::*;
    use crate::{time::Timestamp, transport::ErrorKind};

    /// Its renewals are counted, and fail.
    struct Refused(ErrorKind, Arc<AtomicUsize>);

    impl Lease for Refused {
        type Settle = Ready<Result<(), SettleError>>;
        type Renew = Ready<Result<Timestamp, SettleError>>;

        fn settle(self, _: Disposition) -> Self::Settle {
            ready(Ok(()))
        }

        fn release(self) -> Self::Settle {
            ready(Ok(()))
        }

        fn renew(&self) -> Self::Renew {
            self.1.fetch_add(1, Ordering::Relaxed);
            ready(Err(SettleError::new(self.0)))
        }

        fn lock_duration(&self) -> Option<Duration> {
            Some(Duration::from_secs(20))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_lock_is_held_no_longer() {
        let (lost, busy) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let mut held = Held::new(Duration::from_secs(60), EntityInfo::new("orders/$deadletterqueue"));
        for _ in 0..3 {
            held.push(Kept::new(Refused(ErrorKind::MessageLockLost, Arc::clone(&lost))));
            held.push(Kept::new(Refused(ErrorKind::ServiceBusy, Arc::clone(&busy))));
        }
        assert!(timeout(Duration::from_secs(35), held.keep()).await.is_err());
        assert_eq!((lost.load(Ordering::Relaxed), busy.load(Ordering::Relaxed)), (3, 3 * 3));
        assert_eq!((held.len(), held.taken(), held.renewed), (3, 6, 3));
    }
}
