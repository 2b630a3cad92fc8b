use super::{IntoContentType, InvalidArgument, Message, MessageBody, Properties, fluent::fluent_properties};

/// Builds a [`Message`]. The first value that is not allowed is remembered, and [`build`](Self::build) answers with it.
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct MessageBuilder {
    properties: Properties,
    error: Option<InvalidArgument>,
}

fluent_properties! { [] MessageBuilder }

impl MessageBuilder {
    /// Sets the format of the body: text or a [`Mime`](mime::Mime).
    ///
    /// ```
    /// use consign::{Message, mime};
    ///
    /// let message = Message::builder().content_type(mime::APPLICATION_JSON).build("{}")?;
    /// assert_eq!(message.content_type(), Some("application/json"));
    /// # Ok::<(), consign::message::InvalidArgument>(())
    /// ```
    #[inline]
    pub fn content_type(mut self, value: impl IntoContentType) -> Self {
        self.properties.set_content_type(value);
        self
    }

    /// The message, or the first rule that was broken.
    #[inline]
    pub fn build(self, body: impl Into<MessageBody>) -> Result<Message, InvalidArgument> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.properties.check()?;
        Ok(Message::from_parts(self.properties, body.into()))
    }
}
