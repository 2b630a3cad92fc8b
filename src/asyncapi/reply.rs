//! The replies of a responder, and what a request needs to get one.

use serde_json::{Map, Value, json};

use super::{AsyncApi, channel::ChannelMessage};
use crate::{
    codecs::DecisionTable,
    routing::RouterDescription,
    rpc::{ACCEPT, Correlate, Fault, RepliesDescription},
};

/// The name of the message that a responder sends instead of a reply. Those of replies end with `.reply`.
const FAULT: &str = "fault";

/// The replies, in the order of their requests. They have the names of their requests: a schema is found by these.
pub(super) fn replies(router: &RouterDescription, replies: &RepliesDescription) -> Vec<ChannelMessage> {
    let reply = |request: &str, is_fallback: bool| {
        let to = if is_fallback { "messages of other subjects".into() } else { format!("`{request}`") };
        let mut value = Map::new();
        value.insert("name".into(), format!("{request}.reply").into());
        value.insert("summary".into(), format!("The reply to {to}").into());
        value.insert("correlationId".into(), correlation_of_replies());
        let written = written(&router.codecs);
        if let Some(first) = written.first() {
            value.insert("contentType".into(), (*first).into());
        }
        value.insert("x-content-types".into(), written.into());
        value.insert("x-request".into(), request.into());
        ChannelMessage { name: request.into(), value, is_fallback }
    };
    let named = replies.subjects.iter().map(|subject| reply(subject, false));
    named.chain(replies.has_otherwise.then(|| reply(AsyncApi::OTHER, true))).collect()
}

/// What is sent instead of a reply.
pub(super) fn fault(replies: &RepliesDescription) -> Map<String, Value> {
    let word = json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$" });
    let headers = json!({
        "type": "object",
        "properties": {
            (Fault::CODE): word.clone(),
            (Fault::REASON): word,
            (Fault::DETAIL): { "type": "string", "maxLength": Fault::MAX_DETAIL },
            (Fault::TRAIL): { "type": "string" },
        },
        "required": [Fault::CODE],
    });
    let mut value = Map::new();
    value.insert("name".into(), FAULT.into());
    value.insert("summary".into(), "What is sent instead of a reply".into());
    value.insert("correlationId".into(), correlation_of_replies());
    value.insert("headers".into(), headers);
    match &replies.fault_content_type {
        Some(content_type) => value.insert("contentType".into(), content_type.clone().into()),
        None => value.insert("description".into(), "The body is empty.".into()),
    };
    value
}

/// Where a reply goes: each request has the address.
pub(super) fn address() -> Value {
    json!({ "location": "$message.header#/replyTo", "description": "The ReplyTo of the request" })
}

/// Adds what the sender of an answered message sets: the id that its reply names, and the formats that it accepts.
pub(super) fn expect(message: &mut ChannelMessage, router: &RouterDescription) {
    let Some(replies) = &router.replies else { return };
    let is_answered =
        if message.is_fallback { replies.has_otherwise } else { replies.subjects.contains(&message.name) };
    if !is_answered {
        return;
    }
    let (property, advice) = match replies.correlate {
        Correlate::MessageIdOrCorrelationId => ("messageId", "The MessageId, or else the CorrelationId"),
        Correlate::MessageId => ("messageId", "The MessageId"),
        Correlate::CorrelationId => ("correlationId", "The CorrelationId"),
        Correlate::CorrelationIdOrMessageId => ("correlationId", "The CorrelationId, or else the MessageId"),
    };
    message.value.insert("correlationId".into(), correlation(property, advice));
    if written(&router.codecs).len() > 1 {
        let accept = json!({ "type": "string", "description": "The formats of the reply, as in `Accept` of HTTP" });
        message.value.insert("headers".into(), json!({ "type": "object", "properties": { (ACCEPT): accept } }));
    }
}

fn correlation_of_replies() -> Value {
    correlation("correlationId", "The CorrelationId, which is the id of the request")
}

fn correlation(property: &str, description: &str) -> Value {
    json!({ "location": format!("$message.header#/{property}"), "description": description })
}

/// The formats that the codecs write, that of the first one before others.
fn written(codecs: &DecisionTable) -> Vec<&str> {
    let mut written = Vec::new();
    for codec in &codecs.codecs {
        if !written.contains(&codec.writes) {
            written.push(codec.writes);
        }
    }
    written
}
