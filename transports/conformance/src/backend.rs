use std::{future::Future, time::Duration};

use bytes::Bytes;
use consign::{
    Disposition, Message,
    message::{EntityPath, MessageState, SequenceNumber},
    time::Timestamp,
    transport::{
        Capabilities, Capability, Delivery, Lease, ManageError, ReceiveError, Receiver, SendError, Sender, Session,
        SettleError,
    },
};

use crate::{
    Counts, Failure, Mode, NoCall, QueueSpec, RuleSpec, Status, SubscriptionSpec, Timing, TopicSpec, Transaction,
};

/// A broker under test: the transport that the suite runs on, and the calls that create and delete entities.
///
/// The methods of [`Sender`], [`Receiver`], [`Lease`] and [`Session`] are not repeated here. A method calls the transport's
/// public API and returns its answer. Leave out a method for which the API has no call: its default returns [`NoCall`], as does
/// a method for a setting that the API does not have. A case that ends in `NoCall` counts as not run. A capability of which no
/// case was run must be in [`Backend::not_tested`]. For types that the transport does not have there are
/// [`NoSession`](crate::NoSession) and [`NoTransaction`](crate::NoTransaction).
///
/// Paths are `queue`, `topic`, `topic/Subscriptions/subscription`, and any of these but a topic with the suffix
/// `/$deadletterqueue`.
pub trait Backend: Send + Sync + 'static {
    /// The transport's sender.
    type Sender: Sender + Clone;
    /// The transport's lease.
    type Lease: Lease;
    /// The transport's receiver.
    type Receiver: Receiver<Lease = Self::Lease> + 'static;
    /// The transport's hold on a session.
    type Session: Session<Lease = Self::Lease>;
    /// The transport's transaction.
    type Transaction: Transaction<Lease = Self::Lease>;

    /// Returns the name in the table: lower case, without spaces.
    fn name(&self) -> &'static str;

    /// Returns the capabilities that the transport publishes.
    fn capabilities(&self) -> Capabilities;

    /// Returns the unsupported capabilities that no case can show to be unsupported, each with the reason: most often that the
    /// public API has no call for it.
    fn not_tested(&self) -> &'static [(Capability, &'static str)] {
        &[]
    }

    /// Returns how the suite waits for this broker.
    fn timing(&self) -> Timing {
        Timing::default()
    }

    /// Returns the broker's UTC, exact to [`Timing::margin`].
    fn now(&self) -> impl Future<Output = Timestamp> + Send;

    /// Lets time pass. Under tokio's paused time the default takes none.
    fn advance(&self, by: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(by)
    }

    /// Creates a queue.
    fn create_queue(
        &self,
        path: &EntityPath,
        spec: &QueueSpec,
    ) -> impl Future<Output = Result<(), ManageError>> + Send {
        let _ = (path, spec);
        async { Err(NoCall::new("the backend leaves out `create_queue`").into()) }
    }

    /// Creates a topic.
    fn create_topic(
        &self,
        path: &EntityPath,
        spec: &TopicSpec,
    ) -> impl Future<Output = Result<(), ManageError>> + Send {
        let _ = (path, spec);
        async { Err(NoCall::new("the backend leaves out `create_topic`").into()) }
    }

    /// Creates a subscription at `topic/Subscriptions/name`.
    fn create_subscription(
        &self,
        path: &EntityPath,
        spec: &SubscriptionSpec,
    ) -> impl Future<Output = Result<(), ManageError>> + Send {
        let _ = (path, spec);
        async { Err(NoCall::new("the backend leaves out `create_subscription`").into()) }
    }

    /// Creates a rule of a subscription.
    fn create_rule(
        &self,
        subscription: &EntityPath,
        rule: &RuleSpec,
    ) -> impl Future<Output = Result<(), ManageError>> + Send {
        let _ = (subscription, rule);
        async { Err(NoCall::new("the backend leaves out `create_rule`").into()) }
    }

    /// Deletes a rule of a subscription.
    fn delete_rule(
        &self,
        subscription: &EntityPath,
        name: &str,
    ) -> impl Future<Output = Result<(), ManageError>> + Send {
        let _ = (subscription, name);
        async { Err(NoCall::new("the backend leaves out `delete_rule`").into()) }
    }

    /// Disables or enables an entity. No capability promises it; a case that needs it is not run without it.
    fn set_status(&self, path: &EntityPath, status: Status) -> impl Future<Output = Result<(), ManageError>> + Send {
        let _ = (path, status);
        async { Err(NoCall::new("the backend leaves out `set_status`").into()) }
    }

    /// Deletes an entity with its messages; a topic with its subscriptions.
    fn delete(&self, path: &EntityPath) -> impl Future<Output = Result<(), ManageError>> + Send {
        let _ = path;
        async { Err(NoCall::new("the backend leaves out `delete`").into()) }
    }

    /// Creates a sender to a queue or a topic.
    fn sender(&self, path: &EntityPath) -> impl Future<Output = Result<Self::Sender, SendError>> + Send {
        let _ = path;
        async { Err(NoCall::new("the backend leaves out `sender`").into()) }
    }

    /// Sends messages that become visible at an instant, and returns their sequence numbers in order. The default sends each
    /// with that instant as its enqueue time, which is all that a [`Sender`] can do, and returns no numbers.
    fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> impl Future<Output = Result<Vec<SequenceNumber>, SendError>> + Send {
        async move {
            let sender = self.sender(path).await?;
            for mut message in messages {
                message.properties_mut().set_scheduled_enqueue_time(at);
                sender.send(message).await?;
            }
            Ok(Vec::new())
        }
    }

    /// Cancels scheduled messages, all or none.
    fn cancel_scheduled(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> impl Future<Output = Result<(), SendError>> + Send {
        let _ = (path, numbers);
        async { Err(NoCall::new("the backend leaves out `cancel_scheduled`").into()) }
    }

    /// Creates a receiver from a queue, a subscription, or a dead-letter sub-queue.
    fn receiver(
        &self,
        path: &EntityPath,
        mode: Mode,
    ) -> impl Future<Output = Result<Self::Receiver, ReceiveError>> + Send {
        let _ = (path, mode);
        async { Err(NoCall::new("the backend leaves out `receiver`").into()) }
    }

    /// Locks deferred messages, all or none.
    fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> impl Future<Output = Result<Vec<Delivery<Self::Lease>>, ReceiveError>> + Send {
        let _ = (path, numbers);
        async { Err(NoCall::new("the backend leaves out `receive_deferred`").into()) }
    }

    /// Returns up to `max` messages from a sequence number on, without a lock.
    fn peek(
        &self,
        path: &EntityPath,
        from: SequenceNumber,
        max: usize,
    ) -> impl Future<Output = Result<Vec<Message>, ReceiveError>> + Send {
        let _ = (path, from, max);
        async { Err(NoCall::new("the backend leaves out `peek`").into()) }
    }

    /// Counts the messages of an entity. The default peeks at all of them.
    fn counts(&self, path: &EntityPath) -> impl Future<Output = Result<Counts, ReceiveError>> + Send {
        async move {
            let all = usize::MAX;
            let mut counts = Counts::default();
            for message in self.peek(path, SequenceNumber::new(0), all).await? {
                match message.received().map(|received| received.state).unwrap_or_default() {
                    MessageState::Active => counts.active += 1,
                    MessageState::Deferred => counts.deferred += 1,
                    MessageState::Scheduled => counts.scheduled += 1,
                }
            }
            if !path.is_dead_letter() {
                counts.dead_lettered = self.peek(&path.dead_letter(), SequenceNumber::new(0), all).await?.len();
            }
            Ok(counts)
        }
    }

    /// Removes up to `max` messages that are not locked, the oldest first, and returns how many. With an instant, it removes
    /// only those that were accepted before it.
    fn purge(
        &self,
        path: &EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> impl Future<Output = Result<usize, ManageError>> + Send {
        let _ = (path, max, accepted_before);
        async { Err(NoCall::new("the backend leaves out `purge`").into()) }
    }

    /// Locks one session. It does not wait.
    fn accept_session(
        &self,
        path: &EntityPath,
        id: &str,
    ) -> impl Future<Output = Result<Self::Session, ReceiveError>> + Send {
        let _ = (path, id);
        async { Err(NoCall::new("the backend leaves out `accept_session`").into()) }
    }

    /// Locks a session that has messages and no holder. Without one within `wait` it returns
    /// [`ErrorKind::ServiceTimeout`](consign::transport::ErrorKind::ServiceTimeout).
    fn accept_next_session(
        &self,
        path: &EntityPath,
        wait: Duration,
    ) -> impl Future<Output = Result<Self::Session, ReceiveError>> + Send {
        let _ = (path, wait);
        async { Err(NoCall::new("the backend leaves out `accept_next_session`").into()) }
    }

    /// Returns the state of a session; `None` if there is none.
    fn session_state(
        &self,
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Option<Bytes>, SettleError>> + Send {
        let _ = session;
        async { Err(NoCall::new("the backend leaves out `session_state`").into()) }
    }

    /// Sets the state of a session, or clears it.
    fn set_session_state(
        &self,
        session: &mut Self::Session,
        state: Option<Bytes>,
    ) -> impl Future<Output = Result<(), SettleError>> + Send {
        let _ = (session, state);
        async { Err(NoCall::new("the backend leaves out `set_session_state`").into()) }
    }

    /// Locks deferred messages of a session, all or none.
    fn receive_deferred_of(
        &self,
        session: &mut Self::Session,
        numbers: &[SequenceNumber],
    ) -> impl Future<Output = Result<Vec<Delivery<Self::Lease>>, ReceiveError>> + Send {
        let _ = (session, numbers);
        async { Err(NoCall::new("the backend leaves out `receive_deferred_of`").into()) }
    }

    /// Returns up to `max` messages of a session, continuing after the last peeked one.
    fn peek_of(
        &self,
        session: &mut Self::Session,
        max: usize,
    ) -> impl Future<Output = Result<Vec<Message>, ReceiveError>> + Send {
        let _ = (session, max);
        async { Err(NoCall::new("the backend leaves out `peek_of`").into()) }
    }

    /// Settles a delivery over another connection than that of the delivery.
    fn settle_elsewhere(
        &self,
        path: &EntityPath,
        lease: Self::Lease,
        disposition: Disposition,
    ) -> impl Future<Output = Result<(), SettleError>> + Send {
        let _ = (path, lease, disposition);
        async { Err(NoCall::new("the backend leaves out `settle_elsewhere`").into()) }
    }

    /// Creates a receiver that [`Backend::disconnect`] can break without breaking others: on a connection of its own where
    /// receivers have connections.
    fn separate_receiver(
        &self,
        path: &EntityPath,
    ) -> impl Future<Output = Result<Self::Receiver, ReceiveError>> + Send {
        self.receiver(path, Mode::PeekLock)
    }

    /// Breaks a [`separate_receiver`](Self::separate_receiver) that holds `held`, as if its process had died, and waits until
    /// the broker has noticed. The held deliveries are dropped and not settled.
    fn disconnect(
        &self,
        receiver: Self::Receiver,
        held: Vec<Delivery<Self::Lease>>,
    ) -> impl Future<Output = Result<(), ReceiveError>> + Send {
        let _ = (receiver, held);
        async { Err(NoCall::new("the backend leaves out `disconnect`").into()) }
    }

    /// Begins a transaction.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction, Failure>> + Send {
        async { Err(NoCall::new("the backend leaves out `begin`").into()) }
    }
}
