use super::names::Listed;
use crate::message::{Properties, PropertyValue};

/// The bytes that are authenticated beside the body: the purpose, the key's id, and the properties that decide how the
/// body is read. `docs/signed-and-encrypted-messages.md` specifies them.
pub(in crate::middleware) struct Bound(Vec<u8>);

/// What distinguishes the bound bytes of one layer from those of another.
pub(in crate::middleware) struct Purpose {
    /// The first field. It names the layer, the version of the format and the algorithm.
    pub(in crate::middleware) text: &'static str,
    /// The application property that lists the names that the sender added.
    pub(in crate::middleware) list: &'static str,
    /// The application properties that the layer writes after it has computed the bound bytes.
    pub(in crate::middleware) own: [&'static str; 2],
    /// Application properties that this layer binds and the other does not.
    pub(in crate::middleware) also: &'static [&'static str],
}

/// The list of further names is not text.
struct NotText;

/// Application properties that decide how a message is read, in ascending order.
const NAMES: [&str; 15] = [
    "CorrelationId",
    "MT-MessageType",
    "MessageId",
    "NServiceBus.ContentType",
    "NServiceBus.CorrelationId",
    "NServiceBus.EnclosedMessageTypes",
    "NServiceBus.MessageId",
    "NServiceBus.Transport.Encoding",
    "RequestId",
    "x-accept",
    "x-fault",
    "x-fault-detail",
    "x-fault-reason",
    "x-fault-trail",
    "x-message-version",
];

/// The prefixes of CloudEvents attributes. They match in any case, so that no reader is more lenient than this.
const PREFIXES: [&str; 4] = ["cloudEvents:", "cloudEvents_", "ce-", "ce_"];

/// The pseudo-queue of RabbitMQ's direct replies. The broker appends a token to it, which no sender can know.
const DIRECT_REPLIES: &str = "amq.rabbitmq.reply-to";

impl Bound {
    /// The bound bytes; `None` if the list of further names is not text.
    pub(in crate::middleware) fn new(purpose: &Purpose, key: &str, properties: &Properties) -> Option<Self> {
        let list = purpose.list_in(properties).ok()?;
        let encoding = properties.pass_through().and_then(|rest| rest.content_encoding.as_deref());
        let mut bound = Self(Vec::with_capacity(256));
        bound.text(purpose.text);
        bound.text(key);
        for field in [
            // A delayed retry and a resubmission give a message a new id, and keep the first one.
            properties.original_message_id(),
            properties.content_type(),
            encoding,
            properties.subject(),
            properties.session_id(),
            properties.correlation_id(),
            properties.reply_to().map(as_sent),
            properties.reply_to_session_id(),
            list,
        ] {
            bound.optional(field);
        }
        let listed = Listed::new(list);
        for (name, value) in properties.application_properties().iter() {
            if purpose.binds(name, &listed) {
                bound.byte(1);
                bound.text(name);
                bound.value(value);
            }
        }
        bound.byte(0);
        Some(bound)
    }

    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend((bytes.len() as u64).to_le_bytes());
        self.0.extend(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        self.byte(text.is_some().into());
        if let Some(text) = text {
            self.text(text);
        }
    }

    /// One form for all widths of a number, and for all kinds of text: a transport may change between them.
    fn value(&mut self, value: &PropertyValue) {
        match value {
            PropertyValue::Null => self.byte(0),
            PropertyValue::Bool(value) => self.0.extend([1, (*value).into()]),
            PropertyValue::U8(value) => self.integer((*value).into()),
            PropertyValue::U16(value) => self.integer((*value).into()),
            PropertyValue::U32(value) => self.integer((*value).into()),
            PropertyValue::U64(value) => self.integer((*value).into()),
            PropertyValue::I8(value) => self.integer((*value).into()),
            PropertyValue::I16(value) => self.integer((*value).into()),
            PropertyValue::I32(value) => self.integer((*value).into()),
            PropertyValue::I64(value) => self.integer((*value).into()),
            PropertyValue::F32(value) => self.float((*value).into()),
            PropertyValue::F64(value) => self.float(*value),
            PropertyValue::Char(value) => self.kind_of_text(value.encode_utf8(&mut [0; 4])),
            PropertyValue::String(value) | PropertyValue::Uri(value) => self.kind_of_text(value),
            PropertyValue::Bytes(value) => {
                self.byte(5);
                self.bytes(value);
            }
            PropertyValue::Uuid(value) => self.fixed(6, value),
            PropertyValue::DateTime(value) => self.fixed(7, &value.as_millis().to_le_bytes()),
            PropertyValue::DateTimeOffset(value) => self.fixed(8, &value.to_le_bytes()),
            PropertyValue::TimeSpan(value) => self.fixed(9, &value.to_le_bytes()),
            PropertyValue::Decimal(value) => self.fixed(10, value),
        }
    }

    fn fixed(&mut self, kind: u8, bytes: &[u8]) {
        self.byte(kind);
        self.0.extend(bytes);
    }

    fn integer(&mut self, value: i128) {
        self.byte(2);
        self.text(&value.to_string());
    }

    fn float(&mut self, value: f64) {
        // There are many bit patterns of what is not a number.
        let bits = if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() };
        self.fixed(3, &bits.to_le_bytes());
    }

    fn kind_of_text(&mut self, text: &str) {
        self.byte(4);
        self.text(text);
    }

    pub(in crate::middleware) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Purpose {
    /// The list of further names, if there is one.
    fn list_in<'p>(&self, properties: &'p Properties) -> Result<Option<&'p str>, NotText> {
        properties.application_properties().get(self.list).map(|list| list.as_str().ok_or(NotText)).transpose()
    }

    fn binds(&self, name: &str, listed: &Listed<'_>) -> bool {
        (decides(name) || self.also.contains(&name) || listed.contains(name))
            && name != self.list
            && !self.own.contains(&name)
    }

    /// The first of `names` that a message does not bind, even where it is missing.
    pub(in crate::middleware) fn missing<'n>(&self, names: &'n [Box<str>], properties: &Properties) -> Option<&'n str> {
        if names.is_empty() {
            return None;
        }
        let listed = Listed::new(self.list_in(properties).ok().flatten());
        names.iter().map(|name| &**name).find(|name| !self.binds(name, &listed))
    }
}

/// Whether an application property of this name is bound in every message.
pub(crate) fn decides(name: &str) -> bool {
    let has_prefix = |prefix: &&str| {
        name.as_bytes().get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    NAMES.binary_search(&name).is_ok() || PREFIXES.iter().any(has_prefix)
}

/// A `ReplyTo` as its sender wrote it: without the token that RabbitMQ appended, in whatever form a transport shows that.
fn as_sent(reply_to: &str) -> &str {
    match reply_to.strip_prefix(DIRECT_REPLIES) {
        Some(token) if token.starts_with(['.', '/']) => DIRECT_REPLIES,
        _ => reply_to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order() {
        assert!(NAMES.is_sorted());
    }
}
