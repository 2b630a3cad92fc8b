//! Sessions of a transport that takes long to deliver their first message, or whose locks have no duration.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    consumer::SessionConsumer,
    time::Timestamp,
    transport::{BoxFuture, Delivery, ReceiveError, Receiver, Session, SessionSource, SettleError},
};
use tokio::time::{Sleep, sleep};

use crate::{
    fake::{Answer, Asked, Fake, FakeLease, FakeReceiver, Script, Step},
    seconds, within,
};

async fn completed(_: Message) -> Result<Disposition, Infallible> {
    Ok(Disposition::Complete)
}

/// A source of one session, which it offers while the message of it is not completed.
#[derive(Clone)]
struct OneMessage {
    fake: Fake,
    takes: Duration,
    is_held: Arc<AtomicBool>,
}

impl OneMessage {
    /// Its message is there `takes` after the first poll.
    fn new(takes: Duration) -> Self {
        Self { fake: Fake::new([Step::Deliver(Script::default())]), takes, is_held: Arc::default() }
    }
}

impl SessionSource for OneMessage {
    type Session = SlowSession;

    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<Result<SlowSession, ReceiveError>> {
        let is_completed = self.fake.asked().iter().any(|asked| matches!(asked, Asked::Settle(..)));
        if is_completed || self.is_held.swap(true, Relaxed) {
            return Poll::Pending;
        }
        let (takes, is_held) = (self.takes, Arc::clone(&self.is_held));
        Poll::Ready(Ok(SlowSession { receiver: self.fake.receiver(), takes, receiving: None, is_held }))
    }
}

struct SlowSession {
    receiver: FakeReceiver,
    takes: Duration,
    receiving: Option<Pin<Box<Sleep>>>,
    is_held: Arc<AtomicBool>,
}

impl Receiver for SlowSession {
    type Lease = FakeLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<FakeLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let receiving = self.receiving.get_or_insert_with(|| Box::pin(sleep(self.takes)));
        std::task::ready!(receiving.as_mut().poll(cx));
        self.receiving = None;
        self.receiver.poll_receive(cx, max, out)
    }

    /// What was requested is released.
    fn stop(&mut self) {
        self.receiving = None;
    }
}

impl Session for SlowSession {
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;
    type Close = BoxFuture<Result<(), SettleError>>;

    fn session_id(&self) -> &'static str {
        "a"
    }

    fn lock_duration(&self) -> Duration {
        seconds(30)
    }

    fn renew(&self) -> Self::Renew {
        Box::pin(async { Ok(Timestamp::MAX) })
    }

    fn close(self) -> Self::Close {
        self.is_held.store(false, Relaxed);
        Answer::Now.future()
    }
}

/// Rules: J-230, N-220.
#[tokio::test(start_paused = true)]
async fn a_session_is_held_until_its_first_message_can_come() {
    let default = seconds(1);
    for (idle, takes) in [(default, 1_500), (Duration::ZERO, 50)] {
        let source = OneMessage::new(Duration::from_millis(takes));
        let consumer = SessionConsumer::new(source, completed).idle_timeout(idle);
        let stats = within(3_600, consumer.run_until(sleep(seconds(60)))).await.unwrap();
        assert_eq!((stats.completed(), stats.sessions()), (1, 1), "{takes}");
    }
}

/// A source of one session whose lock has no duration.
struct NoLock {
    session: Option<NoLockSession>,
}

struct NoLockSession {
    receiver: FakeReceiver,
    renewals: AtomicUsize,
}

impl SessionSource for NoLock {
    type Session = NoLockSession;

    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<Result<NoLockSession, ReceiveError>> {
        self.session.take().map_or(Poll::Pending, |session| Poll::Ready(Ok(session)))
    }
}

impl Receiver for NoLockSession {
    type Lease = FakeLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<FakeLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.receiver.poll_receive(cx, max, out)
    }
}

impl Session for NoLockSession {
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;
    type Close = BoxFuture<Result<(), SettleError>>;

    fn session_id(&self) -> &'static str {
        "a"
    }

    fn lock_duration(&self) -> Duration {
        Duration::ZERO
    }

    fn renew(&self) -> Self::Renew {
        assert!(self.renewals.fetch_add(1, Relaxed) < 10_000, "it is renewed without an end");
        Box::pin(async { Ok(Timestamp::MAX) })
    }

    fn close(self) -> Self::Close {
        Answer::Now.future()
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_lock_has_no_duration_is_received_from() {
    let fake = Fake::new([Step::Deliver(Script::default())]);
    let session = NoLockSession { receiver: fake.receiver(), renewals: AtomicUsize::new(0) };
    let consumer = SessionConsumer::new(NoLock { session: Some(session) }, completed);
    let stats = within(3_600, consumer.run_until(sleep(seconds(10)))).await.unwrap();
    assert_eq!((stats.completed(), stats.sessions()), (1, 1));
}
