//! Receivers that are written as an `async fn`.

use std::{
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker, ready},
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{runtime::Handle, sync::oneshot, time::sleep};

use super::{
    BoxFuture, Capabilities, Delivery, EntityInfo, ErrorKind, Lease, ReceiveError, Receiver,
    deadline::OPERATION_TIMEOUT,
};

/// A receiver written as an `async fn`. [`FromAsync`] makes it a [`Receiver`].
pub trait AsyncReceiver: Send + Unpin + 'static {
    /// The right to settle what this receiver delivers.
    type Lease: Lease;

    /// Receives 1 to `max` messages, waiting for the first.
    ///
    /// `stop` is ready when no caller waits for the messages any more. A receiver that polls its broker for long then
    /// cancels that poll, and returns what it has locked, which may be nothing. A receiver that ignores `stop` goes on
    /// in a task until it has received something. In both cases [`FromAsync`] releases the messages.
    ///
    /// The future is not dropped before it is ready, but with the runtime, or a minute after its [`FromAsync`] was dropped.
    fn receive(
        &mut self,
        max: usize,
        stop: Stop,
    ) -> impl Future<Output = Result<Vec<Delivery<Self::Lease>>, ReceiveError>> + Send;

    /// Returns the capabilities of the transport of this receiver. The default has none.
    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }

    /// As [`Receiver::entity_info`]. It is called once.
    fn entity_info(&self) -> EntityInfo {
        EntityInfo::default()
    }
}

/// A future that is ready when no caller waits for a receive any more: its [`FromAsync`] was
/// [stopped](Receiver::stop), or dropped.
#[must_use = "a future does nothing until it is awaited"]
pub struct Stop(Option<oneshot::Receiver<()>>);

impl Future for Stop {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(stop) = &mut self.0 {
            // The other half is gone, or was used: both mean the same.
            let _ = ready!(stop.poll_unpin(cx));
            self.0 = None;
        }
        Poll::Ready(())
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stop")
    }
}

/// A [`Receiver`] around an [`AsyncReceiver`]. It allocates twice for each call of the inner receiver.
///
/// A receive that is under way when it is [stopped](Receiver::stop), or dropped, is notified and goes on in a task of
/// the tokio runtime until it ends. The messages that it has locked are released without a count, unless a caller polls
/// again by then. What was received and deleted is kept for the next poll.
pub struct FromAsync<R: AsyncReceiver> {
    state: State<R>,
    spare: Vec<Delivery<R::Lease>>,
    /// Releases that are not answered.
    releases: FuturesUnordered<Release<R>>,
    capabilities: Capabilities,
    entity: EntityInfo,
}

type Received<R> = (R, Result<Vec<Delivery<<R as AsyncReceiver>::Lease>>, ReceiveError>);
type Release<R> = <<R as AsyncReceiver>::Lease as Lease>::Settle;
/// The end of a receive that was stopped, and the releases of what it had locked.
type Ended<R> = (Received<R>, Vec<Release<R>>);

enum State<R: AsyncReceiver> {
    /// Nothing is there after a panic of the receiver.
    Idle(Option<R>),
    Receiving {
        receive: BoxFuture<Received<R>>,
        /// Nothing is there once it was used.
        stop: Option<oneshot::Sender<()>>,
    },
    /// A task waits for the end of a receive that was stopped.
    Stopped {
        /// Closed if the receiver has panicked.
        received: oneshot::Receiver<Ended<R>>,
        /// Whether a caller polls again.
        is_wanted: Arc<AtomicBool>,
    },
}

impl<R: AsyncReceiver> FromAsync<R> {
    /// Wraps `receiver`.
    #[must_use]
    pub fn new(receiver: R) -> Self {
        let (capabilities, entity) = (receiver.capabilities(), receiver.entity_info());
        Self {
            state: State::Idle(Some(receiver)),
            spare: Vec::new(),
            releases: FuturesUnordered::new(),
            capabilities,
            entity,
        }
    }

    /// The receive under way has ended after it was stopped.
    fn take_ended(&mut self, (receiver, result): Received<R>) {
        self.state = State::Idle(Some(receiver));
        match result {
            Ok(deliveries) => self.spare.extend(deliveries),
            Err(error) => tracing::debug!(%error, "a receive failed after it was stopped"),
        }
        self.releases.extend(release::<R>(&mut self.spare));
    }

    /// Forgets the releases that are answered. The others have begun.
    fn forget_releases(&mut self) {
        while let Some(Some(_)) = self.releases.next().now_or_never() {}
    }
}

impl<R: AsyncReceiver> Drop for FromAsync<R> {
    fn drop(&mut self) {
        self.stop();
        if !self.spare.is_empty() {
            lost(self.spare.len());
        }
    }
}

/// No field is structurally pinned.
impl<R: AsyncReceiver> Unpin for FromAsync<R> {}

impl<R: AsyncReceiver> fmt::Debug for FromAsync<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromAsync").field("spare", &self.spare.len()).finish_non_exhaustive()
    }
}

impl<R: AsyncReceiver> Receiver for FromAsync<R> {
    type Lease = R::Lease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<R::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        loop {
            if !self.spare.is_empty() {
                let taken = self.spare.len().min(max.max(1));
                out.extend(self.spare.drain(..taken));
                return Poll::Ready(Ok(taken));
            }
            match &mut self.state {
                State::Idle(receiver) => {
                    let Some(mut receiver) = receiver.take() else {
                        let gone = ReceiveError::new(ErrorKind::General);
                        return Poll::Ready(Err(gone.with_detail("the receiver panicked")));
                    };
                    let (stop, stopped) = oneshot::channel();
                    let receive = Box::pin(async move {
                        let result = receiver.receive(max.max(1), Stop(Some(stopped))).await;
                        (receiver, result)
                    });
                    self.state = State::Receiving { receive, stop: Some(stop) };
                }
                State::Receiving { receive, stop } => {
                    let was_stopped = stop.is_none();
                    let Ok(polled) = catch_unwind(AssertUnwindSafe(|| receive.as_mut().poll(cx))) else {
                        self.state = State::Idle(None);
                        continue;
                    };
                    let (receiver, result) = ready!(polled);
                    self.state = State::Idle(Some(receiver));
                    self.spare = result?;
                    if self.spare.is_empty() && !was_stopped {
                        // It did not wait as it should have. Asking again at once may never end.
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                State::Stopped { received, is_wanted } => {
                    is_wanted.store(true, Ordering::Release);
                    let Ok(((receiver, result), releases)) = ready!(received.poll_unpin(cx)) else {
                        self.state = State::Idle(None);
                        continue;
                    };
                    self.state = State::Idle(Some(receiver));
                    self.releases.extend(releases);
                    self.spare = result?;
                }
            }
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn entity_info(&self) -> EntityInfo {
        self.entity.clone()
    }

    fn stop(&mut self) {
        self.forget_releases();
        self.releases.extend(release::<R>(&mut self.spare));
        match &mut self.state {
            State::Idle(_) => {}
            State::Receiving { receive, stop } => {
                if let Some(stop) = stop.take() {
                    let _ = stop.send(());
                }
                // Most receivers have only to hear of it.
                let mut unwoken = Context::from_waker(Waker::noop());
                match catch_unwind(AssertUnwindSafe(|| receive.as_mut().poll(&mut unwoken))) {
                    Ok(Poll::Ready(received)) => self.take_ended(received),
                    Ok(Poll::Pending) => {
                        // Without a runtime the next poll goes on with it.
                        if let Ok(runtime) = Handle::try_current()
                            && let State::Receiving { receive, .. } =
                                std::mem::replace(&mut self.state, State::Idle(None))
                        {
                            let (back, received) = oneshot::channel();
                            let is_wanted = Arc::new(AtomicBool::new(false));
                            runtime.spawn(finish::<R>(receive, back, Arc::clone(&is_wanted)));
                            self.state = State::Stopped { received, is_wanted };
                        }
                    }
                    Err(_) => self.state = State::Idle(None),
                }
            }
            State::Stopped { received, is_wanted } => {
                is_wanted.store(false, Ordering::Release);
                if let Ok((received, releases)) = received.try_recv() {
                    self.releases.extend(releases);
                    self.take_ended(received);
                }
            }
        }
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let State::Stopped { received, .. } = &mut self.state {
            match ready!(received.poll_unpin(cx)) {
                Ok((received, releases)) => {
                    self.releases.extend(releases);
                    self.take_ended(received);
                }
                Err(_) => self.state = State::Idle(None),
            }
        }
        while ready!(self.releases.poll_next_unpin(cx)).is_some() {}
        Poll::Ready(())
    }
}

/// Waits for the end of a receive that was stopped.
async fn finish<R: AsyncReceiver>(
    receive: BoxFuture<Received<R>>,
    mut back: oneshot::Sender<Ended<R>>,
    is_wanted: Arc<AtomicBool>,
) {
    let abandoned = async {
        back.closed().await;
        sleep(OPERATION_TIMEOUT).await;
    };
    let ended = tokio::select! {
        biased;
        ended = AssertUnwindSafe(receive).catch_unwind() => ended,
        () = abandoned => {
            tracing::warn!("a receive did not end after it was stopped: its messages stay locked until their locks end");
            return;
        }
    };
    let Ok((receiver, mut result)) = ended else { return };
    let releases = match &mut result {
        Ok(deliveries) if !is_wanted.load(Ordering::Acquire) => release::<R>(deliveries),
        _ => Vec::new(),
    };
    if let Err(((_, Ok(mut deliveries)), _)) = back.send(((receiver, result), releases)) {
        drop(release::<R>(&mut deliveries));
        if !deliveries.is_empty() {
            lost(deliveries.len());
        }
    }
}

/// Releases messages that were not dispatched. Those that were received and deleted stay. Each release has begun.
fn release<R: AsyncReceiver>(deliveries: &mut Vec<Delivery<R::Lease>>) -> Vec<Release<R>> {
    let held = deliveries.extract_if(.., |delivery| delivery.lease.must_settle());
    held.map(|delivery| delivery.lease.release()).collect()
}

#[cold]
fn lost(messages: usize) {
    tracing::warn!(messages, "messages of receive-and-delete mode are lost: their receiver was dropped");
}

#[cfg(test)]
mod tests {
    use std::{
        future::{Ready, ready},
        sync::{Mutex, atomic::AtomicUsize},
        time::Duration,
    };

    use tokio_test::task;

    use super::*;
    use crate::time::Timestamp;
    use crate::{
        Disposition, Message,
        transport::{ReceiverExt, SettleError},
    };

    #[derive(Debug)]
    struct NoLease;

    impl Lease for NoLease {
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

        fn lock_duration(&self) -> Option<std::time::Duration> {
            None
        }
    }

    /// Answers as many messages as the next number says, some of them after one turn of the executor, and panics when
    /// there is no number.
    struct Script(Vec<usize>);

    impl AsyncReceiver for Script {
        type Lease = NoLease;

        async fn receive(&mut self, _: usize, _: Stop) -> Result<Vec<Delivery<NoLease>>, ReceiveError> {
            let answer = self.0.pop().expect("asked once too often");
            if answer > 0 {
                tokio::task::yield_now().await;
            }
            Ok((0..answer).map(|_| Delivery { message: Message::new(""), lease: NoLease }).collect())
        }
    }

    #[tokio::test]
    async fn deliveries_beyond_the_maximum_wait_for_the_next_call() {
        let mut receiver = FromAsync::new(Script(vec![3]));
        assert_eq!(receiver.receive_batch(2).await.unwrap().len(), 2);
        assert_eq!(receiver.receive_batch(2).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_dropped_receive_loses_nothing() {
        let mut receiver = FromAsync::new(Script(vec![1]));
        assert!(task::spawn(receiver.receive()).poll().is_pending());
        let _delivery = receiver.receive().await.unwrap();
    }

    #[tokio::test]
    async fn a_receiver_that_answers_nothing_does_not_hold_its_thread() {
        let mut receiver = FromAsync::new(Script(vec![0, 0]));
        let mut receive = task::spawn(receiver.receive());
        for _ in 0..2 {
            assert!(receive.poll().is_pending() && receive.is_woken());
        }
    }

    #[tokio::test]
    async fn a_receiver_that_panicked_is_an_error_from_then_on() {
        let mut receiver = FromAsync::new(Script(vec![]));
        for _ in 0..2 {
            assert_eq!(receiver.receive().await.unwrap_err().kind(), ErrorKind::General);
        }
    }

    /// The locks of a broker: how many it has given out, and how many were released.
    #[derive(Clone, Default)]
    struct Locks(Arc<Mutex<(usize, usize)>>);

    struct Locked(Locks);

    impl Lease for Locked {
        type Settle = BoxFuture<Result<(), SettleError>>;
        type Renew = Ready<Result<Timestamp, SettleError>>;

        fn settle(self, _: Disposition) -> Self::Settle {
            Box::pin(ready(Ok(())))
        }

        fn release(self) -> Self::Settle {
            self.0.0.lock().unwrap().1 += 1;
            Box::pin(async {
                sleep(Duration::from_secs(2)).await;
                Ok(())
            })
        }

        fn renew(&self) -> Self::Renew {
            ready(Ok(Timestamp::MAX))
        }

        fn lock_duration(&self) -> Option<Duration> {
            Some(Duration::from_secs(60))
        }
    }

    /// A poll of its broker takes 10 s, and then locks a message.
    struct LongPoll {
        locks: Locks,
        /// Whether it cancels the poll, which takes a second, and finds that a message was locked meanwhile.
        cancels: bool,
        polls: Arc<AtomicUsize>,
    }

    impl AsyncReceiver for LongPoll {
        type Lease = Locked;

        async fn receive(&mut self, _: usize, stop: Stop) -> Result<Vec<Delivery<Locked>>, ReceiveError> {
            self.polls.fetch_add(1, Ordering::Relaxed);
            tokio::select! {
                () = sleep(Duration::from_secs(10)) => {}
                () = stop, if self.cancels => sleep(Duration::from_secs(1)).await,
            }
            self.locks.0.lock().unwrap().0 += 1;
            Ok(vec![Delivery { message: Message::new(""), lease: Locked(self.locks.clone()) }])
        }
    }

    fn long_poll(cancels: bool) -> (FromAsync<LongPoll>, Locks, Arc<AtomicUsize>) {
        let (locks, polls) = (Locks::default(), Arc::default());
        (FromAsync::new(LongPoll { locks: locks.clone(), cancels, polls: Arc::clone(&polls) }), locks, polls)
    }

    fn locks(locks: &Locks) -> (usize, usize) {
        *locks.0.lock().unwrap()
    }

    /// Rules: S-66.
    #[tokio::test(start_paused = true)]
    async fn a_stop_that_is_waited_for_ends_with_the_answers_to_the_releases() {
        for (cancels, takes) in [(true, 3), (false, 12)] {
            let (mut receiver, all, polls) = long_poll(cancels);
            let started = tokio::time::Instant::now();
            assert!(task::spawn(receiver.receive()).poll().is_pending());
            receiver.stopped().await;
            assert_eq!((started.elapsed().as_secs(), locks(&all)), (takes, (1, 1)));
            receiver.stopped().await;
            assert_eq!((started.elapsed().as_secs(), polls.load(Ordering::Relaxed)), (takes, 1));
        }
    }

    /// Rules: X-231.
    #[tokio::test(start_paused = true)]
    async fn messages_locked_by_a_stopped_receive_are_released() {
        for (cancels, takes) in [(true, 1), (false, 10)] {
            for is_dropped in [true, false] {
                let (mut receiver, given, _) = long_poll(cancels);
                assert!(task::spawn(receiver.receive()).poll().is_pending());
                let kept = (!is_dropped).then_some(receiver);
                sleep(Duration::from_millis(1_000 * takes - 1)).await;
                assert_eq!(locks(&given), (0, 0), "{cancels} {is_dropped}");
                sleep(Duration::from_millis(2)).await;
                assert_eq!(locks(&given), (1, 1), "{cancels} {is_dropped}");
                drop(kept);
            }
        }
    }

    /// Rules: X-231.
    /// It is not released and asked for again.
    #[tokio::test(start_paused = true)]
    async fn the_next_receive_gets_what_a_stopped_receive_locks() {
        let (mut receiver, given, polls) = long_poll(false);
        for _ in 0..3 {
            assert!(task::spawn(receiver.receive()).poll().is_pending());
            sleep(Duration::from_secs(1)).await;
        }
        let _delivery = receiver.receive().await.unwrap();
        assert_eq!((locks(&given), polls.load(Ordering::Relaxed)), ((1, 0), 1));
        assert!(task::spawn(receiver.receive()).poll().is_pending());
        assert_eq!(polls.load(Ordering::Relaxed), 2);
    }

    /// Rules: X-231.
    #[tokio::test(start_paused = true)]
    async fn a_receive_that_never_ends_is_dropped_with_its_receiver() {
        struct Never(#[expect(dead_code, reason = "it is counted")] Arc<()>);

        impl AsyncReceiver for Never {
            type Lease = NoLease;

            async fn receive(&mut self, _: usize, _: Stop) -> Result<Vec<Delivery<NoLease>>, ReceiveError> {
                std::future::pending().await
            }
        }

        let alive = Arc::new(());
        let mut receiver = FromAsync::new(Never(Arc::clone(&alive)));
        assert!(task::spawn(receiver.receive()).poll().is_pending());
        sleep(Duration::from_secs(3_600)).await;
        assert_eq!(Arc::strong_count(&alive), 2, "it may be received from again");
        drop(receiver);
        sleep(Duration::from_secs(61)).await;
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
