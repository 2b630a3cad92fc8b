use consign_amqp::{
    codec::{self, EncodeError},
    engine::SessionId,
    message::{ApplicationProperties, Body, Header, MessageId, Properties, Sections},
    value::{Str, Value},
};
use consign_core::transport::ErrorKind;

use super::node::Node;
use crate::errors::Failure;

/// Where the answer to a request goes.
#[derive(Clone, Debug)]
pub(crate) struct ReplyTo {
    pub(super) session: SessionId,
    pub(super) node: Node,
    pub(super) address: Option<Str>,
    /// The id of the request, in its own type.
    pub(super) correlation_id: Option<MessageId>,
}

impl ReplyTo {
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }
}

/// The answer to a request.
pub(crate) struct Reply {
    pub(super) to: ReplyTo,
    pub(super) outcome: Result<Response, Failure>,
}

/// An answer that waits for credit.
pub(crate) struct Waiting {
    pub(super) to: ReplyTo,
    pub(crate) payload: bytes::Bytes,
}

impl Reply {
    pub(crate) fn new(to: ReplyTo, outcome: Result<Response, Failure>) -> Self {
        Self { to, outcome }
    }
}

/// An answer without an error.
#[derive(Debug, PartialEq)]
pub(crate) struct Response {
    pub(super) status: u16,
    pub(super) description: &'static str,
    pub(super) body: Value,
}

impl Response {
    /// An answer with a body.
    pub(crate) fn ok(body: impl Into<Value>) -> Self {
        Self { status: 200, description: "OK", body: body.into() }
    }

    /// An answer that there is nothing.
    pub(crate) fn no_content() -> Self {
        Self { status: 204, description: "No Content", body: consign_amqp::value::Map::default().into() }
    }

    pub(super) fn accepted() -> Self {
        Self { status: 202, description: "Accepted", body: Value::Null }
    }
}

impl Reply {
    pub(super) fn encode(self) -> Result<Waiting, EncodeError> {
        let Self { to, outcome } = self;
        let payload = encode(&to.node, to.correlation_id.as_ref(), outcome)?;
        Ok(Waiting { to, payload })
    }
}

/// Encodes an answer. One that cannot be encoded is replaced by an error with the cause.
fn encode(
    node: &Node,
    correlation_id: Option<&MessageId>,
    outcome: Result<Response, Failure>,
) -> Result<bytes::Bytes, EncodeError> {
    codec::encode(&sections(node, correlation_id, outcome)).or_else(|error| {
        let failure = Failure::new(ErrorKind::General, format!("The answer cannot be encoded: {error}."));
        codec::encode(&sections(node, correlation_id, Err(failure)))
    })
}

fn sections(node: &Node, correlation_id: Option<&MessageId>, outcome: Result<Response, Failure>) -> Sections {
    let mut properties = ApplicationProperties::default();
    // The two nodes have keys of their own.
    let (status_key, description_key, condition_key) = match node {
        Node::Cbs => ("status-code", "status-description", "error-condition"),
        Node::Management { .. } => ("statusCode", "statusDescription", "errorCondition"),
    };
    let (status, description, condition, body) = match outcome {
        Ok(Response { status, description, body }) => (status, Str::from_static(description), None, body),
        Err(Failure { condition, status, description }) => {
            (status, Str::from(&*description), Some(condition), Value::Null)
        }
    };
    properties.push(Str::from_static(status_key), i32::from(status));
    properties.push(Str::from_static(description_key), description);
    if let Some(condition) = condition {
        properties.push(Str::from_static(condition_key), condition);
    }
    Sections {
        header: Some(Header::default()),
        properties: Some(Properties { correlation_id: correlation_id.cloned(), ..Properties::default() }),
        application_properties: Some(properties),
        body: Body::Value(body),
        ..Sections::default()
    }
}

#[cfg(test)]
mod tests {
    use consign_amqp::{message::EncodedMessage, value::List};

    use super::*;

    #[test]
    fn an_answer_that_cannot_be_encoded_becomes_an_error_and_is_not_empty() {
        let nested = (0..100).fold(Value::Null, |value, _| List(vec![value]).into());
        let payload = encode(&Node::Cbs, None, Ok(Response::ok(nested))).unwrap();
        let answer = EncodedMessage::split(payload).unwrap();
        let properties = answer.application_properties().unwrap().unwrap();
        assert_eq!(properties.get("status-code"), Some(&Value::from(500)));
    }
}
