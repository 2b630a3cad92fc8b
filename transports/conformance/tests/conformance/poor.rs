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
use consign_conformance::{Backend, Complaint, Mode, NoCall, NoSession, NoTransaction, Outcome, QueueSpec, Suite};

use crate::embedded::Embedded;

/// What is left when nobody thought of anything.
const POOR: Capabilities = Capabilities::none()
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
    not_tested: &'static [(Capability, &'static str)],
}

impl Poor {
    fn new(capabilities: Capabilities, lies: bool) -> Self {
        Self { inner: Embedded::new(), capabilities, lies, not_tested: &[] }
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

    fn not_tested(&self) -> &'static [(Capability, &'static str)] {
        self.not_tested
    }

    async fn now(&self) -> Timestamp {
        self.inner.now().await
    }

    async fn create_queue(&self, path: &EntityPath, spec: &QueueSpec) -> Result<(), ManageError> {
        if spec.max_delivery_count.is_some() {
            return Err(Unsupported::new(Capability::MaxDeliveryCount).into());
        }
        if *spec != (QueueSpec { lock_duration: spec.lock_duration, ..QueueSpec::default() }) {
            return Err(NoCall::new("no such setting").into());
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

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn what_a_poor_transport_cannot_do_it_refuses() {
    let refusing = [
        Capability::ReceiveAndDelete,
        Capability::LockRenewal,
        Capability::MaxDeliveryCount,
        Capability::Deferral,
        Capability::Release,
    ];
    for capability in refusing {
        let report = Suite::new().only(capability).run(&Poor::new(POOR, false)).await;
        assert!(report.is_passed() && report.tally(None).run > 0, "{report}");
        let refused = |outcome: &Outcome| *outcome == Outcome::Refused || !outcome.counts();
        assert!(report.cases.iter().all(|case| refused(&case.outcome)), "{report}");
    }
    for capability in [Capability::PeekLock, Capability::LockDuration, Capability::AbandonInPlace] {
        let report = Suite::new().only(capability).run(&Poor::new(POOR, false)).await;
        assert!(report.is_passed() && report.tally(None).run > 0, "{report}");
    }
}

/// Rules: K-40.
/// What the backend leaves out was not refused by the transport.
#[tokio::test(start_paused = true)]
async fn what_is_not_called_needs_a_reason() {
    let left_out = [
        Capability::CancelScheduled,
        Capability::Peek,
        Capability::DuplicateDetection,
        Capability::Sessions,
        Capability::Topics,
        Capability::Transactions,
        Capability::Purge,
    ];
    for capability in left_out {
        let report = Suite::new().only(capability).run(&Poor::new(POOR, false)).await;
        assert!(!report.is_passed() && report.tally(None).run == 0, "{report}");
        assert_eq!(report.complaints(), [Complaint::NotTested(capability)]);
        let not_tested = Box::leak(Box::new([(capability, "there is no call")]));
        let report = Suite::new().only(capability).run(&Poor { not_tested, ..Poor::new(POOR, false) }).await;
        assert!(report.is_passed(), "{report}");
    }
    let poor = Poor { not_tested: &[(Capability::Deferral, "there is no call")], ..Poor::new(POOR, false) };
    let report = Suite::new().only(Capability::Deferral).run(&poor).await;
    assert_eq!(report.complaints(), [Complaint::Tested(Capability::Deferral)], "{report}");
}

/// Rules: K-40.
/// Nothing is called for a promise, so the cases are run to see whether it holds.
#[tokio::test(start_paused = true)]
async fn a_promise_that_is_not_made_is_tried() {
    for capability in [Capability::SequenceNumbers, Capability::ReleaseOnDisconnect] {
        let report = Suite::new().only(capability).run(&Poor::new(POOR, false)).await;
        assert!(!report.is_passed(), "{report}");
        assert_eq!(report.complaints(), [Complaint::NotTested(capability)], "{report}");
    }
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn what_is_claimed_and_not_there_fails() {
    let boasting = POOR.with(Capability::Peek, Level::Native).with(Capability::Sessions, Level::Emulated);
    for capability in [Capability::Peek, Capability::Sessions] {
        let report = Suite::new().only(capability).run(&Poor::new(boasting, false)).await;
        let failed = report.cases.iter().filter(|case| matches!(case.outcome, Outcome::Failed(_)));
        assert_eq!((failed.count() > 0, report.tally(None).good), (true, 0), "{report}");
        assert!(!report.is_passed());
    }
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn a_call_that_pretends_is_noticed() {
    let report = Suite::new().only(Capability::LockRenewal).run(&Poor::new(POOR, true)).await;
    let silent = report.failed().filter(|case| matches!(case.outcome, Outcome::SilentlyIgnored(_)));
    assert!(silent.count() > 0, "{report}");
    let claiming = POOR.with(Capability::LockRenewal, Level::Native);
    let report = Suite::new().only(Capability::LockRenewal).run(&Poor::new(claiming, true)).await;
    assert!(report.failed().all(|case| matches!(case.outcome, Outcome::Failed(_))), "{report}");
    assert!(!report.is_passed());
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn what_works_and_is_declared_unsupported_is_noticed() {
    let modest = POOR.with(Capability::LockDuration, Level::Unsupported);
    let report = Suite::new().only(Capability::LockDuration).run(&Poor::new(modest, false)).await;
    assert!(report.cases.iter().all(|case| case.outcome == Outcome::Undeclared), "{report}");
}
