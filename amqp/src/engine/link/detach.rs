use super::{Handle, LinkState};
use crate::{
    engine::{CommandError, Connection, Event, LinkId, Reason, Violation, input::Fault, session::Session},
    types::{Detach, Error},
};

impl Connection {
    /// Detaches a link, or closes it, which discards its state. [`Event::Detached`] follows when the peer has confirmed it.
    ///
    /// A link that the peer has requested is accepted or refused first.
    ///
    /// # Errors
    /// The link is detached or not answered, or the error cannot be encoded or is too large for a frame.
    pub fn detach(&mut self, link: LinkId, closed: bool, error: Option<Error>) -> Result<(), CommandError> {
        let (session, out) = self.link_session(link)?;
        let state = session.live_link(link)?;
        if state.state == LinkState::Requested {
            return Err(CommandError::State { expected: "an answer to the peer's attach" });
        }
        out.frame(link.session.channel, &Detach { handle: link.handle, closed, error }.into())?;
        state.state = LinkState::Detaching { reported: false };
        session.forget(link);
        Ok(())
    }

    pub(in crate::engine) fn on_detach(&mut self, local: u16, detach: Detach) -> Result<(), Fault> {
        let Some(session) = self.sessions.get_mut(usize::from(local)).and_then(Option::as_deref_mut) else {
            return Ok(());
        };
        let Some(own) = session.local_handle(detach.handle)? else { return Ok(()) };
        if let Some(entry) = session.handles.get_mut(detach.handle as usize) {
            *entry = Handle::Detached;
        }
        let Some(link) = session.links.get_mut(own as usize).and_then(Option::take) else { return Ok(()) };
        session.peer_links -= u32::from(link.by_peer);
        session.outgoing.remove_link(link.id);
        session.incoming.remove_link(link.id);
        let error = detach.error.map(Box::new);
        let (reported, reason) = match link.state {
            LinkState::Detaching { reported } => (reported, Reason::Local(error)),
            state => {
                let channel = link.id.session.channel;
                if state == LinkState::Requested {
                    let _ = self.out.frame(channel, &link.refusal().into());
                }
                // A detach without an error fits.
                let answer = Detach { handle: own, closed: detach.closed, error: None };
                let _ = self.out.frame(channel, &answer.into());
                (false, Reason::Peer(error))
            }
        };
        if !reported {
            self.events.push_back(Event::Detached { link: link.id, closed: detach.closed, reason });
        }
        Ok(())
    }

    /// Closes a link for a violation.
    pub(in crate::engine) fn detach_for(&mut self, id: LinkId, violation: Violation) {
        let Ok((session, out)) = self.link_session(id) else { return };
        let Ok(link) = session.live_link(id) else { return };
        let channel = id.session.channel;
        if link.state == LinkState::Requested {
            let _ = out.frame(channel, &link.refusal().into());
        }
        let error = Error::new(violation.condition(), violation.to_string());
        let _ = out.frame(channel, &Detach { handle: id.handle, closed: true, error: Some(error) }.into());
        link.state = LinkState::Detaching { reported: true };
        session.forget(id);
        self.events.push_back(Event::Detached {
            link: id,
            closed: true,
            reason: Reason::Violation(Box::new(violation)),
        });
    }
}

impl Session {
    /// Forgets the deliveries of a link that is being detached.
    pub(super) fn forget(&mut self, id: LinkId) {
        self.outgoing.remove_link(id);
        self.incoming.remove_link(id);
        if let Some(link) = self.link_mut(id) {
            link.credit = 0;
            match &mut link.end {
                super::End::Sender(sender) => sender.partial = None,
                super::End::Receiver(receiver) => receiver.partial = None,
            }
        }
    }

    /// The handle of this end for one of the peer. None if the link was detached.
    pub(super) fn local_handle(&self, handle: u32) -> Result<Option<u32>, Fault> {
        match self.handles.get(handle as usize) {
            Some(Handle::Live(own)) => Ok(Some(*own)),
            Some(Handle::Detached) => Ok(None),
            Some(Handle::Unused) | None => Err(Fault::Session(self.id, Violation::UnattachedHandle { handle })),
        }
    }
}
