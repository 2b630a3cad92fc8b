use consign_codecs::{CodecSet, Codecs, Encode, EncodeError, Encoded};

use super::MessageTypes;

/// An enum that is sent as messages of its types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no enum of types of messages that can be sent",
    note = "derive `MessageTypes` for it, with the feature `derive`, or implement `SendTypes`"
)]
pub trait SendTypes: MessageTypes {
    /// Returns the index of the type of this value in the table.
    fn index(&self) -> usize;

    /// Writes what the variant holds.
    fn write<C: CodecSet>(&self, outlet: &Outlet<'_, C>) -> Result<Encoded, EncodeError>;
}

/// The destination of an encoded value.
#[derive(Debug)]
pub struct Outlet<'c, C> {
    codecs: &'c Codecs<C>,
    content_type: Option<&'c str>,
}

impl<C: CodecSet> Outlet<'_, C> {
    /// Writes one value.
    pub fn body<T: Encode + ?Sized>(&self, value: &T) -> Result<Encoded, EncodeError> {
        match self.content_type {
            Some(content_type) => self.codecs.encode_as(value, content_type),
            None => self.codecs.encode(value),
        }
    }
}

/// A value of an enum of types as a body: what its variant holds, alone. The type's name is a property of the message, which
/// [`OutboundMessage::typed`](crate::middleware::encode::OutboundMessage::typed) sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsType<E>(
    /// The value.
    pub E,
);

impl<E: SendTypes> Encode for AsType<E> {
    fn encode_with<S: CodecSet>(&self, codecs: &Codecs<S>) -> Result<Encoded, EncodeError> {
        self.0.write(&Outlet { codecs, content_type: None })
    }

    fn encode_as<S: CodecSet>(&self, codecs: &Codecs<S>, content_type: &str) -> Result<Encoded, EncodeError> {
        self.0.write(&Outlet { codecs, content_type: Some(content_type) })
    }
}
