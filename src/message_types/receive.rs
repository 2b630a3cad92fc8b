use std::panic::{AssertUnwindSafe, catch_unwind};

use consign_codecs::{CodecSet, Codecs, DecodeOwned};
use tower::BoxError;

use super::{Resolved, TypeError, TypeTable};
use crate::{Message, MessageExt};

/// An enum whose variants are the types of message that it can be sent or received as. The derive of this name writes this
/// trait, [`ReceiveTypes`] and [`SendTypes`](super::SendTypes).
///
/// # Examples
///
/// Without the derive:
///
/// ```
/// # #[cfg(feature = "json")] {
/// use consign::{
///     Message,
///     codecs::{CodecSet, Codecs},
///     message_types::{self, Incoming, MessageType, MessageTypes, ReceiveTypes, TypeError, TypeTable},
/// };
///
/// #[derive(Debug, PartialEq)]
/// enum Event {
///     Shipped(u64),
///     Closed,
/// }
///
/// impl MessageTypes for Event {
///     const TYPES: TypeTable =
///         TypeTable::new("Event", &[MessageType::new("order.shipped"), MessageType::new("shop.closed")]);
/// }
///
/// impl ReceiveTypes for Event {
///     fn read<C: CodecSet>(index: usize, incoming: &Incoming<'_, C>) -> Result<Self, TypeError> {
///         match index {
///             0 => Ok(Self::Shipped(incoming.body()?)),
///             1 => {
///                 let () = incoming.body()?;
///                 Ok(Self::Closed)
///             }
///             _ => Err(incoming.unknown()),
///         }
///     }
/// }
///
/// let message = Message::builder().subject("order.shipped").content_type("application/json").build("7")?;
/// assert_eq!(message_types::read::<Event, _>(&message, &Codecs::json())?, Event::Shipped(7));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait MessageTypes: Sized {
    /// The types, in the order of the variants.
    const TYPES: TypeTable;
}

/// An enum that messages are read as.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no enum of types of messages",
    note = "derive `MessageTypes` for it, with the feature `derive`, or implement `ReceiveTypes`"
)]
pub trait ReceiveTypes: MessageTypes {
    /// Reads the type at `index` of the table.
    ///
    /// # Errors
    ///
    /// [`Incoming::unknown`] for an index that is not in the table, and those of [`Incoming::body`].
    fn read<C: CodecSet>(index: usize, incoming: &Incoming<'_, C>) -> Result<Self, TypeError>;
}

/// The body of a message whose type is known.
#[derive(Debug)]
pub struct Incoming<'m, C> {
    message: &'m Message,
    codecs: &'m Codecs<C>,
    table: &'static TypeTable,
    resolved: Resolved,
}

/// A body during its upgrade to the newest version: nothing yet, or the value of a version.
#[derive(Debug)]
#[must_use = "the value is in `finish`"]
pub struct Steps<'i, 'm, C, T> {
    incoming: &'i Incoming<'m, C>,
    value: Option<T>,
}

/// Reads a message as a value of the enum `E`: its type by name, its body by ContentType, and from an old version by steps to
/// the newest.
///
/// ```
/// # #[cfg(all(feature = "derive", feature = "json"))] {
/// use consign::{Message, codecs::Codecs, message_types::{MessageTypes, read}};
///
/// #[derive(MessageTypes)]
/// enum Event {
///     #[message("order.created")]
///     Created(u64),
///     #[message("order.shipped")]
///     Shipped(String),
/// }
///
/// let message = Message::builder().subject("order.created").build("7")?;
/// assert!(matches!(read(&message, &Codecs::json())?, Event::Created(7)));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn read<E: ReceiveTypes, C: CodecSet>(message: &Message, codecs: &Codecs<C>) -> Result<E, TypeError> {
    read_as(message, codecs).map(|(value, _)| value)
}

#[inline]
pub(crate) fn read_as<E: ReceiveTypes, C: CodecSet>(
    message: &Message,
    codecs: &Codecs<C>,
) -> Result<(E, Resolved), TypeError> {
    let table = const { &E::TYPES };
    let resolved = table.resolve(message.properties())?;
    let value = E::read(resolved.index, &Incoming { message, codecs, table, resolved })?;
    Ok((value, resolved))
}

impl<'m, C: CodecSet> Incoming<'m, C> {
    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> &'m Message {
        self.message
    }

    /// Returns the version of the body. `None` for a type without versions.
    #[must_use]
    pub fn version(&self) -> Option<u32> {
        self.resolved.version
    }

    /// Returns the body as a `T`, whatever its version.
    #[inline]
    pub fn body<T: DecodeOwned>(&self) -> Result<T, TypeError> {
        Ok(self.message.decode(self.codecs)?)
    }

    /// Returns the body as a `T` if it is of this version, as the first of the steps to a newer one.
    ///
    /// ```
    /// # use consign::{codecs::CodecSet, message_types::{Incoming, TypeError}};
    /// # #[derive(serde::Deserialize)] struct V1;
    /// # #[derive(serde::Deserialize)] struct V2;
    /// # #[derive(serde::Deserialize)] struct V3;
    /// # impl From<V1> for V2 { fn from(_: V1) -> Self { Self } }
    /// fn created<C: CodecSet>(incoming: &Incoming<'_, C>) -> Result<V3, TypeError> {
    ///     incoming.from_version::<V1>(1)?.then::<V2>(2)?.then_with(3, |_: V2| Ok(V3))?.finish()
    /// }
    /// ```
    #[inline]
    pub fn from_version<T: DecodeOwned>(&self, version: u32) -> Result<Steps<'_, 'm, C, T>, TypeError> {
        let value = if self.resolved.version == Some(version) { Some(self.body()?) } else { None };
        Ok(Steps { incoming: self, value })
    }

    /// Returns the error for an index, or a version, that the table has and the code has not.
    #[cold]
    #[must_use]
    pub fn unknown(&self) -> TypeError {
        match (self.table.types.get(self.resolved.index), self.resolved.version) {
            (Some(of), Some(version)) => TypeError::unknown_version(self.table, of, Some(version.into())),
            (of, _) => TypeError::unknown_type(self.table, of.map_or("", |of| of.name)),
        }
    }
}

impl<'i, 'm, C: CodecSet, T> Steps<'i, 'm, C, T> {
    /// To this version: by the conversion from the value of the version before, or out of the body, if that is of this
    /// version. A conversion that fails or panics is an error of the kind [`Step`](super::TypeErrorKind::Step), and so a dead
    /// letter.
    #[inline]
    pub fn then<U>(self, version: u32) -> Result<Steps<'i, 'm, C, U>, TypeError>
    where
        U: DecodeOwned + TryFrom<T, Error: Into<BoxError>>,
    {
        self.then_with(version, |value| U::try_from(value).map_err(Into::into))
    }

    /// Adds a step, like [`then`](Self::then), by a function.
    #[inline]
    pub fn then_with<U: DecodeOwned>(
        self,
        version: u32,
        step: impl FnOnce(T) -> Result<U, BoxError>,
    ) -> Result<Steps<'i, 'm, C, U>, TypeError> {
        let Self { incoming, value } = self;
        let Some(value) = value else {
            return incoming.from_version(version);
        };
        // The value of the old version is gone, whatever becomes of the step.
        match catch_unwind(AssertUnwindSafe(|| step(value))) {
            Ok(Ok(value)) => Ok(Steps { incoming, value: Some(value) }),
            Ok(Err(error)) => Err(TypeError::step(version, Some(error))),
            Err(_) => Err(TypeError::step(version, None)),
        }
    }

    /// The value of the newest version.
    #[inline]
    pub fn finish(self) -> Result<T, TypeError> {
        self.value.ok_or_else(|| self.incoming.unknown())
    }
}
