use std::{
    future::{Ready, ready},
    sync::{Mutex, atomic::AtomicUsize},
    time::Duration,
};

use tokio::time::sleep;
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
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    drop(receiver);
    sleep(Duration::from_secs(61)).await;
    assert_eq!(Arc::strong_count(&alive), 1);
    let lines = lines.0.lock().unwrap();
    assert!(lines.len() == 1 && lines[0].contains(r#" reason="ReceiveNotEnded""#), "{lines:?}");
}

/// The lines of this thread: the target, the entity and the text of each.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl tracing::field::Visit for Line {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        use std::fmt::Write;
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(event.metadata().target().to_owned());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Rules: O-270.
#[tokio::test(start_paused = true)]
async fn messages_that_are_lost_are_a_limited_line_with_a_target() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    for _ in 0..30 {
        let mut receiver = FromAsync::new(Script(vec![3]));
        receiver.receive_batch(2).await.unwrap();
    }
    let lines = lines.0.lock().unwrap();
    assert_eq!(lines.len(), 10, "{lines:?}");
    let fields = r#" entity="unknown" reason="MessagesLost" messages=1 suppressed=0"#;
    assert!(lines[0].starts_with("consign::transport ") && lines[0].ends_with(fields), "{lines:?}");
}
