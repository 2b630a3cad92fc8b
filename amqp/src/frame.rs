//! Frames and protocol headers.
//!
//! A frame is a header of 8 bytes, which has the size of the whole frame, and a body: a performative, and for a transfer the bytes
//! of a message behind it. A reader reads the header with [`FrameHeader::decode`], waits for as many bytes as it says, and gives
//! them to [`Frame::decode`].

use std::{error, fmt};

use bytes::Bytes;

use crate::{
    codec::{Decode, DecodeError, Decoder, Encode, EncodeError, Encoder, Limits},
    types::{Performative, SaslFrame},
};

/// The bytes of a frame header, without an extended header.
pub const FRAME_HEADER_SIZE: usize = 8;

/// The largest frame that every peer accepts before both have sent their open: 512 bytes.
pub const MIN_MAX_FRAME_SIZE: u32 = 512;

/// The eight bytes that a peer sends first, for each layer of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtocolHeader {
    /// AMQP 1.0.
    Amqp,
    /// TLS within the connection. Peers use a port of its own instead.
    Tls,
    /// SASL.
    Sasl,
}

impl ProtocolHeader {
    /// Returns the bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        let id = match self {
            Self::Amqp => 0,
            Self::Tls => 2,
            Self::Sasl => 3,
        };
        [b'A', b'M', b'Q', b'P', id, 1, 0, 0]
    }

    /// Reads the bytes; none for another protocol or version.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        match bytes {
            [b'A', b'M', b'Q', b'P', 0, 1, 0, 0] => Some(Self::Amqp),
            [b'A', b'M', b'Q', b'P', 2, 1, 0, 0] => Some(Self::Tls),
            [b'A', b'M', b'Q', b'P', 3, 1, 0, 0] => Some(Self::Sasl),
            _ => None,
        }
    }
}

/// What the body of a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameType {
    /// A [`Performative`].
    Amqp,
    /// A [`SaslFrame`].
    Sasl,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameHeader {
    /// The size of the frame with its header, in bytes. At least 8.
    pub size: u32,
    /// Where the body begins, in bytes. At least 8.
    pub body: u16,
    /// What the body is.
    pub frame_type: FrameType,
    /// The channel. A SASL frame has none, and it is ignored.
    pub channel: u16,
}

impl FrameHeader {
    /// Reads the header from the front of an input; none if it has fewer than 8 bytes.
    ///
    /// # Errors
    /// The size is over `max_frame_size`, or the header is malformed.
    pub const fn decode(input: &[u8], max_frame_size: u32) -> Result<Option<Self>, FrameError> {
        let Some(&[a, b, c, d, offset, kind, channel, channel_low]) = input.first_chunk() else { return Ok(None) };
        let size = u32::from_be_bytes([a, b, c, d]);
        if size > max_frame_size {
            return Err(FrameError::TooLarge { size, max: max_frame_size });
        }
        // In words of four bytes.
        let body = offset as u16 * 4;
        if body < 8 || (body as u32) > size {
            return Err(FrameError::Offset { size, offset: body });
        }
        let frame_type = match kind {
            0 => FrameType::Amqp,
            1 => FrameType::Sasl,
            other => return Err(FrameError::Type(other)),
        };
        Ok(Some(Self { size, body, frame_type, channel: u16::from_be_bytes([channel, channel_low]) }))
    }
}

/// An AMQP frame.
///
/// ```
/// use consign_amqp::{bytes::Bytes, codec::Limits, frame::{Frame, FrameHeader}, types::{Performative, Transfer}};
///
/// let transfer = Transfer { handle: 1, delivery_id: Some(7), ..Transfer::default() };
/// let mut out = Vec::new();
/// Frame::encode(3, &transfer.into(), b"message", &mut out)?;
///
/// let header = FrameHeader::decode(&out, 512)?.expect("complete");
/// assert_eq!(header.size as usize, out.len());
/// let frame = Frame::decode(header, &out.into(), Limits::default())?;
/// assert!(matches!(frame.performative, Some(Performative::Transfer(transfer)) if transfer.delivery_id == Some(7)));
/// assert_eq!((frame.channel, frame.payload.as_ref()), (3, b"message".as_slice()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The channel.
    pub channel: u16,
    /// The body; none in an empty frame, which shows that the peer is alive.
    pub performative: Option<Performative>,
    /// What follows the performative: for a transfer, bytes of a message. A slice of the input.
    pub payload: Bytes,
}

impl Frame {
    /// Decodes a frame of which `bytes` are all bytes, the header included.
    ///
    /// # Errors
    /// The header is that of a SASL frame or of a frame of another size, or the performative is malformed or exceeds a limit.
    pub fn decode(header: FrameHeader, bytes: &Bytes, limits: Limits) -> Result<Self, FrameError> {
        let mut decoder = body(header, FrameType::Amqp, bytes, limits)?;
        let performative = if decoder.is_empty() { None } else { Some(decoder.decode()?) };
        Ok(Self { channel: header.channel, performative, payload: decoder.take_rest() })
    }

    /// Appends a frame. The caller keeps to the peer's largest frame.
    ///
    /// # Errors
    /// A value of the performative is too long or too deep. The buffer is then as it was before.
    pub fn encode(
        channel: u16,
        performative: &Performative,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        Self::encode_head(channel, performative, payload.len(), out)?;
        out.extend_from_slice(payload);
        Ok(())
    }

    /// Appends a frame without its payload, of which so many bytes have to follow. A caller that writes several buffers at once does
    /// not copy the payload.
    ///
    /// # Errors
    /// A value of the performative is too long or too deep, or the frame is too long. The buffer is then as it was before.
    pub fn encode_head(
        channel: u16,
        performative: &Performative,
        payload: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        encode(0, channel, performative, payload, out)
    }

    /// Appends an empty frame.
    pub fn encode_empty(out: &mut Vec<u8>) {
        out.extend_from_slice(&[0, 0, 0, 8, 2, 0, 0, 0]);
    }
}

impl SaslFrame {
    /// Decodes a SASL frame of which `bytes` are all bytes, the header included.
    ///
    /// # Errors
    /// The header is that of an AMQP frame or of a frame of another size, or the body is malformed or exceeds a limit.
    pub fn decode_frame(header: FrameHeader, bytes: &Bytes, limits: Limits) -> Result<Self, FrameError> {
        let mut decoder = body(header, FrameType::Sasl, bytes, limits)?;
        let frame = Self::decode(&mut decoder)?;
        decoder.finish()?;
        Ok(frame)
    }

    /// Appends the body as a frame.
    ///
    /// # Errors
    /// A value is too long. The buffer is then as it was before.
    pub fn encode_frame(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode(1, 0, self, 0, out)
    }
}

fn body(header: FrameHeader, frame_type: FrameType, bytes: &Bytes, limits: Limits) -> Result<Decoder<'_>, FrameError> {
    if header.size as usize != bytes.len() || usize::from(header.body) > bytes.len() {
        return Err(FrameError::Offset { size: header.size, offset: header.body });
    }
    if header.frame_type != frame_type {
        return Err(FrameError::Type(u8::from(header.frame_type == FrameType::Sasl)));
    }
    Ok(Decoder::within(bytes, usize::from(header.body)..bytes.len(), limits))
}

fn encode<T: Encode>(kind: u8, channel: u16, body: &T, payload: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    let [high, low] = channel.to_be_bytes();
    out.extend_from_slice(&[0, 0, 0, 0, 2, kind, high, low]);
    let mut encoder = Encoder::new(out);
    encoder.encode(body);
    encoder.frame_size(start, payload);
    let outcome = encoder.finish();
    if outcome.is_err() {
        out.truncate(start);
    }
    outcome
}

/// Why a frame was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame is larger than this end accepts.
    TooLarge {
        /// The size of the frame, in bytes.
        size: u32,
        /// The largest that is accepted, in bytes.
        max: u32,
    },
    /// The body begins inside the header or behind the end of the frame, or the bytes are not one frame.
    Offset {
        /// The size of the frame, in bytes.
        size: u32,
        /// Where the body begins, in bytes.
        offset: u16,
    },
    /// The frame is of another type.
    Type(u8),
    /// The body is malformed or exceeds a limit. Offsets count from the start of the frame.
    Body(DecodeError),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { size, max } => write!(f, "a frame of {size} bytes, where {max} are accepted"),
            Self::Offset { size, offset } => {
                write!(f, "a frame of {size} bytes whose body begins at byte {offset} does not match its bytes")
            }
            Self::Type(kind) => write!(f, "unexpected frame type {kind:#04x}"),
            Self::Body(_) => f.write_str("the body of the frame was refused"),
        }
    }
}

impl error::Error for FrameError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Body(error) => Some(error),
            _ => None,
        }
    }
}

impl From<DecodeError> for FrameError {
    fn from(error: DecodeError) -> Self {
        Self::Body(error)
    }
}
