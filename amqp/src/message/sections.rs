use bytes::Bytes;

use super::{
    AmqpSequence, AmqpValue, ApplicationProperties, BodyKind, Data, DeliveryAnnotations, EncodedMessage, Footer,
    Header, MessageAnnotations, Properties,
};
use crate::{
    codec::{DecodeError, Encode, EncodeError, Encoder, encode_into},
    value::{Binary, List, Value},
};

/// The bytes before the content of a data section.
const DATA: usize = 8;
/// The bytes of a property of the application, about.
const PROPERTY: usize = 32;
/// The bytes of all sections but the body and the properties of the application, about.
const OTHERS: usize = 320;

/// A message whose sections are decoded. Encoding it writes the sections that it has, in the order of AMQP 1.0.
///
/// ```
/// use consign_amqp::{
///     codec,
///     message::{Body, EncodedMessage, Header, Sections},
/// };
///
/// let sections = Sections {
///     header: Some(Header { durable: true, ..Header::default() }),
///     body: Body::Data(vec![b"{}".to_vec().into()]),
///     ..Sections::default()
/// };
/// let encoded = EncodedMessage::split(codec::encode(&sections)?)?;
/// assert_eq!(Sections::decode(&encoded)?, sections);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sections {
    /// How the message is delivered.
    pub header: Option<Header>,
    /// Annotations for the next receiver only.
    pub delivery_annotations: Option<DeliveryAnnotations>,
    /// Annotations that stay with the message.
    pub message_annotations: Option<MessageAnnotations>,
    /// The properties.
    pub properties: Option<Properties>,
    /// Properties of the application.
    pub application_properties: Option<ApplicationProperties>,
    /// The body.
    pub body: Body,
    /// Annotations that are known only when the body has been written.
    pub footer: Option<Footer>,
}

/// The body of a message: sections of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// The bytes of each data section. An empty list is a message without a body.
    Data(Vec<Binary>),
    /// The list of each sequence section. An empty list is a message without a body.
    Sequence(Vec<List>),
    /// One value.
    Value(Value),
}

/// A message without a body.
impl Default for Body {
    fn default() -> Self {
        Self::Data(Vec::new())
    }
}

impl Sections {
    /// Decodes the sections of a message. Texts and bytes are slices of the message.
    ///
    /// # Errors
    /// A section is malformed or exceeds a limit. The offset of the error counts from the start of the message.
    pub fn decode(message: &EncodedMessage) -> Result<Self, DecodeError> {
        let body = match message.body_kind() {
            None => Body::default(),
            Some(BodyKind::Data) => {
                Body::Data(message.data().map(|data| data.map(|Data(bytes)| bytes)).collect::<Result<_, _>>()?)
            }
            Some(BodyKind::Sequence) => {
                let lists = message.sequences().map(|sequence| sequence.map(|AmqpSequence(list)| list));
                Body::Sequence(lists.collect::<Result<_, _>>()?)
            }
            Some(BodyKind::Value) => Body::Value(message.value()?.unwrap_or_default().0),
        };
        Ok(Self {
            header: message.header()?,
            delivery_annotations: message.delivery_annotations()?,
            message_annotations: message.message_annotations()?,
            properties: message.properties()?,
            application_properties: message.application_properties()?,
            body,
            footer: message.footer()?,
        })
    }

    /// Encodes the message into a buffer of about its size.
    ///
    /// # Errors
    /// As [`encode`](crate::codec::encode).
    pub fn to_bytes(&self) -> Result<Bytes, EncodeError> {
        let body = match &self.body {
            Body::Data(sections) => sections.iter().map(|section| section.len() + DATA).sum(),
            Body::Sequence(_) | Body::Value(_) => 0,
        };
        let properties = self.application_properties.as_ref().map_or(0, |properties| properties.0.len());
        let mut out = Vec::with_capacity(OTHERS + properties * PROPERTY + body);
        encode_into(self, &mut out)?;
        Ok(out.into())
    }
}

impl Encode for Sections {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        fn each<T: Encode>(section: Option<&T>, encoder: &mut Encoder<'_>) {
            if let Some(section) = section {
                section.encode(encoder);
            }
        }

        each(self.header.as_ref(), encoder);
        each(self.delivery_annotations.as_ref(), encoder);
        each(self.message_annotations.as_ref(), encoder);
        each(self.properties.as_ref(), encoder);
        each(self.application_properties.as_ref(), encoder);
        self.body.encode(encoder);
        each(self.footer.as_ref(), encoder);
    }
}

impl Encode for Body {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Data(sections) => {
                for bytes in sections {
                    encoder.descriptor(Data::DESCRIPTOR);
                    bytes.encode(encoder);
                }
            }
            Self::Sequence(sections) => {
                for list in sections {
                    encoder.descriptor(AmqpSequence::DESCRIPTOR);
                    list.encode(encoder);
                }
            }
            Self::Value(value) => {
                encoder.descriptor(AmqpValue::DESCRIPTOR);
                value.encode(encoder);
            }
        }
    }
}
