//! Sessions whose locks are lost before their first message.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    consumer::SessionConsumer,
    time::Timestamp,
    transport::{BoxFuture, Delivery, ErrorKind, ReceiveError, Receiver, Session, SessionSource, SettleError},
};
use tokio::time::{Sleep, sleep};

use crate::{
    fake::{Answer, FakeLease},
    seconds, within,
};

async fn completed(_: Message) -> Result<Disposition, Infallible> {
    Ok(Disposition::Complete)
}

/// A source whose sessions are accepted after a millisecond, and are lost at their first receive.
#[derive(Clone, Default)]
struct Lost {
    accepted: Arc<AtomicUsize>,
    accepting: Arc<Mutex<Option<Pin<Box<Sleep>>>>>,
}

impl SessionSource for Lost {
    type Session = LostSession;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<LostSession, ReceiveError>> {
        let mut accepting = self.accepting.lock().unwrap();
        let sleep = accepting.get_or_insert_with(|| Box::pin(sleep(Duration::from_millis(1))));
        std::task::ready!(sleep.as_mut().poll(cx));
        *accepting = None;
        self.accepted.fetch_add(1, Relaxed);
        Poll::Ready(Ok(LostSession))
    }
}

struct LostSession;

impl Receiver for LostSession {
    type Lease = FakeLease;

    fn poll_receive(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        _: &mut Vec<Delivery<FakeLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        Poll::Ready(Err(ReceiveError::new(ErrorKind::SessionLockLost)))
    }
}

impl Session for LostSession {
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;
    type Close = BoxFuture<Result<(), SettleError>>;

    fn session_id(&self) -> &'static str {
        "a"
    }

    fn lock_duration(&self) -> Duration {
        seconds(30)
    }

    fn renew(&self) -> Self::Renew {
        Box::pin(async { Err(SettleError::new(ErrorKind::SessionLockLost)) })
    }

    fn close(self) -> Self::Close {
        Answer::Fails(ErrorKind::SessionLockLost).future()
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_that_are_lost_before_a_message_are_not_accepted_without_a_pause() {
    let source = Lost::default();
    let accepted = Arc::clone(&source.accepted);
    let consumer = SessionConsumer::new(source, completed);
    within(3_600, consumer.run_until(sleep(seconds(10)))).await.unwrap();
    let accepted = accepted.load(Relaxed);
    assert!((2..50).contains(&accepted), "{accepted}");
}
