use std::{convert::Infallible, fmt, ops::Deref};

use super::{Context, FromMessage};
use crate::{
    Disposition, Message,
    settlement::{DeadLetterReason, IntoDisposition},
};

/// A message without a property that its handler needs. It is dead-lettered as `MissingProperty`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingProperty(&'static str);

impl IntoDisposition for MissingProperty {
    #[cold]
    fn into_disposition(self) -> Disposition {
        Disposition::dead_letter(DeadLetterReason::MissingProperty, format!("the message has no {}", self.0))
    }
}

macro_rules! properties {
    ($($(#[$doc:meta])* $name:ident: $getter:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// It dereferences to its text and costs one reference count. A message without it is dead-lettered as
        /// `MissingProperty`; as an `Option` it may be missing.
        #[derive(Clone)]
        pub struct $name(Message);

        impl $name {
            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                self.0.$getter().unwrap_or_default()
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                self.as_str()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.as_str()).finish()
            }
        }

        impl<S, C> FromMessage<S, C> for $name {
            type Rejection = MissingProperty;

            #[inline]
            fn from_message(message: &Message, _: &Context<S, C>) -> Result<Self, MissingProperty> {
                match message.$getter() {
                    Some(_) => Ok(Self(message.clone())),
                    None => Err(MissingProperty(stringify!($name))),
                }
            }
        }

        impl<S, C> FromMessage<S, C> for Option<$name> {
            type Rejection = Infallible;

            #[inline]
            fn from_message(message: &Message, _: &Context<S, C>) -> Result<Self, Infallible> {
                Ok(message.$getter().is_some().then(|| $name(message.clone())))
            }
        }
    )*};
}

properties! {
    /// The `MessageId`.
    MessageId: message_id;
    /// The `CorrelationId`.
    CorrelationId: correlation_id;
    /// The subject.
    Subject: subject;
    /// The session.
    SessionId: session_id;
    /// The entity for replies.
    ReplyTo: reply_to;
    /// The session for replies.
    ReplyToSessionId: reply_to_session_id;
}
