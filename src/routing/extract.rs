use std::{convert::Infallible, fmt, ops::Deref};

use bytes::Bytes;
use consign_codecs::{CodecSet, Codecs, Decode, DecodeOwned, Decoded};

use super::Context;
use crate::{
    Disposition, Message, MessageExt, body,
    message::{MessageBody, Received},
    message_types::TypeTable,
    settlement::{DeadLetterReason, IntoDisposition, Undecodable},
};

/// An argument of a handler: what can be taken out of a message without waiting. What must wait is a layer, or a call on
/// the state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be taken out of a message: take it as `Body<{Self}>` or `State<{Self}>`, or implement `FromMessage` for it",
    label = "not an argument of a handler",
    note = "the arguments are `Body<T>`, `Decoded<T>`, `Payload<C>`, `RawBody`, `Message`, `State<S>`, `Extension<T>`, `Received`, `SessionHandle`, `MessageId` and the other properties, enums that derive `MessageTypes`, and types of yours that implement `FromMessage`",
    note = "`State<S>` needs the `S` that `Router::with_state` was given",
    note = "`Body<T>` needs a `T` that owns its data: borrow through `Payload<C>` instead"
)]
pub trait FromMessage<S, C>: Sized {
    /// The settlement of a message from which this cannot be extracted.
    type Rejection: IntoDisposition;

    /// Makes the argument from a message.
    fn from_message(message: &Message, cx: &Context<S, C>) -> Result<Self, Self::Rejection>;

    /// The types of message that it can be, if it is an enum of them: for [`types`](super::RouterBuilder::types), and to be
    /// checked when the router is built.
    #[must_use]
    fn type_table() -> Option<&'static TypeTable> {
        None
    }
}

/// The body as a `T`, decoded by the message's ContentType. What cannot be decoded is dead-lettered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Body<T>(
    /// The value.
    pub T,
);

impl<T: DecodeOwned, S, C: CodecSet> FromMessage<S, C> for Body<T> {
    type Rejection = Undecodable;

    #[inline]
    fn from_message(message: &Message, cx: &Context<S, C>) -> Result<Self, Undecodable> {
        let mut place = None;
        message.decode_into(cx.codecs(), &mut place)?;
        Ok(Self(place.expect("a value that was read is in its place")))
    }
}

/// The body as a `T` with how it was decoded: by which codec, and after which failed attempts.
impl<T: DecodeOwned, S, C: CodecSet> FromMessage<S, C> for Decoded<T> {
    type Rejection = Undecodable;

    fn from_message(message: &Message, cx: &Context<S, C>) -> Result<Self, Undecodable> {
        message.decode_traced(cx.codecs())
    }
}

/// The message itself, for one reference count.
impl<S, C> FromMessage<S, C> for Message {
    type Rejection = Infallible;

    #[inline]
    fn from_message(message: &Message, _: &Context<S, C>) -> Result<Self, Infallible> {
        Ok(message.clone())
    }
}

/// The bytes of the body, unchanged: the data sections, joined, or the bytes of an AMQP binary or string value. AMQP null has none. A
/// body of another kind is dead-lettered as `DeserializationFailed`; take [`Message`] to handle it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawBody(
    /// The bytes.
    pub Bytes,
);

impl RawBody {
    #[cold]
    fn of_value(body: &MessageBody) -> Result<Self, Undecodable> {
        body::bytes(body).map(Self).ok_or_else(|| Undecodable::not_bytes(body))
    }
}

impl<S, C> FromMessage<S, C> for RawBody {
    type Rejection = Undecodable;

    #[inline]
    fn from_message(message: &Message, _: &Context<S, C>) -> Result<Self, Undecodable> {
        match message.body() {
            MessageBody::Data(data) => Ok(Self(data.joined().clone())),
            other => Self::of_value(other),
        }
    }
}

/// The message with the codecs that it came with, to decode from it by borrowing.
pub struct Payload<C> {
    message: Message,
    codecs: Codecs<C>,
}

impl<C: CodecSet> Payload<C> {
    /// Reads the body as a `T`, which may borrow from this payload.
    #[inline]
    pub fn decode<'p, T: Decode<'p>>(&'p self) -> Result<T, Undecodable> {
        self.message.decode(&self.codecs)
    }

    /// Decodes the body, like [`decode`](Self::decode), and returns the attempts.
    #[inline]
    pub fn decode_traced<'p, T: Decode<'p>>(&'p self) -> Result<Decoded<T>, Undecodable> {
        self.message.decode_traced(&self.codecs)
    }
}

impl<C> Deref for Payload<C> {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.message
    }
}

impl<C> fmt::Debug for Payload<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payload").field("message", &self.message).finish_non_exhaustive()
    }
}

impl<S, C> FromMessage<S, C> for Payload<C> {
    type Rejection = Infallible;

    #[inline]
    fn from_message(message: &Message, cx: &Context<S, C>) -> Result<Self, Infallible> {
        Ok(Self { message: message.clone(), codecs: cx.codecs().clone() })
    }
}

/// The broker's properties of the message.
impl<S, C> FromMessage<S, C> for Received {
    type Rejection = NotReceived;

    fn from_message(message: &Message, _: &Context<S, C>) -> Result<Self, NotReceived> {
        message.received().copied().ok_or(NotReceived)
    }
}

/// A handler that extracts the broker's properties got a message that no broker delivered. It is dead-lettered as
/// `MissingProperty`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotReceived;

impl IntoDisposition for NotReceived {
    #[cold]
    fn into_disposition(self) -> Disposition {
        Disposition::dead_letter(DeadLetterReason::MissingProperty, "the message carries nothing of a broker")
    }
}
