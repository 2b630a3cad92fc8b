use std::{error, fmt};

use crate::{codec::EncodeError, frame::FrameError, types::condition, value::Symbol};

/// How the peer violated the protocol or a limit of this end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Another protocol, version or layer than this end supports.
    ProtocolHeader([u8; 8]),
    /// A frame is malformed or exceeds a limit.
    Frame(FrameError),
    /// A frame that the state of the connection, session or link does not permit.
    UnexpectedFrame {
        /// The name of the frame, such as `begin`.
        frame: &'static str,
        /// When it is permitted.
        expected: &'static str,
    },
    /// The server does not offer the client's SASL mechanism.
    MechanismNotOffered {
        /// The mechanism of the client.
        mechanism: Symbol,
        /// Those that the server offers, with commas in between. Special characters are escaped, and a long list is cut.
        offered: String,
    },
    /// The server sent a SASL challenge to a client that answers none.
    SaslChallenge,
    /// The peer's largest frame is below 512 bytes.
    MaxFrameSize(u32),
    /// The peer's idle timeout is below 100 milliseconds.
    IdleTimeoutTooShort {
        /// The announced timeout in milliseconds.
        milliseconds: u32,
    },
    /// The peer sent no frame for the idle timeout.
    IdleTimeout,
    /// The peer did not authenticate and open the connection, or answer a close, in time.
    HandshakeTimeout,
    /// A channel above the highest that was announced.
    Channel {
        /// The channel.
        channel: u16,
        /// The highest that is accepted.
        max: u16,
    },
    /// A begin on a channel that has a session, or an answer to no begin.
    ChannelInUse {
        /// The channel.
        channel: u16,
    },
    /// A frame on a channel that never had a session.
    ChannelWithoutSession {
        /// The channel.
        channel: u16,
    },
    /// The peer accepts too few channels for the answer to its begin.
    ChannelsExhausted,
    /// More sessions of the peer than [`Options::max_sessions`](super::Options::max_sessions).
    Sessions {
        /// The most that are accepted.
        max: u16,
    },
    /// A handle above the highest that was announced.
    Handle {
        /// The handle.
        handle: u32,
        /// The highest that is accepted.
        max: u32,
    },
    /// An attach on a handle that has a link.
    HandleInUse {
        /// The handle.
        handle: u32,
    },
    /// A frame for a handle that never had a link.
    UnattachedHandle {
        /// The handle.
        handle: u32,
    },
    /// The peer accepts too few handles for the answer to its attach.
    HandlesExhausted,
    /// More links of the peer than [`Options::max_links`](super::Options::max_links) or
    /// [`Options::max_connection_links`](super::Options::max_connection_links).
    Links {
        /// The most that are accepted.
        max: u32,
    },
    /// A transfer to a link that sends.
    TransferToSender {
        /// The handle.
        handle: u32,
    },
    /// More transfer frames than the window of the session.
    Window,
    /// More deliveries than the credit of the link, and than [`Options::credit_overrun`](super::Options::credit_overrun).
    Credit,
    /// A message over the limit of the link.
    MessageSize {
        /// The largest message in bytes.
        max: u64,
    },
    /// The incomplete deliveries of the connection are over
    /// [`Connection::limit_incomplete`](super::Connection::limit_incomplete).
    Incomplete {
        /// The most bytes that are accepted.
        max: u64,
    },
    /// More unsettled deliveries than [`Options::max_unsettled`](super::Options::max_unsettled).
    Unsettled {
        /// The most that are accepted.
        max: usize,
    },
    /// A field of a frame has a value that it must not have.
    Field {
        /// The frame and the field, such as `transfer.delivery-id`.
        field: &'static str,
        /// The rule that it violates.
        expected: &'static str,
    },
}

impl Violation {
    /// Returns the condition that is reported to the peer.
    #[must_use]
    pub const fn condition(&self) -> Symbol {
        match self {
            Self::Frame(FrameError::Body(_)) => condition::DECODE_ERROR,
            Self::ProtocolHeader(_) | Self::Frame(_) | Self::Channel { .. } | Self::Handle { .. } => {
                condition::FRAMING_ERROR
            }
            Self::UnexpectedFrame { .. } | Self::ChannelInUse { .. } | Self::ChannelWithoutSession { .. } => {
                condition::ILLEGAL_STATE
            }
            Self::MechanismNotOffered { .. }
            | Self::SaslChallenge
            | Self::TransferToSender { .. }
            | Self::ChannelsExhausted
            | Self::HandlesExhausted => condition::NOT_ALLOWED,
            Self::MaxFrameSize(_) | Self::IdleTimeoutTooShort { .. } | Self::Field { .. } => condition::INVALID_FIELD,
            Self::IdleTimeout | Self::HandshakeTimeout => condition::CONNECTION_FORCED,
            Self::HandleInUse { .. } => condition::HANDLE_IN_USE,
            Self::UnattachedHandle { .. } => condition::UNATTACHED_HANDLE,
            Self::Window => condition::WINDOW_VIOLATION,
            Self::Credit => condition::TRANSFER_LIMIT_EXCEEDED,
            Self::MessageSize { .. } => condition::MESSAGE_SIZE_EXCEEDED,
            Self::Sessions { .. } | Self::Links { .. } | Self::Incomplete { .. } | Self::Unsettled { .. } => {
                condition::RESOURCE_LIMIT_EXCEEDED
            }
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProtocolHeader(bytes) => write!(f, "unsupported protocol header {bytes:02x?}"),
            Self::Frame(_) => f.write_str("the peer sent a frame that cannot be decoded"),
            Self::UnexpectedFrame { frame, expected } => write!(f, "unexpected frame {frame}: expected {expected}"),
            Self::MechanismNotOffered { mechanism, offered } => {
                let offered = if offered.is_empty() { "none" } else { offered };
                write!(f, "the server does not offer the SASL mechanism {mechanism}: it offers {offered}")
            }
            Self::SaslChallenge => f.write_str("the server sent a SASL challenge, and this client answers none"),
            Self::MaxFrameSize(size) => write!(f, "open.max-frame-size is {size}: expected at least 512"),
            Self::IdleTimeoutTooShort { milliseconds } => {
                write!(f, "open.idle-time-out is {milliseconds} ms: expected at least 100 ms")
            }
            Self::IdleTimeout => f.write_str("no frame arrived within the idle timeout"),
            Self::HandshakeTimeout => f.write_str("the peer did not complete the handshake in time"),
            Self::Channel { channel, max } => write!(f, "channel {channel}: expected at most {max}"),
            Self::ChannelInUse { channel } => write!(f, "a begin on channel {channel} answers or begins no session"),
            Self::ChannelWithoutSession { channel } => write!(f, "channel {channel} has no session"),
            Self::ChannelsExhausted => f.write_str("open.channel-max is too low for the answer to a begin"),
            Self::Handle { handle, max } => write!(f, "handle {handle}: expected at most {max}"),
            Self::HandleInUse { handle } => write!(f, "handle {handle} is in use"),
            Self::UnattachedHandle { handle } => write!(f, "handle {handle} has no link"),
            Self::HandlesExhausted => f.write_str("begin.handle-max is too low for the answer to an attach"),
            Self::Sessions { max } => write!(f, "more than {max} sessions"),
            Self::Links { max } => write!(f, "more than {max} links"),
            Self::TransferToSender { handle } => write!(f, "a transfer to the sending link of handle {handle}"),
            Self::Window => f.write_str("more transfers than the incoming window of the session"),
            Self::Credit => f.write_str("more deliveries than the credit of the link"),
            Self::MessageSize { max } => write!(f, "the message is larger than {max} bytes"),
            Self::Incomplete { max } => write!(f, "incomplete deliveries of more than {max} bytes"),
            Self::Unsettled { max } => write!(f, "more than {max} unsettled deliveries in the session"),
            Self::Field { field, expected } => write!(f, "{field}: expected {expected}"),
        }
    }
}

impl error::Error for Violation {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Frame(error) => Some(error),
            _ => None,
        }
    }
}

impl From<FrameError> for Violation {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

/// Why a command was refused. The connection is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandError {
    /// The connection is closed or closing.
    Closed,
    /// The command is not permitted in the state of the connection or the link.
    State {
        /// When it is permitted.
        expected: &'static str,
    },
    /// The session has ended.
    UnknownSession,
    /// The link is detached.
    UnknownLink,
    /// A command for a sending link was given a receiving link, or the reverse.
    WrongRole,
    /// This end, or the peer, accepts no further session.
    TooManySessions,
    /// This end, or the peer, accepts no further link in the session.
    TooManyLinks,
    /// [`Options::max_unsettled`](super::Options::max_unsettled) deliveries are unsettled.
    TooManyUnsettled,
    /// The link has no credit.
    NoCredit,
    /// The window of the session is closed, so that the previous delivery of the link may not be sent completely.
    NoWindow,
    /// The output has reached [`Options::output_limit`](super::Options::output_limit), so that the previous delivery of the link may
    /// not be sent completely.
    OutputFull,
    /// The delivery tag is longer than 32 bytes.
    TagTooLong,
    /// The message is larger than the receiver accepts.
    MessageTooLarge {
        /// The largest message in bytes.
        max: u64,
    },
    /// A frame would be larger than the peer accepts.
    FrameTooLarge {
        /// The largest frame in bytes.
        max: u32,
    },
    /// A value cannot be encoded.
    Encode(EncodeError),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection is closed"),
            Self::State { expected } => write!(f, "the command is not permitted now: expected {expected}"),
            Self::UnknownSession => f.write_str("the session has ended"),
            Self::UnknownLink => f.write_str("the link is detached"),
            Self::WrongRole => f.write_str("the link transfers in the other direction"),
            Self::TooManySessions => f.write_str("no further session is accepted"),
            Self::TooManyLinks => f.write_str("no further link is accepted in the session"),
            Self::TooManyUnsettled => f.write_str("too many deliveries of the session are unsettled"),
            Self::NoCredit => f.write_str("the link has no credit"),
            Self::NoWindow => f.write_str("the window of the session is closed"),
            Self::OutputFull => f.write_str("the output has reached its limit"),
            Self::TagTooLong => f.write_str("the delivery tag is longer than 32 bytes"),
            Self::MessageTooLarge { max } => write!(f, "the message is larger than {max} bytes"),
            Self::FrameTooLarge { max } => write!(f, "the frame is larger than {max} bytes"),
            Self::Encode(_) => f.write_str("a value cannot be encoded"),
        }
    }
}

impl error::Error for CommandError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Encode(error) => Some(error),
            _ => None,
        }
    }
}

impl From<EncodeError> for CommandError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}
