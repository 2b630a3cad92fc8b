use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::{Bytes, BytesMut};

use super::{End, Link, LinkState};
use crate::{
    engine::{
        CommandError, Connection, Delivery, DeliveryId, Event, LinkId, Payload, Violation, input::Fault,
        session::Session, tracker::extend,
    },
    types::{DeliveryState, Flow, Transfer},
};

/// A piece of a message below this size is copied, so that pieces do not take more memory than the message.
const SMALL: usize = 4_096;

/// The receiving end of a link.
#[derive(Debug)]
pub(in crate::engine) struct Receiver {
    pub(super) max_message_size: u64,
    /// Deliveries beyond the credit, since it was last set.
    overrun: u32,
    /// The delivery of which a part was received.
    pub(super) partial: Option<Partial>,
}

#[derive(Debug)]
pub(super) struct Partial {
    delivery: Delivery,
    size: u64,
    /// Small pieces behind those of the delivery.
    tail: BytesMut,
    /// None before it has waited for a transfer.
    share: Option<Share>,
}

/// The bytes of all deliveries of a connection that are incomplete.
#[derive(Debug)]
pub(in crate::engine) struct Incomplete {
    bytes: Arc<AtomicU64>,
    pub(in crate::engine) max: u64,
}

impl Default for Incomplete {
    fn default() -> Self {
        Self { bytes: Arc::default(), max: u64::MAX }
    }
}

/// What one delivery has of them. A link, a session and a connection may end with an incomplete delivery.
#[derive(Debug)]
struct Share {
    all: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Receiver {
    pub(super) const fn new(max_message_size: u64) -> Self {
        Self { max_message_size, overrun: 0, partial: None }
    }
}

impl Connection {
    /// Sets how many deliveries a receiving link accepts from now on, whatever it accepted before. What the peer sent before it read
    /// this is counted against it.
    ///
    /// # Errors
    /// The link is detached or not answered, or it sends.
    pub fn credit(&mut self, link: LinkId, credit: u32) -> Result<(), CommandError> {
        let (session, out) = self.link_session(link)?;
        let slot = session.live_link(link)?;
        slot.expect_own_attach()?;
        let End::Receiver(receiver) = &mut slot.end else { return Err(CommandError::WrongRole) };
        receiver.overrun = 0;
        slot.credit = credit;
        slot.drain = false;
        session.link_flow(out, link, false)
    }

    /// Returns whether a part of a delivery was received on a receiving link. It has used its credit.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_part(&self, link: LinkId) -> bool {
        let link = self.session(link.session).and_then(|session| session.link(link));
        matches!(link.map(|link| &link.end), Some(End::Receiver(Receiver { partial: Some(_), .. })))
    }

    /// Requests that the sender of a receiving link uses up the credit: it sends what it has, and no more.
    /// [`Event::CreditDrained`] follows after the deliveries.
    ///
    /// # Errors
    /// The link is detached or not answered, or it sends.
    pub fn drain(&mut self, link: LinkId) -> Result<(), CommandError> {
        let (session, out) = self.link_session(link)?;
        let slot = session.live_link(link)?;
        slot.expect_own_attach()?;
        let End::Receiver(receiver) = &slot.end else { return Err(CommandError::WrongRole) };
        if slot.credit == 0 && receiver.partial.is_none() {
            self.events.push_back(Event::CreditDrained { link });
            return Ok(());
        }
        slot.drain = true;
        session.link_flow(out, link, true)
    }

    pub(in crate::engine) fn on_flow(&mut self, local: u16, flow: Flow) -> Result<(), Fault> {
        let Some(session) = self.sessions.get_mut(usize::from(local)).and_then(Option::as_deref_mut) else {
            return Ok(());
        };
        let was_closed = session.windows.sendable() == 0;
        session.windows.flow(&flow);
        session.resume(&mut self.out);
        if was_closed && session.windows.sendable() > 0 {
            self.events.push_back(Event::WindowOpened { session: session.id });
        }
        let echo = flow.echo;
        let Some(handle) = flow.handle else {
            if echo {
                let answer = session.windows.open();
                // A flow without properties fits.
                let _ = self.out.frame(local, &answer.into());
            }
            return Ok(());
        };
        let Some(own) = session.local_handle(handle)? else { return Ok(()) };
        let Some(link) = session.links.get_mut(own as usize).and_then(Option::as_deref_mut) else { return Ok(()) };
        if link.is_detaching() {
            return Ok(());
        }
        let (id, state) = (link.id, link.state);
        let event = match link.end {
            End::Sender(_) => link.sender_flow(flow),
            End::Receiver(_) => link.receiver_flow(&flow),
        };
        self.events.extend(event);
        if echo && state != LinkState::Requested {
            let _ = session.link_flow(&mut self.out, id, false);
        }
        Ok(())
    }

    pub(in crate::engine) fn on_transfer(
        &mut self,
        local: u16,
        transfer: Transfer,
        payload: Bytes,
    ) -> Result<(), Fault> {
        let max_unsettled = self.options.max_unsettled;
        let accepted = Accepted { overrun: self.options.credit_overrun, too_large: self.options.report_too_large };
        let Some(session) = self.sessions.get_mut(usize::from(local)).and_then(Option::as_deref_mut) else {
            return Ok(());
        };
        if !session.windows.received() {
            return Err(Fault::Session(session.id, Violation::Window));
        }
        self.window_low |= session.windows.is_low();
        let handle = transfer.handle;
        let Some(own) = session.local_handle(handle)? else { return Ok(()) };
        let Session { links, incoming, last_delivery, id, .. } = session;
        let Some(link) = links.get_mut(own as usize).and_then(Option::as_deref_mut) else { return Ok(()) };
        if link.is_detaching() || link.state == LinkState::Refused {
            if let Some(DeliveryState::Transactional(transactional)) = transfer.state {
                self.events.push_back(Event::TransactionIncomplete { session: *id, txn_id: transactional.txn_id });
            }
            return Ok(());
        }
        let link_id = link.id;
        if matches!(link.end, End::Sender(_)) {
            return Err(Fault::Session(*id, Violation::TransferToSender { handle }));
        }
        let received = link.transfer(transfer, payload, accepted, &self.incomplete);
        let received = received.map_err(|fault| Fault::Link(link_id, fault))?;
        match received {
            Progress::More => return Ok(()),
            Progress::Aborted => self.events.push_back(Event::DeliveryAborted { link: link_id }),
            Progress::Complete { mut delivery, too_large } => {
                let sequence = extend(*last_delivery, delivery.id.number());
                *last_delivery = sequence.max(*last_delivery);
                if delivery.settled {
                    delivery.id = DeliveryId { sequence, copy: 0 };
                } else if incoming.len() >= max_unsettled {
                    return Err(Fault::Link(link_id, Violation::Unsettled { max: max_unsettled }));
                } else {
                    delivery.id = incoming.insert(sequence, link_id);
                }
                self.events.push_back(match too_large {
                    None => Event::Delivery(delivery),
                    Some(size) => {
                        let Delivery { link, id, settled, state, .. } = delivery;
                        Event::DeliveryTooLarge { link, id, settled, state, size }
                    }
                });
            }
        }
        if link.drain && link.credit == 0 {
            link.drain = false;
            self.events.push_back(Event::CreditDrained { link: link_id });
        }
        Ok(())
    }
}

/// What a link accepts that is beyond its limits.
#[derive(Clone, Copy)]
struct Accepted {
    /// Deliveries beyond the credit.
    overrun: u32,
    /// Deliveries that are too large, without their payload.
    too_large: bool,
}

/// How far a delivery is after a transfer.
enum Progress {
    More,
    Aborted,
    /// With its size if it is too large.
    Complete {
        delivery: Delivery,
        too_large: Option<u64>,
    },
}

impl Link {
    /// Takes the flow of the sender. Its credit is not looked at: a client announces one of its own.
    fn receiver_flow(&mut self, flow: &Flow) -> Option<Event> {
        let End::Receiver(receiver) = &self.end else { return None };
        if let (Some(count), Some(known)) = (flow.delivery_count, self.delivery_count) {
            let used = count.wrapping_sub(known);
            // The sender may have used up a credit that was larger than the one it does not know yet.
            if used <= u32::MAX / 2 {
                self.delivery_count = Some(count);
                self.credit = self.credit.saturating_sub(used);
            }
        }
        if self.drain && self.credit == 0 && receiver.partial.is_none() {
            self.drain = false;
            return Some(Event::CreditDrained { link: self.id });
        }
        None
    }

    fn transfer(
        &mut self,
        transfer: Transfer,
        payload: Bytes,
        accepted: Accepted,
        incomplete: &Incomplete,
    ) -> Result<Progress, Violation> {
        let link = self.id;
        let End::Receiver(receiver) = &mut self.end else { return Ok(Progress::More) };
        let mut partial = if let Some(partial) = receiver.partial.take() {
            if transfer.delivery_id.is_some_and(|number| number != partial.delivery.id.number()) {
                return Err(Violation::Field {
                    field: "transfer.delivery-id",
                    expected: "the id of the delivery that is not complete",
                });
            }
            partial
        } else {
            if let Some(credit) = self.credit.checked_sub(1) {
                self.credit = credit;
            } else if receiver.overrun < accepted.overrun {
                receiver.overrun += 1;
            } else {
                return Err(Violation::Credit);
            }
            self.delivery_count = self.delivery_count.map(|count| count.wrapping_add(1));
            Partial::start(link, &transfer)?
        };
        if transfer.aborted {
            return Ok(Progress::Aborted);
        }
        partial.size += payload.len() as u64;
        let too_large = (partial.size > receiver.max_message_size).then_some(partial.size);
        if too_large.is_some() && !accepted.too_large {
            return Err(Violation::MessageSize { max: receiver.max_message_size });
        }
        partial.delivery.settled |= transfer.settled == Some(true);
        if transfer.state.is_some() {
            partial.delivery.state = transfer.state;
        }
        if too_large.is_some() {
            partial.discard();
        } else if transfer.more {
            partial.wait(payload.len() as u64, incomplete)?;
            partial.push(payload);
        } else if partial.is_first() {
            partial.delivery.payload = payload.into();
        } else {
            partial.push(payload);
            partial.flush();
        }
        if transfer.more {
            receiver.partial = Some(partial);
            return Ok(Progress::More);
        }
        Ok(Progress::Complete { delivery: partial.delivery, too_large })
    }
}

impl Partial {
    fn start(link: LinkId, transfer: &Transfer) -> Result<Self, Violation> {
        let Some(number) = transfer.delivery_id else {
            return Err(Violation::Field {
                field: "transfer.delivery-id",
                expected: "an id on the first transfer of a delivery",
            });
        };
        let tag = transfer.delivery_tag.clone().unwrap_or_default();
        if tag.len() > super::sender::MAX_TAG {
            return Err(Violation::Field { field: "transfer.delivery-tag", expected: "at most 32 bytes" });
        }
        let delivery = Delivery {
            link,
            // The session extends it when the delivery is complete.
            id: DeliveryId { sequence: number.into(), copy: 0 },
            tag,
            format: transfer.message_format.unwrap_or(0),
            settled: false,
            state: None,
            receiver_settle_mode: transfer.rcv_settle_mode,
            batchable: transfer.batchable,
            payload: Payload::default(),
        };
        Ok(Self { delivery, size: 0, tail: BytesMut::new(), share: None })
    }

    /// Counts bytes that wait for the next transfer.
    fn wait(&mut self, bytes: u64, incomplete: &Incomplete) -> Result<(), Violation> {
        let share = self.share.get_or_insert_with(|| Share { all: Arc::clone(&incomplete.bytes), bytes: 0 });
        share.bytes += bytes;
        let all = share.all.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if all > incomplete.max { Err(Violation::Incomplete { max: incomplete.max }) } else { Ok(()) }
    }

    /// Whether no part was received before.
    fn is_first(&self) -> bool {
        self.delivery.payload.is_empty() && self.tail.is_empty()
    }

    /// Forgets what was received: the delivery is too large.
    fn discard(&mut self) {
        (self.delivery.payload, self.tail, self.share) = (Payload::default(), BytesMut::new(), None);
    }

    fn push(&mut self, chunk: Bytes) {
        if chunk.len() < SMALL {
            self.tail.extend_from_slice(&chunk);
        } else {
            self.flush();
            self.delivery.payload.push(chunk);
        }
    }

    fn flush(&mut self) {
        if !self.tail.is_empty() {
            self.delivery.payload.push(self.tail.split().freeze());
        }
    }
}
