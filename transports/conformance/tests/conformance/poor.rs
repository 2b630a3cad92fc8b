//! A transport that can do little, and says so; or does not say so. What it shows is that the suite notices.

use std::{
    future::{Ready, ready},
    task::{Context, Poll, ready},
    time::Duration,
};

use consign::{
    Disposition,
    broker::{Acknowledged, QueueLease, QueueReceiver, QueueSender},
    message::EntityPath,
    time::Timestamp,
    transport::{
        Capabilities, Capability, Delivery, Lease, Level, ManageError, ReceiveError, Receiver, SendError, SettleError,
        Unsupported,
    },
};
use consign_conformance::{Backend, Mode, NoSession, NoTransaction, Outcome, QueueSpec, Suite};

use crate::embedded::Embedded;

/// What is left when nobody thought of anything.
const POOR: Capabilities = Capabilities::all(Level::Unsupported)
    .with(Capability::Acceptance, Level::Native)
    .with(Capability::PeekLock, Level::Native)
    .with(Capability::LockDuration, Level::Native)
    .with(Capability::AbandonInPlace, Level::Emulated)
    .with(Capability::DeliveryCount, Level::Emulated);

struct Poor {
    inner: Embedded,
    capabilities: Capabilities,
    /// Whether a renewal claims to have happened.
    lies: bool,
}

impl Poor {
    fn new(capabilities: Capabilities, lies: bool) -> Self {
        Self { inner: Embedded::new(), capabilities, lies }
    }
}

struct PoorReceiver {
    inner: QueueReceiver,
    lies: bool,
}

struct PoorLease {
    inner: QueueLease,
    lies: bool,
}

impl Receiver for PoorReceiver {
    type Lease = PoorLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<PoorLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let mut received = Vec::new();
        let taken = ready!(self.inner.poll_receive(cx, max, &mut received))?;
        let lies = self.lies;
        out.extend(
            received
                .into_iter()
                .map(|Delivery { message, lease }| Delivery { message, lease: PoorLease { inner: lease, lies } }),
        );
        Poll::Ready(Ok(taken))
    }

    fn stop(&mut self) {
        self.inner.stop();
    }
}

impl Lease for PoorLease {
    type Settle = Acknowledged<(), SettleError>;
    type Renew = Ready<Result<Timestamp, SettleError>>;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        match disposition {
            Disposition::Complete | Disposition::Abandon(_) => self.inner.settle(disposition),
            Disposition::DeadLetter(_) => {
                Acknowledged::ready(Err(Unsupported::new(Capability::DeadLetterReason).into()))
            }
            Disposition::Defer(_) => Acknowledged::ready(Err(Unsupported::new(Capability::Deferral).into())),
        }
    }

    fn release(self) -> Self::Settle {
        Acknowledged::ready(Err(Unsupported::new(Capability::Release).into()))
    }

    fn renew(&self) -> Self::Renew {
        ready(if self.lies { Ok(Timestamp::MAX) } else { Err(Unsupported::new(Capability::LockRenewal).into()) })
    }

    fn lock_duration(&self) -> Option<Duration> {
        self.inner.lock_duration()
    }
}

impl Backend for Poor {
    type Sender = QueueSender;
    type Lease = PoorLease;
    type Receiver = PoorReceiver;
    type Session = NoSession<PoorLease>;
    type Transaction = NoTransaction<PoorLease>;

    fn name(&self) -> &'static str {
        "poor"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn now(&self) -> Timestamp {
        self.inner.now().await
    }

    async fn create_queue(&self, path: &EntityPath, spec: &QueueSpec) -> Result<(), ManageError> {
        let can = QueueSpec { lock_duration: spec.lock_duration, ..QueueSpec::default() };
        if *spec != can {
            return Err(Unsupported::new(Capability::MaxDeliveryCount).into());
        }
        self.inner.create_queue(path, spec).await
    }

    async fn sender(&self, path: &EntityPath) -> Result<QueueSender, SendError> {
        self.inner.sender(path).await
    }

    async fn receiver(&self, path: &EntityPath, mode: Mode) -> Result<PoorReceiver, ReceiveError> {
        match mode {
            Mode::PeekLock => Ok(PoorReceiver { inner: self.inner.receiver(path, mode).await?, lies: self.lies }),
            Mode::ReceiveAndDelete => Err(Unsupported::new(Capability::ReceiveAndDelete).into()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k_40_what_a_poor_transport_cannot_do_it_refuses() {
    let refusing = [
        Capability::ReceiveAndDelete,
        Capability::LockRenewal,
        Capability::MaxDeliveryCount,
        Capability::CancelScheduled,
        Capability::Peek,
        Capability::Deferral,
        Capability::Release,
        Capability::DuplicateDetection,
        Capability::Sessions,
        Capability::Topics,
        Capability::Transactions,
        Capability::Purge,
    ];
    for capability in refusing {
        let report = Suite::new().only(capability).run(&Poor::new(POOR, false)).await;
        assert!(report.is_passed(), "{report}");
        let refused = |outcome: &Outcome| matches!(outcome, Outcome::Refused | Outcome::PassedOver(_));
        assert!(report.cases.iter().all(|case| refused(&case.outcome)), "{report}");
    }
    for capability in [Capability::PeekLock, Capability::LockDuration, Capability::AbandonInPlace] {
        let report = Suite::new().only(capability).run(&Poor::new(POOR, false)).await;
        assert!(report.is_passed() && report.tally(None).all > 0, "{report}");
    }
}

#[tokio::test(start_paused = true)]
async fn k_40_what_is_claimed_and_not_there_fails() {
    let boasting = POOR.with(Capability::Peek, Level::Native).with(Capability::Sessions, Level::Emulated);
    for capability in [Capability::Peek, Capability::Sessions] {
        let report = Suite::new().only(capability).run(&Poor::new(boasting, false)).await;
        let failed = report.cases.iter().filter(|case| matches!(case.outcome, Outcome::Failed(_)));
        let over = report.cases.iter().filter(|case| matches!(case.outcome, Outcome::PassedOver(_)));
        assert_eq!(failed.count() + over.count(), report.cases.len(), "{report}");
        assert!(!report.is_passed());
    }
}

#[tokio::test(start_paused = true)]
async fn k_40_a_call_that_pretends_is_noticed() {
    let report = Suite::new().only(Capability::LockRenewal).run(&Poor::new(POOR, true)).await;
    let silent = report.failed().filter(|case| matches!(case.outcome, Outcome::SilentlyIgnored(_)));
    assert!(silent.count() > 0, "{report}");
    let claiming = POOR.with(Capability::LockRenewal, Level::Native);
    let report = Suite::new().only(Capability::LockRenewal).run(&Poor::new(claiming, true)).await;
    assert!(report.failed().all(|case| matches!(case.outcome, Outcome::Failed(_))), "{report}");
    assert!(!report.is_passed());
}

#[tokio::test(start_paused = true)]
async fn k_40_what_works_and_is_declared_unsupported_is_noticed() {
    let modest = POOR.with(Capability::LockDuration, Level::Unsupported);
    let report = Suite::new().only(Capability::LockDuration).run(&Poor::new(modest, false)).await;
    assert!(report.cases.iter().all(|case| case.outcome == Outcome::Undeclared), "{report}");
}
