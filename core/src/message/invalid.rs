use std::{error, fmt};

/// A value that a message must not carry. It names the field and the rule, never the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidArgument {
    field: Field,
    problem: Problem,
}

/// The part of a message that an [`InvalidArgument`] speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Field {
    /// `MessageId`.
    MessageId,
    /// `CorrelationId`.
    CorrelationId,
    /// `SessionId`.
    SessionId,
    /// `ReplyTo`.
    ReplyTo,
    /// `ReplyToSessionId`.
    ReplyToSessionId,
    /// `PartitionKey`.
    PartitionKey,
    /// `TransactionPartitionKey`, on the wire `ViaPartitionKey`.
    TransactionPartitionKey,
    /// `TimeToLive`.
    TimeToLive,
    /// `DeadLetterReason`.
    DeadLetterReason,
    /// `DeadLetterErrorDescription`.
    DeadLetterErrorDescription,
    /// One application property, by its key, cut to 64 characters.
    ApplicationProperty(Box<str>),
    /// All properties together.
    Properties,
    /// The whole message.
    Message,
    /// An entity's path.
    EntityPath,
    /// An entity's name.
    EntityName,
    /// The name of a rule of a subscription.
    RuleName,
    /// A setting of an entity.
    Setting(&'static str),
}

/// The rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// It is empty.
    Empty,
    /// It is longer than `limit`: bytes for properties, the whole message and a correlation filter, else UTF-16 code units.
    TooLong {
        /// The largest length that is allowed.
        limit: usize,
    },
    /// It is zero or negative.
    NotPositive,
    /// It is outside of the range of the setting.
    OutOfRange {
        /// The range, such as `5 s to 5 min`.
        expected: &'static str,
    },
    /// `PartitionKey` differs from `SessionId`.
    PartitionKeySessionIdMismatch,
    /// A type that a property cannot have.
    UnsupportedType(&'static str),
    /// More than `limit` properties.
    TooMany {
        /// The largest number that is allowed.
        limit: usize,
    },
    /// A character that is not allowed there.
    ForbiddenCharacter(char),
    /// Its values are deeper inside each other than `limit`.
    TooDeep {
        /// How deep they may be.
        limit: usize,
    },
    /// It names the entity itself.
    IsItself,
    /// Another one has the same value.
    Repeated,
    /// It does not have the syntax of its kind.
    Malformed,
    /// It is not a whole number of milliseconds, zero or more.
    NotMilliseconds,
}

impl InvalidArgument {
    #[doc(hidden)]
    #[must_use]
    pub fn new(field: Field, problem: Problem) -> Self {
        Self { field, problem }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// Returns the rule that the value breaks.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl Field {
    /// The field for an application property's key, which is cut and freed of control characters.
    #[doc(hidden)]
    pub fn application_property(key: &str) -> Self {
        Self::ApplicationProperty(key.chars().take(64).flat_map(char::escape_debug).collect())
    }

    /// The unit of its length.
    fn unit(&self) -> &'static str {
        match self {
            Self::ApplicationProperty(_) | Self::Properties | Self::Message | Self::Setting("correlation filter") => {
                "bytes"
            }
            _ => "UTF-16 code units",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApplicationProperty(key) => write!(f, "application property \"{key}\""),
            Self::Properties => f.write_str("the properties"),
            Self::Message => f.write_str("the message"),
            Self::EntityPath => f.write_str("the entity's path"),
            Self::EntityName => f.write_str("the entity's name"),
            Self::RuleName => f.write_str("the rule's name"),
            Self::Setting(name) => f.write_str(name),
            plain => fmt::Debug::fmt(plain, f),
        }
    }
}

impl fmt::Display for InvalidArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = &self.field;
        match &self.problem {
            Problem::Empty => write!(f, "{field} must not be empty"),
            Problem::TooLong { limit } => {
                let is = if *field == Field::Properties { "are" } else { "is" };
                write!(f, "{field} {is} longer than {limit} {}", field.unit())
            }
            Problem::NotPositive => write!(f, "{field} must be greater than zero"),
            Problem::OutOfRange { expected } => write!(f, "{field} must be {expected}"),
            Problem::PartitionKeySessionIdMismatch => {
                f.write_str("PartitionKey must equal SessionId when both are set")
            }
            Problem::UnsupportedType(name) => write!(f, "{field} has the type {name}, which is not allowed"),
            Problem::TooMany { limit } => write!(f, "{field} are more than {limit}"),
            Problem::TooDeep { limit } => write!(f, "{field} has values more than {limit} deep"),
            Problem::NotMilliseconds => write!(f, "{field} must be a whole number of milliseconds"),
            Problem::Repeated => write!(f, "{field} occurs twice"),
            Problem::IsItself => write!(f, "{field} must not name the entity itself"),
            Problem::Malformed => write!(f, "{field} is malformed"),
            Problem::ForbiddenCharacter(found) => write!(f, "{field} must not contain {found:?}"),
        }
    }
}

impl error::Error for InvalidArgument {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_has_its_unit() {
        let text = |field| InvalidArgument::new(field, Problem::TooLong { limit: 50 }).to_string();
        for (field, expected) in [
            (Field::MessageId, "MessageId is longer than 50 UTF-16 code units"),
            (Field::DeadLetterReason, "DeadLetterReason is longer than 50 UTF-16 code units"),
            (Field::EntityPath, "the entity's path is longer than 50 UTF-16 code units"),
            (Field::RuleName, "the rule's name is longer than 50 UTF-16 code units"),
            (Field::application_property("k"), "application property \"k\" is longer than 50 bytes"),
            (Field::Properties, "the properties are longer than 50 bytes"),
            (Field::Setting("correlation filter"), "correlation filter is longer than 50 bytes"),
        ] {
            assert_eq!(text(field), expected);
        }
    }
}
