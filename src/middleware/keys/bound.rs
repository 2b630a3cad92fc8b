use crate::message::Properties;

/// What is authenticated beside the body: the purpose, the key's id and those properties that say what the body is and
/// whom it concerns. Each is written behind its length, so that no two sets of them are the same bytes.
pub(in crate::middleware) struct Bound(Vec<u8>);

impl Bound {
    pub(in crate::middleware) fn new(purpose: &str, key: &str, properties: &Properties) -> Self {
        let encoding = properties.pass_through().and_then(|rest| rest.content_encoding.as_deref());
        let mut bound = Self(Vec::with_capacity(256));
        bound.field(purpose);
        bound.field(key);
        // A delayed retry and a resubmission give a message a new id, and keep the first one.
        bound.field(properties.original_message_id().unwrap_or_default());
        for field in [
            properties.content_type(),
            encoding,
            properties.subject(),
            properties.session_id(),
            properties.correlation_id(),
            properties.reply_to(),
        ] {
            bound.field(field.unwrap_or_default());
        }
        bound
    }

    fn field(&mut self, text: &str) {
        self.0.extend((text.len() as u64).to_le_bytes());
        self.0.extend(text.as_bytes());
    }

    pub(in crate::middleware) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
