use std::borrow::Cow;

/// The prefix of the application properties that hold the attributes of an event in binary mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Prefix {
    /// `cloudEvents_`, which the AMQP binding prefers: selectors of JMS do not allow `:`.
    #[default]
    Underscore,
    /// `cloudEvents:`, the only one of the AMQP binding 1.0.2 and earlier.
    Colon,
    /// `ce-`, as the RabbitMQ binding of Knative, the NATS binding and the HTTP binding have it. Every value is written as
    /// text.
    Ce,
    /// `ce_`, as the Kafka binding has it. Every value is written as text.
    Kafka,
}

impl Prefix {
    /// The prefix as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Underscore => "cloudEvents_",
            Self::Colon => "cloudEvents:",
            Self::Ce => "ce-",
            Self::Kafka => "ce_",
        }
    }

    /// Whether every value is written as text.
    pub(super) const fn is_text(self) -> bool {
        matches!(self, Self::Ce | Self::Kafka)
    }
}

/// The prefixes that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Underscore,
    Colon,
    Ce,
    Kafka,
}

impl Family {
    pub(super) const COUNT: usize = 4;

    /// The prefix of a property, and the name of the attribute. Headers of HTTP, NATS and Kafka have no case, and the names
    /// of AMQP have one.
    pub(super) fn split(property: &str) -> Option<(Self, Cow<'_, str>)> {
        if let Some(name) = property.strip_prefix(Prefix::Underscore.as_str()) {
            return Some((Self::Underscore, name.into()));
        }
        if let Some(name) = property.strip_prefix(Prefix::Colon.as_str()) {
            return Some((Self::Colon, name.into()));
        }
        let (prefix, name) = property.split_at_checked(3)?;
        let family = match prefix.as_bytes() {
            [b'c' | b'C', b'e' | b'E', b'-'] => Self::Ce,
            [b'c' | b'C', b'e' | b'E', b'_'] => Self::Kafka,
            _ => return None,
        };
        let has_upper = name.bytes().any(|byte| byte.is_ascii_uppercase());
        Some((family, if has_upper { name.to_ascii_lowercase().into() } else { name.into() }))
    }
}
