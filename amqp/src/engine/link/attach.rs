use super::{End, Handle, Link, LinkState, Receiver, Sender};
use crate::{
    engine::{CommandError, Connection, Event, LinkId, SessionId, Violation, input::Fault, session::Session},
    types::{Attach, Detach, Error, Role},
    value::Str,
};

impl Connection {
    /// Attaches a link. [`Event::Attached`] follows, or [`Event::Detached`] if the peer refuses it.
    ///
    /// The engine sets the handle. A sender without `initial_delivery_count` begins at 0. A receiver accepts messages of at most
    /// [`Options::max_message_size`](crate::engine::Options::max_message_size), or of the attach if that is less.
    ///
    /// # Errors
    /// The session has ended, [`Options::max_links`](crate::engine::Options::max_links) or the handles of the peer are used up, or a
    /// value cannot be encoded or is too large for a frame.
    pub fn attach(&mut self, session: SessionId, mut attach: Attach) -> Result<LinkId, CommandError> {
        let (max_links, max_message_size) = (self.options.max_links, self.options.max_message_size);
        let serial = self.next_serial();
        let (session, out) = self.session_mut(session)?;
        // The other half is for the answers to the peer's links.
        let shared = session.peer_handle_max / 2 + session.peer_handle_max % 2;
        let most = max_links.min(shared.max(1)) as usize;
        if session.links.iter().flatten().filter(|link| !link.by_peer).count() >= most {
            return Err(CommandError::TooManyLinks);
        }
        let handle = session.free_handle().ok_or(CommandError::TooManyLinks)?;
        attach.handle = handle;
        let (end, delivery_count) = own_end(&mut attach, max_message_size);
        let name = attach.name.clone();
        out.frame(session.id.channel, &attach.into())?;
        let id = LinkId { session: session.id, handle, serial };
        session.insert(Link {
            id,
            name,
            state: LinkState::Offered,
            by_peer: false,
            unanswered: true,
            delivery_count,
            credit: 0,
            drain: false,
            end,
        });
        Ok(id)
    }

    /// Accepts [`Event::AttachRequested`]. The attach needs a source and a target; those of the peer may be repeated.
    ///
    /// The engine sets the name, the handle and the role, and the rest as [`Connection::attach`] does. A receiver that has not waited
    /// may have sent its credit before: look at [`Connection::sendable`] then.
    ///
    /// # Errors
    /// The peer has detached the link, it was answered before, or a value cannot be encoded or is too large for a frame.
    pub fn accept(&mut self, link: LinkId, mut attach: Attach) -> Result<(), CommandError> {
        let max_message_size = self.options.max_message_size;
        let (session, out) = self.link_session(link)?;
        let link = session.live_link(link)?;
        link.expect_request()?;
        attach.name = link.name.clone();
        attach.handle = link.id.handle;
        attach.role = link.role();
        let (end, delivery_count) = own_end(&mut attach, max_message_size);
        out.frame(link.id.session.channel, &attach.into())?;
        link.state = LinkState::Attached;
        match (&mut link.end, end) {
            (End::Receiver(own), End::Receiver(new)) => own.max_message_size = new.max_message_size,
            (End::Sender(own), End::Sender(new)) => {
                own.initial_delivery_count = new.initial_delivery_count;
                link.delivery_count = delivery_count;
            }
            _ => {}
        }
        Ok(())
    }

    /// Refuses [`Event::AttachRequested`]: an attach without source and target, then a detach that closes the link with the error.
    /// [`Event::Detached`] follows when the peer has confirmed it.
    ///
    /// # Errors
    /// The peer has detached the link, it was answered before, or the error cannot be encoded or is too large for a frame. In the last two
    /// cases the link is refused without the error.
    pub fn refuse(&mut self, link: LinkId, error: Error) -> Result<(), CommandError> {
        let (session, out) = self.link_session(link)?;
        let link = session.live_link(link)?;
        link.expect_request()?;
        let channel = link.id.session.channel;
        out.frame(channel, &link.refusal().into())?;
        let handle = link.id.handle;
        let detach = Detach { handle, closed: true, error: Some(error) };
        let outcome = out.frame(channel, &detach.into());
        if outcome.is_err() {
            // The attach is sent, so that the link has to be detached.
            let _ = out.frame(channel, &Detach { handle, closed: true, error: None }.into());
        }
        let id = link.id;
        link.state = LinkState::Detaching { reported: false };
        // A peer that does not confirm the detach keeps the link, and its name may be as large as a frame.
        link.name = Str::default();
        session.forget(id);
        outcome
    }

    pub(in crate::engine) fn on_attach(&mut self, local: u16, attach: Box<Attach>) -> Result<(), Fault> {
        let serial = self.next_serial();
        let of_connection: u32 = self.sessions.iter().flatten().map(|session| session.peer_links).sum();
        let Some(session) = self.sessions.get_mut(usize::from(local)).and_then(Option::as_deref_mut) else {
            return Ok(());
        };
        let (handle, max) = (attach.handle, self.options.handle_max());
        if handle > max {
            return Err(Violation::Handle { handle, max }.into());
        }
        let index = handle as usize;
        if session.handles.len() <= index {
            session.handles.resize(index + 1, Handle::Unused);
        }
        if matches!(session.handles.get(index), Some(Handle::Live(_))) {
            return Err(Fault::Session(session.id, Violation::HandleInUse { handle }));
        }
        let answered = session.links.iter_mut().flatten().find(|link| {
            link.unanswered && link.role() != attach.role && link.name.as_bytes() == attach.name.as_bytes()
        });
        let link = if let Some(link) = answered {
            link.unanswered = false;
            link.take_attach(&attach);
            let id = link.id;
            if link.state == LinkState::Offered {
                let refused = match link.role() {
                    Role::Sender => attach.target.is_none(),
                    Role::Receiver => attach.source.is_none(),
                };
                link.state = if refused { LinkState::Refused } else { LinkState::Attached };
                if !refused {
                    self.events.push_back(Event::Attached { link: id, attach });
                }
            }
            id
        } else {
            let limits = [(session.peer_links, self.options.max_links), (of_connection, self.link_limit)];
            if let Some((_, max)) = limits.into_iter().find(|(links, max)| links >= max) {
                return Err(Fault::Session(session.id, Violation::Links { max }));
            }
            let own = session.free_handle();
            let own = own.ok_or(Fault::Session(session.id, Violation::HandlesExhausted))?;
            let id = LinkId { session: session.id, handle: own, serial };
            let end = match attach.role {
                Role::Sender => End::Receiver(Receiver::new(self.options.max_message_size)),
                Role::Receiver => End::Sender(Sender::new(0)),
            };
            let delivery_count = match attach.role {
                Role::Sender => None,
                Role::Receiver => Some(0),
            };
            let mut link = Link {
                id,
                name: attach.name.to_owned_memory(),
                state: LinkState::Requested,
                by_peer: true,
                unanswered: false,
                delivery_count,
                credit: 0,
                drain: false,
                end,
            };
            link.take_attach(&attach);
            session.insert(link);
            self.events.push_back(Event::AttachRequested { link: id, attach });
            id
        };
        if let Some(entry) = session.handles.get_mut(index) {
            *entry = Handle::Live(link.handle);
        }
        Ok(())
    }
}

/// Completes an attach of this end.
fn own_end(attach: &mut Attach, max_message_size: u64) -> (End, Option<u32>) {
    match attach.role {
        Role::Sender => {
            let initial = *attach.initial_delivery_count.get_or_insert(0);
            (End::Sender(Sender::new(initial)), Some(initial))
        }
        Role::Receiver => {
            attach.initial_delivery_count = None;
            let max = attach.max_message_size.filter(|size| *size > 0).unwrap_or(u64::MAX).min(max_message_size);
            attach.max_message_size = Some(max);
            (End::Receiver(Receiver::new(max)), None)
        }
    }
}

impl Link {
    fn expect_request(&self) -> Result<(), CommandError> {
        if self.state == LinkState::Requested {
            Ok(())
        } else {
            Err(CommandError::State { expected: "an attach of the peer without an answer" })
        }
    }

    /// The attach that refuses a link.
    pub(super) fn refusal(&self) -> Attach {
        let initial_delivery_count = match self.role() {
            Role::Sender => Some(0),
            Role::Receiver => None,
        };
        Attach {
            name: self.name.clone(),
            handle: self.id.handle,
            role: self.role(),
            initial_delivery_count,
            ..Attach::default()
        }
    }

    /// Takes what the peer's attach says about its end.
    fn take_attach(&mut self, attach: &Attach) {
        match &mut self.end {
            End::Sender(sender) => sender.max_message_size = attach.max_message_size.filter(|size| *size > 0),
            // Some clients leave it out.
            End::Receiver(_) => self.delivery_count = Some(attach.initial_delivery_count.unwrap_or(0)),
        }
    }
}

impl Session {
    /// The lowest handle of this end that is free and that the peer accepts.
    fn free_handle(&self) -> Option<u32> {
        let free = self.links.iter().position(Option::is_none).unwrap_or(self.links.len());
        u32::try_from(free).ok().filter(|handle| *handle <= self.peer_handle_max)
    }

    fn insert(&mut self, link: Link) {
        self.peer_links += u32::from(link.by_peer);
        let index = link.id.handle as usize;
        if index >= self.links.len() {
            self.links.resize_with(index + 1, || None);
        }
        if let Some(slot) = self.links.get_mut(index) {
            *slot = Some(Box::new(link));
        }
    }
}
