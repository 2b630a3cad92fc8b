//! A transport that can do little, and says so; or does not say so. What it shows is that the suite notices.

use std::{
    future::{Ready, ready},
    task::{Context, Poll, ready},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::{Administration, Counts, Entity, EntitySettings, QueueSettings, unsupported_setting},
    broker::{Acknowledged, Broker, QueueLease, QueueReceiver, QueueSender},
    message::EntityPath,
    time::{Clock, Timestamp},
    transport::{
        Batch, Capabilities, Capability, Delivery, DynTransport, ErrorKind, Lease, Level, ManageError, ReceiveError,
        ReceiveMode, Receiver, SendError, Sender, SettleError, Transport, Unsupported,
    },
};
use consign_conformance::{Backend, Boxed, Complaint, Failure, Outcome, Suite};
use tokio::time::Instant;

use crate::embedded::TokioClock;

/// What is left when nobody thought of anything.
const POOR: Capabilities = Capabilities::none()
    .with(Capability::Acceptance, Level::Native)
    .with(Capability::PeekLock, Level::Native)
    .with(Capability::LockDuration, Level::Native)
    .with(Capability::AbandonInPlace, Level::Emulated)
    .with(Capability::DeliveryCount, Level::Emulated);

struct Poor {
    transport: DynTransport,
    clock: TokioClock,
    not_tested: &'static [(Capability, &'static str)],
    /// The text of the failures that are the broker's own.
    outage: Option<&'static str>,
}

impl Poor {
    fn new(capabilities: Capabilities, lies: bool) -> Self {
        let clock = TokioClock(Instant::now());
        let transport = Little { broker: Broker::with_clock(clock), capabilities, lies };
        Self {
            transport: DynTransport::builder(transport).administration().build(),
            clock,
            not_tested: &[],
            outage: None,
        }
    }
}

#[derive(Clone)]
struct Little {
    broker: Broker,
    capabilities: Capabilities,
    /// Whether a renewal claims to have happened.
    lies: bool,
}

#[derive(Clone)]
struct PoorSender {
    inner: QueueSender,
    capabilities: Capabilities,
}

struct PoorReceiver {
    inner: QueueReceiver,
    capabilities: Capabilities,
    lies: bool,
}

struct PoorLease {
    inner: QueueLease,
    lies: bool,
}

impl Sender for PoorSender {
    type Send = <QueueSender as Sender>::Send;

    fn send(&self, message: Message) -> Self::Send {
        Sender::send(&self.inner, message)
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        Sender::send_batch(&self.inner, batch)
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
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

    fn capabilities(&self) -> Capabilities {
        self.capabilities
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

impl Transport for Little {
    type Sender = PoorSender;
    type Lease = PoorLease;
    type Receiver = PoorReceiver;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn sender(&self, path: &EntityPath) -> Result<PoorSender, SendError> {
        Ok(PoorSender { inner: self.broker.sender(path)?, capabilities: self.capabilities })
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<PoorReceiver, ReceiveError> {
        match mode {
            ReceiveMode::PeekLock => {
                let inner = Transport::receiver(&self.broker, path, mode).await?;
                Ok(PoorReceiver { inner, capabilities: self.capabilities, lies: self.lies })
            }
            ReceiveMode::ReceiveAndDelete => Err(Unsupported::new(Capability::ReceiveAndDelete).into()),
        }
    }
}

/// Queues have one setting.
impl Administration for Little {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        let EntitySettings::Queue(queue) = settings else { return Err(Unsupported::new(Capability::Topics).into()) };
        match QueueSettings::default().lock_duration(queue.lock_duration).difference(queue) {
            Some(setting) => Err(unsupported_setting(setting)),
            None => self.broker.create(path, settings).await,
        }
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        self.create(path, settings).await
    }

    async fn update(&self, _: &EntityPath, _: &EntitySettings) -> Result<(), ManageError> {
        Err(ManageError::new(ErrorKind::NotSupported))
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        Administration::delete(&self.broker, path).await
    }

    async fn settings(&self, path: &EntityPath) -> Result<EntitySettings, ManageError> {
        Administration::settings(&self.broker, path).await
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        self.broker.list().await
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ManageError> {
        Administration::counts(&self.broker, path).await
    }
}

impl Backend for Poor {
    fn name(&self) -> &'static str {
        "poor"
    }

    fn transport(&self) -> &DynTransport {
        &self.transport
    }

    fn not_tested(&self) -> &'static [(Capability, &'static str)] {
        self.not_tested
    }

    fn is_outage(&self, failure: &Failure) -> bool {
        self.outage.is_some_and(|outage| failure.why().contains(outage))
    }

    fn now(&self) -> Boxed<'_, Timestamp> {
        Box::pin(async { self.clock.now().utc })
    }
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn a_poor_transport_refuses_unsupported_capabilities() {
    let refusing = [
        Capability::ReceiveAndDelete,
        Capability::LockRenewal,
        Capability::MaxDeliveryCount,
        Capability::Deferral,
        Capability::Release,
        // Their traits are not implemented, or their settings are refused.
        Capability::Peek,
        Capability::DuplicateDetection,
        Capability::Sessions,
        Capability::Topics,
        Capability::Transactions,
        Capability::Purge,
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
/// A case that was not run does not show that something is unsupported.
#[tokio::test(start_paused = true)]
async fn a_capability_without_a_call_needs_a_reason() {
    for capability in [Capability::SettleElsewhere, Capability::CancelScheduled, Capability::SqlRules] {
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
async fn a_declared_capability_that_is_missing_fails() {
    let boasting = POOR.with(Capability::Peek, Level::Native).with(Capability::Sessions, Level::Emulated);
    for capability in [Capability::Peek, Capability::Sessions] {
        let report = Suite::new().only(capability).run(&Poor::new(boasting, false)).await;
        let failed = report.cases.iter().filter(|case| matches!(case.outcome, Outcome::Failed(_)));
        assert_eq!((failed.count() > 0, report.tally(None).good), (true, 0), "{report}");
        assert!(!report.is_passed());
        assert!(report.complaints().contains(&Complaint::NoTrait(capability)), "{report}");
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
async fn a_case_is_run_again_after_an_outage() {
    let capable = POOR.with(Capability::LockRenewal, Level::Native);
    for (outage, expected) in [(Some("(renewal of locks)"), 2), (Some("another error"), 0), (None, 0)] {
        let poor = Poor { outage, ..Poor::new(capable, false) };
        let report = Suite::new().only(Capability::LockRenewal).run(&poor).await;
        assert!(!report.is_passed(), "{report}");
        let failed: Vec<usize> = report.failed().map(|case| case.outages.len()).collect();
        assert!(!failed.is_empty() && failed.iter().all(|outages| *outages == expected), "{failed:?}, {report}");
        assert_eq!(report.to_string().contains("the broker failed: "), expected > 0, "{report}");
    }
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn a_working_capability_declared_unsupported_is_noticed() {
    let modest = POOR.with(Capability::LockDuration, Level::Unsupported);
    let report = Suite::new().only(Capability::LockDuration).run(&Poor::new(modest, false)).await;
    assert!(report.cases.iter().all(|case| case.outcome == Outcome::Undeclared), "{report}");
}
