//! Headers of other clients of NATS, read and written.

use std::{borrow::Cow, str::FromStr};

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use consign_core::{
    Message,
    message::{Properties, PropertyValue, TraceContext},
    settlement::DeadLetter,
    wire,
};

use super::{
    name::{PROPERTY, is_own},
    text,
};

const CONTENT_TYPE: HeaderName = HeaderName::from_static("Content-Type");
const CONTENT_ENCODING: HeaderName = HeaderName::from_static("Content-Encoding");
/// The prefix of the headers of the server.
const SERVER: &str = "Nats-";
/// The prefix of the header of an attribute of a CloudEvent.
const EVENT: &str = "ce-";
/// Application properties that are also written as plain headers. They are read in any case.
const PROPERTIES: [&str; 6] = [
    TraceContext::TRACEPARENT,
    TraceContext::TRACESTATE,
    TraceContext::DIAGNOSTIC_ID,
    "baggage",
    DeadLetter::REASON,
    DeadLetter::DESCRIPTION,
];
/// The longest cause of a dead letter that is written twice: the space for it in a message is limited.
const LONGEST_CAUSE: usize = 1_024;
/// The headers of an error of a NATS service.
const SERVICE_ERROR: &str = "Nats-Service-Error";
const SERVICE_ERROR_CODE: &str = "Nats-Service-Error-Code";
/// The application properties of a fault, the reply of a failed call.
const FAULT: &str = "x-fault";
const FAULT_REASON: &str = "x-fault-reason";
const FAULT_DETAIL: &str = "x-fault-detail";

/// The code of a fault whose request is not one.
const INVALID_REQUEST: &str = "InvalidRequest";

/// The meaning of a header.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meaning<'a> {
    ContentType,
    ContentEncoding,
    MessageId,
    /// An application property that is also written as a header, by its name.
    Standard(Cow<'a, str>),
    /// Any other application property.
    Property(&'a str),
}

impl<'a> Meaning<'a> {
    /// Returns the meaning of a header. `None` for a header of this transport, and for an instruction to the server.
    fn of(name: &'a str) -> Option<Self> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("Content-Type") {
            return Some(Self::ContentType);
        }
        if is("Content-Encoding") {
            return Some(Self::ContentEncoding);
        }
        if is("Nats-Msg-Id") {
            return Some(Self::MessageId);
        }
        if is_own(name) || name.starts_with(SERVER) {
            return None;
        }
        if let Some(standard) = PROPERTIES.into_iter().find(|standard| is(standard)) {
            return Some(Self::Standard(standard.into()));
        }
        if name.get(..EVENT.len()).is_some_and(|start| start.eq_ignore_ascii_case(EVENT)) {
            let lower = name.bytes().any(|byte| byte.is_ascii_uppercase()).then(|| name.to_ascii_lowercase());
            return Some(Self::Standard(lower.map_or(Cow::Borrowed(name), Cow::Owned)));
        }
        Some(Self::Property(name))
    }

    /// The spelling that wins over others.
    fn spelling(&self) -> &str {
        match self {
            Self::ContentType => "Content-Type",
            Self::ContentEncoding => "Content-Encoding",
            Self::MessageId => "Nats-Msg-Id",
            Self::Standard(name) => name,
            Self::Property(name) => name,
        }
    }
}

/// Reads the plain headers, which override the headers of this transport: where they differ, another program has changed the
/// plain one since. The `MessageId` is the exception, because a stream detects duplicates by `Nats-Msg-Id`.
pub(super) fn read(headers: &HeaderMap, to: &mut Properties) {
    let mut all: Vec<_> = headers
        .iter()
        .filter_map(|(name, values)| {
            let name: &str = name.as_ref();
            let meaning = Meaning::of(name)?;
            let is_other_spelling = meaning.spelling() != name;
            Some((meaning, is_other_spelling, name, values))
        })
        .collect();
    all.sort_unstable_by(|one, other| (&one.0, one.1, one.2).cmp(&(&other.0, other.1, other.2)));
    all.dedup_by(|later, earlier| later.0 == earlier.0);
    for (meaning, _, _, values) in all {
        let last = || values.last().map(HeaderValue::as_str).unwrap_or_default();
        match meaning {
            Meaning::ContentType => {
                if !last().is_empty() && to.content_type() != Some(last()) {
                    to.set_content_type(last().to_owned());
                }
            }
            Meaning::ContentEncoding => {
                let encoding = joined(values);
                if !encoding.is_empty()
                    && to.pass_through().and_then(|rest| rest.content_encoding.as_deref()) != Some(&*encoding)
                {
                    to.pass_through_mut().content_encoding = Some(encoding.into_owned().into());
                }
            }
            // The server takes the first.
            Meaning::MessageId if to.message_id().is_none() => {
                let id = values.first().map(HeaderValue::as_str).unwrap_or_default();
                if to.set_message_id(id.to_owned()).is_err() && !id.is_empty() {
                    to.application_properties_mut().insert("Nats-Msg-Id", id);
                }
            }
            Meaning::MessageId => {}
            Meaning::Standard(name) => {
                set(to, &name, &standard(&name, values));
            }
            Meaning::Property(name) => set(to, name, &joined(values)),
        }
    }
}

/// Returns the value of a property that has a header of its own.
fn standard<'a>(name: &str, values: &'a [HeaderValue]) -> Cow<'a, str> {
    let last = values.last().map(HeaderValue::as_str).unwrap_or_default();
    match name {
        // Lists, whose members may come in several headers.
        TraceContext::TRACESTATE | "baggage" => joined(values),
        event if event.starts_with(EVENT) => decoded(last),
        _ => Cow::Borrowed(last),
    }
}

/// Joins several values as one list; one value is unchanged.
fn joined(values: &[HeaderValue]) -> Cow<'_, str> {
    match values {
        [one] => Cow::Borrowed(one.as_str()),
        _ => Cow::Owned(values.iter().map(HeaderValue::as_str).collect::<Vec<_>>().join(", ")),
    }
}

/// Sets a property. A property of another type stays, if its text is the same.
fn set(to: &mut Properties, name: &str, value: &str) {
    let present = to.application_properties().get(name);
    let is_same = present.is_some_and(|present| match present {
        PropertyValue::String(text) => **text == *value,
        other => wire::text::write(other).split_once(':').is_some_and(|(_, text)| text == value),
    });
    if !is_same {
        to.application_properties_mut().insert(name, value);
    }
}

/// Writes headers for other clients, in addition to the headers of this transport, where a plain header can hold the value. A
/// copy has those that the message came with instead, if their spelling is another.
pub(super) fn write(message: &Message, came: &HeaderMap, headers: &mut HeaderMap) {
    if let Some(value) = message.content_type().filter(|value| is_plain(value))
        && content_type(came, message, false).is_empty()
    {
        headers.insert(CONTENT_TYPE, value);
    }
    let encoding = message.pass_through().and_then(|rest| rest.content_encoding.as_deref());
    if let Some(value) = encoding.filter(|value| is_plain(value))
        && content_encoding(came, message, false).is_empty()
    {
        headers.insert(CONTENT_ENCODING, value);
    }
    for (key, property) in message.application_properties().iter() {
        let Some(value) = property.as_str() else { continue };
        let Some(Meaning::Standard(name)) = Meaning::of(key) else { continue };
        let Ok(header) = HeaderName::from_str(key) else { continue };
        if key != name || !kept(came, key, property, false).is_empty() {
            continue;
        }
        let value = if key.starts_with(EVENT) { encoded(value) } else { Cow::Borrowed(value) };
        let is_cause = [DeadLetter::REASON, DeadLetter::DESCRIPTION].contains(&key);
        if is_plain(&value) && !(is_cause && value.len() > LONGEST_CAUSE) {
            headers.insert(header, &*value);
        }
    }
}

/// Writes the reason of a dead letter, once.
pub(crate) fn write_reason(reason: &str, headers: &mut HeaderMap) {
    if is_plain(reason) {
        headers.insert(DeadLetter::REASON, reason);
    } else {
        let value = wire::text::write(&reason.into());
        headers.insert(format!("{PROPERTY}{}", DeadLetter::REASON), &*text::escape(&value));
    }
}

/// Adds the headers by which clients of NATS services detect an error, if a reply is a fault.
pub(crate) fn write_service_error(reply: &Message, headers: &mut HeaderMap) {
    let property = |name| reply.application_properties().get(name).and_then(PropertyValue::as_str);
    let Some(code) = property(FAULT).filter(|code| is_plain(code)) else { return };
    let is_of_request = ["UndecodableRequest", "UnknownRequest", INVALID_REQUEST].contains(&code);
    headers.insert(SERVICE_ERROR, code);
    headers.insert(SERVICE_ERROR_CODE, if is_of_request { "400" } else { "500" });
}

/// Returns the fault that answers a request whose headers cannot be read.
pub(crate) fn invalid_request(why: &DeadLetter) -> Message {
    let mut fault = Message::new("");
    let application = fault.properties_mut().application_properties_mut();
    application.insert(FAULT, INVALID_REQUEST);
    application.insert(FAULT_REASON, why.reason.as_str());
    fault
}

/// Makes a fault of the error of a NATS service, and of the server's answer to a request that no service receives.
pub(crate) fn read_service_error(headers: Option<&HeaderMap>, has_no_responders: bool, reply: &mut Properties) {
    let header = |name: &str| {
        let headers = headers?;
        let is_named = |header: &HeaderName| AsRef::<str>::as_ref(header).eq_ignore_ascii_case(name);
        let in_other_case = || headers.iter().find(|(header, _)| is_named(header))?.1.first();
        headers.get(name).or_else(in_other_case).map(|value| value.as_str().to_owned())
    };
    let application = reply.application_properties_mut();
    if application.get(FAULT).is_some() {
        return;
    }
    if has_no_responders {
        application.insert(FAULT, "NoResponders");
    } else if let Some(error) = header(SERVICE_ERROR) {
        let code = header(SERVICE_ERROR_CODE).filter(|code| !code.is_empty());
        application.insert(FAULT, code.unwrap_or_else(|| "ServiceError".into()));
        application.insert(FAULT_DETAIL, error);
    }
}

/// Returns whether a value is read as it was written.
fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.trim().len() == value.len() && !value.bytes().any(|byte| byte.is_ascii_control())
}

/// Headers that a copy keeps.
type Kept = Vec<(HeaderName, Vec<HeaderValue>)>;

/// Returns the headers with the value of this property, if there are any: copies keep them as they arrived. Headers that this
/// transport writes too are among them if they have another spelling, or, on request, in each one.
pub(super) fn kept(headers: &HeaderMap, key: &str, value: &PropertyValue, any_spelling: bool) -> Kept {
    let Some(text) = value.as_str().filter(|_| !headers.is_empty()) else { return Kept::new() };
    match Meaning::of(key) {
        Some(Meaning::Property(_)) => {
            let Ok(name) = HeaderName::from_str(key) else { return Kept::new() };
            let values: Vec<_> = headers.get_all(name.clone()).cloned().collect();
            if values.is_empty() || joined(&values) != text { Kept::new() } else { vec![(name, values)] }
        }
        Some(meaning @ Meaning::Standard(_))
            if meaning.spelling() == key && ![DeadLetter::REASON, DeadLetter::DESCRIPTION].contains(&key) =>
        {
            spelled(headers, &meaning, any_spelling, |values| standard(key, values) == text)
        }
        _ => Kept::new(),
    }
}

/// Returns the same for the `ContentType`.
pub(super) fn content_type(headers: &HeaderMap, message: &Message, any_spelling: bool) -> Kept {
    spelled(headers, &Meaning::ContentType, any_spelling, |values| {
        values.last().map(HeaderValue::as_str) == message.content_type()
    })
}

/// Returns the same for the content encoding.
pub(super) fn content_encoding(headers: &HeaderMap, message: &Message, any_spelling: bool) -> Kept {
    let encoding = message.pass_through().and_then(|rest| rest.content_encoding.as_deref());
    spelled(headers, &Meaning::ContentEncoding, any_spelling, |values| Some(&*joined(values)) == encoding)
}

fn spelled(headers: &HeaderMap, of: &Meaning<'_>, any: bool, is_same: impl Fn(&[HeaderValue]) -> bool) -> Kept {
    let mut all: Vec<(bool, &str, Kept)> = Vec::new();
    for (name, values) in headers.iter() {
        let text: &str = name.as_ref();
        if Meaning::of(text).is_some_and(|meaning| meaning == *of) {
            all.push((text != of.spelling(), text, vec![(name.clone(), values.clone())]));
        }
    }
    // As they are read.
    all.sort_unstable_by_key(|(is_other_spelling, name, _)| (*is_other_spelling, *name));
    let is_kept = all.first().is_some_and(|(is_other_spelling, _, kept)| {
        (any || *is_other_spelling) && kept.iter().all(|(_, values)| is_same(values))
    });
    all.into_iter().filter(|_| is_kept).flat_map(|(_, _, kept)| kept).collect()
}

/// Adds the headers of which the message has no property: those that exceed its limits.
pub(crate) fn add_unread(from: &HeaderMap, message: &Message, to: &mut HeaderMap) {
    for (name, values) in from.iter() {
        let text: &str = name.as_ref();
        let is_unread = match Meaning::of(text) {
            Some(Meaning::ContentType) => message.content_type().is_none(),
            Some(Meaning::ContentEncoding) => message.pass_through().is_none_or(|rest| rest.content_encoding.is_none()),
            Some(Meaning::Standard(key)) => message.application_properties().get(&key).is_none(),
            Some(Meaning::Property(key)) => message.application_properties().get(key).is_none(),
            Some(Meaning::MessageId) | None => false,
        };
        // A dead letter without a description has removed the previous one.
        let is_unread = is_unread && ![DeadLetter::REASON, DeadLetter::DESCRIPTION].contains(&text);
        if is_unread && to.get(name.clone()).is_none() {
            for value in values {
                to.append(name.clone(), value.clone());
            }
        }
    }
}

/// Decodes the value of an attribute from the percent-encoding of the HTTP binding of CloudEvents. A text that is not encoded
/// is the value itself.
fn decoded(value: &str) -> Cow<'_, str> {
    if value == "%" { None } else { text::unescape(value) }.unwrap_or(Cow::Borrowed(value))
}

/// The HTTP binding of CloudEvents, 3.1.3.2: space, `"`, `%` and what is not printable ASCII.
fn encoded(value: &str) -> Cow<'_, str> {
    let is_special = |byte: u8| !byte.is_ascii_graphic() || byte == b'"' || byte == b'%';
    text::percent(value, is_special)
}

#[cfg(test)]
mod tests;
