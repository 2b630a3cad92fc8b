use std::ops::Range;

use bytes::Bytes;

use super::{
    AmqpSequence, AmqpValue, ApplicationProperties, Data, DeliveryAnnotations, Footer, Header, MessageAnnotations,
    Properties,
};
use crate::{
    codec::{Decode, DecodeError, DecodeErrorKind, Decoder, Limits, codes},
    types::composite::Composite,
};

/// A section of a message, in the order of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// [`Header`].
    Header,
    /// [`DeliveryAnnotations`].
    DeliveryAnnotations,
    /// [`MessageAnnotations`].
    MessageAnnotations,
    /// [`Properties`].
    Properties,
    /// [`ApplicationProperties`].
    ApplicationProperties,
    /// The body: all of its sections.
    Body,
    /// [`Footer`].
    Footer,
}

const SECTIONS: usize = 7;

impl Section {
    /// Returns the name that AMQP 1.0 has for the section; `body` for all kinds of bodies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::DeliveryAnnotations => "delivery-annotations",
            Self::MessageAnnotations => "message-annotations",
            Self::Properties => "properties",
            Self::ApplicationProperties => "application-properties",
            Self::Body => "body",
            Self::Footer => "footer",
        }
    }
}

/// What the sections of a body are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyKind {
    /// One or more [`Data`] sections.
    Data,
    /// One or more [`AmqpSequence`] sections.
    Sequence,
    /// One [`AmqpValue`] section.
    Value,
}

/// An encoded message that is split into its sections. No section is decoded until it is requested, and nothing is copied.
///
/// ```
/// use consign_amqp::{
///     codec::Encoder,
///     message::{BodyKind, Data, EncodedMessage, Header, Properties},
/// };
///
/// let mut bytes = Vec::new();
/// let mut encoder = Encoder::new(&mut bytes);
/// encoder.encode(&Header { durable: true, ..Header::default() });
/// encoder.encode(&Properties { subject: Some("order".into()), ..Properties::default() });
/// encoder.encode(&Data(b"{}".to_vec().into()));
/// encoder.finish()?;
///
/// let message = EncodedMessage::split(bytes.into())?;
/// assert!(message.header()?.is_some_and(|header| header.durable));
/// assert_eq!(message.properties()?.and_then(|properties| properties.subject), Some("order".into()));
/// assert_eq!(message.body_kind(), Some(BodyKind::Data));
/// for data in message.data() {
///     assert_eq!(data?.0.as_ref(), b"{}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedMessage {
    bytes: Bytes,
    /// Where each section begins and ends; nothing for one that the message lacks. The body is one range.
    ranges: [(usize, usize); SECTIONS],
    body: Option<BodyKind>,
    limits: Limits,
    /// Delivery annotations behind the other sections.
    at_the_end: Bytes,
}

impl EncodedMessage {
    /// Splits a message, with the default [`Limits`] for the sections that are decoded later.
    ///
    /// # Errors
    /// A section is unknown, repeated, truncated or not in the order of AMQP 1.0, or sections of different kinds make up the body.
    /// A footer before the body is accepted: rhea writes it there. Delivery annotations at the end of the message are
    /// apart, in [`delivery_annotations_at_the_end`](Self::delivery_annotations_at_the_end): azure-servicebus writes its own there, and
    /// those of a message that it has received before.
    pub fn split(bytes: Bytes) -> Result<Self, DecodeError> {
        Self::split_with(bytes, Limits::DEFAULT)
    }

    /// Splits a message, with limits for the sections that are decoded later.
    ///
    /// # Errors
    /// As [`EncodedMessage::split`].
    pub fn split_with(mut bytes: Bytes, limits: Limits) -> Result<Self, DecodeError> {
        let mut end = bytes.len();
        let mut decoder = Decoder::with_limits(&bytes, limits);
        let mut ranges = [(0, 0); SECTIONS];
        let mut body = None;
        let mut before = None;
        let mut at_the_end = Bytes::new();
        while !decoder.is_empty() {
            let start = decoder.offset();
            let (section, kind) = section(&mut decoder)?;
            if section == Section::DeliveryAnnotations && body.is_some() && end == bytes.len() {
                decoder.skip()?;
                at_the_end = bytes.slice(start..decoder.offset());
                end = start;
                continue;
            }
            if end < start {
                return Err(DecodeError::new(DecodeErrorKind::Order, start));
            }
            let range = &mut ranges[section as usize];
            let is_new = range.1 == 0;
            if !may_follow(before, section, body, kind) || !is_new && section != Section::Body {
                return Err(DecodeError::new(DecodeErrorKind::Order, start));
            }
            decoder.skip()?;
            if is_new {
                range.0 = start;
            }
            range.1 = decoder.offset();
            body = body.or(kind);
            before = Some(section);
        }
        bytes.truncate(end);
        Ok(Self { bytes, ranges, body, limits, at_the_end })
    }

    /// Returns the encoded message, without delivery annotations at its end.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    fn range(&self, section: Section) -> Range<usize> {
        let (start, end) = self.ranges[section as usize];
        start..end
    }

    /// Returns a section with its descriptor, as it was encoded; empty if the message has none. The body is all of its sections.
    #[must_use]
    pub fn encoded(&self, section: Section) -> Bytes {
        self.bytes.slice(self.range(section))
    }

    /// Returns the message from a section on, as it was encoded.
    ///
    /// From [`Section::Properties`] on it is what an intermediary passes on unchanged: a header and annotations that are encoded
    /// anew may stand before it.
    #[must_use]
    pub fn from_section(&self, section: Section) -> Bytes {
        let present = self.ranges[section as usize..].iter().filter(|(start, end)| start < end);
        let start = present.map(|(start, _)| *start).min();
        self.bytes.slice(start.unwrap_or(self.bytes.len())..)
    }

    /// Returns what the sections of the body are; none for a message without a body.
    #[must_use]
    pub const fn body_kind(&self) -> Option<BodyKind> {
        self.body
    }

    /// Decodes the header.
    ///
    /// # Errors
    /// The section is malformed or exceeds a limit. The offset of the error counts from the start of the message.
    pub fn header(&self) -> Result<Option<Header>, DecodeError> {
        self.decode(Section::Header)
    }

    /// Decodes the delivery annotations at the end of the message.
    ///
    /// # Errors
    /// The section is malformed or exceeds a limit.
    pub fn delivery_annotations_at_the_end(&self) -> Result<Option<DeliveryAnnotations>, DecodeError> {
        let is_there = !self.at_the_end.is_empty();
        is_there.then(|| Decoder::with_limits(&self.at_the_end, self.limits).decode()).transpose()
    }

    /// Decodes the delivery annotations.
    ///
    /// # Errors
    /// As [`EncodedMessage::header`].
    pub fn delivery_annotations(&self) -> Result<Option<DeliveryAnnotations>, DecodeError> {
        self.decode(Section::DeliveryAnnotations)
    }

    /// Decodes the message annotations.
    ///
    /// # Errors
    /// As [`EncodedMessage::header`].
    pub fn message_annotations(&self) -> Result<Option<MessageAnnotations>, DecodeError> {
        self.decode(Section::MessageAnnotations)
    }

    /// Decodes the properties.
    ///
    /// # Errors
    /// As [`EncodedMessage::header`].
    pub fn properties(&self) -> Result<Option<Properties>, DecodeError> {
        self.decode(Section::Properties)
    }

    /// Decodes the application properties.
    ///
    /// # Errors
    /// As [`EncodedMessage::header`].
    pub fn application_properties(&self) -> Result<Option<ApplicationProperties>, DecodeError> {
        self.decode(Section::ApplicationProperties)
    }

    /// Decodes the footer.
    ///
    /// # Errors
    /// As [`EncodedMessage::header`].
    pub fn footer(&self) -> Result<Option<Footer>, DecodeError> {
        self.decode(Section::Footer)
    }

    fn decode<T: Decode>(&self, section: Section) -> Result<Option<T>, DecodeError> {
        let range = self.range(section);
        if range.is_empty() {
            return Ok(None);
        }
        self.decoder(range).decode().map(Some)
    }

    fn decoder(&self, range: Range<usize>) -> Decoder<'_> {
        Decoder::within(&self.bytes, range, self.limits)
    }

    /// Returns the data sections of the body, each a slice of the message; none if the body is of another kind.
    #[must_use]
    pub fn data(&self) -> BodySections<'_, Data> {
        self.sections(BodyKind::Data)
    }

    /// Decodes the sequence sections of the body one by one; none if the body is of another kind.
    #[must_use]
    pub fn sequences(&self) -> BodySections<'_, AmqpSequence> {
        self.sections(BodyKind::Sequence)
    }

    /// Decodes the value of the body; none if the body is of another kind.
    ///
    /// # Errors
    /// As [`EncodedMessage::header`].
    pub fn value(&self) -> Result<Option<AmqpValue>, DecodeError> {
        if self.body == Some(BodyKind::Value) { self.decode(Section::Body) } else { Ok(None) }
    }

    fn sections<T>(&self, kind: BodyKind) -> BodySections<'_, T> {
        let range = if self.body == Some(kind) { self.range(Section::Body) } else { 0..0 };
        BodySections { decoder: self.decoder(range), section: std::marker::PhantomData }
    }
}

/// The sections of a body. It ends at the first error.
#[derive(Debug)]
pub struct BodySections<'m, T> {
    decoder: Decoder<'m>,
    section: std::marker::PhantomData<fn() -> T>,
}

impl<T: Decode> Iterator for BodySections<'_, T> {
    type Item = Result<T, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.decoder.is_empty() {
            return None;
        }
        let section = self.decoder.decode();
        if section.is_err() {
            self.decoder.take_rest();
        }
        Some(section)
    }
}

/// Whether a section may stand behind another, apart from one that occurred before. Data and sequences repeat.
///
/// The footer may stand before the body too, where rhea writes it.
fn may_follow(before: Option<Section>, section: Section, body: Option<BodyKind>, kind: Option<BodyKind>) -> bool {
    let Some(before) = before else { return true };
    match (before, section) {
        (Section::Body, Section::Body) => body == kind && kind != Some(BodyKind::Value),
        (Section::Footer, Section::Body) => body.is_none(),
        _ => before < section,
    }
}

/// The section whose descriptor is read next, and the kind of a body.
fn section(decoder: &mut Decoder<'_>) -> Result<(Section, Option<BodyKind>), DecodeError> {
    const SECTION: &str = "message section";
    let start = decoder.offset();
    let code = decoder.format_code()?;
    if code != codes::DESCRIBED {
        return Err(decoder.mismatch(SECTION, code));
    }
    let descriptor = decoder.descriptor()?.and_then(|code| u8::try_from(code).ok());
    Ok(match descriptor {
        Some(Header::CODE) => (Section::Header, None),
        Some(DeliveryAnnotations::CODE) => (Section::DeliveryAnnotations, None),
        Some(MessageAnnotations::CODE) => (Section::MessageAnnotations, None),
        Some(Properties::CODE) => (Section::Properties, None),
        Some(ApplicationProperties::CODE) => (Section::ApplicationProperties, None),
        Some(Data::CODE) => (Section::Body, Some(BodyKind::Data)),
        Some(AmqpSequence::CODE) => (Section::Body, Some(BodyKind::Sequence)),
        Some(AmqpValue::CODE) => (Section::Body, Some(BodyKind::Value)),
        Some(Footer::CODE) => (Section::Footer, None),
        _ => return Err(DecodeError::new(DecodeErrorKind::Descriptor, start + 1).expected(SECTION)),
    })
}
