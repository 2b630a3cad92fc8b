//! Links on which a client sends messages.

use std::sync::Arc;

use consign_amqp::{
    engine::{Connection as Engine, Delivery, DeliveryId, LinkId, Payload},
    types::{Accepted, DeliveryState, TransactionalState, condition},
    value::Binary,
};
use consign_broker::QueueSender;
use consign_core::transport::{Batch, ErrorKind, SendError, Sender};

use super::{Kind, Link};
use crate::{
    connection::{Client, Done},
    errors::Failure,
    log::warn_of,
    messages::{self, Sent},
    transactions::txn_id,
};

/// A delivery that is refused before it is read.
pub(crate) struct Refused {
    pub(crate) link: LinkId,
    pub(crate) id: DeliveryId,
    pub(crate) settled: bool,
    /// The transaction that it is a part of.
    pub(crate) txn_id: Option<Binary>,
}

/// A link on which a client sends messages to an entity.
pub(crate) struct Incoming {
    pub(crate) sender: QueueSender,
    /// The sender in a transaction, if another entity of the session transfers its messages.
    via: Option<QueueSender>,
    pub(crate) entity: Arc<str>,
    pub(super) max_message_size: u64,
    /// Deliveries since the credit was set.
    used: u32,
    /// Deliveries that are not answered.
    unanswered: u32,
}

impl Incoming {
    pub(super) fn new(sender: QueueSender, entity: Arc<str>, max_message_size: u64) -> Self {
        Self { sender, via: None, entity, max_message_size, used: 0, unanswered: 0 }
    }

    pub(super) fn via(self, via: Option<QueueSender>) -> Self {
        Self { via, ..self }
    }

    /// Gives credit again, up to the full one. In halves, so that not every message is followed by a flow.
    fn replenish(&mut self, engine: &mut Engine, link: LinkId, full: u32) {
        if self.used >= full.div_ceil(2) {
            let credit = full.saturating_sub(self.unanswered);
            if credit > 0 && engine.credit(link, credit).is_ok() {
                self.used = full - credit;
            }
        }
    }
}

impl Client {
    /// Takes a message, or a batch of them.
    pub(crate) fn receive(&mut self, engine: &mut Engine, delivery: Delivery) {
        let Delivery { link, id, settled, format, state, payload, .. } = delivery;
        let Some(Link { kind: Kind::Incoming(incoming), .. }) = self.links.get_mut(&link) else { return };
        incoming.used += 1;
        incoming.unanswered += 1;
        let txn_id = txn_id(state);
        let (sender, via) = (incoming.sender.clone(), incoming.via.clone().filter(|_| txn_id.is_some()));
        let max = incoming.max_message_size;
        let done = move |state| Done::Sent { link, delivery: id, settled, state };
        let sent = self.decode(format, payload, max);
        if let Some(txn_id) = txn_id {
            let most = self.shared.limits.max_transaction_bytes;
            let added = sent.and_then(|sent| self.transactions.send(&txn_id, &sender, via.as_ref(), sent, most));
            let outcome = match added {
                Ok(()) => Accepted {}.into(),
                Err(failure) => {
                    self.transactions.fail(Some(&txn_id));
                    failure.rejected()
                }
            };
            let state = TransactionalState { txn_id, outcome: Some(Box::new(outcome)) };
            return self.done(engine, done(DeliveryState::Transactional(Box::new(state))));
        }
        let sent = match sent {
            Ok(sent) => sent,
            Err(failure) => return self.done(engine, done(failure.rejected())),
        };
        let sending = match sent {
            Sent::One(message) => sender.send(message),
            Sent::Batch(messages) => sender.send_batch(Batch::from(messages)),
        };
        self.call(engine, sending, move |outcome: Result<(), SendError>| {
            done(match outcome {
                Ok(()) => Accepted {}.into(),
                Err(error) => Failure::from(error).rejected(),
            })
        });
    }

    /// Refuses a delivery of which the engine has dropped the payload.
    pub(crate) fn too_large(&mut self, engine: &mut Engine, refused: Refused, size: u64) {
        let Refused { link, id, settled, txn_id } = refused;
        self.transactions.fail(txn_id.as_ref());
        self.touch(link);
        let state = match self.links.get_mut(&link) {
            Some(Link { kind: Kind::Incoming(incoming), .. }) => {
                incoming.used += 1;
                incoming.unanswered += 1;
                let state = too_large(size, incoming.max_message_size).rejected();
                let state = match txn_id {
                    Some(txn_id) => TransactionalState { txn_id, outcome: Some(Box::new(state)) }.into(),
                    None => state,
                };
                return self.done(engine, Done::Sent { link, delivery: id, settled, state });
            }
            Some(Link { kind: Kind::Requests { .. }, .. }) => {
                self.use_request_credit(engine, link);
                let text = format!("The request has {size} bytes, which is more than the link accepts.");
                Failure::new(ErrorKind::MessageSizeExceeded, text).rejected()
            }
            Some(_) => {
                // The link may be detached meanwhile.
                let _ = engine.credit(link, self.shared.limits.sender_credit);
                Failure::argument(format!("A request to the coordinator has {size} bytes.")).rejected()
            }
            None => return,
        };
        if !settled {
            let _ = engine.settle(link, [id], Some(&state), true);
        }
    }

    /// Decodes what a client has sent, if it may send that.
    fn decode(&self, format: u32, payload: Payload, max: u64) -> Result<Sent, Failure> {
        if self.is_closing() {
            return Err(Failure::new(ErrorKind::ServiceBusy, "the server shuts down"));
        }
        let size = payload.len() as u64;
        if size > max {
            return Err(too_large(size, max));
        }
        messages::decode(format, payload.into_bytes())
    }

    /// Answers a delivery, and gives credit for another.
    pub(crate) fn sent(
        &mut self,
        engine: &mut Engine,
        link: LinkId,
        delivery: DeliveryId,
        settled: bool,
        state: &DeliveryState,
    ) {
        let outcome = match state {
            DeliveryState::Transactional(transactional) => transactional.outcome.as_deref(),
            state => Some(state),
        };
        if settled && let Some(DeliveryState::Rejected(_)) = outcome {
            warn_of!("SettledRefused", ?link, "a message that was sent settled is refused, and lost");
        }
        if !settled {
            // The link may be detached meanwhile.
            let _ = engine.settle(link, [delivery], Some(state), true);
        }
        let gone = match outcome {
            Some(DeliveryState::Rejected(rejected)) => {
                rejected.error.as_ref().filter(|error| error.condition == condition::NOT_FOUND)
            }
            _ => None,
        };
        let Some(Link { kind: Kind::Incoming(incoming), .. }) = self.links.get_mut(&link) else { return };
        incoming.unanswered = incoming.unanswered.saturating_sub(1);
        match gone {
            None => incoming.replenish(engine, link, self.shared.limits.sender_credit),
            // An entity that is created again has another sender, which a client gets by attaching again.
            Some(error) if incoming.unanswered == 0 => {
                let text = error.description.as_ref().map_or_else(String::new, ToString::to_string);
                self.detach(engine, link, Failure::new(ErrorKind::EntityNotFound, text));
            }
            // The others have to be answered first.
            Some(_) => {}
        }
    }

    /// A delivery was given up. It has used a credit.
    pub(crate) fn aborted(&mut self, engine: &mut Engine, link: LinkId) {
        match self.links.get_mut(&link) {
            Some(Link { kind: Kind::Incoming(incoming), .. }) => {
                incoming.used += 1;
                incoming.replenish(engine, link, self.shared.limits.sender_credit);
            }
            Some(Link { kind: Kind::Requests { .. }, .. }) => self.use_request_credit(engine, link),
            Some(_) => drop(engine.credit(link, self.shared.limits.sender_credit)),
            None => {}
        }
    }
}

fn too_large(size: u64, max: u64) -> Failure {
    let text = format!("The message has {size} bytes, and the limit of the entity is {max} bytes.");
    Failure::new(ErrorKind::MessageSizeExceeded, text)
}
