//! What ends a run, and what a run does with a transport that answers strangely.

use std::{
    fmt::{self, Write},
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    broker::{Broker, Queue, QueueLease, QueueReceiver, QueueSender},
    dead_letters::{DeadLetterFilter, DeadLetterQueue, DeadLetters, ResubmitGuarantee},
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{
        BoxFuture, Capabilities, Delivery, DynTransport, EntityInfo, ErrorKind, Lease, PeekMessages, ReceiveError,
        ReceiveMode, Receiver, ReceiverExt, SendError, SettleError, Transaction, TransactionError, Transactions,
        Transport,
    },
};
use tokio::time::{sleep, timeout};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::support::{Bench, OTHER, UNDECODABLE, sending};

/// Rules: L-14.
#[tokio::test(start_paused = true)]
async fn no_more_than_64_behind_the_last_are_locked_whatever_the_batches() {
    for concurrency in [1, 7, 16, 60, 100] {
        let bench = Bench::new();
        bench.bury_many(0, 1, &UNDECODABLE).await;
        bench.bury_many(1, 200, &OTHER).await;
        // Another receiver has the only one that matches.
        let taken = bench.queue.dead_letter().receiver().receive().await.unwrap();
        let (most, dead) = (AtomicUsize::new(0), bench.dead());
        let run = dead.purge(DeadLetterFilter::all().reason(UNDECODABLE.as_str())).concurrency(concurrency);
        let run = run.on_progress(|_| {
            most.fetch_max(bench.queue.dead_letter().counts().locked, Ordering::Relaxed);
        });
        let report = run.run().await.unwrap();
        assert_eq!((report.matching, report.purged, report.missed), (1, 0, 1), "{concurrency}");
        assert_eq!(most.into_inner(), 64 + 1, "{concurrency}");
        taken.lease.release().await.unwrap();
        assert_eq!(bench.queue.dead_letter().counts().locked, 0);
    }
}

/// Dead letters whose leases say that they hold for this long, and whose renewals are refused. Calls of leases are counted.
struct Strange(Queue, Duration, Arc<Calls>);

struct StrangeReceiver(QueueReceiver, Vec<Delivery<QueueLease>>, Duration, Arc<Calls>);

struct StrangeLease(QueueLease, Duration, Arc<Calls>);

#[derive(Debug, Default)]
struct Calls {
    received: AtomicUsize,
    renewals: AtomicUsize,
    releases: AtomicUsize,
}

impl DeadLetterQueue for Strange {
    type Receiver = StrangeReceiver;

    async fn receiver(&self) -> Result<StrangeReceiver, ReceiveError> {
        Ok(StrangeReceiver(self.0.receiver(), Vec::new(), self.1, Arc::clone(&self.2)))
    }

    async fn peek(&self, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        Ok(self.0.peek(from, max))
    }
}

impl Receiver for StrangeReceiver {
    type Lease = StrangeLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<StrangeLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let Self(receiver, deliveries, lock, calls) = self;
        let polled = receiver.poll_receive(cx, max, deliveries);
        out.extend(deliveries.drain(..).map(|it| {
            calls.received.fetch_add(1, Ordering::Relaxed);
            let lease = StrangeLease(it.lease, *lock, Arc::clone(calls));
            Delivery { message: it.message, lease }
        }));
        polled
    }

    fn stop(&mut self) {
        self.0.stop();
    }

    fn entity_info(&self) -> EntityInfo {
        self.0.entity_info()
    }
}

impl Lease for StrangeLease {
    type Settle = <QueueLease as Lease>::Settle;
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        self.0.settle(disposition)
    }

    fn release(self) -> Self::Settle {
        self.2.releases.fetch_add(1, Ordering::Relaxed);
        self.0.release()
    }

    fn renew(&self) -> Self::Renew {
        self.2.renewals.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Err(SettleError::new(ErrorKind::ServiceBusy)) })
    }

    fn lock_duration(&self) -> Option<Duration> {
        Some(self.1)
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_never_ends_is_no_overflow() {
    let bench = Bench::new();
    bench.bury_many(0, 2, &OTHER).await;
    bench.bury_many(2, 2, &UNDECODABLE).await;
    let dead = DeadLetters::new(Strange(bench.queue.dead_letter(), Duration::MAX, Arc::default()));
    let slow = sending(|_| {
        Box::pin(async {
            sleep(Duration::from_secs(1)).await;
            Ok(())
        })
    });
    let report = dead.resubmit(DeadLetterFilter::all().reason(UNDECODABLE.as_str()), slow).run().await.unwrap();
    assert_eq!((report.resubmitted, report.skipped, report.failures.len()), (2, 2, 0));
}

/// The lines of this thread about dead letters.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("consign::dead_letters")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Rules: O-270.
#[tokio::test(start_paused = true)]
async fn refused_renewals_are_limited_lines() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let bench = Bench::new();
    bench.bury_many(0, 40, &OTHER).await;
    bench.bury_many(40, 1, &UNDECODABLE).await;
    let calls = Arc::<Calls>::default();
    let dead = DeadLetters::new(Strange(bench.queue.dead_letter(), Duration::from_secs(20), Arc::clone(&calls)));
    let slow = sending(|_| {
        Box::pin(async {
            sleep(Duration::from_secs(15)).await;
            Ok(())
        })
    });
    dead.resubmit(DeadLetterFilter::all().reason(UNDECODABLE.as_str()), slow).run().await.unwrap();
    assert_eq!(calls.renewals.load(Ordering::Relaxed), 41);
    let lines = lines.0.lock().unwrap();
    assert_eq!(lines.len(), 10, "{lines:?}");
    assert!(lines[0].contains("reason=\"RenewalFailed\"") && lines[0].contains("/$deadletterqueue "), "{lines:?}");
}

/// The embedded broker, whose transactions do not begin, and whose leases count their calls.
#[derive(Clone)]
struct NothingBegins(Broker, Arc<Calls>);

enum Never {}

impl Transport for NothingBegins {
    type Sender = QueueSender;
    type Lease = StrangeLease;
    type Receiver = StrangeReceiver;

    fn capabilities(&self) -> Capabilities {
        Transport::capabilities(&self.0)
    }

    async fn sender(&self, path: &EntityPath) -> Result<QueueSender, SendError> {
        Transport::sender(&self.0, path).await
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<StrangeReceiver, ReceiveError> {
        let receiver = Transport::receiver(&self.0, path, mode).await?;
        Ok(StrangeReceiver(receiver, Vec::new(), Duration::from_secs(60), Arc::clone(&self.1)))
    }
}

impl PeekMessages for NothingBegins {
    async fn peek(&self, path: &EntityPath, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        PeekMessages::peek(&self.0, path, from, max).await
    }
}

impl Transactions for NothingBegins {
    type Transaction = Never;

    async fn begin(&self) -> Result<Never, TransactionError<StrangeLease>> {
        pending().await
    }
}

impl Transaction for Never {
    type Lease = StrangeLease;

    async fn send(&mut self, _: &EntityPath, _: Message) -> Result<(), SendError> {
        match *self {}
    }

    async fn schedule(&mut self, _: &EntityPath, _: Message, _: Timestamp) -> Result<(), SendError> {
        match *self {}
    }

    async fn settle(&mut self, _: StrangeLease, _: Disposition) -> Result<(), TransactionError<StrangeLease>> {
        match *self {}
    }

    async fn commit(self) -> Result<Vec<SequenceNumber>, TransactionError<StrangeLease>> {
        match self {}
    }

    fn rollback(self) -> Vec<StrangeLease> {
        match self {}
    }
}

/// Rules: L-17, L-20.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_does_not_begin_counts_no_delivery() {
    let orders = EntityPath::new("orders").unwrap();
    for operation in [Duration::from_secs(5), Duration::from_secs(100)] {
        let bench = Bench::new();
        bench.bury_many(0, 3, &OTHER).await;
        let calls = Arc::<Calls>::default();
        let transport = NothingBegins(bench.broker.broker().clone(), Arc::clone(&calls));
        let transport = DynTransport::builder(transport).peek().transactions().build();
        let dead = DeadLetters::of(transport, &orders).operation_timeout(operation);
        assert_eq!(dead.guarantee(&orders), ResubmitGuarantee::Transaction);
        let run = dead.resubmit_to(DeadLetterFilter::all(), &orders).await.unwrap().lock_wait(Duration::ZERO);
        // Either each operation is not answered in time, or the run is dropped.
        let ended = timeout(Duration::from_secs(20), run.run()).await;
        assert_eq!(ended.is_ok(), operation < Duration::from_secs(20));
        assert_eq!(bench.queue.dead_letter().counts().locked, 0);
        // The embedded broker counts no delivery of a dead letter, whatever it is, but other transports do.
        let [received, released] = [&calls.received, &calls.releases].map(|calls| calls.load(Ordering::Relaxed));
        assert!(received >= 3, "{received}");
        assert_eq!(released, received, "{operation:?}");
        let left = bench.queue.dead_letter().receiver().receive_batch(8).await.unwrap();
        let counts: Vec<_> = left.iter().map(|it| it.message.received().unwrap().delivery_count).collect();
        assert_eq!(counts, [1; 3], "{operation:?}");
    }
}
