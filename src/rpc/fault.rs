use std::{borrow::Cow, error, fmt};

use consign_codecs::Trail;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Message,
    message::{ApplicationProperties, Properties},
    settlement::{DeadLetter, DeadLetterReason},
};

/// The answer of a responder instead of a reply.
///
/// It travels in application properties beside an empty body, so that every requester can read it, whatever its
/// formats: `x-fault` is the code, `x-fault-reason`, `x-fault-detail` and `x-fault-trail` the rest, each left out if
/// there is none, and the `CorrelationId` names the request.
///
/// What was received is bounded and of known characters, except for the detail and the id of the request: these are what the
/// other side wrote, cut, and `Display` and `Debug` escape what is not printable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Fault {
    code: FaultCode,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Box<str>>,
    #[serde(skip_serializing_if = "Trail::is_empty", serialize_with = "trail_text")]
    trail: Trail,
}

/// The code of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultCode {
    /// The request was dead-lettered because it could not be decoded: [`reason`](Fault::reason) and [`trail`](Fault::trail) have
    /// the cause. It was not handled, unless a handler decodes it itself, or dead-letters it for such a reason.
    UndecodableRequest,
    /// No handler takes requests of this subject, or a handler has dead-lettered it for that reason.
    UnknownRequest,
    /// The request lacks a property, or has a value in one, that it must not have. An extractor has refused it, or a handler has
    /// dead-lettered it for that reason.
    InvalidRequest,
    /// The handler failed, and would again.
    Failed,
    /// The code of an application, or of a broker: 1 to 64 of the characters `A-Z a-z 0-9 . _ -`.
    Application(Box<str>),
    /// Something that is no code.
    Unrecognised,
}

impl Fault {
    /// The application property that holds the code, and marks a reply as a fault.
    pub const CODE: &'static str = "x-fault";
    /// The application property that holds the reason.
    pub const REASON: &'static str = "x-fault-reason";
    /// The application property that holds the detail.
    pub const DETAIL: &'static str = "x-fault-detail";
    /// The application property that holds the attempts to decode the request.
    pub const TRAIL: &'static str = "x-fault-trail";
    /// Longest detail: 1,024 characters. Longer text is truncated.
    pub const MAX_DETAIL: usize = 1_024;

    /// A fault without further particulars. An [`Application`](FaultCode::Application) code is read as
    /// [`application`](Self::application) reads it.
    #[must_use]
    pub fn new(code: FaultCode) -> Self {
        let code = match code {
            FaultCode::Application(code) => FaultCode::of_application(&code),
            other => other,
        };
        Self { code, request_id: None, reason: None, detail: None, trail: Trail::default() }
    }

    /// A fault with a code of the application's own. Text that is not a code, see [`FaultCode::Application`],
    /// becomes [`FaultCode::Unrecognised`]. So does a code of this library, such as `UndecodableRequest` or `NoResponders`: a
    /// requester would take the request for one that was not handled.
    #[must_use]
    pub fn application(code: &str) -> Self {
        Self::new(FaultCode::Application(code.into()))
    }

    /// Adds text for people, cut to [`MAX_DETAIL`](Self::MAX_DETAIL) characters. It goes to the requester, so it must
    /// not contain what the requester may not read.
    #[must_use]
    pub fn with_detail(mut self, detail: &str) -> Self {
        self.detail = Some(cut(detail));
        self
    }

    /// The fault that tells a requester why its request was dead-lettered. The description stays here: it may say what
    /// only the responder's people may know.
    pub(super) fn of_dead_letter(dead_letter: &DeadLetter) -> Self {
        let code = match &dead_letter.reason {
            DeadLetterReason::DeserializationFailed
            | DeadLetterReason::UnsupportedContentType
            | DeadLetterReason::MalformedContentType
            | DeadLetterReason::ContentTypeNotAllowed
            | DeadLetterReason::UnsupportedCharset
            | DeadLetterReason::UnsupportedEncoding
            | DeadLetterReason::LimitExceeded => FaultCode::UndecodableRequest,
            DeadLetterReason::UnknownMessageType => FaultCode::UnknownRequest,
            DeadLetterReason::MissingProperty | DeadLetterReason::InvalidProperty => FaultCode::InvalidRequest,
            _ => FaultCode::Failed,
        };
        let trail = dead_letter.changes.properties().and_then(|changes| text(changes, DeadLetter::TRAIL));
        Self {
            code,
            request_id: None,
            reason: symbol(dead_letter.reason.as_str()),
            detail: None,
            trail: trail.and_then(|trail| trail.parse().ok()).unwrap_or_default(),
        }
    }

    /// The fault that `reply` is, or `None` if it is a reply.
    #[must_use]
    pub fn of_reply(reply: &Message) -> Option<Self> {
        let properties = reply.application_properties();
        let code = properties.get(Self::CODE)?;
        Some(Self {
            code: code.as_str().map_or(FaultCode::Unrecognised, FaultCode::of),
            request_id: reply.correlation_id().map(cut),
            reason: text(properties, Self::REASON).and_then(symbol),
            detail: text(properties, Self::DETAIL).map(cut),
            trail: text(properties, Self::TRAIL).and_then(|trail| trail.parse().ok()).unwrap_or_default(),
        })
    }

    /// Writes the fault into the properties of a reply.
    pub(super) fn write(&self, reply: &mut Properties) {
        let properties = reply.application_properties_mut();
        properties.insert(Self::CODE, self.code.as_str().to_owned());
        let trail = (!self.trail.is_empty()).then(|| self.trail.to_string());
        let rest = [
            (Self::REASON, self.reason.as_deref()),
            (Self::DETAIL, self.detail.as_deref()),
            (Self::TRAIL, trail.as_deref()),
        ];
        for (name, value) in rest {
            if let Some(value) = value {
                properties.insert(name, value.to_owned());
            }
        }
    }

    /// Returns the code of the fault.
    #[must_use]
    pub fn code(&self) -> &FaultCode {
        &self.code
    }

    /// Returns the `MessageId` of the request, as the responder read it.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// Returns the reason under which the request was dead-lettered: 1 to 64 of the characters of a code.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Text of the responder's for people. It comes from elsewhere: do not act on it, and escape it where it is shown.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Returns the attempts to decode the request.
    #[must_use]
    pub fn trail(&self) -> &Trail {
        &self.trail
    }
}

impl FaultCode {
    const UNRECOGNISED: &'static str = "Unrecognised";
    /// The code of a call to a NATS subject without a service.
    pub(super) const NO_RESPONDERS: &'static str = "NoResponders";

    /// Returns the code that is sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::UndecodableRequest => "UndecodableRequest",
            Self::UnknownRequest => "UnknownRequest",
            Self::InvalidRequest => "InvalidRequest",
            Self::Failed => "Failed",
            Self::Application(code) => code,
            Self::Unrecognised => Self::UNRECOGNISED,
        }
    }

    /// Reads the code of an application, which has none of the library's.
    fn of_application(text: &str) -> Self {
        match Self::of(text) {
            Self::Application(code) if &*code != Self::NO_RESPONDERS => Self::Application(code),
            _ => Self::Unrecognised,
        }
    }

    fn of(text: &str) -> Self {
        let own = [Self::UndecodableRequest, Self::UnknownRequest, Self::InvalidRequest, Self::Failed];
        if let Some(code) = own.into_iter().find(|code| code.as_str() == text) {
            return code;
        }
        match symbol(text) {
            Some(code) if &*code != Self::UNRECOGNISED => Self::Application(code),
            _ => Self::Unrecognised,
        }
    }
}

/// A word that can stand in a log as it is.
fn symbol(text: &str) -> Option<Box<str>> {
    let is_symbol = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-');
    ((1..=64).contains(&text.len()) && text.chars().all(is_symbol)).then(|| text.into())
}

fn text<'p>(properties: &'p ApplicationProperties, name: &str) -> Option<&'p str> {
    properties.get(name)?.as_str()
}

fn cut(text: &str) -> Box<str> {
    match text.char_indices().nth(Fault::MAX_DETAIL) {
        Some((end, _)) => text[..end].into(),
        None => text.into(),
    }
}

impl fmt::Display for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the responder answered with the fault {}", self.code)?;
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        match &self.detail {
            Some(detail) => write!(f, ": {}", detail.escape_debug()),
            None => Ok(()),
        }
    }
}

impl error::Error for Fault {}

impl Serialize for FaultCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for FaultCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::of(&Cow::<str>::deserialize(deserializer)?))
    }
}

fn trail_text<S: Serializer>(trail: &Trail, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(trail)
}

/// A fault as somebody wrote it, of any length and with any characters.
#[derive(Deserialize)]
struct Written {
    code: FaultCode,
    #[serde(default)]
    request_id: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    trail: String,
}

impl From<Written> for Fault {
    fn from(written: Written) -> Self {
        Self {
            code: written.code,
            request_id: written.request_id.as_deref().map(cut),
            reason: written.reason.as_deref().and_then(symbol),
            detail: written.detail.as_deref().map(cut),
            trail: written.trail.parse().unwrap_or_default(),
        }
    }
}
