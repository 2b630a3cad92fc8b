use consign_core::message::{
    ApplicationProperties, Field, InvalidArgument, Message, Problem, Properties, PropertyValue, limits,
};

/// A property that a correlation filter can ask for, the most telling ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    MessageId,
    CorrelationId,
    SessionId,
    ReplyToSessionId,
    Subject,
    To,
    ReplyTo,
    ContentType,
}

impl Key {
    pub(super) const ALL: [Self; 8] = [
        Self::MessageId,
        Self::CorrelationId,
        Self::SessionId,
        Self::ReplyToSessionId,
        Self::Subject,
        Self::To,
        Self::ReplyTo,
        Self::ContentType,
    ];

    pub(super) fn of(self, properties: &Properties) -> Option<&str> {
        match self {
            Self::MessageId => properties.message_id(),
            Self::CorrelationId => properties.correlation_id(),
            Self::SessionId => properties.session_id(),
            Self::ReplyToSessionId => properties.reply_to_session_id(),
            Self::Subject => properties.subject(),
            Self::To => properties.to(),
            Self::ReplyTo => properties.reply_to(),
            Self::ContentType => properties.content_type(),
        }
    }
}

/// A filter that matches the messages with all of the given properties and values.
///
/// Texts and the keys of application properties are case-sensitive. Numbers are compared by their value, whatever their types: the
/// 32-bit integer 1 equals the 64-bit integer 1 and the floating-point number 1.0. Any other value equals one of its own type only.
#[derive(Clone, Debug, PartialEq)]
pub struct CorrelationFilter {
    /// By key, each at most once.
    texts: Vec<(Key, Box<str>)>,
    properties: ApplicationProperties,
}

/// Compares numbers by their value. The administration client for JavaScript writes each number of a filter as a double, and messages
/// of that SDK have integers.
fn is_equal(required: &PropertyValue, value: &PropertyValue) -> bool {
    required == value
        || match (Number::of(required), Number::of(value)) {
            (Some(Number::Whole(one)), Some(Number::Whole(other))) => one == other,
            #[expect(clippy::float_cmp, reason = "equal values are required")]
            (Some(Number::Real(one)), Some(Number::Real(other))) => one == other,
            (Some(Number::Whole(whole)), Some(Number::Real(real)))
            | (Some(Number::Real(real)), Some(Number::Whole(whole))) => is_whole(real, whole),
            _ => false,
        }
}

#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Real(f64),
}

impl Number {
    fn of(value: &PropertyValue) -> Option<Self> {
        Some(match *value {
            PropertyValue::U8(number) => Self::Whole(number.into()),
            PropertyValue::U16(number) => Self::Whole(number.into()),
            PropertyValue::U32(number) => Self::Whole(number.into()),
            PropertyValue::U64(number) => Self::Whole(number.into()),
            PropertyValue::I8(number) => Self::Whole(number.into()),
            PropertyValue::I16(number) => Self::Whole(number.into()),
            PropertyValue::I32(number) => Self::Whole(number.into()),
            PropertyValue::I64(number) => Self::Whole(number.into()),
            PropertyValue::F32(number) => Self::Real(number.into()),
            PropertyValue::F64(number) => Self::Real(number),
            _ => return None,
        })
    }
}

/// Whether both are one value: beyond 2^53 several integers become one floating-point number.
#[expect(clippy::cast_possible_truncation, reason = "an integer of 64 bits is in the range of 128 bits")]
fn is_whole(real: f64, whole: i128) -> bool {
    real.fract() == 0.0 && real.abs() < 1e30 && real as i128 == whole
}

impl CorrelationFilter {
    pub(super) fn size(&self) -> usize {
        self.texts.iter().map(|(_, text)| text.len()).sum::<usize>() + self.properties.size()
    }

    /// Starts a filter.
    pub fn builder() -> CorrelationFilterBuilder {
        CorrelationFilterBuilder { filter: Self { texts: Vec::new(), properties: ApplicationProperties::new() } }
    }

    /// Returns whether the filter matches the message.
    #[must_use]
    pub fn matches(&self, message: &Message) -> bool {
        self.texts.iter().all(|(key, text)| key.of(message.properties()) == Some(&**text))
            && self.properties.iter().all(|(key, required)| {
                message.application_properties().get(key).is_some_and(|value| is_equal(required, value))
            })
    }

    /// The property that tells most messages apart, for an index.
    pub(super) fn most_telling(&self) -> Option<(Key, &str)> {
        self.texts.first().map(|(key, text)| (*key, &**text))
    }

    /// Returns the required `ContentType`.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.get(Key::ContentType)
    }

    fn get(&self, key: Key) -> Option<&str> {
        self.texts.iter().find(|(found, _)| *found == key).map(|(_, text)| &**text)
    }

    /// Returns the required application properties.
    #[must_use]
    pub fn properties(&self) -> &ApplicationProperties {
        &self.properties
    }
}

/// Builds a [`CorrelationFilter`]. A property that is not set is not required.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct CorrelationFilterBuilder {
    filter: CorrelationFilter,
}

macro_rules! fields {
    ($($name:ident, $key:ident, $what:literal;)*) => {
        impl CorrelationFilter {$(
            #[doc = concat!("The ", $what, " that is asked for.")]
            #[must_use]
            pub fn $name(&self) -> Option<&str> {
                self.get(Key::$key)
            }
        )*}

        impl CorrelationFilterBuilder {$(
            #[doc = concat!("Asks for this ", $what, ".")]
            pub fn $name(self, value: impl Into<Box<str>>) -> Self {
                self.text(Key::$key, value.into())
            }
        )*}
    };
}

fields! {
    correlation_id, CorrelationId, "`CorrelationId`";
    subject, Subject, "subject";
    message_id, MessageId, "`MessageId`";
    reply_to, ReplyTo, "`ReplyTo`";
    reply_to_session_id, ReplyToSessionId, "`ReplyToSessionId`";
    session_id, SessionId, "`SessionId`";
    to, To, "`To`";
}

impl CorrelationFilterBuilder {
    /// Requires this `ContentType`: text or a [`Mime`](mime::Mime), compared as text.
    pub fn content_type(self, value: impl AsRef<str>) -> Self {
        self.text(Key::ContentType, value.as_ref().into())
    }

    /// Requires an application property with this value.
    pub fn property(mut self, key: impl Into<Box<str>>, value: impl Into<PropertyValue>) -> Self {
        self.filter.properties.insert(key, value);
        self
    }

    /// The filter. It requires one property at least, and at most 65,534 bytes, which no message can exceed.
    pub fn build(mut self) -> Result<CorrelationFilter, InvalidArgument> {
        let filter = &mut self.filter;
        let field = Field::Setting("correlation filter");
        if filter.texts.is_empty() && filter.properties.is_empty() {
            return Err(InvalidArgument::new(field, Problem::Empty));
        }
        let limit = limits::ALL_PROPERTIES_BYTES;
        if filter.texts.iter().map(|(_, text)| text.len()).sum::<usize>() + filter.properties.size() > limit {
            return Err(InvalidArgument::new(field, Problem::TooLong { limit }));
        }
        filter.texts.sort_unstable_by_key(|(key, _)| *key);
        Ok(self.filter)
    }

    fn text(mut self, key: Key, value: Box<str>) -> Self {
        self.filter.texts.retain(|(found, _)| *found != key);
        self.filter.texts.push((key, value));
        self
    }
}
