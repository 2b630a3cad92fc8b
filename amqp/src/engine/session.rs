use super::{
    CommandError, Connection, Event, LinkId, Reason, SessionId, Violation,
    link::{Handle, Link},
    tracker::Tracker,
    window::Windows,
    writer::Writer,
};
use crate::types::{Begin, End, Error};

/// What the peer uses a channel for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Channel {
    Unused,
    /// Of the session on this channel of our own.
    Live(u16),
    /// Its frames are ignored: clients send some that crossed the end.
    Ended,
}

/// One session.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "both ends begin and end independently")]
pub(super) struct Session {
    pub(super) id: SessionId,
    /// Whether the peer began it.
    by_peer: bool,
    /// Whether the peer's begin has arrived.
    pub(super) begun: bool,
    /// Whether an end was sent: frames but the peer's end are ignored.
    pub(super) ending: bool,
    /// Whether the end was reported to the application.
    reported: bool,
    pub(super) windows: Windows,
    /// The highest handle that the peer accepts.
    pub(super) peer_handle_max: u32,
    /// Unsettled deliveries that were sent, and the next delivery number.
    pub(super) outgoing: Tracker,
    pub(super) next_delivery: u64,
    /// Unsettled deliveries that were received, and the highest delivery number.
    pub(super) incoming: Tracker,
    pub(super) last_delivery: u64,
    /// By the handle of this end.
    pub(super) links: Vec<Option<Box<Link>>>,
    /// How many of them the peer has attached.
    pub(super) peer_links: u32,
    /// By the handle of the peer.
    pub(super) handles: Vec<Handle>,
}

/// Above 32 bits, so that numbers before the first one are positive.
const FIRST_DELIVERY: u64 = 1 << 32;

impl Session {
    pub(super) fn link(&self, link: LinkId) -> Option<&Link> {
        let slot = self.links.get(usize::try_from(link.handle).ok()?)?.as_deref()?;
        (slot.id == link).then_some(slot)
    }

    pub(super) fn link_mut(&mut self, link: LinkId) -> Option<&mut Link> {
        let slot = self.links.get_mut(usize::try_from(link.handle).ok()?)?.as_deref_mut()?;
        (slot.id == link).then_some(slot)
    }

    /// The link of a command.
    pub(super) fn live_link(&mut self, link: LinkId) -> Result<&mut Link, CommandError> {
        self.link_mut(link).filter(|link| !link.is_detaching()).ok_or(CommandError::UnknownLink)
    }

    /// Forgets the links and deliveries of a session that ends.
    fn clear(&mut self) {
        self.links.clear();
        self.peer_links = 0;
        self.handles.clear();
        self.outgoing = Tracker::default();
        self.incoming = Tracker::default();
    }
}

impl Connection {
    /// Begins a session. Links may be attached at once, without waiting for the peer.
    ///
    /// The engine sets the answered channel, the windows and `handle_max` by the options. The ids of transfers and deliveries start
    /// at [`Begin::next_outgoing_id`].
    ///
    /// # Errors
    /// The connection is not open, [`Options::max_sessions`](super::Options::max_sessions) or the channels of the peer are used up,
    /// or a value cannot be encoded or is too large for a frame.
    pub fn begin(&mut self, begin: Begin) -> Result<SessionId, CommandError> {
        self.frames_allowed()?;
        let own = self.sessions.iter().flatten().filter(|session| !session.by_peer).count();
        // The other half is for the answers to the peer's sessions.
        let shared = self.peer_channel_max / 2 + u16::from(self.peer_channel_max % 2 == 1);
        if own >= usize::from(self.options.max_sessions.min(shared.max(1))) {
            return Err(CommandError::TooManySessions);
        }
        self.start_session(begin, None)
    }

    /// Sends a begin; with the peer's channel it answers one.
    fn start_session(&mut self, mut begin: Begin, remote_channel: Option<u16>) -> Result<SessionId, CommandError> {
        let free = self.sessions.iter().position(Option::is_none).unwrap_or(self.sessions.len());
        let channel = u16::try_from(free).ok().filter(|channel| *channel <= self.peer_channel_max);
        let channel = channel.ok_or(CommandError::TooManySessions)?;
        let windows = Windows::new(begin.next_outgoing_id, self.options.incoming_window);
        begin.remote_channel = remote_channel;
        begin.incoming_window = windows.incoming_window();
        begin.outgoing_window = windows.outgoing_window();
        begin.handle_max = self.options.handle_max();
        let next_delivery = FIRST_DELIVERY + u64::from(begin.next_outgoing_id);
        self.out.frame(channel, &begin.into())?;
        let id = SessionId { channel, serial: self.next_serial() };
        let session = Session {
            id,
            by_peer: remote_channel.is_some(),
            begun: false,
            ending: false,
            reported: false,
            windows,
            peer_handle_max: u32::MAX,
            outgoing: Tracker::default(),
            next_delivery,
            incoming: Tracker::default(),
            last_delivery: FIRST_DELIVERY,
            links: Vec::new(),
            peer_links: 0,
            handles: Vec::new(),
        };
        if free == self.sessions.len() {
            self.sessions.push(None);
        }
        if let Some(slot) = self.sessions.get_mut(free) {
            *slot = Some(Box::new(session));
        }
        Ok(id)
    }

    /// Ends a session and its links. [`Event::Ended`] follows when the peer has confirmed it.
    ///
    /// # Errors
    /// The session has ended, or the error cannot be encoded or is too large for a frame.
    pub fn end(&mut self, session: SessionId, error: Option<Error>) -> Result<(), CommandError> {
        let (session, out) = self.session_mut(session)?;
        out.frame(session.id.channel, &End { error }.into())?;
        session.ending = true;
        session.clear();
        Ok(())
    }

    /// The session of a command, and the writer.
    pub(super) fn session_mut(&mut self, id: SessionId) -> Result<(&mut Session, &mut Writer), CommandError> {
        self.frames_allowed()?;
        let slot = self.sessions.get_mut(usize::from(id.channel)).and_then(Option::as_deref_mut);
        match slot.filter(|session| session.id == id && !session.ending) {
            Some(session) => Ok((session, &mut self.out)),
            None => Err(CommandError::UnknownSession),
        }
    }

    /// The session of a link, whether or not the link is there.
    pub(super) fn link_session(&mut self, link: LinkId) -> Result<(&mut Session, &mut Writer), CommandError> {
        self.session_mut(link.session).map_err(|error| match error {
            CommandError::UnknownSession => CommandError::UnknownLink,
            error => error,
        })
    }

    pub(super) fn session(&self, id: SessionId) -> Option<&Session> {
        let session = self.sessions.get(usize::from(id.channel))?.as_deref()?;
        (session.id == id && !session.ending).then_some(session)
    }

    pub(super) fn on_begin(&mut self, channel: u16, begin: Box<Begin>) -> Result<(), Violation> {
        let max = self.options.channel_max();
        if channel > max {
            return Err(Violation::Channel { channel, max });
        }
        let index = usize::from(channel);
        if self.channels.len() <= index {
            self.channels.resize(index + 1, Channel::Unused);
        }
        if matches!(self.channels.get(index), Some(Channel::Live(_))) {
            return Err(Violation::ChannelInUse { channel });
        }
        let by_peer = begin.remote_channel.is_none();
        let mut is_over = false;
        let local = if let Some(local) = begin.remote_channel {
            local
        } else {
            let max = usize::from(self.session_limit);
            let of_peer = self.sessions.iter().flatten().filter(|session| session.by_peer);
            let (live, all) =
                of_peer.fold((0, 0), |(live, all), session| (live + usize::from(!session.ending), all + 1));
            // Those that have ended stay until the peer confirms it.
            if all >= max * 2 {
                return Err(Violation::Sessions { max: self.session_limit });
            }
            is_over = live >= max;
            let answer = Begin::default();
            self.start_session(answer, Some(channel)).map_err(|_| Violation::ChannelsExhausted)?.channel
        };
        let session = self.sessions.get_mut(usize::from(local)).and_then(Option::as_deref_mut);
        let session = session.filter(|session| !session.begun).ok_or(Violation::ChannelInUse { channel })?;
        session.begun = true;
        session.peer_handle_max = begin.handle_max;
        session.windows.begun(&begin);
        session.last_delivery = FIRST_DELIVERY + u64::from(begin.next_outgoing_id);
        if let Some(entry) = self.channels.get_mut(index) {
            *entry = Channel::Live(local);
        }
        if is_over {
            let id = session.id;
            self.end_for(id, Violation::Sessions { max: self.session_limit });
        } else if !session.ending {
            self.events.push_back(Event::Begun { session: session.id, begin, by_peer });
        }
        Ok(())
    }

    /// Opens the incoming windows of which half is used. The peer cannot rely on that while one input is read, so that one input with
    /// more transfers than a window is a violation.
    pub(super) fn open_windows(&mut self) {
        if !std::mem::take(&mut self.window_low) || self.closing {
            return;
        }
        for session in self.sessions.iter_mut().flatten() {
            if session.begun && !session.ending && session.windows.is_low() {
                let flow = session.windows.open();
                // A flow without properties fits.
                let _ = self.out.frame(session.id.channel, &flow.into());
            }
        }
    }

    pub(super) fn on_end(&mut self, channel: u16, local: u16, end: End) {
        if let Some(entry) = self.channels.get_mut(usize::from(channel)) {
            *entry = Channel::Ended;
        }
        let Some(session) = self.sessions.get_mut(usize::from(local)).and_then(Option::take) else { return };
        let error = end.error.map(Box::new);
        let reason = if session.ending {
            Reason::Local(error)
        } else {
            // An end without an error fits.
            let _ = self.out.frame(local, &End::default().into());
            Reason::Peer(error)
        };
        if !session.reported {
            self.events.push_back(Event::Ended { session: session.id, reason });
        }
    }

    /// Ends a session for a violation.
    pub(super) fn end_for(&mut self, id: SessionId, violation: Violation) {
        let Ok((session, out)) = self.session_mut(id) else { return };
        let error = Error::new(violation.condition(), violation.to_string());
        let _ = out.frame(id.channel, &End { error: Some(error) }.into());
        session.ending = true;
        session.reported = true;
        session.clear();
        self.events.push_back(Event::Ended { session: id, reason: Reason::Violation(Box::new(violation)) });
    }
}
