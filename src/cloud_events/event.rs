use std::{collections::BTreeMap, fmt};

use bytes::Bytes;
use consign_codecs::{CodecSet, Codecs, Decode, Encode, EncodeError};

use super::{
    Attribute, CloudEventError, Prefix,
    attribute::{check_read_name, check_written_name, is_instant},
    binary, structured,
};
use crate::{
    Message,
    routing::{Context, FromMessage},
    settlement::Undecodable,
};

/// The mode in which an event is encoded in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The data is the body, and the attributes are application properties: `cloudEvents_` and the name.
    Binary,
    /// Binary mode with another prefix.
    BinaryWith(Prefix),
    /// Structured mode: the body is the whole event, as JSON.
    Structured,
}

/// One event: its attributes and its data. Each attribute follows the rules of the specification, but for the names of
/// extensions of an event that was received.
#[derive(Clone, PartialEq, Eq)]
pub struct CloudEvent {
    attributes: BTreeMap<Box<str>, Attribute>,
    data: Option<Bytes>,
}

const REQUIRED: [&str; 3] = ["id", "source", "type"];

impl CloudEvent {
    /// Creates an event with the required attributes: an id that is unique at its source, the source (a URI reference),
    /// and the type.
    pub fn new(
        id: impl Into<String>,
        source: impl Into<String>,
        event_type: impl Into<String>,
    ) -> Result<Self, CloudEventError> {
        let mut event = Self { attributes: BTreeMap::new(), data: None };
        for (name, value) in REQUIRED.into_iter().zip([id.into(), source.into(), event_type.into()]) {
            event.set(name.into(), value.into())?;
        }
        Ok(event)
    }

    /// From what a message says, `specversion` included.
    pub(super) fn from_parts(
        attributes: Vec<(Box<str>, Attribute)>,
        data: Option<Bytes>,
    ) -> Result<Self, CloudEventError> {
        let mut event = Self { attributes: BTreeMap::new(), data };
        let mut version = None;
        for (name, mut value) in attributes {
            let before = if &*name == "specversion" { version.as_ref() } else { event.attributes.get(&name) };
            // Under another prefix it may be text, and is the same.
            if before.is_some_and(|before| before != &value && before.to_string() != value.to_string()) {
                return Err(CloudEventError::twice(&name));
            }
            if &*name == "specversion" {
                version = Some(value);
                continue;
            }
            check_read_name(&name)?;
            if &*name == "time" {
                with_t(&mut value);
            }
            event.set(name, value)?;
        }
        if version.as_ref().and_then(Attribute::as_str) != Some("1.0") {
            return Err(CloudEventError::Version);
        }
        match REQUIRED.into_iter().find(|name| event.text(name).is_none()) {
            Some(missing) => Err(CloudEventError::Missing(missing)),
            None => Ok(event),
        }
    }

    /// Sets an attribute whose name was checked.
    fn set(&mut self, name: Box<str>, value: Attribute) -> Result<(), CloudEventError> {
        let is_core = ["subject", "time", "dataschema", "datacontenttype"].contains(&&*name);
        if let Some(required) = REQUIRED.into_iter().find(|required| **required == *name) {
            match &value {
                Attribute::String(text) if text.is_empty() => return Err(CloudEventError::Missing(required)),
                Attribute::String(_) => {}
                _ => return Err(CloudEventError::invalid(&name)),
            }
        }
        if is_core && value.as_str().is_none_or(|text| text.is_empty() || &*name == "time" && !is_instant(text)) {
            return Err(CloudEventError::invalid(&name));
        }
        if value.as_str().is_some_and(|text| text.contains(char::is_control)) {
            return Err(CloudEventError::invalid(&name));
        }
        self.attributes.insert(name, value);
        Ok(())
    }

    /// Sets `subject`: what at the source it is about.
    pub fn with_subject(self, subject: impl Into<String>) -> Result<Self, CloudEventError> {
        self.with_extension("subject", subject.into())
    }

    /// Sets `time`: when it happened, as text of RFC 3339.
    pub fn with_time(self, time: impl Into<String>) -> Result<Self, CloudEventError> {
        self.with_extension("time", time.into())
    }

    /// Sets `dataschema`: the URI of the schema of the data.
    pub fn with_data_schema(self, schema: impl Into<String>) -> Result<Self, CloudEventError> {
        self.with_extension("dataschema", schema.into())
    }

    /// Sets an attribute by its name: 1 to 128 of `a` to `z` and `0` to `9`, and by the specification's advice 20 at most.
    /// `specversion` is set when the event is written.
    pub fn with_extension(mut self, name: &str, value: impl Into<Attribute>) -> Result<Self, CloudEventError> {
        if name == "specversion" {
            return Err(CloudEventError::written_name(name));
        }
        check_written_name(name)?;
        self.set(name.into(), value.into())?;
        Ok(self)
    }

    /// Sets the data, and `datacontenttype`: text or a [`Mime`](crate::mime::Mime).
    pub fn with_data(self, content_type: impl AsRef<str>, data: impl Into<Bytes>) -> Result<Self, CloudEventError> {
        let mut event = self.with_extension("datacontenttype", content_type.as_ref().to_owned())?;
        event.data = Some(data.into());
        Ok(event)
    }

    /// Sets the data to a value in the first format of `codecs`, and `datacontenttype` to that format.
    pub fn with_value<T: Encode, C: CodecSet>(mut self, codecs: &Codecs<C>, value: &T) -> Result<Self, EncodeError> {
        let encoded = codecs.encode(value)?;
        self.attributes.insert("datacontenttype".into(), encoded.content_type.into());
        self.data = Some(encoded.body);
        Ok(self)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).and_then(Attribute::as_str)
    }

    /// An attribute that every event was made or read with.
    fn required(&self, name: &str) -> &str {
        self.text(name).unwrap_or_default()
    }

    /// Returns the `id`: source and id together are unique.
    #[must_use]
    pub fn id(&self) -> &str {
        self.required("id")
    }

    /// Returns the `source`: where it happened.
    #[must_use]
    pub fn source(&self) -> &str {
        self.required("source")
    }

    /// Returns the `type`: what happened.
    #[must_use]
    pub fn event_type(&self) -> &str {
        self.required("type")
    }

    /// Returns the `subject`: what at the source the event is about.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.text("subject")
    }

    /// Returns the `time` when it happened, as text of RFC 3339.
    #[must_use]
    pub fn time(&self) -> Option<&str> {
        self.text("time")
    }

    /// Returns the format of the data. Without one, data in structured mode is JSON.
    #[must_use]
    pub fn data_content_type(&self) -> Option<&str> {
        self.text("datacontenttype")
    }

    /// Returns the schema of the data.
    #[must_use]
    pub fn data_schema(&self) -> Option<&str> {
        self.text("dataschema")
    }

    /// Returns any attribute but `specversion`, by its name.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.get(name)
    }

    /// All attributes but `specversion`, by name.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &Attribute)> {
        self.attributes.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns the data.
    #[must_use]
    pub fn data(&self) -> Option<&[u8]> {
        self.data.as_deref()
    }

    pub(super) fn data_bytes(&self) -> Option<&Bytes> {
        self.data.as_ref()
    }

    /// Reads the data as a `T`, by `datacontenttype` and the rules of `codecs`. No data is an empty body.
    pub fn decode<'e, T: Decode<'e>, C: CodecSet>(&'e self, codecs: &Codecs<C>) -> Result<T, Undecodable> {
        codecs.decode(self.data_content_type(), self.data().unwrap_or_default()).map_err(Undecodable::codecs)
    }

    /// Reads an event in the JSON event format, wherever it comes from. A byte order mark is skipped.
    ///
    /// ```
    /// use consign::cloud_events::CloudEvent;
    ///
    /// let event = CloudEvent::from_json(br#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data":7}"#)?;
    /// assert_eq!((event.id(), event.data()), ("1", Some(&b"7"[..])));
    /// # Ok::<(), consign::cloud_events::CloudEventError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The text is not a JSON object, or breaks a rule of the [module](super).
    pub fn from_json(json: &[u8]) -> Result<Self, CloudEventError> {
        structured::read_json(structured::without_mark(json))
    }

    /// Reads the event of a message, in either mode and with any of the prefixes of binary mode. A message that declares neither
    /// mode is read in structured mode if its body is a JSON object with the member `specversion`. Its ContentType has to be
    /// missing, `application/json`, `text/plain` or `application/octet-stream`.
    ///
    /// # Errors
    ///
    /// The message is not an event, is a batch, or breaks a rule of the [module](super).
    pub fn from_message(message: &Message) -> Result<Self, CloudEventError> {
        match message.content_type().map(structured::kind) {
            Some(Some(structured::Kind::Event)) => structured::read(message),
            Some(Some(structured::Kind::Batch)) => Err(CloudEventError::Batch),
            Some(Some(structured::Kind::Other)) => {
                Err(CloudEventError::format(message.content_type().unwrap_or_default()))
            }
            _ => binary::read(message),
        }
    }

    /// Returns a message with the event. It has no MessageId and no Subject yet, which are the broker's terms.
    ///
    /// # Errors
    ///
    /// [`CloudEventError::WrittenName`] for an extension of a received event whose name the specification does not allow;
    /// [`CloudEventError::Message`] for more than a message may have.
    pub fn to_message(&self, mode: Mode) -> Result<Message, CloudEventError> {
        self.check_names()?;
        match mode {
            Mode::Binary => binary::write(self, Prefix::default()),
            Mode::BinaryWith(prefix) => binary::write(self, prefix),
            Mode::Structured => structured::write(self),
        }
    }

    pub(super) fn check_names(&self) -> Result<(), CloudEventError> {
        // With `specversion` and the data.
        structured::check_members(self.attributes.len() + 2)?;
        self.attributes.keys().try_for_each(|name| check_written_name(name))
    }
}

/// RFC 3339 allows a space between date and time, which some producers write.
fn with_t(time: &mut Attribute) {
    let Attribute::String(text) = time else { return };
    if text.as_bytes().get(10) == Some(&b' ') {
        *text = text.replacen(' ', "T", 1).into();
    }
}

/// Shows the names of the attributes, and no values.
impl fmt::Debug for CloudEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudEvent")
            .field("attributes", &self.attributes.keys())
            .field("data", &self.data.as_ref().map(Bytes::len))
            .finish()
    }
}

/// Reads as [`CloudEvent::from_message`]. Any other message is dead-lettered.
impl<S, C> FromMessage<S, C> for CloudEvent {
    type Rejection = CloudEventError;

    fn from_message(message: &Message, _: &Context<S, C>) -> Result<Self, CloudEventError> {
        Self::from_message(message)
    }
}
