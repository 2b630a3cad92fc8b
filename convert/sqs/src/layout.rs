//! The attributes of a message: those of their own, and the one that holds the rest.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use aws_sdk_sqs::types::MessageAttributeValue;
use consign_core::{
    message::PropertyValue,
    transport::{ErrorKind, SendError},
    wire::{fields::PROPERTY, text},
};

use crate::{
    attribute,
    names::{self, MOST, PACKED},
};

/// The most bytes of a body and its attributes.
const MOST_BYTES: usize = 1 << 20;

/// One value to write.
enum Field<'a> {
    /// A text of this crate, by the name of its attribute.
    Text(Cow<'a, str>, Cow<'a, str>),
    /// An application property.
    Property(Cow<'a, str>, Cow<'a, PropertyValue>),
    /// An attribute of a message that is copied, and its property.
    Raw(&'a str, &'a MessageAttributeValue),
}

impl Field<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Text(name, _) | Self::Property(name, _) => name,
            Self::Raw(name, _) => name,
        }
    }

    /// The attribute, if there can be one.
    fn plain(&self) -> Option<MessageAttributeValue> {
        match self {
            Self::Text(_, value) => attribute::string(value),
            Self::Property(name, value) => names::is_plain(name).then(|| attribute::write(value))?,
            Self::Raw(_, raw) => Some((*raw).clone()),
        }
    }

    /// The entry in the attribute that holds the rest.
    fn packed(&self) -> (String, String) {
        let property = |name: &str, value: &PropertyValue| (format!("{PROPERTY}{name}"), text::write(value));
        match self {
            Self::Text(name, value) => (name.to_string(), value.to_string()),
            Self::Property(name, value) => property(name, value),
            Self::Raw(name, raw) => match names::meaning(name) {
                names::Meaning::Property => {
                    let as_text = |_| raw.string_value().unwrap_or_default().into();
                    property(name, &attribute::read(raw).unwrap_or_else(as_text))
                }
                _ => ((*name).to_owned(), raw.string_value().unwrap_or_default().to_owned()),
            },
        }
    }
}

/// Values in the order of their precedence: the first ones have attributes of their own.
#[derive(Default)]
pub(crate) struct Layout<'a> {
    fields: Vec<Field<'a>>,
    packed: BTreeMap<String, String>,
}

impl<'a> Layout<'a> {
    pub(crate) fn text(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
        self.fields.push(Field::Text(name.into(), value.into()));
    }

    pub(crate) fn property(&mut self, name: impl Into<Cow<'a, str>>, value: Cow<'a, PropertyValue>) {
        self.fields.push(Field::Property(name.into(), value));
    }

    pub(crate) fn raw(&mut self, name: &'a str, value: &'a MessageAttributeValue) {
        self.fields.push(Field::Raw(name, value));
    }

    pub(crate) fn packed(&mut self, name: String, value: String) {
        self.packed.insert(name, value);
    }

    /// Returns the attributes, which fit beside a body.
    ///
    /// # Errors
    ///
    /// `MessageSizeExceeded`.
    pub(crate) fn attributes(self, body: &str) -> Result<HashMap<String, MessageAttributeValue>, SendError> {
        let Self { fields, mut packed } = self;
        let mut plain: Vec<(&Field<'_>, MessageAttributeValue)> = Vec::with_capacity(fields.len().min(MOST));
        for field in &fields {
            match field.plain() {
                Some(attribute) => plain.push((field, attribute)),
                None => packed.extend([field.packed()]),
            }
        }
        if plain.len() > MOST || plain.len() == MOST && !packed.is_empty() {
            packed.extend(plain.drain(MOST - 1..).map(|(field, _)| field.packed()));
        }
        let mut all: HashMap<_, _> =
            plain.into_iter().map(|(field, attribute)| (field.name().to_owned(), attribute)).collect();
        if !packed.is_empty() {
            let json = serde_json::to_string(&packed).map(names::json);
            let attribute = json.ok().and_then(|json| attribute::string(&json));
            let unwritten = || SendError::new(ErrorKind::Serialization).with_detail("the properties are not JSON");
            all.insert(PACKED.to_owned(), attribute.ok_or_else(unwritten)?);
        }
        let bytes = body.len() + all.iter().map(|(name, attribute)| size(name, attribute)).sum::<usize>();
        if bytes > MOST_BYTES {
            let why = format!("the body and the attributes have {bytes} bytes, and SQS takes {MOST_BYTES}");
            return Err(SendError::new(ErrorKind::MessageSizeExceeded).with_detail(why));
        }
        Ok(all)
    }
}

fn size(name: &str, attribute: &MessageAttributeValue) -> usize {
    let value = attribute.string_value().map_or(0, str::len);
    name.len() + attribute.data_type().len() + value + attribute.binary_value().map_or(0, |blob| blob.as_ref().len())
}
