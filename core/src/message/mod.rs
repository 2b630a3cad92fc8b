//! The message: properties of the sender, properties of the broker, and an opaque body.
//!
//! A sender builds a [`Message`], and a handler receives one. The sender sets [`Properties`]; only a broker sets
//! [`Received`]. Cloning a message increments a reference count.
//!
//! ```
//! use consign::Message;
//!
//! let message = Message::builder().message_id("m-1").subject("order.created").build(r#"{"id":1}"#)?;
//! assert_eq!(message.subject(), Some("order.created"));
//! assert_eq!(message.payload(), Some(&b"{\"id\":1}"[..]));
//! # Ok::<(), consign::message::InvalidArgument>(())
//! ```

mod application_properties;
mod body;
#[doc(hidden)]
pub mod broker_set;
mod builder;
mod content_type;
#[doc(hidden)]
pub mod entity_path;
mod extensions;
#[doc(hidden)]
pub mod fluent;
mod getters;
mod invalid;
pub mod limits;
mod pass_through;
mod properties;
#[doc(hidden)]
pub mod random_id;
mod received;
mod stored;
#[doc(hidden)]
pub mod text;
mod timeout;
mod trace_context;
mod value;

use std::{fmt, sync::Arc};

pub use self::{
    application_properties::ApplicationProperties,
    body::{Data, MessageBody},
    builder::MessageBuilder,
    content_type::IntoContentType,
    entity_path::EntityPath,
    extensions::Extensions,
    invalid::{Field, InvalidArgument, Problem},
    pass_through::PassThrough,
    properties::Properties,
    received::{LockToken, MessageState, Received, SequenceNumber},
    trace_context::TraceContext,
    value::{PropertyValue, Value},
};
#[doc(hidden)]
pub use self::{
    received::{Counted, Holding, SessionKey},
    stored::Stored,
};

use crate::time::Timestamp;

/// A message: its [`Properties`], its [`MessageBody`] and, once it was received, the broker's [`Received`].
#[derive(Clone)]
pub struct Message {
    content: Arc<Content>,
    received: Option<Received>,
}

#[derive(Clone)]
struct Content {
    properties: Properties,
    body: MessageBody,
    dead_letter_source: Option<Box<str>>,
    /// Here, so that a message without any is as small as it can be. None are in a message that is stored.
    extensions: Extensions,
}

impl Message {
    /// A message with a body and no properties.
    #[must_use]
    #[inline]
    pub fn new(body: impl Into<MessageBody>) -> Self {
        Self::from_parts(Properties::new(), body.into())
    }

    /// Starts a message with properties.
    pub fn builder() -> MessageBuilder {
        MessageBuilder::default()
    }

    /// A message from its parts. A broker checks the properties when it is sent.
    #[must_use]
    #[inline]
    pub fn from_parts(properties: Properties, body: MessageBody) -> Self {
        let (dead_letter_source, extensions) = (None, Extensions::new());
        Self { content: Arc::new(Content { properties, body, dead_letter_source, extensions }), received: None }
    }

    /// Returns the properties that the sender set.
    #[must_use]
    #[inline]
    pub fn properties(&self) -> &Properties {
        &self.content.properties
    }

    /// Returns the properties that the sender sets, to change them before the message is sent. If the message is
    /// shared it is copied first; the bytes of the body are not.
    pub fn properties_mut(&mut self) -> &mut Properties {
        &mut Arc::make_mut(&mut self.content).properties
    }

    /// Returns the body.
    #[must_use]
    #[inline]
    pub fn body(&self) -> &MessageBody {
        &self.content.body
    }

    /// Returns the same message with another body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<MessageBody>) -> Self {
        let body = body.into();
        if let Some(content) = Arc::get_mut(&mut self.content) {
            content.body = body;
            return self;
        }
        // The body before is somebody else's too, and is not copied to be dropped.
        let Content { properties, dead_letter_source, extensions, .. } = &*self.content;
        let (properties, extensions) = (properties.clone(), extensions.clone());
        let dead_letter_source = dead_letter_source.clone();
        self.content = Arc::new(Content { properties, body, dead_letter_source, extensions });
        self
    }

    /// Returns the bytes of the body that a codec reads; see [`MessageBody::codec_view`].
    #[must_use]
    #[inline]
    pub fn payload(&self) -> Option<&[u8]> {
        self.content.body.codec_view()
    }

    /// Returns the broker's properties of a delivered message; `None` on a message that was not received.
    #[must_use]
    #[inline]
    pub fn received(&self) -> Option<&Received> {
        self.received.as_ref()
    }

    /// Sets whether the consumer that dispatches the message can hold it if a layer requests that. `false` if it was kept
    /// before.
    #[inline]
    #[doc(hidden)]
    pub fn hand_out(&mut self, holding: Holding) -> bool {
        match &mut self.received {
            Some(Received { holding: Holding::Was, .. }) => return false,
            Some(received) => received.holding = holding,
            None => {}
        }
        true
    }

    /// Sets whether the consumer that delivers the message can hold it.
    #[doc(hidden)]
    pub fn set_holding(&mut self, holding: Holding) {
        if let Some(received) = &mut self.received {
            received.holding = holding;
        }
    }

    /// Says by which session of a consumer the message is delivered.
    #[doc(hidden)]
    pub fn set_session_key(&mut self, key: SessionKey) {
        if let Some(received) = &mut self.received {
            received.session = key;
        }
    }

    /// Marks the delivery as counted. `false` if it was counted before or the message was not received.
    #[doc(hidden)]
    pub fn set_counted(&mut self) -> bool {
        self.received.as_mut().is_some_and(|received| !std::mem::replace(&mut received.counted, Counted(true)).0)
    }

    /// Returns whether the delivery was counted.
    #[doc(hidden)]
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.received.as_ref().is_some_and(|received| received.counted.0)
    }

    /// Its lock was renewed.
    #[doc(hidden)]
    pub fn set_locked_until(&mut self, until: Timestamp) {
        if let Some(received) = &mut self.received {
            received.locked_until = received.locked_until.map(|_| until);
        }
    }

    #[inline]
    #[doc(hidden)]
    #[must_use]
    pub fn holding(&self) -> Holding {
        self.received.as_ref().map_or(Holding::No, |received| received.holding)
    }

    /// Returns the path of the entity where the message was dead-lettered, set when it was forwarded from there.
    #[must_use]
    pub fn dead_letter_source(&self) -> Option<&str> {
        self.content.dead_letter_source.as_deref()
    }

    /// Bytes that body and properties count for against a size limit.
    #[must_use]
    pub fn size(&self) -> usize {
        self.content.properties.size() + self.content.body.size()
    }

    /// Checks what the setters cannot, as a sender does: the limits of [`Properties::check`], and that no value of the body,
    /// an annotation or the footer has more than [`limits::VALUE_LEVELS`] levels.
    pub fn check(&self) -> Result<(), InvalidArgument> {
        self.content.check_levels()?;
        self.content.properties.check()
    }

    /// Returns the message as a transport delivers it. A transport that is sent such a message ignores what was received.
    #[must_use]
    #[inline]
    pub fn with_received(mut self, received: Received) -> Self {
        self.received = Some(received);
        self
    }

    /// Returns the message as a transport delivers it that was forwarded from the dead-letter sub-queue of the entity at
    /// `path`. A transport that is sent such a message ignores that.
    #[must_use]
    pub fn with_dead_letter_source(mut self, path: &str) -> Self {
        Arc::make_mut(&mut self.content).dead_letter_source = Some(path.into());
        self
    }

    /// Another message with the same content and without [`extensions`](Self::extensions): what is sent on, or stored.
    #[must_use]
    pub fn without_received(mut self) -> Self {
        self.received = None;
        self.without_extensions()
    }

    #[inline]
    fn without_extensions(mut self) -> Self {
        if !self.content.extensions.is_empty() {
            Arc::make_mut(&mut self.content).extensions = Extensions::new();
        }
        self
    }

    /// Returns the values that layers have added. They stay in this process, and are not sent.
    #[must_use]
    #[inline]
    pub fn extensions(&self) -> &Extensions {
        &self.content.extensions
    }

    /// Returns the values that layers have added, to add another one. If the message is shared, as the embedded broker's are,
    /// its properties are copied first; the bytes of the body are not.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut Arc::make_mut(&mut self.content).extensions
    }
}

impl Content {
    /// Most messages have no value that could have levels.
    #[inline]
    fn check_levels(&self) -> Result<(), InvalidArgument> {
        if matches!(self.body, MessageBody::Data(_)) && !self.properties.has_rare() {
            return Ok(());
        }
        self.check_values()
    }

    #[cold]
    fn check_values(&self) -> Result<(), InvalidArgument> {
        let limit = limits::VALUE_LEVELS;
        let fits = |value: &Value| value.is_within(limit);
        let body = match &self.body {
            MessageBody::Data(_) => true,
            MessageBody::Value(value) => fits(value),
            MessageBody::Sequence(sections) => sections.iter().flatten().all(fits),
        };
        let rest = self.properties.pass_through();
        if body && rest.is_none_or(|rest| rest.annotations.iter().chain(&rest.footer).all(|(_, value)| fits(value))) {
            return Ok(());
        }
        Err(InvalidArgument::new(Field::Message, Problem::TooDeep { limit }))
    }
}

/// Shows identity, size and ContentType, never the body.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("message_id", &self.message_id())
            .field("sequence_number", &self.received.map(|received| received.sequence_number))
            .field("size", &self.size())
            .field("content_type", &self.content_type())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
