use std::{iter, slice};

use super::{Batch, SendError};
use crate::{Message, message::Properties};

/// A request of a sending stack: a [`Message`], a [`Batch`], or values that `EncodeLayer` encodes into one of these.
///
/// A layer with the bound `R: SendRequest` works before and after encode. A layer that reads or changes bodies has the
/// bound `R: SendRequest<Item = Message>`, and does not compile before encode. The trait is sealed.
///
/// ```
/// use consign::{Message, transport::{Batch, SendRequest}};
///
/// fn stamp(request: &mut impl SendRequest) {
///     for properties in request.all_properties_mut() {
///         properties.set_to("billing");
///     }
/// }
///
/// let mut batch = Batch::from([Message::new("a"), Message::new("b")]);
/// stamp(&mut batch);
/// assert!(batch.messages().iter().all(|message| message.to() == Some("billing")));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a request of a sending stack",
    note = "send a `Message`, a `Batch`, or a value as `OutboundMessage::new(value)` or an `OutboundBatch` through `EncodeLayer`"
)]
pub trait SendRequest: Sealed + Sized {
    /// One message of the request: a [`Message`], or before encode a value with its properties.
    type Item;

    /// Returns the messages, in their order.
    fn items(&self) -> &[Self::Item];

    /// Returns the properties of each message.
    fn all_properties(&self) -> impl Iterator<Item = &Properties>;

    /// Returns the properties of each message, for a change. It copies a message that others share.
    fn all_properties_mut(&mut self) -> impl Iterator<Item = &mut Properties>;

    /// Replaces each message by the result of `f`.
    ///
    /// # Errors
    ///
    /// The first error of `f`.
    fn try_map<F>(self, f: F) -> Result<Self, SendError>
    where
        F: FnMut(Self::Item) -> Result<Self::Item, SendError>;
}

/// `SendRequest<Item = Message>`, as a bound whose error says what to do.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no encoded body yet: put this layer after `EncodeLayer`",
    note = "put the layers that read or change encoded bodies, such as the size limit, after `EncodeLayer`"
)]
pub trait EncodedRequest: SendRequest<Item = Message> {}

impl EncodedRequest for Message {}

impl EncodedRequest for Batch {}

/// Seals [`SendRequest`], across crates.
#[doc(hidden)]
pub trait Sealed {}

impl Sealed for Message {}

impl SendRequest for Message {
    type Item = Self;

    #[inline]
    fn items(&self) -> &[Self] {
        slice::from_ref(self)
    }

    #[inline]
    fn all_properties(&self) -> impl Iterator<Item = &Properties> {
        iter::once(self.properties())
    }

    #[inline]
    fn all_properties_mut(&mut self) -> impl Iterator<Item = &mut Properties> {
        iter::once(self.properties_mut())
    }

    #[inline]
    fn try_map<F>(self, mut f: F) -> Result<Self, SendError>
    where
        F: FnMut(Self) -> Result<Self, SendError>,
    {
        f(self)
    }
}

impl Sealed for Batch {}

impl SendRequest for Batch {
    type Item = Message;

    fn items(&self) -> &[Message] {
        self.messages()
    }

    fn all_properties(&self) -> impl Iterator<Item = &Properties> {
        self.messages().iter().map(Message::properties)
    }

    fn all_properties_mut(&mut self) -> impl Iterator<Item = &mut Properties> {
        self.messages_mut().iter_mut().map(Message::properties_mut)
    }

    fn try_map<F>(self, f: F) -> Result<Self, SendError>
    where
        F: FnMut(Message) -> Result<Message, SendError>,
    {
        self.into_messages().into_iter().map(f).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::ErrorKind;

    /// A layer may change the properties and the bodies, and reads what it has changed.
    fn changed<R: SendRequest<Item = Message> + Clone>(mut request: R, count: usize) {
        for (nth, properties) in request.all_properties_mut().enumerate() {
            properties.set_subject(format!("{nth}"));
        }
        let subjects: Vec<_> = request.all_properties().map(|it| it.subject().unwrap().to_owned()).collect();
        assert_eq!(subjects, (0..count).map(|nth| nth.to_string()).collect::<Vec<_>>());
        let request = request.try_map(|message| Ok(message.with_body("changed"))).unwrap();
        let items: Vec<_> = request.items().iter().map(|it| (it.subject().unwrap(), it.payload().unwrap())).collect();
        assert_eq!(items, subjects.iter().map(|subject| (&**subject, &b"changed"[..])).collect::<Vec<_>>());
        let refused = request.try_map(|_| Err(SendError::new(ErrorKind::InvalidArgument))).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn a_layer_changes_every_message_of_a_request() {
        changed(Message::new("one"), 1);
        changed(Batch::from(vec![Message::new("one"); 3]), 3);
    }
}
