//! The setters of properties, and what removes a property.

use std::{borrow::Cow, sync::Arc, time::Duration};

use super::{Properties, Rare};
use crate::{
    message::{
        Field, IntoContentType, InvalidArgument, PassThrough, Problem, limits,
        text::{Id, Text, Token},
    },
    time::Timestamp,
};

macro_rules! free_text {
    ($($(#[$doc:meta])* $set:ident, $name:ident;)*) => {$(
        $(#[$doc])*
        pub fn $set(&mut self, value: impl Into<Cow<'static, str>>) -> &mut Self {
            self.$name = Some(Text::from(value.into()).into());
            self
        }
    )*};
}

macro_rules! clear {
    ($($(#[$doc:meta])* $clear:ident, $name:ident;)*) => {$(
        $(#[$doc])*
        pub fn $clear(&mut self) -> &mut Self {
            self.$name = None;
            self
        }
    )*};
}

macro_rules! clear_rare {
    ($($(#[$doc:meta])* $clear:ident, $name:ident;)*) => {$(
        $(#[$doc])*
        pub fn $clear(&mut self) -> &mut Self {
            if let Some(rare) = &mut self.rare {
                rare.$name = None;
                if **rare == Rare::default() {
                    self.rare = None;
                }
            }
            self
        }
    )*};
}

impl Properties {
    free_text! {
        /// Sets the `CorrelationId`.
        set_correlation_id, correlation_id;
        /// Sets the subject.
        set_subject, subject;
        /// Sets where an answer goes.
        set_reply_to, reply_to;
    }

    /// Sets the `ContentType`: text or a [`Mime`](mime::Mime).
    pub fn set_content_type(&mut self, value: impl IntoContentType) -> &mut Self {
        self.content_type = Some(Text::from(value.into_content_type()));
        self
    }

    /// Sets `To`, an address for the application; no broker routes by it.
    pub fn set_to(&mut self, value: impl Into<Cow<'static, str>>) -> &mut Self {
        self.rare_mut().to = Some(value.into().into());
        self
    }

    /// Sets the `MessageId`: 1 to 128 UTF-16 code units.
    #[inline]
    pub fn set_message_id(&mut self, value: impl Into<Cow<'static, str>>) -> Result<&mut Self, InvalidArgument> {
        let value = value.into();
        if value.is_empty() {
            return Err(InvalidArgument::new(Field::MessageId, Problem::Empty));
        }
        self.message_id = Some(id(Field::MessageId, value)?.into());
        self.is_message_id_stamped = false;
        Ok(self)
    }

    /// Sets the `MessageId` of a message whose sender set none, and [marks it](Self::is_message_id_stamped) as such. For
    /// brokers and transports.
    ///
    /// # Errors
    ///
    /// As [`set_message_id`](Self::set_message_id).
    pub fn stamp_message_id(&mut self, value: impl Into<Cow<'static, str>>) -> Result<&mut Self, InvalidArgument> {
        self.set_message_id(value)?.is_message_id_stamped = true;
        Ok(self)
    }

    /// Removes the `MessageId`.
    pub fn clear_message_id(&mut self) -> &mut Self {
        (self.message_id, self.is_message_id_stamped) = (None, false);
        self
    }

    #[doc(hidden)]
    pub fn set_message_token(&mut self, token: Token) {
        self.message_id = Some(Id::Token(token));
        self.is_message_id_stamped = false;
    }

    /// Sets the `MessageId`, like [`stamp_message_id`](Self::stamp_message_id).
    #[doc(hidden)]
    pub fn stamp_message_token(&mut self, token: Token) {
        self.message_id = Some(Id::Token(token));
        self.is_message_id_stamped = true;
    }

    /// Replaces the `MessageId` of a message that is sent again. A mark that the sender set none stays.
    #[doc(hidden)]
    pub fn renew_message_token(&mut self, token: Token) {
        self.message_id = Some(Id::Token(token));
    }

    #[doc(hidden)]
    pub fn set_correlation_token(&mut self, token: Token) {
        self.correlation_id = Some(Id::Token(token));
    }

    /// Copies the `MessageId` of another message to the `CorrelationId`, if its sender set one. Returns whether it did.
    #[inline]
    #[doc(hidden)]
    pub fn correlate_with_message_id(&mut self, other: &Self) -> bool {
        if other.is_message_id_stamped || other.message_id.is_none() {
            return false;
        }
        self.correlation_id.clone_from(&other.message_id);
        self.correlate_type(other);
        true
    }

    /// Copies the type of another message's `MessageId` to the `CorrelationId`, so that an AMQP 1.0 requester gets its own type back.
    fn correlate_type(&mut self, other: &Self) {
        let has_type = |rest: &PassThrough| rest.annotation(PassThrough::CORRELATION_ID_TYPE).is_some();
        if self.pass_through().is_some_and(has_type) {
            self.pass_through_mut().annotations.retain(|(key, _)| key != PassThrough::CORRELATION_ID_TYPE);
        }
        if let Some(of_id) = other.pass_through().and_then(|rest| rest.annotation(PassThrough::MESSAGE_ID_TYPE)) {
            let annotation = (PassThrough::CORRELATION_ID_TYPE.into(), of_id.clone());
            self.pass_through_mut().annotations.push(annotation);
        }
    }

    /// Sets ReplyTo, like [`set_reply_to`](Self::set_reply_to), with a text that many messages share.
    #[doc(hidden)]
    pub fn set_shared_reply_to(&mut self, value: Arc<str>) {
        self.reply_to = Some(Text::Shared(value));
    }

    /// Sets the Subject, like [`set_subject`](Self::set_subject), with a text that many messages share.
    #[doc(hidden)]
    pub fn set_shared_subject(&mut self, value: Arc<str>) {
        self.subject = Some(Text::Shared(value));
    }

    /// Makes clones cheap, by sharing the texts.
    #[doc(hidden)]
    pub fn share(&mut self) {
        let texts = [&mut self.content_type, &mut self.subject, &mut self.reply_to, &mut self.session_id];
        texts.into_iter().flatten().for_each(Text::share);
    }

    /// Sets the `SessionId`: at most 128 UTF-16 code units. A partition key that differs is overwritten with it.
    pub fn set_session_id(&mut self, value: impl Into<Cow<'static, str>>) -> Result<&mut Self, InvalidArgument> {
        let value = id(Field::SessionId, value.into())?;
        if let Some(key) = self.rare.as_mut().and_then(|rare| rare.partition_key.as_mut()) {
            *key = value.clone();
        }
        self.session_id = Some(value);
        Ok(self)
    }

    /// Sets the session for replies: at most 128 UTF-16 code units.
    pub fn set_reply_to_session_id(
        &mut self,
        value: impl Into<Cow<'static, str>>,
    ) -> Result<&mut Self, InvalidArgument> {
        self.rare_mut().reply_to_session_id = Some(id(Field::ReplyToSessionId, value.into())?);
        Ok(self)
    }

    /// Sets the partition key: at most 128 UTF-16 code units, and equal to the `SessionId` if that is set.
    pub fn set_partition_key(&mut self, value: impl Into<Cow<'static, str>>) -> Result<&mut Self, InvalidArgument> {
        let value = id(Field::PartitionKey, value.into())?;
        if self.session_id.as_ref().is_some_and(|session| *session != value) {
            return Err(InvalidArgument::new(Field::PartitionKey, Problem::PartitionKeySessionIdMismatch));
        }
        self.rare_mut().partition_key = Some(value);
        Ok(self)
    }

    /// Sets the transfer partition's key: at most 128 UTF-16 code units.
    pub fn set_transaction_partition_key(
        &mut self,
        value: impl Into<Cow<'static, str>>,
    ) -> Result<&mut Self, InvalidArgument> {
        self.rare_mut().transaction_partition_key = Some(id(Field::TransactionPartitionKey, value.into())?);
        Ok(self)
    }

    /// Sets how long the message may wait: at least a millisecond. It counts in whole milliseconds.
    pub fn set_time_to_live(&mut self, value: Duration) -> Result<&mut Self, InvalidArgument> {
        if value < Duration::from_millis(1) {
            return Err(InvalidArgument::new(Field::TimeToLive, Problem::NotPositive));
        }
        self.time_to_live = Some(value);
        Ok(self)
    }

    /// Sets when the message becomes visible. An instant that has passed means at once.
    pub fn set_scheduled_enqueue_time(&mut self, value: Timestamp) -> &mut Self {
        self.rare_mut().scheduled_enqueue_time = Some(value);
        self
    }

    clear! {
        /// Removes the `ContentType`.
        clear_content_type, content_type;
        /// Removes the `CorrelationId`.
        clear_correlation_id, correlation_id;
        /// Removes the subject.
        clear_subject, subject;
        /// Removes where an answer goes.
        clear_reply_to, reply_to;
        /// Removes the `SessionId`. A partition key stays.
        clear_session_id, session_id;
        /// Removes how long the message may wait.
        clear_time_to_live, time_to_live;
    }

    clear_rare! {
        /// Removes the session that an answer goes to.
        clear_reply_to_session_id, reply_to_session_id;
        /// Removes the partition key.
        clear_partition_key, partition_key;
        /// Removes the transfer partition's key.
        clear_transaction_partition_key, transaction_partition_key;
        /// Removes where the message goes, for the application.
        clear_to, to;
        /// Removes when the message becomes visible.
        clear_scheduled_enqueue_time, scheduled_enqueue_time;
    }
}

#[inline]
fn id(field: Field, value: Cow<'static, str>) -> Result<Text, InvalidArgument> {
    if limits::is_longer_than(&value, limits::ID) {
        return Err(InvalidArgument::new(field, Problem::TooLong { limit: limits::ID }));
    }
    Ok(value.into())
}
