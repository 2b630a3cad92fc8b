use bytes::{Buf, Bytes};

use super::{End, Link, LinkState};
use crate::{
    engine::{
        CommandError, Connection, DeliveryId, Event, LinkId, OutboundDelivery, chunks::Chunks, session::Session,
        writer::Writer,
    },
    types::{Flow, Transfer},
};

/// The longest delivery tag, in bytes.
pub(in crate::engine) const MAX_TAG: usize = 32;

/// The sending end of a link.
#[derive(Debug)]
pub(in crate::engine) struct Sender {
    pub(super) initial_delivery_count: u32,
    /// The largest message that the receiver accepts.
    pub(super) max_message_size: Option<u64>,
    /// The delivery that waits for the session window, or for output to be written.
    pub(super) partial: Option<Partial>,
}

/// What is left of a delivery.
#[derive(Debug)]
pub(super) struct Partial {
    id: DeliveryId,
    rest: Vec<Bytes>,
    aborted: bool,
}

impl Sender {
    pub(super) const fn new(initial_delivery_count: u32) -> Self {
        Self { initial_delivery_count, max_message_size: None, partial: None }
    }
}

impl Connection {
    /// Returns how many deliveries a sending link may send now: the least of its credit, the session window, and the unsettled
    /// deliveries that are left of [`Options::max_unsettled`](crate::engine::Options::max_unsettled).
    ///
    /// It is 0 while the output is full, and while the rest of a delivery waits. A broker locks as many
    /// messages, and no more: a message that is locked and not sent has its lock expire.
    #[must_use]
    pub fn sendable(&self, link: LinkId) -> u32 {
        if self.is_output_full() || self.frames_allowed().is_err() {
            return 0;
        }
        let Some(session) = self.session(link.session) else { return 0 };
        match session.link(link) {
            Some(Link {
                end: End::Sender(Sender { partial: None, .. }), state: LinkState::Attached, credit, ..
            }) => {
                let unsettled = self.unsettled_left(link);
                (*credit).min(session.windows.sendable()).min(u32::try_from(unsettled).unwrap_or(u32::MAX))
            }
            _ => 0,
        }
    }

    /// Returns how many more deliveries of the session of a sending link may be unsettled, by
    /// [`Options::max_unsettled`](crate::engine::Options::max_unsettled). 0 if the session has ended.
    #[must_use]
    pub fn unsettled_left(&self, link: LinkId) -> usize {
        let session = self.session(link.session);
        session.map_or(0, |session| self.options.max_unsettled.saturating_sub(session.outgoing.len()))
    }

    /// Returns the credit that is left of a sending link, whatever the session window and the output allow. 0 if the link is detached,
    /// or receives.
    ///
    /// It is less than that of [`Event::CreditChanged`] if deliveries were sent since the flow was read.
    #[must_use]
    pub fn credit_left(&self, link: LinkId) -> u32 {
        match self.session(link.session).and_then(|session| session.link(link)) {
            Some(Link { end: End::Sender(_), state: LinkState::Attached, credit, .. }) => *credit,
            _ => 0,
        }
    }

    /// Returns whether the rest of a delivery waits on a sending link.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_rest(&self, link: LinkId) -> bool {
        let link = self.session(link.session).and_then(|session| session.link(link));
        matches!(link.map(|link| &link.end), Some(End::Sender(Sender { partial: Some(_), .. })))
    }

    /// Returns the largest message that the receiver of a sending link accepts, in bytes. None without a limit.
    #[must_use]
    pub fn peer_message_size(&self, link: LinkId) -> Option<u64> {
        match &self.session(link.session)?.link(link)?.end {
            End::Sender(sender) => sender.max_message_size,
            End::Receiver(_) => None,
        }
    }

    /// Replaces the largest message that the receiver of a sending link accepts, for a client that announces a limit that it does not
    /// have.
    ///
    /// # Errors
    /// The link is detached, or it receives.
    pub fn set_peer_message_size(&mut self, link: LinkId, bytes: Option<u64>) -> Result<(), CommandError> {
        let (session, _) = self.link_session(link)?;
        let End::Sender(sender) = &mut session.live_link(link)?.end else { return Err(CommandError::WrongRole) };
        sender.max_message_size = bytes;
        Ok(())
    }

    /// Sends a delivery. Its payload is the chunks in order. What of them goes into one frame is copied below 1 KiB, and not from there
    /// on.
    ///
    /// A delivery that needs more frames than the session window has, or more bytes than
    /// [`Options::output_limit`](crate::engine::Options::output_limit), is sent as far as possible. The rest follows when the window
    /// opens, or output is written. It is discarded if the link is detached before.
    ///
    /// # Errors
    /// [`Connection::sendable`] is 0, by its reason; the tag is longer than 32 bytes, the message is larger than the receiver accepts,
    /// or the fields cannot be encoded or are too large for a frame. Nothing is sent then.
    pub fn send(
        &mut self,
        link: LinkId,
        delivery: OutboundDelivery,
        payload: &[Bytes],
    ) -> Result<DeliveryId, CommandError> {
        let (max_unsettled, full) = (self.options.max_unsettled, self.is_output_full());
        let (session, out) = self.link_session(link)?;
        let Session { links, windows, outgoing, next_delivery, .. } = session;
        let slot = links.get_mut(link.handle as usize).and_then(Option::as_deref_mut);
        let slot = slot.filter(|slot| slot.id == link && !slot.is_detaching()).ok_or(CommandError::UnknownLink)?;
        let state = slot.state;
        let End::Sender(sender) = &mut slot.end else { return Err(CommandError::WrongRole) };
        let mut chunks = Chunks::new(payload);
        if state != LinkState::Attached || slot.credit == 0 {
            return Err(CommandError::NoCredit);
        } else if windows.sendable() == 0 {
            return Err(CommandError::NoWindow);
        } else if full || sender.partial.is_some() {
            return Err(CommandError::OutputFull);
        } else if delivery.tag.len() > MAX_TAG {
            return Err(CommandError::TagTooLong);
        } else if !delivery.settled && outgoing.len() >= max_unsettled {
            return Err(CommandError::TooManyUnsettled);
        } else if let Some(max) = sender.max_message_size.filter(|max| chunks.len() as u64 > *max) {
            return Err(CommandError::MessageTooLarge { max });
        }
        let sequence = *next_delivery;
        let id = DeliveryId { sequence, copy: 0 };
        let settled = delivery.settled;
        let transfer = Transfer {
            handle: link.handle,
            delivery_id: Some(id.number()),
            delivery_tag: Some(delivery.tag),
            message_format: Some(delivery.format),
            settled: Some(settled),
            rcv_settle_mode: delivery.receiver_settle_mode,
            state: delivery.state,
            batchable: delivery.batchable,
            ..Transfer::default()
        };
        out.transfer(link.session.channel, transfer, &mut chunks)?;
        windows.sent();
        *next_delivery = sequence.wrapping_add(1);
        slot.credit -= 1;
        slot.delivery_count = slot.delivery_count.map(|count| count.wrapping_add(1));
        let id = if settled { id } else { outgoing.insert(sequence, link) };
        if !chunks.is_empty() {
            sender.partial = Some(Partial { id, rest: chunks.rest(), aborted: false });
            session.resume(out);
        }
        Ok(id)
    }

    /// Gives up the delivery of a sending link of which a rest waits for the session window or for output to be written, with
    /// [`DeliveryId`]. None if there is no such delivery. The receiver is told instead of the rest.
    ///
    /// # Errors
    /// The link is detached, or it receives.
    pub fn abort(&mut self, link: LinkId) -> Result<Option<DeliveryId>, CommandError> {
        let (session, _) = self.link_session(link)?;
        let End::Sender(sender) = &mut session.live_link(link)?.end else { return Err(CommandError::WrongRole) };
        let Some(partial) = sender.partial.as_mut().filter(|partial| !partial.aborted) else { return Ok(None) };
        partial.aborted = true;
        partial.rest.clear();
        let id = partial.id;
        session.outgoing.remove(id);
        Ok(Some(id))
    }

    /// Uses up the credit of a sending link, when the receiver has requested it with
    /// [`drain`](Event::CreditChanged::drain) and there is nothing to send. Nothing happens if the receiver has taken that back, by a
    /// credit without `drain`.
    ///
    /// # Errors
    /// The link is detached or not answered, or it receives.
    pub fn drained(&mut self, link: LinkId) -> Result<(), CommandError> {
        let (session, out) = self.link_session(link)?;
        let slot = session.live_link(link)?;
        if !matches!(slot.end, End::Sender(_)) {
            return Err(CommandError::WrongRole);
        }
        slot.expect_own_attach()?;
        if !std::mem::take(&mut slot.drain) {
            return Ok(());
        }
        let credit = std::mem::take(&mut slot.credit);
        slot.delivery_count = slot.delivery_count.map(|count| count.wrapping_add(credit));
        session.link_flow(out, link, true)
    }
}

impl Connection {
    /// Sends what waits for output to be written, on all links.
    pub(in crate::engine) fn resume(&mut self) {
        if !self.out.rest_waits || self.out.is_full() || self.frames_allowed().is_err() {
            return;
        }
        self.out.rest_waits = false;
        for session in self.sessions.iter_mut().flatten() {
            session.resume(&mut self.out);
        }
    }
}

impl Session {
    /// Sends what waits for the session window or for the output, as far as both permit.
    ///
    /// It stops at the limit of the output: two ends that send would each fill theirs and read no more.
    pub(in crate::engine) fn resume(&mut self, out: &mut Writer) {
        let Self { links, windows, id, .. } = self;
        for link in links.iter_mut().flatten() {
            let End::Sender(sender) = &mut link.end else { continue };
            let Some(partial) = &mut sender.partial else { continue };
            let mut chunks = Chunks::new(&partial.rest);
            let mut finished = false;
            while !finished && windows.sendable() > 0 {
                if out.is_full() {
                    out.rest_waits = true;
                    break;
                }
                let transfer = Transfer { handle: link.id.handle, aborted: partial.aborted, ..Transfer::default() };
                // Without a tag and a state it fits.
                if out.transfer(id.channel, transfer, &mut chunks).is_err() {
                    break;
                }
                windows.sent();
                finished = chunks.is_empty();
            }
            if finished {
                sender.partial = None;
            } else {
                let (taken, offset) = chunks.position(&partial.rest);
                partial.rest.drain(..taken);
                if let Some(first) = partial.rest.first_mut() {
                    first.advance(offset);
                }
            }
        }
    }

    /// Writes a flow of a link.
    pub(super) fn link_flow(&mut self, out: &mut Writer, id: LinkId, drain: bool) -> Result<(), CommandError> {
        let session = self.windows.open();
        let Some(link) = self.link(id) else { return Ok(()) };
        let available = matches!(link.end, End::Sender(_)).then_some(0);
        let flow = Flow {
            handle: Some(id.handle),
            delivery_count: link.delivery_count,
            link_credit: Some(link.credit),
            available,
            drain,
            ..session
        };
        out.frame(id.session.channel, &flow.into())
    }
}

impl Link {
    /// Before this end has attached the link, it has no handle in its frames.
    pub(in crate::engine) fn expect_own_attach(&self) -> Result<(), CommandError> {
        if self.state == LinkState::Requested {
            Err(CommandError::State { expected: "an answer to the peer's attach" })
        } else {
            Ok(())
        }
    }

    /// Takes the flow of the receiver.
    pub(super) fn sender_flow(&mut self, flow: Flow) -> Option<Event> {
        let End::Sender(sender) = &self.end else { return None };
        if self.state == LinkState::Refused {
            return None;
        }
        let before = self.credit;
        if let Some(credit) = flow.link_credit {
            let count = self.delivery_count.unwrap_or(sender.initial_delivery_count);
            let known = flow.delivery_count.unwrap_or(sender.initial_delivery_count);
            let in_flight = count.wrapping_sub(known);
            // A receiver that counts ahead has nothing in flight.
            let in_flight = if in_flight > u32::MAX / 2 { 0 } else { in_flight };
            self.credit = credit.saturating_sub(in_flight);
        }
        self.drain = flow.drain;
        (self.credit != before || flow.drain || flow.properties.is_some()).then(|| Event::CreditChanged {
            link: self.id,
            credit: self.credit,
            drain: flow.drain,
            properties: flow.properties,
        })
    }
}
