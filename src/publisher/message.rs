use std::{borrow::Cow, fmt, time::Duration};

use consign_codecs::{CodecSet, Encode};

use super::Publisher;
use crate::{
    Message,
    message::{InvalidArgument, Properties, fluent::fluent_properties},
    middleware::encode::{Outbound, encode_value},
    time::{Clock, SystemClock},
    transport::{BoxFuture, SendError},
};

/// The properties of a message that is published; see [`Publisher::message`]. The first property that is not allowed is
/// kept, and the send fails with it.
#[must_use = "nothing is sent until `send` is called"]
pub struct PublishMessage<'p, C> {
    publisher: &'p Publisher<C>,
    properties: Properties,
    error: Option<InvalidArgument>,
    codec: Option<&'static str>,
}

fluent_properties! { [C] PublishMessage<'_, C> }

impl<'p, C: CodecSet> PublishMessage<'p, C> {
    pub(super) fn new(publisher: &'p Publisher<C>, subject: Cow<'static, str>) -> Self {
        let mut properties = Properties::new();
        properties.set_subject(subject);
        Self { publisher, properties, error: None, codec: None }
    }

    /// Sets the codec of this value by name. Without it the first codec of the set is used.
    pub fn codec(mut self, name: &'static str) -> Self {
        self.codec = Some(name);
        self
    }

    /// Schedules the message: it is delivered when `delay` has passed from this call, by the clock of the
    /// [sender](crate::transport::Sender::clock), or that of the system if it has none. A transport without
    /// [scheduling](crate::transport::Capability::Scheduling) refuses it.
    ///
    /// ```
    /// # async fn remind(publisher: &consign::publisher::Publisher) -> Result<(), consign::transport::SendError> {
    /// use std::time::Duration;
    ///
    /// publisher.message("invoice.due").delay(Duration::from_secs(3_600)).send(&17).await
    /// # }
    /// ```
    pub fn delay(mut self, delay: Duration) -> Self {
        let clock = self.publisher.clock.as_ref();
        let now = clock.map_or_else(|| SystemClock::new().now(), Clock::now).utc;
        self.properties.set_scheduled_enqueue_time(now.saturating_add(delay));
        self
    }

    /// Encodes `value` and sends it, as [`Publisher::publish`] does.
    ///
    /// # Errors
    ///
    /// As [`Publisher::publish`], and [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument) for a property that
    /// breaks a rule.
    pub fn send<T: Encode + ?Sized>(self, value: &T) -> BoxFuture<Result<(), SendError>> {
        let publisher = self.publisher;
        publisher.send_encoded(self.encode(value))
    }

    /// Encodes `value` into a message that is not sent yet: for [`Publisher::send_batch`].
    ///
    /// # Errors
    ///
    /// [`Serialization`](crate::transport::ErrorKind::Serialization) if the value cannot be encoded, and
    /// [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument) for a property that breaks a rule.
    pub fn encode<T: Encode + ?Sized>(self, value: &T) -> Result<Message, SendError> {
        let Self { publisher, properties, error, codec } = self;
        encode_value(&publisher.codecs, None, value, Outbound { properties, error, codec })
    }
}

/// Shows the properties, never a value.
impl<C> fmt::Debug for PublishMessage<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublishMessage")
            .field("properties", &self.properties)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}
