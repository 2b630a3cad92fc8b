mod fit;

use std::{borrow::Cow, fmt};

use super::Changes;
use crate::{
    Message,
    message::{ApplicationProperties, Properties, limits},
    transport::Escaped,
};

/// The reason, description and properties with which a message is dead-lettered. It travels in the application properties
/// `DeadLetterReason` and `DeadLetterErrorDescription`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The code. Nothing is written for an empty one.
    pub reason: DeadLetterReason,
    /// The description of the failure. At most 4,096 UTF-16 code units; [`DeadLetter::fit`] cuts it. Nothing is
    /// written for an empty one.
    pub description: Cow<'static, str>,
    /// Properties to replace or add.
    pub changes: Changes,
}

/// The code of a dead letter: the library's closed list, the broker's own, and the application's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadLetterReason {
    /// No codec could read the body.
    DeserializationFailed,
    /// No codec reads the declared ContentType, and no fallback is configured.
    UnsupportedContentType,
    /// The declared ContentType is not a media type.
    MalformedContentType,
    /// The declared ContentType is not on the consumer's list.
    ContentTypeNotAllowed,
    /// The declared charset is not supported.
    UnsupportedCharset,
    /// The declared content encoding is not supported.
    UnsupportedEncoding,
    /// The body is over a limit: size, depth, length or count.
    LimitExceeded,
    /// No handler takes messages of this type.
    UnknownMessageType,
    /// A property that the handler needs is missing.
    MissingProperty,
    /// A property that the handler needs has a value that it must not have.
    InvalidProperty,
    /// A request without an address for its reply.
    MissingReplyTo,
    /// A request whose reply must go to a session that it does not name.
    MissingReplyToSessionId,
    /// A request whose reply would go where replies may not go.
    ReplyAddressNotAllowed,
    /// A request whose reply the broker refuses for good.
    ReplyRejected,
    /// The handler reports a permanent failure.
    HandlerPermanent,
    /// The last of the configured attempts failed.
    RetriesExhausted,
    /// The signature, or the encryption that the consumer requires, is wrong or missing.
    SignatureInvalid,
    /// The body was stored elsewhere and is not there.
    ClaimMissing,
    /// The broker's: delivered as often as the entity allows.
    MaxDeliveryCountExceeded,
    /// The broker's: the message expired.
    TtlExpired,
    /// The broker's: the properties grew past their limit.
    HeaderSizeExceeded,
    /// The broker's: forwarded more often than it may be.
    MaxTransferHopCountExceeded,
    /// The broker's: the entity that the message was to be forwarded to is missing, disabled or full.
    ForwardTargetUnavailable,
    /// The broker's: a subscription that requires sessions and a message without one.
    SessionIdIsNull,
    /// The application's own code, at most 4,096 UTF-16 code units.
    Application(Cow<'static, str>),
}

impl DeadLetterReason {
    /// Returns the code, as in the property `DeadLetterReason`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Application(code) => code,
            known => known.code().unwrap_or_default(),
        }
    }

    /// Returns the same of a reason that is not the application's own: one of a closed list.
    #[must_use]
    pub fn code(&self) -> Option<&'static str> {
        Some(match self {
            Self::DeserializationFailed => "DeserializationFailed",
            Self::UnsupportedContentType => "UnsupportedContentType",
            Self::MalformedContentType => "MalformedContentType",
            Self::ContentTypeNotAllowed => "ContentTypeNotAllowed",
            Self::UnsupportedCharset => "UnsupportedCharset",
            Self::UnsupportedEncoding => "UnsupportedEncoding",
            Self::LimitExceeded => "LimitExceeded",
            Self::UnknownMessageType => "UnknownMessageType",
            Self::MissingProperty => "MissingProperty",
            Self::InvalidProperty => "InvalidProperty",
            Self::MissingReplyTo => "MissingReplyTo",
            Self::MissingReplyToSessionId => "MissingReplyToSessionId",
            Self::ReplyAddressNotAllowed => "ReplyAddressNotAllowed",
            Self::ReplyRejected => "ReplyRejected",
            Self::HandlerPermanent => "HandlerPermanent",
            Self::RetriesExhausted => "RetriesExhausted",
            Self::SignatureInvalid => "SignatureInvalid",
            Self::ClaimMissing => "ClaimMissing",
            Self::MaxDeliveryCountExceeded => "MaxDeliveryCountExceeded",
            Self::TtlExpired => "TTLExpiredException",
            Self::HeaderSizeExceeded => "HeaderSizeExceeded",
            Self::MaxTransferHopCountExceeded => "MaxTransferHopCountExceeded",
            Self::ForwardTargetUnavailable => "ForwardTargetUnavailable",
            Self::SessionIdIsNull => "Session ID is null.",
            Self::Application(_) => return None,
        })
    }
}

impl fmt::Display for DeadLetterReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl DeadLetter {
    /// The application property that holds the reason.
    pub const REASON: &'static str = Properties::DEAD_LETTER_REASON;
    /// The application property that holds the description.
    pub const DESCRIPTION: &'static str = Properties::DEAD_LETTER_DESCRIPTION;
    /// The application property that holds the attempts to decode the body.
    pub const TRAIL: &'static str = "x-decode-trail";

    /// A dead letter without further properties.
    #[must_use]
    pub fn new(reason: DeadLetterReason, description: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, description: description.into(), changes: Changes::NONE }
    }

    /// A message that has been delivered as often as its entity allows. `error` is why the last delivery failed.
    #[must_use]
    pub fn max_delivery_count_exceeded(deliveries: impl Into<u64>, error: Option<&str>) -> Self {
        let deliveries = deliveries.into();
        let mut description = format!("Message could not be consumed after {deliveries} delivery attempts.");
        if let Some(error) = error {
            description.push_str(" The last error: ");
            description.push_str(&Escaped(error).to_string());
        }
        Self::new(DeadLetterReason::MaxDeliveryCountExceeded, description)
    }

    /// A message that cannot be forwarded to the entity `target`, because of `cause`.
    #[must_use]
    pub fn forward_target_unavailable(target: &str, cause: impl fmt::Display) -> Self {
        let description = format!("The message could not be forwarded to {}: {cause}", Escaped(target));
        Self::new(DeadLetterReason::ForwardTargetUnavailable, description)
    }

    /// A message that was forwarded as often as it may be, and would be forwarded to the entity `target` next.
    #[must_use]
    pub fn max_transfer_hop_count_exceeded(hops: impl Into<u64>, target: &str) -> Self {
        let hops = hops.into();
        let description = format!(
            "The message was forwarded {hops} times, the maximum, and is not forwarded to {}.",
            Escaped(target)
        );
        Self::new(DeadLetterReason::MaxTransferHopCountExceeded, description)
    }

    /// A message whose properties exceed the limits, or would with what its settlement adds.
    #[must_use]
    pub fn header_size_exceeded() -> Self {
        let description = format!(
            "The properties of the message exceed the limits: {} properties, {} bytes for one and {} bytes for all.",
            limits::PROPERTIES,
            limits::PROPERTY_BYTES,
            limits::ALL_PROPERTIES_BYTES
        );
        Self::new(DeadLetterReason::HeaderSizeExceeded, description)
    }

    /// A message whose time to live is over.
    #[must_use]
    pub fn ttl_expired() -> Self {
        Self::new(DeadLetterReason::TtlExpired, "The message expired and was dead lettered.")
    }

    /// Writes the changes, the reason and the description into the properties of the message. A reason and a description that
    /// are there already are replaced, and removed if this dead letter has none.
    pub fn write_to(self, properties: &mut ApplicationProperties) {
        properties.merge(self.changes.into_properties());
        properties.remove(Self::REASON);
        if !self.reason.as_str().is_empty() {
            properties.insert(Self::REASON, self.reason.as_str());
        }
        properties.remove(Self::DESCRIPTION);
        if !self.description.is_empty() {
            properties.insert(Self::DESCRIPTION, self.description.into_owned());
        }
    }

    /// Removes the reason, the description and the decode trail from a message that is sent.
    pub fn remove_from(message: &mut Message) {
        Self::remove_reason(message);
        remove(message, Self::TRAIL);
    }

    /// Removes the reason and the description from a message that is not a dead letter: only dead-lettering sets them.
    pub fn remove_reason(message: &mut Message) {
        remove(message, Self::REASON);
        remove(message, Self::DESCRIPTION);
    }

    /// Truncates texts that are too long, so that a broker accepts the dead letter beside the properties that are
    /// `present`: the reason and the description to 4,096 UTF-16 code units, and to what is left of the 65,534 bytes
    /// and the 1,024 application properties. What matters least goes first: further properties, then the description,
    /// then the trail; the reason stays, even where nothing is left, for a broker always admits it. A reason and a
    /// description that are present take no space: they are replaced.
    pub fn fit(&mut self, present: &Properties) {
        fit::fit(self, present);
    }
}

/// A message that lacks the property stays shared.
fn remove(message: &mut Message, name: &str) {
    if message.application_properties().get(name).is_some() {
        message.properties_mut().application_properties_mut().remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_the_application_has_no_code_of_the_list() {
        for (reason, text, code) in [
            (DeadLetterReason::TtlExpired, "TTLExpiredException", Some("TTLExpiredException")),
            (DeadLetterReason::SessionIdIsNull, "Session ID is null.", Some("Session ID is null.")),
            (DeadLetterReason::HandlerPermanent, "HandlerPermanent", Some("HandlerPermanent")),
            (DeadLetterReason::Application("no-stock".into()), "no-stock", None),
        ] {
            assert_eq!((reason.as_str(), &*reason.to_string(), reason.code()), (text, text, code));
        }
    }

    #[test]
    fn what_dead_lettering_has_written_is_removed_for_another_send() {
        let names = [DeadLetter::REASON, DeadLetter::DESCRIPTION, DeadLetter::TRAIL, "kept"];
        let message = names.iter().fold(Message::builder(), |message, &name| message.property(name, "text"));
        let message = message.build("").unwrap();
        let left = |remove: fn(&mut Message)| {
            let mut message = message.clone();
            remove(&mut message);
            names.map(|name| message.application_properties().get(name).is_some())
        };
        assert_eq!(left(DeadLetter::remove_from), [false, false, false, true]);
        assert_eq!(left(DeadLetter::remove_reason), [false, false, true, true]);
    }

    #[test]
    fn what_is_not_forwarded_names_the_target() {
        let unavailable = DeadLetter::forward_target_unavailable("orders", "send: the disk is full");
        let expected = "The message could not be forwarded to orders: send: the disk is full";
        assert_eq!((unavailable.reason.as_str(), &*unavailable.description), ("ForwardTargetUnavailable", expected));
        let too_often = DeadLetter::max_transfer_hop_count_exceeded(4_u8, "orders");
        let expected = "The message was forwarded 4 times, the maximum, and is not forwarded to orders.";
        assert_eq!((too_often.reason.as_str(), &*too_often.description), ("MaxTransferHopCountExceeded", expected));
    }
}
