//! Links on which a client receives messages.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use consign_amqp::{
    engine::{CommandError, Connection as Engine, DeliveryId, LinkId, OutboundDelivery, SessionId},
    value::Binary,
};
use consign_broker::{QueueLease, QueueReceiver, SessionReceiver};
use consign_core::{
    Disposition, Message,
    message::LockToken,
    settlement::DeadLetterReason,
    time::Timestamp,
    transport::{Delivery, Lease, ReceiveError, ReceiveMode, Receiver},
};
use rustc_hash::FxBuildHasher;

use super::{Kind, Link};
use crate::{
    connection::{Client, LinkWake},
    errors::Failure,
    locks::{Lock, Locks},
    log::warn_of,
    messages,
};

/// The most messages that are taken from the broker at a time.
const MAX_TAKEN: u32 = 32;

/// How many times a link is served before others have their turn.
const TURNS: usize = 8;

/// A link on which a client receives the messages of a queue, a subscription or a session.
pub(crate) struct Outgoing {
    pub(crate) source: Source,
    mode: ReceiveMode,
    pub(crate) entity: Arc<str>,
    pub(crate) session: Option<Arc<str>>,
    /// What the client has not settled.
    pub(crate) unsettled: HashMap<DeliveryId, LockToken, FxBuildHasher>,
    /// Messages that were removed, and that the client has no credit for any more.
    removed: VecDeque<Message>,
    /// Whether a removal takes a commit, so that messages are removed together.
    removal_waits: bool,
    drain: bool,
    wake: Waker,
}

/// What a link receives from.
pub(crate) enum Source {
    Queue(QueueReceiver),
    Session(SessionReceiver),
}

impl Source {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        match self {
            Self::Queue(receiver) => receiver.poll_receive(cx, max, out),
            Self::Session(receiver) => receiver.poll_receive(cx, max, out),
        }
    }

    fn stop(&mut self) {
        match self {
            Self::Queue(receiver) => receiver.stop(),
            Self::Session(receiver) => receiver.stop(),
        }
    }

    fn removing(&self) -> usize {
        match self {
            Self::Queue(receiver) => receiver.removing(),
            Self::Session(receiver) => receiver.removing(),
        }
    }
}

/// What became of a turn.
enum Served {
    /// There may be more.
    Some,
    /// The broker has nothing.
    Nothing,
    /// The client accepts nothing now.
    Full,
    Failed(ReceiveError),
}

impl Outgoing {
    pub(super) fn new(
        source: Source,
        mode: ReceiveMode,
        entity: Arc<str>,
        session: Option<Arc<str>>,
        wake: Arc<LinkWake>,
    ) -> Self {
        Self {
            source,
            mode,
            entity,
            session,
            unsettled: HashMap::default(),
            removed: VecDeque::new(),
            removal_waits: false,
            drain: false,
            wake: wake.into(),
        }
    }

    /// Sends what there is, as far as the client accepts it. Only as many messages are locked.
    fn serve(&mut self, engine: &mut Engine, id: LinkId, locks: &Locks) -> Served {
        while let Some(message) = self.removed.pop_front() {
            if engine.sendable(id) == 0 {
                self.removed.push_front(message);
                return Served::Full;
            }
            self.send_removed(engine, id, message);
        }
        if self.mode == ReceiveMode::PeekLock || self.removal_waits {
            return self.take(engine, id, locks, MAX_TAKEN);
        }
        // What is removed and not sent is lost with the link. The output may be full after each one.
        for nth in 0..MAX_TAKEN {
            match self.take(engine, id, locks, 1) {
                Served::Some => {}
                Served::Nothing | Served::Full if nth > 0 => break,
                served => return served,
            }
        }
        Served::Some
    }

    /// Takes up to `most` messages from the broker, and sends them.
    fn take(&mut self, engine: &mut Engine, id: LinkId, locks: &Locks, most: u32) -> Served {
        let sendable = engine.sendable(id).min(most);
        if sendable == 0 {
            return Served::Full;
        }
        let mut taken = Vec::new();
        let wake = self.wake.clone();
        match self.source.poll(&mut Context::from_waker(&wake), sendable as usize, &mut taken) {
            Poll::Pending => {
                self.removal_waits |= self.source.removing() > 0;
                return Served::Nothing;
            }
            Poll::Ready(Err(error)) => return Served::Failed(error),
            Poll::Ready(Ok(_)) => {}
        }
        for delivery in taken {
            match self.mode {
                ReceiveMode::PeekLock => self.send_locked(engine, id, delivery, locks),
                ReceiveMode::ReceiveAndDelete => self.send_removed(engine, id, delivery.message),
            }
        }
        Served::Some
    }

    fn send_locked(&mut self, engine: &mut Engine, id: LinkId, delivery: Delivery<QueueLease>, locks: &Locks) {
        let Delivery { message, lease } = delivery;
        let Some(token) = lease.lock_token() else { return };
        let in_session = self.session.is_some();
        let payload = match messages::encode_delivery(&message, Some(token), in_session) {
            Ok(payload) => payload,
            Err(Failure { description: error, .. }) => {
                return self.bury(lease, &error);
            }
        };
        let transfer = OutboundDelivery { tag: messages::tag(token).into(), ..OutboundDelivery::default() };
        match engine.send(id, transfer, &payload) {
            Ok(delivery) => {
                self.unsettled.insert(delivery, token);
                let until = message.received().and_then(|received| received.locked_until).unwrap_or(Timestamp::MAX);
                let lock = Lock { lease, entity: Arc::clone(&self.entity), session: self.session.clone(), until };
                locks.insert(token, lock);
            }
            Err(error @ CommandError::MessageTooLarge { .. }) => self.bury(lease, &error.to_string()),
            // The client has taken the credit back meanwhile.
            Err(_) => drop(lease.release()),
        }
    }

    fn send_removed(&mut self, engine: &mut Engine, id: LinkId, message: Message) {
        let payload = match messages::encode_delivery(&message, None, self.session.is_some()) {
            Ok(payload) => payload,
            Err(failure) => return self.lost(&message, &failure.description),
        };
        let transfer = OutboundDelivery { tag: Binary::default(), settled: true, ..OutboundDelivery::default() };
        match engine.send(id, transfer, &payload) {
            Ok(_) => {}
            // It waits for the credit, the window or the output.
            Err(CommandError::NoCredit | CommandError::NoWindow | CommandError::OutputFull) => {
                self.removed.push_back(message);
            }
            Err(error) => self.lost(&message, &error),
        }
    }

    fn lost(&self, message: &Message, error: &dyn std::fmt::Display) {
        let message_id = message.message_id();
        warn_of!("Lost", entity = &*self.entity, message_id, %error, "a removed message cannot be sent, and is lost");
    }

    /// Dead-letters a message that the client cannot have.
    fn bury(&self, lease: QueueLease, error: &str) {
        let entity = &*self.entity;
        let reason = DeadLetterReason::Application("NotDeliverable".into());
        let disposition = Disposition::dead_letter(reason, error.to_owned());
        match lease.check(&disposition) {
            Ok(()) => warn_of!("NotDeliverable", entity, %error, "a message cannot be sent, and is dead-lettered"),
            // Such as one in a dead-letter queue. Released, it would be received again at once.
            Err(refused) => warn_of!(
                "NotDeliverable",
                entity,
                %error,
                %refused,
                "a message can be neither sent nor dead-lettered, and stays locked until its lock runs out"
            ),
        }
        drop(lease.settle(disposition));
    }

    /// The link ends. Messages that were removed for it cannot be put back.
    pub(crate) fn warn_of_unsent(&self) {
        let messages = self.removed.len() + self.source.removing();
        if messages > 0 {
            let entity = &*self.entity;
            warn_of!("Unsent", entity, messages, "a link ended before removed messages were sent, and they are lost");
        }
    }
}

impl Client {
    /// The client has changed the credit of a link.
    pub(crate) fn credit_changed(&mut self, engine: &mut Engine, id: LinkId, drain: bool) {
        self.touch(id);
        match self.links.get_mut(&id).map(|link| &mut link.kind) {
            Some(Kind::Outgoing(link)) => {
                link.drain = drain;
                self.pump(engine, id);
            }
            Some(Kind::Accepting(link)) => link.drain = drain,
            Some(Kind::Replies(_)) => {
                self.send_replies(engine, id);
                if drain {
                    let _ = engine.drained(id);
                }
            }
            _ => {}
        }
    }

    /// Sends on a link what the broker has for it.
    pub(crate) fn pump(&mut self, engine: &mut Engine, id: LinkId) {
        let Self { links, shared, .. } = self;
        let Some(Link { kind: Kind::Outgoing(link), active, .. }) = links.get_mut(&id) else { return };
        if engine.credit_left(id) == 0 && !link.drain && link.removed.is_empty() {
            link.source.stop();
            return;
        }
        for _ in 0..TURNS {
            match link.serve(engine, id, &shared.locks) {
                Served::Some => *active = tokio::time::Instant::now(),
                Served::Nothing => {
                    if link.drain && link.source.removing() == 0 {
                        link.finish_drain(engine, id);
                    }
                    return;
                }
                Served::Full => {
                    link.source.stop();
                    if engine.credit_left(id) > 0 {
                        if self.make_sendable(engine, id) {
                            return self.pump(engine, id);
                        }
                        self.stall(engine, id);
                    } else if link.drain {
                        link.finish_drain(engine, id);
                    }
                    return;
                }
                Served::Failed(error) => return self.detach(engine, id, error.into()),
            }
        }
        // The others first.
        link.wake.wake_by_ref();
    }

    /// Goes on with links that could not send: those of a session, or those that waited for output to be written.
    pub(crate) fn resume(&mut self, engine: &mut Engine, session: Option<SessionId>) {
        let stalled = self.take_stalled(session);
        for link in stalled {
            self.pump_any(engine, link);
        }
    }

    pub(crate) fn pump_any(&mut self, engine: &mut Engine, id: LinkId) {
        if let Some(Link { kind: Kind::Replies(_), .. }) = self.links.get(&id) {
            self.send_replies(engine, id);
        } else {
            self.pump(engine, id);
        }
    }
}

impl Outgoing {
    fn finish_drain(&mut self, engine: &mut Engine, id: LinkId) {
        self.drain = false;
        self.source.stop();
        // The link may be detached meanwhile.
        let _ = engine.drained(id);
    }
}
