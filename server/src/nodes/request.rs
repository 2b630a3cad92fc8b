use consign_amqp::{
    message::{ApplicationProperties, EncodedMessage, MessageId},
    value::{Array, Binary, List, Map, Str, Timestamp, Uuid, Value},
};
use consign_core::{
    message::{LockToken, SequenceNumber},
    time::Timestamp as Instant,
};

use super::MAX_ID;
use crate::{errors::Failure, messages::malformed};

/// A request to a node.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) message_id: Option<MessageId>,
    pub(crate) reply_to: Option<Str>,
    /// The transaction that it is a part of.
    pub(crate) txn_id: Option<Binary>,
    properties: ApplicationProperties,
    body: Value,
}

impl Request {
    /// Decodes a request.
    pub(super) fn decode(payload: bytes::Bytes, txn_id: Option<Binary>) -> Result<Self, Failure> {
        let message = EncodedMessage::split(payload).map_err(malformed)?;
        let properties = message.properties().map_err(malformed)?.unwrap_or_default();
        let id = match &properties.message_id {
            Some(MessageId::String(id)) => id.len(),
            Some(MessageId::Binary(id)) => id.len(),
            _ => 0,
        };
        let address = properties.reply_to.as_ref().map_or(0, |address| address.len());
        if id.max(address) > MAX_ID {
            return Err(Failure::argument(format!("the message-id or reply-to of a request is over {MAX_ID} bytes")));
        }
        Ok(Self {
            message_id: properties.message_id,
            reply_to: properties.reply_to.filter(|address| !address.is_empty()),
            txn_id,
            properties: message.application_properties().map_err(malformed)?.unwrap_or_default(),
            body: message.value().map_err(malformed)?.unwrap_or_default().0,
        })
    }

    /// Returns an application property that is text.
    pub(super) fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name)?.as_str()
    }

    /// Returns the body.
    pub(super) fn body(&self) -> &Value {
        &self.body
    }

    /// Returns the body as fields.
    pub(super) fn fields(&self) -> Result<Fields<'_>, Failure> {
        match &self.body {
            Value::Map(map) => Ok(Fields(map)),
            _ => Err(Failure::argument("the body of the request is not a map")),
        }
    }
}

/// The fields of a request. An integer may have any type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'r>(pub(super) &'r Map);

impl<'r> Fields<'r> {
    /// Returns a field that is not null.
    pub(super) fn get(self, name: &str) -> Option<&'r Value> {
        self.0.get(name).filter(|value| **value != Value::Null)
    }

    /// Returns a field that has to be there.
    pub(super) fn required(self, name: &'static str) -> Result<&'r Value, Failure> {
        self.get(name).ok_or_else(|| Failure::argument(format!("the request has no '{name}'")))
    }

    pub(super) fn text(self, name: &'static str) -> Result<Option<&'r str>, Failure> {
        let text = |value: &'r Value| value.as_str().ok_or_else(|| wrong(name, "a string"));
        self.get(name).map(text).transpose()
    }

    pub(super) fn integer(self, name: &'static str) -> Result<Option<i64>, Failure> {
        let integer = |value: &Value| bits(value).ok_or_else(|| wrong(name, "an integer"));
        self.get(name).map(integer).transpose()
    }

    /// Returns a count, at most `max`.
    pub(super) fn count(self, name: &'static str, max: usize) -> Result<Option<usize>, Failure> {
        let count = |count: i64| usize::try_from(count).map(|count| count.min(max)).map_err(|_| wrong(name, "a count"));
        self.integer(name)?.map(count).transpose()
    }

    pub(super) fn timestamp(self, name: &'static str) -> Result<Option<Instant>, Failure> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Timestamp(Timestamp(millis))) => Ok(Some(Instant::from_millis(*millis))),
            Some(_) => Err(wrong(name, "a timestamp")),
        }
    }

    pub(super) fn map(self, name: &'static str) -> Result<Option<&'r Map>, Failure> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Map(map)) => Ok(Some(map)),
            Some(_) => Err(wrong(name, "a map")),
        }
    }

    /// Returns the elements of an array or a list.
    fn elements(self, name: &'static str) -> Result<Vec<Value>, Failure> {
        match self.required(name)? {
            Value::Array(array) => Ok(Array::into_values(array.clone())),
            Value::List(List(values)) => Ok(values.clone()),
            // An array of one element, as some clients write it.
            single => Ok(vec![single.clone()]),
        }
    }

    pub(super) fn tokens(self, name: &'static str) -> Result<Vec<LockToken>, Failure> {
        let token = |value| match value {
            Value::Uuid(Uuid(bytes)) => Ok(LockToken::from_bytes(bytes)),
            _ => Err(wrong(name, "an array of UUIDs")),
        };
        self.elements(name)?.into_iter().map(token).collect()
    }

    pub(super) fn numbers(self, name: &'static str) -> Result<Vec<SequenceNumber>, Failure> {
        let number = |value| {
            let number = bits(&value).ok_or_else(|| wrong(name, "an array of longs"))?;
            Ok(SequenceNumber::new(number.cast_unsigned()))
        };
        self.elements(name)?.into_iter().map(number).collect()
    }

    pub(super) fn maps(self, name: &'static str) -> Result<Vec<Map>, Failure> {
        let map = |value| match value {
            Value::Map(map) => Ok(map),
            _ => Err(wrong(name, "a list of maps")),
        };
        self.elements(name)?.into_iter().map(map).collect()
    }
}

/// The 64 bits of an integer of any type.
fn bits(value: &Value) -> Option<i64> {
    let number = value.as_integer()?;
    i64::try_from(number).ok().or_else(|| u64::try_from(number).ok().map(u64::cast_signed))
}

pub(super) fn wrong(name: &str, expected: &str) -> Failure {
    Failure::argument(format!("'{name}' is not {expected}"))
}
