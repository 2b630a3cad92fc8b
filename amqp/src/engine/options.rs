use std::time::Duration;

use crate::{
    codec::Limits,
    frame::MIN_MAX_FRAME_SIZE,
    value::{Binary, Str, Symbol},
};

/// Limits and timeouts of a connection.
///
/// Every limit has an error: of a command for this end, or a condition that is reported to the peer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The largest frame that is accepted and sent, in bytes, at least 512. 65,536 by default.
    ///
    /// Until the peer has opened the connection it may send frames of 4,096 bytes at most.
    pub max_frame_size: u32,
    /// The most sessions that the peer may begin, and the most that this end may begin, 1 to 32,768. 256 by default.
    ///
    /// One more of the peer is ended with `amqp:resource-limit-exceeded`. As many more whose end it does not confirm close the
    /// connection with that condition.
    ///
    /// Both kinds take a channel of each end, so that twice as many channels are announced. For the same reason this end begins at
    /// most as many sessions as half of the peer's channels.
    pub max_sessions: u16,
    /// The most links of a session that the peer may attach, and the most that this end may attach, 1 to 32,768. 256 by default.
    ///
    /// One more of the peer ends the session with `amqp:resource-limit-exceeded`.
    ///
    /// As with sessions, twice as many handles are announced, and half of the peer's handles are used.
    pub max_links: u32,
    /// The most links of the connection that the peer may attach, at least 1. 1,024 by default.
    ///
    /// One more ends its session with `amqp:resource-limit-exceeded`.
    pub max_connection_links: u32,
    /// The most unsettled deliveries of a session in each direction, at least 1. 8,192 by default.
    pub max_unsettled: usize,
    /// The largest message that is received, in bytes, at least 1. 1,048,576 by default. An attach may have a lower limit.
    pub max_message_size: u64,
    /// Whether a delivery that is larger than its link accepts is received without its payload, and reported by
    /// [`Event::DeliveryTooLarge`](super::Event::DeliveryTooLarge). False by default: the link is detached with
    /// `amqp:link:message-size-exceeded`.
    pub report_too_large: bool,
    /// The most transfer frames that the peer may send in a session before the next flow, 1 to 2,147,483,647. 2,048 by default.
    pub incoming_window: u32,
    /// How many deliveries a link may receive without credit. 256 by default.
    ///
    /// Some clients send before they have received credit. Others are detached with `amqp:link:transfer-limit-exceeded`.
    pub credit_overrun: u32,
    /// The connection is closed if the peer sends nothing for this long, or reads nothing for this long while so much output waits
    /// that no input is read. Half of it is announced to the peer. None by default.
    pub idle_timeout: Option<Duration>,
    /// How long the peer may take to authenticate and open the connection, and to answer a close. 20 seconds by default.
    pub handshake_timeout: Duration,
    /// The bytes of output at which [`Connection::send`](super::Connection::send) and
    /// [`Connection::receive`](super::Connection::receive) wait for output to be written. 1,048,576 by default.
    pub output_limit: usize,
    /// The number of events at which [`Connection::receive`](super::Connection::receive) waits for events to be polled. 256 by default.
    pub event_limit: usize,
    /// Limits of the decoder for each frame.
    pub codec: Limits,
    /// The authentication of a client. None by default: the client does not use SASL.
    pub sasl_client: Option<SaslCredentials>,
    /// The mechanisms that a server offers, by preference. None by default: the server refuses SASL.
    pub sasl_mechanisms: Vec<Symbol>,
    /// Whether a client may skip SASL on a server that offers mechanisms. False by default.
    pub sasl_optional: bool,
}

/// What a client authenticates with.
///
/// The client of this crate answers no challenges, which mechanisms such as `CRAM-MD5` have.
#[derive(Clone, Debug, Default)]
pub struct SaslCredentials {
    /// The mechanism, such as `ANONYMOUS`, `PLAIN` or `EXTERNAL`. The connection is closed if the server does not offer it.
    pub mechanism: Symbol,
    /// The initial response. `Debug` shows its size only.
    pub initial_response: Option<Binary>,
    /// The host that the client has dialled.
    pub hostname: Option<Str>,
}

impl SaslCredentials {
    /// Creates the credentials of the mechanism `ANONYMOUS`.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { mechanism: Symbol::from_static("ANONYMOUS"), ..Self::default() }
    }

    /// Creates the credentials of the mechanism `PLAIN`.
    #[must_use]
    pub fn plain(user: &str, password: &str) -> Self {
        let response = [b"\0", user.as_bytes(), b"\0", password.as_bytes()].concat();
        Self { mechanism: Symbol::from_static("PLAIN"), initial_response: Some(response.into()), hostname: None }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_frame_size: 65_536,
            max_sessions: 256,
            max_links: 256,
            max_connection_links: 1_024,
            max_unsettled: 8_192,
            max_message_size: 1 << 20,
            report_too_large: false,
            incoming_window: 2_048,
            credit_overrun: 256,
            idle_timeout: None,
            handshake_timeout: Duration::from_secs(20),
            output_limit: 1 << 20,
            event_limit: 256,
            codec: Limits::default(),
            sasl_client: None,
            sasl_mechanisms: Vec::new(),
            sasl_optional: false,
        }
    }
}

impl Options {
    /// Sets [`Options::max_frame_size`].
    #[must_use]
    pub const fn max_frame_size(mut self, bytes: u32) -> Self {
        self.max_frame_size = bytes;
        self
    }

    /// Sets [`Options::max_sessions`].
    #[must_use]
    pub const fn max_sessions(mut self, sessions: u16) -> Self {
        self.max_sessions = sessions;
        self
    }

    /// Sets [`Options::max_links`].
    #[must_use]
    pub const fn max_links(mut self, links: u32) -> Self {
        self.max_links = links;
        self
    }

    /// Sets [`Options::max_connection_links`].
    #[must_use]
    pub const fn max_connection_links(mut self, links: u32) -> Self {
        self.max_connection_links = links;
        self
    }

    /// Sets [`Options::max_unsettled`].
    #[must_use]
    pub const fn max_unsettled(mut self, deliveries: usize) -> Self {
        self.max_unsettled = deliveries;
        self
    }

    /// Sets [`Options::max_message_size`].
    #[must_use]
    pub const fn max_message_size(mut self, bytes: u64) -> Self {
        self.max_message_size = bytes;
        self
    }

    /// Sets [`Options::report_too_large`].
    #[must_use]
    pub const fn report_too_large(mut self, report: bool) -> Self {
        self.report_too_large = report;
        self
    }

    /// Sets [`Options::incoming_window`].
    #[must_use]
    pub const fn incoming_window(mut self, frames: u32) -> Self {
        self.incoming_window = frames;
        self
    }

    /// Sets [`Options::credit_overrun`].
    #[must_use]
    pub const fn credit_overrun(mut self, deliveries: u32) -> Self {
        self.credit_overrun = deliveries;
        self
    }

    /// Sets [`Options::idle_timeout`].
    #[must_use]
    pub const fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// Sets [`Options::handshake_timeout`].
    #[must_use]
    pub const fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.handshake_timeout = timeout;
        self
    }

    /// Sets [`Options::output_limit`].
    #[must_use]
    pub const fn output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }

    /// Sets [`Options::event_limit`].
    #[must_use]
    pub const fn event_limit(mut self, events: usize) -> Self {
        self.event_limit = events;
        self
    }

    /// Sets [`Options::sasl_client`].
    #[must_use]
    pub fn sasl_client(mut self, credentials: SaslCredentials) -> Self {
        self.sasl_client = Some(credentials);
        self
    }

    /// Sets [`Options::sasl_mechanisms`].
    #[must_use]
    pub fn sasl_mechanisms(mut self, mechanisms: impl IntoIterator<Item = Symbol>) -> Self {
        self.sasl_mechanisms = mechanisms.into_iter().collect();
        self
    }

    /// Sets [`Options::sasl_optional`].
    #[must_use]
    pub const fn sasl_optional(mut self, optional: bool) -> Self {
        self.sasl_optional = optional;
        self
    }

    /// Brings every limit into its range.
    pub(super) fn clamped(mut self) -> Self {
        self.max_frame_size = self.max_frame_size.max(MIN_MAX_FRAME_SIZE);
        self.max_sessions = self.max_sessions.clamp(1, 32_768);
        self.max_links = self.max_links.clamp(1, 32_768);
        self.max_connection_links = self.max_connection_links.max(1);
        self.max_unsettled = self.max_unsettled.max(1);
        self.max_message_size = self.max_message_size.max(1);
        self.incoming_window = self.incoming_window.clamp(1, u32::MAX / 2);
        self.output_limit = self.output_limit.max(1);
        self.event_limit = self.event_limit.max(1);
        self
    }

    /// The highest channel that the peer may use.
    pub(super) const fn channel_max(&self) -> u16 {
        // Doubling 32,768 would overflow.
        (self.max_sessions - 1) * 2 + 1
    }

    /// The highest handle that the peer may use.
    pub(super) const fn handle_max(&self) -> u32 {
        self.max_links * 2 - 1
    }
}
