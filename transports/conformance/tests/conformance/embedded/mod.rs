//! The embedded broker as the suite sees it.

mod disk;
mod transaction;

use std::time::Duration;

use bytes::Bytes;
use consign::{
    Disposition, Message,
    broker::{Broker, Queue, QueueLease, QueueReceiver, QueueSender, SessionReceiver},
    message::{EntityPath, SequenceNumber},
    time::{Clock, Moment, Timestamp},
    transport::{Capabilities, Delivery, ErrorKind, Lease, ManageError, ReceiveError, SendError, SettleError},
};
use consign_conformance::{
    Backend, Counts, Failure, Mode, QueueSpec, RuleSpec, Status, SubscriptionSpec, TopicSpec, settings,
};
use tokio::time::Instant;

pub(crate) use self::disk::OnDisk;
use self::transaction::BrokerTransaction;

/// The broker on tokio's clock, which the tests pause.
pub(crate) struct Embedded {
    broker: Broker,
    clock: TokioClock,
    name: &'static str,
}

/// UTC that begins at a fixed instant and follows tokio's time alone.
#[derive(Clone, Copy)]
struct TokioClock(Instant);

impl TokioClock {
    const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
}

impl Clock for TokioClock {
    fn now(&self) -> Moment {
        let elapsed = self.0.elapsed();
        Moment { elapsed, utc: Self::START.saturating_add(elapsed) }
    }
}

impl Embedded {
    pub(crate) fn new() -> Self {
        let clock = TokioClock(Instant::now());
        Self { broker: Broker::with_clock(clock), clock, name: "embedded" }
    }

    fn queue(&self, path: &EntityPath) -> Result<Queue, ManageError> {
        self.broker.queue(path.as_str())
    }

    /// What receives at `path`. A topic has nothing to receive.
    fn source(&self, path: &EntityPath) -> Result<Queue, ReceiveError> {
        self.queue(path).map_err(|error| match self.broker.topic(path.as_str()) {
            Ok(_) => ReceiveError::new(ErrorKind::InvalidOperation).with_detail("a topic gives no messages"),
            Err(_) => ReceiveError::new(error.kind()).with_source(error),
        })
    }

    /// What sends to `path`, be it a queue or a topic.
    fn destination(&self, path: &EntityPath) -> Result<QueueSender, SendError> {
        match self.broker.topic(path.as_str()) {
            Ok(topic) => Ok(topic.sender()),
            Err(_) => self.queue(path).map_err(send_error)?.sender(),
        }
    }

    fn begin(&self) -> BrokerTransaction {
        BrokerTransaction { embedded: self.clone(), inner: self.broker.transaction() }
    }
}

impl Clone for Embedded {
    fn clone(&self) -> Self {
        Self { broker: self.broker.clone(), clock: self.clock, name: self.name }
    }
}

fn send_error(error: ManageError) -> SendError {
    SendError::new(error.kind()).with_source(error)
}

impl Backend for Embedded {
    type Sender = QueueSender;
    type Lease = QueueLease;
    type Receiver = QueueReceiver;
    type Session = SessionReceiver;
    type Transaction = BrokerTransaction;

    fn name(&self) -> &'static str {
        self.name
    }

    fn capabilities(&self) -> Capabilities {
        Broker::CAPABILITIES
    }

    async fn now(&self) -> Timestamp {
        self.clock.now().utc
    }

    async fn create_queue(&self, path: &EntityPath, spec: &QueueSpec) -> Result<(), ManageError> {
        self.broker.create_queue(path.as_str(), settings::queue(spec)).map(drop)
    }

    async fn create_topic(&self, path: &EntityPath, spec: &TopicSpec) -> Result<(), ManageError> {
        self.broker.create_topic(path.as_str(), settings::topic(spec)).map(drop)
    }

    async fn create_subscription(&self, path: &EntityPath, spec: &SubscriptionSpec) -> Result<(), ManageError> {
        let (topic, name) = settings::parts(path)?;
        self.broker.topic(topic)?.create_subscription(name, settings::subscription(spec)).map(drop)
    }

    async fn create_rule(&self, subscription: &EntityPath, rule: &RuleSpec) -> Result<(), ManageError> {
        let (topic, name) = settings::parts(subscription)?;
        self.broker.topic(topic)?.subscription(name)?.create_rule(settings::rule(rule)?)
    }

    async fn delete_rule(&self, subscription: &EntityPath, rule: &str) -> Result<(), ManageError> {
        let (topic, name) = settings::parts(subscription)?;
        self.broker.topic(topic)?.subscription(name)?.delete_rule(rule).map(drop)
    }

    async fn set_status(&self, path: &EntityPath, status: Status) -> Result<(), ManageError> {
        let settings = self.queue(path)?.settings()?.with_status(settings::status(status));
        self.broker.update_queue(path.as_str(), settings)
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        self.broker.delete(path.as_str())
    }

    async fn sender(&self, path: &EntityPath) -> Result<QueueSender, SendError> {
        self.destination(path)
    }

    async fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        match self.broker.topic(path.as_str()) {
            Ok(topic) => topic.schedule(messages, at).wait(),
            Err(_) => self.queue(path).map_err(send_error)?.schedule(messages, at).wait(),
        }
    }

    async fn cancel_scheduled(&self, path: &EntityPath, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        match self.broker.topic(path.as_str()) {
            Ok(topic) => topic.cancel_scheduled(numbers).wait(),
            Err(_) => self.queue(path).map_err(send_error)?.cancel_scheduled(numbers).wait(),
        }
    }

    async fn receiver(&self, path: &EntityPath, mode: Mode) -> Result<QueueReceiver, ReceiveError> {
        let source = self.source(path)?;
        Ok(match mode {
            Mode::PeekLock => source.receiver(),
            Mode::ReceiveAndDelete => source.receive_and_delete(),
        })
    }

    async fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<QueueLease>>, ReceiveError> {
        self.source(path)?.receive_deferred(numbers)
    }

    async fn peek(&self, path: &EntityPath, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        match self.broker.topic(path.as_str()) {
            Ok(topic) => Ok(topic.peek(from, max)),
            Err(_) => Ok(self.source(path)?.peek(from, max)),
        }
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ReceiveError> {
        let counts = self.source(path)?.counts();
        Ok(Counts {
            active: counts.active + counts.locked,
            deferred: counts.deferred,
            scheduled: counts.scheduled,
            dead_lettered: counts.dead_lettered,
        })
    }

    async fn purge(
        &self,
        path: &EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> Result<usize, ManageError> {
        self.queue(path)?.delete_messages(max, accepted_before).wait()
    }

    async fn accept_session(&self, path: &EntityPath, id: &str) -> Result<SessionReceiver, ReceiveError> {
        self.source(path)?.accept_session(id)
    }

    async fn accept_next_session(&self, path: &EntityPath, wait: Duration) -> Result<SessionReceiver, ReceiveError> {
        self.source(path)?.session_acceptor()?.accept_next_within(wait).await
    }

    async fn session_state(&self, session: &mut SessionReceiver) -> Result<Option<Bytes>, SettleError> {
        session.state()
    }

    async fn set_session_state(&self, session: &mut SessionReceiver, state: Option<Bytes>) -> Result<(), SettleError> {
        session.set_state(state).wait()
    }

    async fn receive_deferred_of(
        &self,
        session: &mut SessionReceiver,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<QueueLease>>, ReceiveError> {
        session.receive_deferred(numbers)
    }

    async fn peek_of(&self, session: &mut SessionReceiver, max: usize) -> Result<Vec<Message>, ReceiveError> {
        Ok(session.peek(max))
    }

    async fn settle_elsewhere(
        &self,
        _: &EntityPath,
        lease: QueueLease,
        disposition: Disposition,
    ) -> Result<(), SettleError> {
        lease.settle(disposition).await
    }

    /// There is no connection: a receiver that goes away in this process drops what it holds.
    async fn disconnect(&self, receiver: QueueReceiver, held: Vec<Delivery<QueueLease>>) -> Result<(), ReceiveError> {
        drop(receiver);
        drop(held);
        Ok(())
    }

    async fn begin(&self) -> Result<BrokerTransaction, Failure> {
        Ok(Embedded::begin(self))
    }
}
