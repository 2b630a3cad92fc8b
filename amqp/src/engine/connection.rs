use std::{collections::VecDeque, time::Duration};

use super::{
    CommandError, Event, Options, Reason, Violation,
    link::Incomplete,
    phase::Phase,
    session::{Channel, Session},
    time::Timers,
    writer::Writer,
};
use crate::{
    frame::ProtocolHeader,
    types::{Close, Error, Open},
    value::Str,
};

/// One end of a connection: a client or a server.
///
/// Times are durations since an instant that the caller chooses. They do not go back.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "both ends open and close independently")]
pub struct Connection {
    pub(super) options: Options,
    pub(super) is_client: bool,
    pub(super) phase: Phase,
    pub(super) out: Writer,
    pub(super) events: VecDeque<Event>,
    pub(super) timers: Timers,
    /// The frame that this end opens with, until it is sent.
    open: Option<Box<Open>>,
    /// Whether the protocol header of AMQP was sent, so that frames may follow.
    pub(super) may_write: bool,
    pub(super) opened: bool,
    pub(super) opened_by_peer: bool,
    /// Whether a close frame was sent, and the peer's is expected.
    pub(super) closing: bool,
    /// Whether a session has an incoming window that is to be opened again.
    pub(super) window_low: bool,
    pub(super) peer_channel_max: u16,
    /// The most sessions and links of the peer: those of the options, or fewer.
    pub(super) session_limit: u16,
    pub(super) link_limit: u32,
    /// The bytes of the deliveries of which a part was received.
    pub(super) incomplete: Incomplete,
    /// Tells sessions and links apart that follow one another in the same place.
    pub(super) serial: u32,
    /// By the channel of this end.
    pub(super) sessions: Vec<Option<Box<Session>>>,
    /// By the channel of the peer.
    pub(super) channels: Vec<Channel>,
}

impl Connection {
    /// Creates the client's end of a connection. Its protocol header is in the output.
    ///
    /// Options outside of their range are clamped to it.
    #[must_use]
    pub fn client(options: Options, now: Duration) -> Self {
        let mut connection = Self::new(options, now, true);
        if connection.options.sasl_client.is_some() {
            connection.out.protocol_header(ProtocolHeader::Sasl);
        } else {
            connection.start_frames();
        }
        connection
    }

    /// Creates the server's end of a connection, which waits for the client.
    ///
    /// Options outside of their range are clamped to it.
    #[must_use]
    pub fn server(options: Options, now: Duration) -> Self {
        Self::new(options, now, false)
    }

    fn new(options: Options, now: Duration, is_client: bool) -> Self {
        let options = options.clamped();
        Self {
            timers: Timers::new(now, &options),
            session_limit: options.max_sessions,
            link_limit: options.max_connection_links,
            incomplete: Incomplete::default(),
            out: Writer::new(options.output_limit),
            options,
            is_client,
            phase: Phase::Header { authenticated: false },
            events: VecDeque::new(),
            open: None,
            may_write: false,
            opened: false,
            opened_by_peer: false,
            closing: false,
            window_low: false,
            peer_channel_max: u16::MAX,
            serial: 0,
            sessions: Vec::new(),
            channels: Vec::new(),
        }
    }

    /// Sets how many sessions and links of the connection the peer may have from now on, at most
    /// [`Options::max_sessions`] and [`Options::max_connection_links`]. What it has already stays.
    pub fn limit_peer(&mut self, sessions: u16, links: u32) {
        self.session_limit = sessions.min(self.options.max_sessions);
        self.link_limit = links.min(self.options.max_connection_links);
    }

    /// Sets how many bytes the incomplete deliveries of the peer may have together, on all links of the connection. By default there
    /// is no such limit, and each delivery is limited by the size of a message alone.
    ///
    /// A transfer over the limit detaches its link with `amqp:resource-limit-exceeded`.
    pub fn limit_incomplete(&mut self, bytes: u64) {
        self.incomplete.max = bytes;
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns whether [`Connection::poll_event`] has an event.
    #[must_use]
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Opens the connection. A frame that is not sent yet, because the authentication is not over, is kept.
    ///
    /// The engine sets `max_frame_size`, `channel_max` and `idle_time_out` by the options. A client may begin sessions as soon as
    /// [`Connection::is_open`], without waiting for the server.
    ///
    /// # Errors
    /// The connection is closed, or was opened before; a value cannot be encoded or is too large for a frame.
    pub fn open(&mut self, mut open: Open) -> Result<(), CommandError> {
        self.not_closed()?;
        if self.opened || self.open.is_some() {
            return Err(CommandError::State { expected: "one open" });
        }
        open.max_frame_size = self.options.max_frame_size;
        open.channel_max = self.options.channel_max();
        open.idle_time_out = self.options.idle_timeout.map(|timeout| {
            // The specification advises to announce half of it.
            u32::try_from(timeout.as_millis() / 2).unwrap_or(u32::MAX).max(1)
        });
        if self.may_write {
            self.out.frame(0, &open.into())?;
            self.opened = true;
        } else {
            self.open = Some(Box::new(open));
        }
        Ok(())
    }

    /// Returns whether the open frame was sent, so that sessions may begin. The peer may not have opened the connection yet.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.opened && !self.closing && !self.is_closed()
    }

    /// Closes the connection. [`Event::Closed`] follows when the peer has confirmed it, or after
    /// [`Options::handshake_timeout`]. Other events do not follow.
    ///
    /// # Errors
    /// The connection is closed or closing, or the error cannot be encoded.
    pub fn close(&mut self, error: Option<Error>) -> Result<(), CommandError> {
        self.not_closed()?;
        if !self.opened {
            self.finish(Reason::Local(None));
            return Ok(());
        }
        self.out.frame(0, &Close { error }.into())?;
        self.closing = true;
        self.events.clear();
        self.sessions.clear();
        self.timers.limit_close(&self.options);
        Ok(())
    }

    /// Reports that the transport is closed. [`Event::Closed`] follows, unless it was there.
    pub fn disconnected(&mut self) {
        let reason = if self.closing { Reason::Local(None) } else { Reason::Disconnected };
        self.finish(reason);
    }

    /// Returns whether the connection is closed: [`Event::Closed`] is the last of the events.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    pub(super) const fn not_closed(&self) -> Result<(), CommandError> {
        if self.closing || self.is_closed() { Err(CommandError::Closed) } else { Ok(()) }
    }

    /// The commands of sessions and links come after the open frame.
    pub(super) const fn frames_allowed(&self) -> Result<(), CommandError> {
        match self.not_closed() {
            Ok(()) if !self.opened => Err(CommandError::State { expected: "an open connection" }),
            outcome => outcome,
        }
    }

    /// Sends the protocol header of AMQP, and the open frame if there is one.
    pub(super) fn start_frames(&mut self) {
        self.out.protocol_header(ProtocolHeader::Amqp);
        self.may_write = true;
        if let Some(open) = self.open.take() {
            self.opened = self.out.frame(0, &(*open).into()).is_ok();
            if !self.opened {
                self.finish(Reason::Disconnected);
            }
        }
    }

    pub(super) fn on_open(&mut self, open: Box<Open>) -> Result<(), Violation> {
        if open.max_frame_size < crate::frame::MIN_MAX_FRAME_SIZE {
            return Err(Violation::MaxFrameSize(open.max_frame_size));
        }
        self.timers.opened_by_peer(open.idle_time_out, self.out.queue.taken())?;
        self.out.set_max_frame_size(open.max_frame_size.min(self.options.max_frame_size));
        self.peer_channel_max = open.channel_max;
        self.opened_by_peer = true;
        self.events.push_back(Event::Opened(open));
        Ok(())
    }

    pub(super) fn on_close(&mut self, close: Close) {
        let error = close.error.map(Box::new);
        if self.closing {
            return self.finish(Reason::Local(error));
        }
        self.open_before_close();
        // A close without an error fits.
        let _ = self.out.frame(0, &Close::default().into());
        self.finish(Reason::Peer(error));
    }

    /// Closes the connection for a violation.
    pub(super) fn fail(&mut self, violation: Violation) {
        if self.may_write && !self.closing {
            self.open_before_close();
            let error = Some(Error::new(violation.condition(), violation.to_string()));
            let _ = self.out.frame(0, &Close { error }.into());
        }
        self.finish(Reason::Violation(Box::new(violation)));
    }

    /// A close frame without an open frame before it is not AMQP.
    fn open_before_close(&mut self) {
        if !self.opened {
            let container_id = self.open.take().map_or(Str::default(), |open| open.container_id);
            let open = Open { container_id, max_frame_size: self.options.max_frame_size, ..Open::default() };
            self.opened = self.out.frame(0, &open.into()).is_ok();
        }
    }

    /// Appends the last event and forgets the sessions.
    pub(super) fn finish(&mut self, reason: Reason) {
        if !self.is_closed() {
            self.phase = Phase::Closed;
            self.sessions.clear();
            self.timers.stop();
            self.events.push_back(Event::Closed { reason });
        }
    }

    pub(super) const fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }
}
