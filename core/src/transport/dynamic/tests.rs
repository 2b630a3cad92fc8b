mod forwards;

use std::{
    future::{Ready, ready},
    task::{Context, Poll},
    time::Duration,
};

use tokio_test::task;

use super::*;
use crate::{
    Disposition,
    transport::{ErrorKind, Lease, Receiver, ReceiverExt, Session, SettleError},
};

/// A transport, its receiver and its session. It stops at the second poll.
#[derive(Clone, Default)]
struct Stub {
    is_stopped: bool,
}

struct StubLease(Option<Duration>);

impl Lease for StubLease {
    type Settle = Ready<Result<(), SettleError>>;
    type Renew = Ready<Result<Timestamp, SettleError>>;

    fn settle(self, _: Disposition) -> Self::Settle {
        ready(Ok(()))
    }

    fn release(self) -> Self::Settle {
        ready(Ok(()))
    }

    fn renew(&self) -> Self::Renew {
        ready(Ok(Timestamp::MAX))
    }

    fn lock_duration(&self) -> Option<Duration> {
        self.0
    }
}

impl Receiver for Stub {
    type Lease = StubLease;

    fn poll_receive(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        out: &mut Vec<Delivery<StubLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        out.push(Delivery { message: Message::new(""), lease: StubLease(Some(Duration::from_secs(9))) });
        Poll::Ready(Ok(1))
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_stopped {
            return Poll::Ready(());
        }
        self.is_stopped = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Session for Stub {
    type Renew = Ready<Result<Timestamp, SettleError>>;
    type Close = Ready<Result<(), SettleError>>;

    fn session_id(&self) -> &'static str {
        "customer-7"
    }

    fn lock_duration(&self) -> Duration {
        Duration::from_secs(7)
    }

    fn renew(&self) -> Self::Renew {
        ready(Ok(Timestamp::MAX))
    }

    fn close(self) -> Self::Close {
        ready(Ok(()))
    }
}

impl Transport for Stub {
    type Sender = DynSender;
    type Lease = StubLease;
    type Receiver = Self;

    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }

    async fn sender(&self, _: &EntityPath) -> Result<DynSender, SendError> {
        Err(SendError::new(ErrorKind::NotSupported))
    }

    async fn receiver(&self, _: &EntityPath, _: ReceiveMode) -> Result<Self, ReceiveError> {
        Ok(self.clone())
    }
}

/// Breaks its contract: it appends so many deliveries, and fails.
struct Fails(usize);

impl Receiver for Fails {
    type Lease = StubLease;

    fn poll_receive(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        out: &mut Vec<Delivery<StubLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let count = std::mem::take(&mut self.0);
        out.extend((0..count).map(|_| Delivery { message: Message::new(""), lease: StubLease(None) }));
        Poll::Ready(Err(ReceiveError::new(ErrorKind::ServiceBusy)))
    }
}

/// Rules: K-40.
#[test]
fn a_transport_implements_what_it_was_built_with() {
    // A boxed transport has every trait, whatever is in it.
    let build = || DynTransport::builder(DynTransport::builder(Stub::default()).build());
    let administration = [
        Capability::LockDuration,
        Capability::MaxDeliveryCount,
        Capability::DeadLetterOnExpiration,
        Capability::DuplicateDetection,
        Capability::Topics,
        Capability::AutoForward,
    ];
    let sessions = [Capability::Sessions, Capability::SessionState, Capability::NextSession];
    let operations: [(DynTransport, &[Capability]); 7] = [
        (build().peek().build(), &[Capability::Peek]),
        (build().schedule().build(), &[Capability::Scheduling, Capability::CancelScheduled]),
        (build().receive_deferred().build(), &[Capability::Deferral]),
        (build().purge().build(), &[Capability::Purge]),
        (build().sessions().build(), &sessions),
        (build().transactions().build(), &[Capability::Transactions]),
        (build().administration().build(), &administration),
    ];
    let optional: Vec<Capability> = operations.iter().flat_map(|(_, added)| added.iter().copied()).collect();
    assert_eq!(optional.len(), 15);
    let bare = build().build();
    for &capability in Capability::ALL {
        assert_eq!(bare.implements(capability), !optional.contains(&capability), "{capability:?}");
        for (transport, added) in &operations {
            let expected = added.contains(&capability) || !optional.contains(&capability);
            assert_eq!(transport.implements(capability), expected, "{capability:?} {added:?}");
        }
    }
}

#[tokio::test]
async fn what_a_receive_has_appended_before_it_failed_is_delivered() {
    let mut receiver = DynReceiver::new(Fails(2));
    assert_eq!(receiver.receive_batch(8).await.unwrap().len(), 2);
    assert_eq!(receiver.receive_batch(8).await.unwrap_err().kind(), ErrorKind::ServiceBusy);
}

#[tokio::test]
async fn a_boxed_lease_has_the_lock_duration_of_the_one_inside() {
    let transport = DynTransport::builder(Stub::default()).build();
    let path = EntityPath::new("orders").unwrap();
    let mut receiver = Transport::receiver(&transport, &path, ReceiveMode::PeekLock).await.unwrap();
    let delivery = receiver.receive().await.unwrap();
    assert_eq!(delivery.lease.lock_duration(), Some(Duration::from_secs(9)));
    assert_eq!(DynLease::new(StubLease(None)).lock_duration(), None);
}

#[test]
fn a_boxed_session_has_the_id_and_the_lock_duration_of_the_one_inside() {
    let session = DynSession::new(Stub::default());
    assert_eq!((session.session_id(), session.lock_duration()), ("customer-7", Duration::from_secs(7)));
}

#[test]
fn a_boxed_receiver_or_session_is_stopped_when_the_one_inside_is() {
    let mut receiver = DynReceiver::new(Stub::default());
    let mut session = DynSession::new(Stub::default());
    let mut receiver_stops = task::spawn(receiver.stopped());
    let mut session_stops = task::spawn(session.stopped());
    for expected in [Poll::Pending, Poll::Ready(())] {
        assert_eq!((receiver_stops.poll(), session_stops.poll()), (expected, expected));
    }
}
