use std::{borrow::Cow, sync::Arc, time::Duration};

use super::{
    ApplicationProperties, Field, InvalidArgument, PassThrough, Problem, PropertyValue, limits,
    text::{Id, Text, Token},
};
use crate::time::Timestamp;

/// The properties that a sender sets. What the broker sets is [`Received`](super::Received), which no sender can write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties {
    content_type: Option<Text>,
    correlation_id: Option<Id>,
    message_id: Option<Id>,
    subject: Option<Text>,
    reply_to: Option<Text>,
    session_id: Option<Text>,
    time_to_live: Option<Duration>,
    application: ApplicationProperties,
    /// `None` while all of it is at its default.
    rare: Option<Box<Rare>>,
}

/// What few messages have, so that the others are small.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rare {
    reply_to_session_id: Option<Text>,
    partition_key: Option<Text>,
    transaction_partition_key: Option<Text>,
    to: Option<Text>,
    scheduled_enqueue_time: Option<Timestamp>,
    pass_through: Option<Box<PassThrough>>,
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        #[inline]
        pub fn $name(&self) -> Option<&str> {
            Some(self.$name.as_ref()?.as_str())
        }
    )*};
}

macro_rules! rare_getters {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        #[inline]
        pub fn $name(&self) -> Option<&str> {
            Some(self.rare.as_ref()?.$name.as_ref()?.as_str())
        }
    )*};
}

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
    ($($clear:ident, $name:ident;)*) => {$(
        pub(crate) fn $clear(&mut self) {
            self.$name = None;
        }
    )*};
}

macro_rules! clear_rare {
    ($($clear:ident, $name:ident;)*) => {$(
        pub(crate) fn $clear(&mut self) {
            if let Some(rare) = &mut self.rare {
                rare.$name = None;
                if **rare == Rare::default() {
                    self.rare = None;
                }
            }
        }
    )*};
}

impl Properties {
    /// The application property that holds the reason of a dead letter.
    pub const DEAD_LETTER_REASON: &'static str = "DeadLetterReason";
    /// The application property that holds the description of a dead letter.
    pub const DEAD_LETTER_DESCRIPTION: &'static str = "DeadLetterErrorDescription";

    /// The application property that holds the first `MessageId` of a message that was sent again under another one.
    pub const ORIGINAL_MESSAGE_ID: &'static str = "x-original-message-id";

    /// No properties.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    getters! {
        /// The format of the body, as it was written; brokers do not read it.
        content_type;
        /// The `MessageId` that this message answers, or whatever sender and receiver agree on.
        correlation_id;
        /// The identity of the message, at most 128 UTF-16 code units.
        message_id;
        /// What the message is about; routing goes by it. Also known as Label.
        subject;
        /// Where an answer goes: an entity's path, absolute or relative.
        reply_to;
        /// The session of the message. The empty string is a session like any other.
        session_id;
    }

    rare_getters! {
        /// The session that an answer goes to.
        reply_to_session_id;
        /// What a partitioned entity chooses the partition by.
        partition_key;
        /// What a partitioned entity chooses the transfer partition by, when it sends on behalf of another.
        transaction_partition_key;
        /// Where the message goes, for the application; no broker routes by it.
        to;
    }

    /// How long the message may wait, from its acceptance. `None` is the entity's default.
    #[must_use]
    pub fn time_to_live(&self) -> Option<Duration> {
        self.time_to_live
    }

    /// When the message becomes visible to receivers.
    #[must_use]
    pub fn scheduled_enqueue_time(&self) -> Option<Timestamp> {
        self.rare.as_ref()?.scheduled_enqueue_time
    }

    /// Why the message was dead-lettered: the application property [`Properties::DEAD_LETTER_REASON`].
    #[must_use]
    pub fn dead_letter_reason(&self) -> Option<&str> {
        self.application.get(Self::DEAD_LETTER_REASON).and_then(PropertyValue::as_str)
    }

    /// The `MessageId` that the message had when it was sent first: the application property
    /// [`Properties::ORIGINAL_MESSAGE_ID`], or without one its `MessageId`. A retry or a resubmission has a new id, for a
    /// broker may drop the old one as a duplicate; what tells messages apart by what they mean goes by this.
    #[must_use]
    pub fn original_message_id(&self) -> Option<&str> {
        let original = self.application.get(Self::ORIGINAL_MESSAGE_ID).and_then(PropertyValue::as_str);
        original.filter(|id| !id.is_empty()).or_else(|| self.message_id())
    }

    /// What exactly the message died of: the application property [`Properties::DEAD_LETTER_DESCRIPTION`].
    #[must_use]
    pub fn dead_letter_description(&self) -> Option<&str> {
        self.application.get(Self::DEAD_LETTER_DESCRIPTION).and_then(PropertyValue::as_str)
    }

    /// The user's own properties.
    #[must_use]
    pub fn application(&self) -> &ApplicationProperties {
        &self.application
    }

    /// The user's own properties, to change them.
    pub fn application_mut(&mut self) -> &mut ApplicationProperties {
        &mut self.application
    }

    /// What brokers store and never read.
    #[must_use]
    pub fn pass_through(&self) -> Option<&PassThrough> {
        self.rare.as_ref()?.pass_through.as_deref()
    }

    /// What brokers store and never read, to change it.
    pub fn pass_through_mut(&mut self) -> &mut PassThrough {
        self.rare_mut().pass_through.get_or_insert_default()
    }

    free_text! {
        /// Sets the `ContentType`.
        set_content_type, content_type;
        /// Sets the `CorrelationId`.
        set_correlation_id, correlation_id;
        /// Sets the subject.
        set_subject, subject;
        /// Sets where an answer goes.
        set_reply_to, reply_to;
    }

    /// Sets where the message goes, for the application.
    pub fn set_to(&mut self, value: impl Into<Cow<'static, str>>) -> &mut Self {
        self.rare_mut().to = Some(value.into().into());
        self
    }

    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Sets the `MessageId`: 1 to 128 UTF-16 code units.
    #[inline]
    pub fn set_message_id(&mut self, value: impl Into<Cow<'static, str>>) -> Result<&mut Self, InvalidArgument> {
        let value = value.into();
        if value.is_empty() {
            return Err(InvalidArgument::new(Field::MessageId, Problem::Empty));
        }
        self.message_id = Some(id(Field::MessageId, value)?.into());
        Ok(self)
    }

    /// Whether there is a `MessageId`, which is quicker to say than which.
    #[cfg(feature = "embedded")]
    #[inline]
    pub(crate) fn has_message_id(&self) -> bool {
        self.message_id.is_some()
    }

    pub(crate) fn set_message_token(&mut self, token: Token) {
        self.message_id = Some(Id::Token(token));
    }

    pub(crate) fn set_correlation_token(&mut self, token: Token) {
        self.correlation_id = Some(Id::Token(token));
    }

    /// The `CorrelationId` as it is compared with tokens.
    #[inline]
    pub(crate) fn correlation_bytes(&self) -> Option<&[u8; Token::LENGTH]> {
        self.correlation_id.as_ref()?.token_bytes()
    }

    /// Takes the `MessageId` of another message over as the `CorrelationId`. Says whether that has one.
    #[inline]
    pub(crate) fn correlate_with_message_id(&mut self, other: &Self) -> bool {
        self.correlation_id.clone_from(&other.message_id);
        self.correlation_id.is_some()
    }

    /// As [`set_reply_to`](Self::set_reply_to), for many messages.
    pub(crate) fn set_shared_reply_to(&mut self, value: Arc<str>) {
        self.reply_to = Some(Text::Shared(value));
    }

    /// As [`set_subject`](Self::set_subject), for many messages.
    pub(crate) fn set_shared_subject(&mut self, value: Arc<str>) {
        self.subject = Some(Text::Shared(value));
    }

    /// Makes clones cheap: texts are shared from now on.
    pub(crate) fn share(&mut self) {
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

    /// Sets the session that an answer goes to: at most 128 UTF-16 code units.
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

    /// Sets how long the message may wait: more than zero. It counts in whole milliseconds.
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
        clear_content_type, content_type;
        clear_correlation_id, correlation_id;
        clear_subject, subject;
        clear_reply_to, reply_to;
        clear_session_id, session_id;
        clear_time_to_live, time_to_live;
    }

    clear_rare! {
        clear_reply_to_session_id, reply_to_session_id;
        clear_partition_key, partition_key;
        clear_transaction_partition_key, transaction_partition_key;
        clear_to, to;
        clear_scheduled_enqueue_time, scheduled_enqueue_time;
    }

    /// Bytes that all properties count for against a size limit.
    #[must_use]
    pub fn size(&self) -> usize {
        let size_of_id = |id: Option<&Id>| id.map_or(0, Id::len);
        size_of_text(self.content_type.as_ref())
            + size_of_id(self.correlation_id.as_ref())
            + size_of_id(self.message_id.as_ref())
            + size_of_text(self.subject.as_ref())
            + size_of_text(self.reply_to.as_ref())
            + size_of_text(self.session_id.as_ref())
            + if self.time_to_live.is_some() { SIZE_OF_TIME } else { 0 }
            + if self.application.is_empty() { 0 } else { self.application.size() }
            + self.rare.as_ref().map_or(0, |rare| rare.size())
    }

    /// Checks what the setters cannot: each application property at most 32,767 bytes with its key, all properties
    /// together at most 65,534 bytes, at most 1,024 of them.
    #[inline]
    pub fn check(&self) -> Result<(), InvalidArgument> {
        if !self.application.is_empty() {
            self.application.check()?;
        }
        let limit = limits::ALL_PROPERTIES_BYTES;
        if self.size() > limit {
            return Err(InvalidArgument::new(Field::Properties, Problem::TooLong { limit }));
        }
        Ok(())
    }
}

impl Rare {
    fn size(&self) -> usize {
        size_of_text(self.reply_to_session_id.as_ref())
            + size_of_text(self.partition_key.as_ref())
            + size_of_text(self.transaction_partition_key.as_ref())
            + size_of_text(self.to.as_ref())
            + if self.scheduled_enqueue_time.is_some() { SIZE_OF_TIME } else { 0 }
            + self.pass_through.as_ref().map_or(0, |rest| rest.size())
    }
}

/// What an instant or a duration counts for.
const SIZE_OF_TIME: usize = 8;

#[inline]
fn size_of_text(text: Option<&Text>) -> usize {
    text.map_or(0, Text::len)
}

#[inline]
fn id(field: Field, value: Cow<'static, str>) -> Result<Text, InvalidArgument> {
    if limits::is_longer_than(&value, limits::ID) {
        return Err(InvalidArgument::new(field, Problem::TooLong { limit: limits::ID }));
    }
    Ok(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Value;

    #[test]
    fn v_01_message_id_is_1_to_128_units() {
        let mut properties = Properties::new();
        assert_eq!(properties.set_message_id("").unwrap_err().problem(), &Problem::Empty);
        let error = properties.set_message_id("x".repeat(129)).unwrap_err();
        assert_eq!((error.field(), error.problem()), (&Field::MessageId, &Problem::TooLong { limit: 128 }));
        assert_eq!(properties.message_id(), None);
        properties.set_message_id("x".repeat(128)).unwrap();
    }

    #[test]
    fn v_02_ids_name_themselves() {
        let long = "x".repeat(129);
        let mut properties = Properties::new();
        let refused = [
            properties.set_session_id(long.clone()).unwrap_err(),
            properties.set_reply_to_session_id(long.clone()).unwrap_err(),
            properties.set_partition_key(long.clone()).unwrap_err(),
            properties.set_transaction_partition_key(long).unwrap_err(),
        ];
        let fields = refused.map(|error| error.field().clone());
        assert_eq!(
            fields,
            [Field::SessionId, Field::ReplyToSessionId, Field::PartitionKey, Field::TransactionPartitionKey]
        );
    }

    #[test]
    fn v_03_units_are_utf_16() {
        let mut properties = Properties::new();
        properties.set_message_id("語".repeat(128)).unwrap();
        properties.set_message_id("🦀".repeat(64)).unwrap();
        properties.set_message_id("🦀".repeat(65)).unwrap_err();
    }

    #[test]
    fn v_04_a_partition_key_that_differs_from_the_session_is_refused() {
        let mut properties = Properties::new();
        properties.set_session_id("a").unwrap();
        let error = properties.set_partition_key("b").unwrap_err();
        assert_eq!(error.problem(), &Problem::PartitionKeySessionIdMismatch);
        properties.set_partition_key("a").unwrap();
    }

    #[test]
    fn v_05_a_session_overwrites_the_partition_key() {
        let mut properties = Properties::new();
        properties.set_partition_key("b").unwrap();
        properties.set_session_id("a").unwrap();
        assert_eq!(properties.partition_key(), Some("a"));
    }

    #[test]
    fn v_07_time_to_live_is_positive() {
        let error = Properties::new().set_time_to_live(Duration::ZERO).unwrap_err();
        assert_eq!((error.field(), error.problem()), (&Field::TimeToLive, &Problem::NotPositive));
    }

    #[test]
    fn m_17_the_empty_session_is_a_session() {
        let mut properties = Properties::new();
        properties.set_session_id("").unwrap();
        assert_eq!(properties.session_id(), Some(""));
    }

    #[test]
    fn v_09_one_property_and_all_of_them_are_bounded() {
        let mut properties = Properties::new();
        properties.application_mut().insert("k", "x".repeat(32_766));
        properties.check().unwrap();
        properties.application_mut().insert("k", "x".repeat(32_767));
        assert_eq!(properties.check().unwrap_err().field(), &Field::ApplicationProperty("k".into()));
        properties.application_mut().insert("k", "x".repeat(32_000));
        properties.application_mut().insert("l", "x".repeat(32_000));
        properties.check().unwrap();
        properties.set_subject("x".repeat(2_000));
        assert_eq!(properties.check().unwrap_err().field(), &Field::Properties);
    }

    #[test]
    fn g_7_ten_thousand_properties_are_refused() {
        let mut properties = Properties::new();
        *properties.application_mut() = (0..10_000).map(|i| (i.to_string(), true)).collect();
        assert_eq!(properties.check().unwrap_err().problem(), &Problem::TooMany { limit: 1_024 });
    }

    #[test]
    fn v_11_an_unsupported_type_is_named_with_its_key() {
        let error = Properties::new().application_mut().try_insert("k", Value::List(vec![])).unwrap_err();
        assert_eq!(error.to_string(), "application property \"k\" has the type list, which a property cannot have");
    }

    #[test]
    fn u_10_a_symbol_becomes_text() {
        let mut properties = Properties::new();
        properties.application_mut().try_insert("k", Value::Symbol("s".into())).unwrap();
        assert_eq!(properties.application().get("k").and_then(PropertyValue::as_str), Some("s"));
    }

    #[test]
    fn m_25_pass_through_is_kept() {
        let mut properties = Properties::new();
        properties.pass_through_mut().priority = Some(4);
        assert_eq!(properties.clone().pass_through().and_then(|rest| rest.priority), Some(4));
    }
}
