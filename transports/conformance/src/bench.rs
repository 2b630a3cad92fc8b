use std::{
    collections::HashMap,
    future::poll_fn,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use consign::{
    Message,
    administration::{Administration, EntitySettings, QueueSettings, Status, SubscriptionSettings, TopicSettings},
    message::{EntityPath, Received, SequenceNumber},
    rules::{ManageRules, Rule},
    time::Timestamp,
    transport::{
        AcceptSession, Capabilities, Capability, Delivery, DynLease, DynReceiver, DynSession, DynTransaction,
        DynTransport, ErrorKind, PeekMessages, ReceiveDeferred, ReceiveError, ReceiveMode, Receiver, ReceiverExt,
        Sender, SessionSource, Sessions, Transactions, Transport,
    },
};
use tokio::{sync::Mutex, task::JoinHandle};

use crate::{Backend, Failure, Timing, Verdict};

/// The bench of one case: the backend, entities of its own, and operations that cases share.
pub(crate) struct Bench<'b> {
    pub(crate) backend: &'b dyn Backend,
    pub(crate) transport: &'b DynTransport,
    timing: Timing,
    /// The prefix of its entities, which no other case and no other run has.
    prefix: String,
    entities: AtomicUsize,
    created: Mutex<Vec<EntityPath>>,
    /// One receiver for each entity, kept to the end: on some brokers a lock lives as long as its receiver.
    receivers: Mutex<HashMap<String, DynReceiver>>,
}

impl<'b> Bench<'b> {
    pub(crate) fn new(backend: &'b dyn Backend, prefix: String) -> Self {
        Self {
            backend,
            transport: backend.transport(),
            timing: backend.timing(),
            prefix,
            entities: AtomicUsize::new(0),
            created: Mutex::default(),
            receivers: Mutex::default(),
        }
    }

    /// Deletes the entities of the case, as far as possible. A missing entity is not a failure, nor is a transport that deletes
    /// nothing.
    pub(crate) async fn clear(&self) -> Verdict {
        self.receivers.lock().await.clear();
        let mut cleared = Ok(());
        for path in self.created.lock().await.drain(..).rev() {
            match self.transport.delete(&path).await {
                Err(error) if matches!(error.kind(), ErrorKind::EntityNotFound | ErrorKind::NotSupported) => {}
                Err(error) => cleared = Err(Failure::broken(format!("{path} could not be deleted: {error}"))),
                Ok(()) => {}
            }
        }
        cleared
    }

    /// Returns a path without an entity.
    pub(crate) fn fresh_path(&self) -> Result<EntityPath, Failure> {
        let number = self.entities.fetch_add(1, Ordering::Relaxed);
        Ok(EntityPath::new(&format!("{}-{number}", self.prefix))?)
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.transport.capabilities()
    }

    /// Creates an entity, which is deleted after the case.
    pub(crate) async fn create(&self, path: &EntityPath, settings: impl Into<EntitySettings>) -> Verdict {
        self.transport.create(path, &settings.into()).await?;
        self.delete_later(path).await;
        Ok(())
    }

    /// Deletes an entity after the case.
    pub(crate) async fn delete_later(&self, path: &EntityPath) {
        self.created.lock().await.push(path.clone());
    }

    pub(crate) async fn queue(&self, settings: QueueSettings) -> Result<EntityPath, Failure> {
        let path = self.fresh_path()?;
        self.create(&path, settings).await?;
        Ok(path)
    }

    /// Creates a queue whose locks hold for [`Timing::lock`].
    pub(crate) async fn locking_queue(&self) -> Result<EntityPath, Failure> {
        self.queue(self.locking()).await
    }

    /// Creates a queue whose locks are as short as the transport can set them: for a case that passes with any lock duration,
    /// and would not notice a message that only waits for the end of its lock.
    pub(crate) async fn short_locking_queue(&self) -> Result<EntityPath, Failure> {
        let is_setting = self.capabilities().supports(Capability::LockDuration);
        self.queue(if is_setting { self.locking() } else { QueueSettings::default() }).await
    }

    /// Returns the settings of a queue whose locks hold for [`Timing::lock`].
    pub(crate) fn locking(&self) -> QueueSettings {
        QueueSettings::default().with_lock_duration(self.timing.lock)
    }

    pub(crate) async fn topic(&self, settings: TopicSettings) -> Result<EntityPath, Failure> {
        let path = self.fresh_path()?;
        self.create(&path, settings).await?;
        Ok(path)
    }

    pub(crate) async fn subscription(
        &self,
        topic: &EntityPath,
        name: &str,
        settings: SubscriptionSettings,
    ) -> Result<EntityPath, Failure> {
        let path = EntityPath::new(&format!("{topic}/Subscriptions/{name}"))?;
        self.create(&path, settings).await?;
        Ok(path)
    }

    pub(crate) async fn create_rule(&self, subscription: &EntityPath, rule: &Rule) -> Verdict {
        Ok(self.transport.create_rule(subscription, rule).await?)
    }

    pub(crate) async fn delete_rule(&self, subscription: &EntityPath, name: &str) -> Verdict {
        Ok(self.transport.delete_rule(subscription, name).await?)
    }

    /// Opens or closes the directions of a queue.
    pub(crate) async fn set_status(&self, queue: &EntityPath, status: Status) -> Verdict {
        let EntitySettings::Queue(settings) = self.transport.settings(queue).await? else {
            return Err(Failure::behaviour(format!("{queue} has not the settings of a queue")));
        };
        Ok(self.transport.update(queue, &settings.with_status(status).into()).await?)
    }

    pub(crate) async fn begin(&self) -> Result<DynTransaction, Failure> {
        Ok(self.transport.begin().await?)
    }

    /// Locks one session. It does not wait.
    pub(crate) async fn accept_session(&self, path: &EntityPath, id: &str) -> Result<DynSession, Failure> {
        Ok(self.transport.sessions(path).await?.accept(id).await?)
    }

    /// Locks a session that has messages and no holder. Without one within `wait` it fails as
    /// [`ErrorKind::ServiceTimeout`].
    pub(crate) async fn accept_next_session(&self, path: &EntityPath, wait: Duration) -> Result<DynSession, Failure> {
        let mut sessions = self.transport.sessions(path).await?;
        let Ok(accepted) = tokio::time::timeout(wait, poll_fn(|cx| sessions.poll_accept(cx))).await else {
            sessions.stop();
            return Err(Failure::answer(ErrorKind::ServiceTimeout, format!("{path} has no session to give")));
        };
        Ok(accepted?)
    }

    pub(crate) fn lock(&self) -> Duration {
        self.timing.lock
    }

    pub(crate) fn margin(&self) -> Duration {
        self.timing.margin
    }

    pub(crate) fn receive_wait(&self) -> Duration {
        self.timing.receive_wait
    }

    pub(crate) fn arrival(&self) -> Duration {
        self.timing.arrival
    }

    pub(crate) async fn wait(&self, time: Duration) {
        self.backend.advance(time).await;
    }

    /// Waits until `is_done`, and no longer than a case may take. It needs no call of the transport.
    pub(crate) async fn until(&self, is_done: impl Fn() -> bool) {
        while !is_done() {
            tokio::time::sleep(self.timing.receive_wait / 10).await;
        }
    }

    /// Waits until something that is due in `time` has surely happened.
    pub(crate) async fn wait_past(&self, time: Duration) {
        self.wait(time + self.timing.margin).await;
    }

    /// Waits while something that is due in `time` has surely not happened.
    pub(crate) async fn wait_almost(&self, time: Duration) {
        self.wait(time.saturating_sub(self.timing.margin)).await;
    }

    /// Returns whether the two differ by no more than [`Timing::margin`].
    pub(crate) fn is_near(&self, left: Timestamp, right: Timestamp) -> bool {
        left.saturating_since(right).max(right.saturating_since(left)) <= self.timing.margin
    }

    pub(crate) async fn in_future(&self, by: Duration) -> Timestamp {
        self.backend.now().await.saturating_add(by)
    }

    pub(crate) async fn send(&self, to: &EntityPath, message: Message) -> Verdict {
        Ok(self.transport.sender(to).await?.send(message).await?)
    }

    /// Sends one message for each body, one after the other.
    pub(crate) async fn send_bodies<const N: usize>(&self, to: &EntityPath, bodies: [&'static str; N]) -> Verdict {
        let sender = self.transport.sender(to).await?;
        for body in bodies {
            sender.send(Message::new(body)).await?;
        }
        Ok(())
    }

    pub(crate) async fn receiver(&self, from: &EntityPath) -> Result<DynReceiver, Failure> {
        Ok(self.transport.receiver(from, ReceiveMode::PeekLock).await?)
    }

    /// Receives up to `max` available messages; none after [`Timing::receive_wait`].
    pub(crate) async fn try_receive(&self, from: &EntityPath, max: usize) -> Result<Vec<Delivery<DynLease>>, Failure> {
        self.receive_within(self.timing.receive_wait, from, max).await
    }

    async fn receive_within(
        &self,
        wait: Duration,
        from: &EntityPath,
        max: usize,
    ) -> Result<Vec<Delivery<DynLease>>, Failure> {
        let mut receivers = self.receivers.lock().await;
        let key = from.to_string();
        if !receivers.contains_key(&key) {
            receivers.insert(key.clone(), self.receiver(from).await?);
        }
        let Some(receiver) = receivers.get_mut(&key) else { return Ok(Vec::new()) };
        let received = receive_batch_within(wait, receiver, max).await;
        if received.is_err() {
            receivers.remove(&key);
        }
        received
    }

    /// Begins a receive in a task of its own. Nothing but the receiver wakes it: a time-out around a receive polls it once more
    /// when the time is over, and would find a message whose wake-up was lost.
    pub(crate) fn receive_in_task(&self, mut receiver: DynReceiver) -> Receiving<DynReceiver> {
        let task = tokio::spawn(async move {
            let received = receiver.receive().await;
            (receiver, received)
        });
        Receiving { task, wait: self.timing.lock }
    }

    pub(crate) async fn try_receive_by<R: Receiver>(
        &self,
        receiver: &mut R,
        max: usize,
    ) -> Result<Vec<Delivery<R::Lease>>, Failure> {
        receive_batch_within(self.timing.receive_wait, receiver, max).await
    }

    /// Receives the next message, which must arrive within [`Timing::arrival`].
    pub(crate) async fn receive(&self, from: &EntityPath) -> Result<Delivery<DynLease>, Failure> {
        let received = self.receive_within(self.timing.arrival, from, 1).await?.pop();
        received.ok_or_else(|| Failure::behaviour(format!("{from} has no message to give")))
    }

    pub(crate) async fn receive_by<R: Receiver>(&self, receiver: &mut R) -> Result<Delivery<R::Lease>, Failure> {
        let received = receive_batch_within(self.timing.arrival, receiver, 1).await?.pop();
        received.ok_or_else(|| Failure::behaviour("the receiver has no message to give"))
    }

    /// Receives the next `count` messages, all of them locked.
    pub(crate) async fn receive_each(
        &self,
        from: &EntityPath,
        count: usize,
    ) -> Result<Vec<Delivery<DynLease>>, Failure> {
        let mut held = Vec::new();
        while held.len() < count {
            held.push(self.receive(from).await?);
        }
        Ok(held)
    }

    /// Receives the next message of the dead-letter sub-queue, which must exist.
    pub(crate) async fn receive_dead(&self, of: &EntityPath) -> Result<Delivery<DynLease>, Failure> {
        self.receive(&of.dead_letter()).await
    }

    /// Locks a deferred message, which must exist.
    pub(crate) async fn fetch(&self, from: &EntityPath, number: SequenceNumber) -> Result<Delivery<DynLease>, Failure> {
        let mut fetched = self.transport.receive_deferred(from, &[number]).await?;
        match (fetched.pop(), fetched.len()) {
            (Some(delivery), 0) => Ok(delivery),
            (_, more) => {
                Err(Failure::behaviour(format!("one number brought {more} messages back, and another or none")))
            }
        }
    }

    /// Checks that there is no message to receive.
    pub(crate) async fn nothing(&self, from: &EntityPath) -> Verdict {
        match self.try_receive(from, 1).await?.pop() {
            None => Ok(()),
            Some(delivery) => {
                let why = format!("{from} should have nothing to give, and gives {:?}", text(&delivery.message));
                Err(Failure::behaviour(why))
            }
        }
    }

    /// Checks that neither the entity nor its dead-letter sub-queue has a message to receive.
    pub(crate) async fn gone(&self, from: &EntityPath) -> Verdict {
        self.nothing(from).await?;
        self.nothing(&from.dead_letter()).await
    }

    /// Receives and completes the next message, which must exist.
    pub(crate) async fn take(&self, from: &EntityPath) -> Result<Message, Failure> {
        let delivery = self.receive(from).await?;
        let message = delivery.message.clone();
        delivery.complete().await?;
        Ok(message)
    }

    /// Receives and completes all available messages, and returns the bodies. The first one must arrive within
    /// [`Timing::arrival`].
    pub(crate) async fn drain(&self, from: &EntityPath) -> Result<Vec<String>, Failure> {
        Ok(self.drain_messages(from).await?.iter().map(text).collect())
    }

    pub(crate) async fn drain_messages(&self, from: &EntityPath) -> Result<Vec<Message>, Failure> {
        let mut messages = Vec::new();
        let mut wait = self.timing.arrival;
        while let Some(delivery) = self.receive_within(wait, from, 1).await?.pop() {
            messages.push(delivery.message.clone());
            delivery.complete().await?;
            wait = self.timing.receive_wait;
        }
        Ok(messages)
    }

    /// Receives and completes all messages of a session, and returns the bodies.
    pub(crate) async fn drain_by<R: Receiver>(&self, receiver: &mut R) -> Result<Vec<String>, Failure> {
        let mut bodies = Vec::new();
        let mut wait = self.timing.arrival;
        while let Some(delivery) = receive_batch_within(wait, receiver, 1).await?.pop() {
            bodies.push(text(&delivery.message));
            delivery.complete().await?;
            wait = self.timing.receive_wait;
        }
        Ok(bodies)
    }

    /// Returns everything that a peek shows, in its order.
    pub(crate) async fn peek(&self, at: &EntityPath) -> Result<Vec<Message>, Failure> {
        Ok(self.transport.peek(at, SequenceNumber::new(0), 1_000).await?)
    }
}

type ReceiveResult<R> = Result<Delivery<<R as Receiver>::Lease>, ReceiveError>;

/// A receive in a task of its own. Dropping it ends the receive.
pub(crate) struct Receiving<R: Receiver> {
    task: JoinHandle<(R, ReceiveResult<R>)>,
    wait: Duration,
}

impl<R: Receiver> Receiving<R> {
    /// Returns the receiver, which some locks need, and its delivery.
    pub(crate) async fn received(mut self) -> Result<(R, Delivery<R::Lease>), Failure> {
        match tokio::time::timeout(self.wait, &mut self.task).await {
            Ok(Ok((receiver, received))) => Ok((receiver, received?)),
            Ok(Err(_)) => Err(Failure::broken("the receiver panicked")),
            Err(_) => Err(Failure::behaviour("the receiver was not woken")),
        }
    }
}

impl<R: Receiver> Drop for Receiving<R> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the broker's facts of a message that it delivered or showed.
pub(crate) fn facts(message: &Message) -> Result<&Received, Failure> {
    message.received().ok_or_else(|| Failure::behaviour("the transport says nothing of what it delivers"))
}

pub(crate) fn number(message: &Message) -> Result<SequenceNumber, Failure> {
    Ok(facts(message)?.sequence_number)
}

pub(crate) fn numbers<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Result<Vec<u64>, Failure> {
    messages.into_iter().map(|message| number(message).map(SequenceNumber::get)).collect()
}

pub(crate) fn text(message: &Message) -> String {
    message.payload().map_or_else(|| "no bytes".into(), |bytes| String::from_utf8_lossy(bytes).into_owned())
}

pub(crate) fn texts<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Vec<String> {
    messages.into_iter().map(text).collect()
}

/// Returns the reason and the description of a dead letter.
pub(crate) fn why(message: &Message) -> (&str, &str) {
    (message.dead_letter_reason().unwrap_or_default(), message.dead_letter_description().unwrap_or_default())
}

async fn receive_batch_within<R: Receiver>(
    wait: Duration,
    receiver: &mut R,
    max: usize,
) -> Result<Vec<Delivery<R::Lease>>, Failure> {
    match tokio::time::timeout(wait, receiver.receive_batch(max)).await {
        Ok(received) => Ok(received?),
        Err(_) => Ok(Vec::new()),
    }
}
