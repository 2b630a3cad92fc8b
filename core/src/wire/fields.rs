//! A message's properties as texts with names: the `Sb-` headers of conversions for clients whose headers are texts.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::{
    digits::{from_hex, upper_hex},
    json::{As, Text},
    text,
};
use crate::{
    message::{PassThrough, Properties, Value},
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
};

/// The beginning of the names.
pub const PREFIX: &str = "Sb-";
/// The beginning of the name of an application property.
pub const PROPERTY: &str = "Sb-P-";
/// The fields of [`PassThrough`] as JSON.
pub const PASS_THROUGH: &str = "Sb-Pass-Through";
/// Whether a transport has generated the `MessageId`.
pub const MESSAGE_ID_STAMPED: &str = "Sb-Message-Id-Stamped";

/// Returns the texts of a message, without application properties and the fields of [`PassThrough`].
pub fn texts(of: &Properties) -> impl Iterator<Item = (&'static str, &str)> {
    let all = [
        ("Sb-Content-Type", of.content_type()),
        ("Sb-Subject", of.subject()),
        ("Sb-Message-Id", of.message_id()),
        (MESSAGE_ID_STAMPED, of.is_message_id_stamped().then_some("1")),
        ("Sb-Correlation-Id", of.correlation_id()),
        ("Sb-Reply-To", of.reply_to()),
        ("Sb-Session-Id", of.session_id()),
        ("Sb-Reply-To-Session-Id", of.reply_to_session_id()),
        ("Sb-Partition-Key", of.partition_key()),
        ("Sb-Transaction-Partition-Key", of.transaction_partition_key()),
        ("Sb-To", of.to()),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// Sets the property of one text. An unknown name sets nothing.
///
/// # Errors
///
/// What was expected.
pub fn set(to: &mut Properties, name: &str, value: &str) -> Result<(), &'static str> {
    const ID: &str = "a text of at most 128 characters";
    const KEY: &str = "a text of at most 128 characters, which is the SessionId if there is one";
    let owned = || value.to_owned();
    match name {
        "Sb-Content-Type" => drop(to.set_content_type(owned())),
        "Sb-Correlation-Id" => drop(to.set_correlation_id(owned())),
        "Sb-Message-Id" => drop(to.set_message_id(owned()).map_err(|_| "a text of 1 to 128 characters")?),
        "Sb-Subject" => drop(to.set_subject(owned())),
        "Sb-Reply-To" => drop(to.set_reply_to(owned())),
        "Sb-Session-Id" => drop(to.set_session_id(owned()).map_err(|_| ID)?),
        "Sb-Reply-To-Session-Id" => drop(to.set_reply_to_session_id(owned()).map_err(|_| ID)?),
        "Sb-Partition-Key" => drop(to.set_partition_key(owned()).map_err(|_| KEY)?),
        "Sb-Transaction-Partition-Key" => drop(to.set_transaction_partition_key(owned()).map_err(|_| ID)?),
        "Sb-To" => drop(to.set_to(owned())),
        _ => {}
    }
    Ok(())
}

/// Sets an application property of its typed text.
///
/// # Errors
///
/// What was expected.
pub fn set_property(to: &mut Properties, key: impl Into<Box<str>>, value: &str) -> Result<(), &'static str> {
    let value = text::read(value).map_err(|_| "TYPE:VALUE, a type and a value of it")?;
    to.application_properties_mut().insert(key, value);
    Ok(())
}

/// Marks the `MessageId` as one that a transport has generated.
pub fn stamp(to: &mut Properties) {
    if let Some(id) = to.message_id().map(str::to_owned) {
        // It was taken a moment ago.
        let _ = to.stamp_message_id(id);
    }
}

/// Returns the dead letter of a header that cannot be read.
#[must_use]
pub fn unreadable(name: &str, expected: &str) -> DeadLetter {
    let reason = DeadLetterReason::Application("MalformedHeader".into());
    DeadLetter::new(reason, format!("the header {name:.256} cannot be read: expected {expected}"))
}

/// The fields of [`PassThrough`] in JSON.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Rest<'a> {
    user_id: Option<String>,
    content_encoding: Option<Cow<'a, str>>,
    group_sequence: Option<u32>,
    creation_time: Option<i64>,
    durable: Option<bool>,
    priority: Option<u8>,
    first_acquirer: Option<bool>,
    force_persistence: bool,
    annotations: Vec<Pair<'a>>,
    footer: Vec<Pair<'a>>,
}

type Pair<'a> = (Cow<'a, str>, As<Text, Cow<'a, Value>>);

impl<'a> Rest<'a> {
    /// Takes the fields to be serialized.
    #[must_use]
    pub fn new(rest: &'a PassThrough) -> Self {
        let pairs = |pairs: &'a [(Cow<'static, str>, Value)]| {
            pairs.iter().map(|(key, value)| (Cow::Borrowed(&**key), As::new(Cow::Borrowed(value)))).collect()
        };
        Self {
            user_id: rest.user_id.as_ref().map(|id| upper_hex(id)),
            content_encoding: rest.content_encoding.as_deref().map(Cow::Borrowed),
            group_sequence: rest.group_sequence,
            creation_time: rest.creation_time.map(Timestamp::as_millis),
            durable: rest.durable,
            priority: rest.priority,
            first_acquirer: rest.first_acquirer,
            force_persistence: rest.force_persistence,
            annotations: pairs(&rest.annotations),
            footer: pairs(&rest.footer),
        }
    }

    /// Reads the fields.
    ///
    /// # Errors
    ///
    /// That of the deserializer.
    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PassThrough, D::Error> {
        let read = Rest::deserialize(deserializer)?;
        let pairs = |pairs: Vec<Pair<'_>>| {
            pairs.into_iter().map(|(key, value)| (key.into_owned().into(), value.into_inner().into_owned())).collect()
        };
        let mut rest = PassThrough::default();
        if let Some(id) = read.user_id {
            let id = from_hex(&id).ok_or_else(|| D::Error::custom("the user_id is not hexadecimal digits"))?;
            rest.user_id = Some(Bytes::from(id));
        }
        rest.content_encoding = read.content_encoding.map(|text| text.into_owned().into());
        rest.group_sequence = read.group_sequence;
        rest.creation_time = read.creation_time.map(Timestamp::from_millis);
        (rest.durable, rest.priority, rest.first_acquirer) = (read.durable, read.priority, read.first_acquirer);
        rest.force_persistence = read.force_persistence;
        (rest.annotations, rest.footer) = (pairs(read.annotations), pairs(read.footer));
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    #[test]
    fn texts_are_set_as_they_were_written() {
        let message = Message::builder().content_type("a/b").subject("s").message_id("m").correlation_id("c");
        let message = message.reply_to("r").session_id("g").reply_to_session_id("h").partition_key("g").to("t");
        let mut properties = message.build("").unwrap().properties().clone();
        properties.set_transaction_partition_key("v").unwrap();
        let written: Vec<_> = texts(&properties).collect();
        assert_eq!(written.len(), 10);
        let mut read = Properties::new();
        for (name, value) in &written {
            assert_eq!(set(&mut read, name, value), Ok(()));
        }
        assert_eq!(set(&mut read, "Sb-Unknown", "text"), Ok(()));
        assert_eq!(texts(&read).collect::<Vec<_>>(), written);
        stamp(&mut read);
        assert!(read.is_message_id_stamped() && texts(&read).any(|text| text == (MESSAGE_ID_STAMPED, "1")));
    }

    #[test]
    fn a_text_that_is_no_id_is_refused() {
        let long = "x".repeat(129);
        for (name, value, expected) in [
            ("Sb-Message-Id", "", "a text of 1 to 128 characters"),
            ("Sb-Message-Id", &*long, "a text of 1 to 128 characters"),
            ("Sb-Session-Id", &*long, "a text of at most 128 characters"),
            ("Sb-Reply-To-Session-Id", &*long, "a text of at most 128 characters"),
            ("Sb-Transaction-Partition-Key", &*long, "a text of at most 128 characters"),
            ("Sb-Partition-Key", &*long, "a text of at most 128 characters, which is the SessionId if there is one"),
        ] {
            let mut properties = Properties::new();
            assert_eq!(set(&mut properties, name, value), Err(expected), "{name}");
            assert_eq!(texts(&properties).count(), 0);
        }
        let mut properties = Properties::new();
        assert_eq!(set_property(&mut properties, "k", "u8:256"), Err("TYPE:VALUE, a type and a value of it"));
        assert_eq!(set_property(&mut properties, "k", "u8:255"), Ok(()));
        assert_eq!(properties.application_properties().get("k"), Some(&255_u8.into()));
    }

    #[test]
    fn what_is_passed_through_is_read_as_it_was_written() {
        let all = PassThrough {
            user_id: Some(Bytes::from_static(&[0, 255])),
            content_encoding: Some("gzip".into()),
            group_sequence: Some(7),
            creation_time: Some(Timestamp::from_millis(8)),
            durable: Some(true),
            priority: Some(9),
            first_acquirer: Some(false),
            force_persistence: true,
            annotations: vec![("a".into(), 1_u8.into()), ("b".into(), Value::Symbol("s".into()))],
            footer: vec![("c".into(), Value::List(vec!["text".into()]))],
        };
        for rest in [PassThrough::default(), all] {
            let json = serde_json::to_string(&Rest::new(&rest)).unwrap();
            assert_eq!(Rest::read(&mut serde_json::Deserializer::from_str(&json)).unwrap(), rest, "{json}");
        }
        for bad in [r#"{"user_id":"0"}"#, r#"{"user_id":"xy"}"#, r#"{"annotations":[["a"]]}"#, "[1]"] {
            assert!(Rest::read(&mut serde_json::Deserializer::from_str(bad)).is_err(), "{bad}");
        }
    }
}
