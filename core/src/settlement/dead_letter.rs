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
    /// then the trail; the reason stays, even where nothing is left, for a broker always admits it.
    pub fn fit(&mut self, present: &Properties) {
        if let DeadLetterReason::Application(code) = &mut self.reason {
            cut(code, limits::DEAD_LETTER_TEXT, limits::PROPERTY_BYTES - Self::REASON.len());
        }
        cut(&mut self.description, limits::DEAD_LETTER_TEXT, limits::PROPERTY_BYTES - Self::DESCRIPTION.len());

        let mut room = Room::beside(present);
        room.bytes = room.bytes.saturating_sub(Self::REASON.len() + self.reason.as_str().len());
        let mut changes = std::mem::take(&mut self.changes).into_properties();
        let mut kept = ApplicationProperties::new();
        if let Some(trail) = changes.remove(Self::TRAIL).filter(|trail| room.take(Self::TRAIL, trail.size())) {
            kept.insert(Self::TRAIL, trail);
        }
        let left = room.bytes.saturating_sub(Self::DESCRIPTION.len());
        if left < self.description.len() {
            cut(&mut self.description, limits::DEAD_LETTER_TEXT, left);
        }
        if !self.description.is_empty() && !room.take(Self::DESCRIPTION, self.description.len()) {
            self.description = Cow::Borrowed("");
        }
        for (name, value) in changes.iter() {
            if name.len() + value.size() <= limits::PROPERTY_BYTES && room.take(name, value.size()) {
                kept.insert(name, value.clone());
            }
        }
        self.changes = kept.into();
    }
}

/// A message that lacks the property stays shared.
fn remove(message: &mut Message, name: &str) {
    if message.application_properties().get(name).is_some() {
        message.properties_mut().application_properties_mut().remove(name);
    }
}

/// What is left for a dead letter beside the properties of its message.
struct Room<'p> {
    present: &'p ApplicationProperties,
    bytes: usize,
    places: usize,
}

impl<'p> Room<'p> {
    fn beside(properties: &'p Properties) -> Self {
        let present = properties.application_properties();
        Self {
            present,
            bytes: limits::ALL_PROPERTIES_BYTES.saturating_sub(properties.size()),
            places: limits::PROPERTIES.saturating_sub(present.len()),
        }
    }

    /// Reserves the space for one property. A name that is present needs no further place.
    fn take(&mut self, name: &str, size: usize) -> bool {
        let place = usize::from(self.present.get(name).is_none());
        let bytes = name.len() + size;
        let fits = bytes <= self.bytes && place <= self.places;
        if fits {
            self.bytes -= bytes;
            self.places -= place;
        }
        fits
    }
}

/// Cuts `text` to `units` UTF-16 code units and `bytes` bytes, on a character, with a mark where something is missing.
fn cut(text: &mut Cow<'static, str>, units: usize, bytes: usize) {
    const MARK: &str = "…";
    if text.len() <= bytes && !limits::is_longer_than(text, units) {
        return;
    }
    if bytes < MARK.len() {
        *text = Cow::Borrowed("");
        return;
    }
    let (mut unit, mut end) = (0, 0);
    for char in text.chars() {
        unit += char.len_utf16();
        if unit + 1 > units || end + char.len_utf8() + MARK.len() > bytes {
            break;
        }
        end += char.len_utf8();
    }
    *text = Cow::Owned(format!("{}{MARK}", &text[..end]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(mut dead_letter: DeadLetter, present: usize) -> DeadLetter {
        let mut properties = Properties::new();
        properties.set_subject("s".repeat(present));
        dead_letter.fit(&properties);
        dead_letter
    }

    fn size(dead_letter: &DeadLetter) -> usize {
        let description = dead_letter.description.len();
        DeadLetter::REASON.len()
            + dead_letter.reason.as_str().len()
            + if description == 0 { 0 } else { DeadLetter::DESCRIPTION.len() + description }
            + dead_letter.changes.properties().map_or(0, ApplicationProperties::size)
    }

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

    /// Rules: P-44.
    #[test]
    fn a_description_is_cut_on_a_character() {
        for text in ["x".repeat(1 << 20), "語".repeat(1 << 18), "🦀".repeat(1 << 18)] {
            let cut = fitted(DeadLetter::new(DeadLetterReason::HandlerPermanent, text), 0).description;
            let units = cut.encode_utf16().count();
            assert!(cut.ends_with('…') && (4_095..=4_096).contains(&units), "{units}");
        }
    }

    #[test]
    fn a_text_that_is_cut_has_a_mark_where_there_is_space_for_it() {
        for (text, units, bytes, expected) in [
            ("abcd", 4, 4, "abcd"),
            ("abcde", 4, 9, "abc…"),
            ("abcde", 9, 4, "a…"),
            ("abcde", 9, 3, "…"),
            ("abcde", 9, 2, ""),
            ("語語語", 9, 6, "語…"),
            ("語語語", 9, 5, "…"),
            ("🦀🦀🦀", 4, 99, "🦀…"),
        ] {
            let mut cut = Cow::Borrowed(text);
            super::cut(&mut cut, units, bytes);
            assert_eq!(cut, expected, "{text} to {units} units and {bytes} bytes");
        }
    }

    #[test]
    fn the_least_important_part_is_cut_first() {
        let full = || {
            let mut dead_letter = DeadLetter::new(DeadLetterReason::DeserializationFailed, "d".repeat(4_000));
            let changes: ApplicationProperties =
                [(DeadLetter::TRAIL, "t".repeat(100)), ("more", "m".repeat(1_000))].into_iter().collect();
            dead_letter.changes = changes.into();
            dead_letter
        };
        for present in [0, 60_000, 61_500, 62_000, 65_000, 65_400, 65_480] {
            let cut = fitted(full(), present);
            assert!(present + size(&cut) <= limits::ALL_PROPERTIES_BYTES, "{present}");
            let has = |key| cut.changes.properties().is_some_and(|properties| properties.get(key).is_some());
            assert_eq!(has("more"), present <= 60_000, "{present}");
            assert_eq!(has(DeadLetter::TRAIL), present <= 65_000, "{present}");
        }
        let left = limits::ALL_PROPERTIES_BYTES - size(&full());
        assert_eq!((fitted(full(), left), fitted(full(), left + 1) == full()), (full(), false));
    }

    #[test]
    fn there_is_a_reason_beside_the_most_properties() {
        for (present, kept) in [(1_022, (true, true)), (1_023, (true, false)), (1_024, (false, false))] {
            let mut properties = Properties::new();
            *properties.application_properties_mut() = (0..present).map(|i| (i.to_string(), true)).collect();
            let mut dead_letter = DeadLetter::new(DeadLetterReason::DeserializationFailed, "why");
            dead_letter.changes =
                [(DeadLetter::TRAIL, "json;exact;Syntax;1:1")].into_iter().collect::<ApplicationProperties>().into();
            dead_letter.fit(&properties);
            assert_eq!((!dead_letter.changes.is_empty(), !dead_letter.description.is_empty()), kept, "{present}");
        }
    }
}
