//! The messages of a pipeline.

use serde_json::{Map, Value, json};

use super::{AsyncApi, reply};
use crate::{
    codecs::DecisionTable,
    message_types::{MessageType, TypeTable},
    pipeline::{PipelineDescription, Side},
};

/// One message of a channel.
pub(super) struct ChannelMessage {
    /// By which a schema is found.
    pub(super) name: String,
    pub(super) value: Map<String, Value>,
    /// Whether it stands for all others.
    pub(super) is_fallback: bool,
}

/// The messages of a pipeline, in the order of its routes and types.
pub(super) fn messages(pipeline: &PipelineDescription) -> Vec<ChannelMessage> {
    // The layer that encodes may name the codec of the entity.
    let encoder = pipeline.layers.iter().find(|layer| layer.decision_table().is_some());
    let (codecs, of_entity) = match (&pipeline.router, encoder) {
        (Some(router), _) => (Some(&router.codecs), None),
        (None, Some(encoder)) => {
            let named = encoder.settings().iter().find(|setting| setting.name == "codec");
            (encoder.decision_table(), named.map(|setting| setting.value.as_str()))
        }
        (None, None) => (None, None),
    };
    let mut messages = Vec::new();
    if let Some(router) = &pipeline.router {
        messages.extend(router.subjects.iter().map(|subject| message(subject, codecs, None, Side::Receiving)));
        messages.extend(typed(&router.types, codecs, None, Side::Receiving));
        if router.has_otherwise || !router.nested_fallbacks.is_empty() {
            let mut others = message(AsyncApi::OTHER, codecs, None, Side::Receiving);
            others.is_fallback = true;
            others.value.insert("summary".into(), "Messages of other subjects".into());
            messages.push(others);
        }
    }
    messages.extend(typed(&pipeline.sends, codecs, of_entity, Side::Sending));
    if pipeline.side == Side::Receiving
        && let Some(codecs) = codecs
    {
        let read: Vec<_> = codecs.codecs.iter().flat_map(|codec| codec.accepts.clone()).collect();
        for message in &mut messages {
            message.value.insert("x-content-types".into(), json!(read));
        }
    }
    if let Some(router) = &pipeline.router {
        for message in &mut messages {
            reply::expect(message, router);
        }
    }
    messages
}

fn typed<'a>(
    tables: &'a [TypeTable],
    codecs: Option<&'a DecisionTable>,
    of_entity: Option<&'a str>,
    side: Side,
) -> impl Iterator<Item = ChannelMessage> + 'a {
    tables.iter().flat_map(move |table| {
        table.types().iter().map(move |of| {
            let mut message = message(of.name(), codecs, of.own_codec().or(of_entity), side);
            if side == Side::Receiving {
                if !of.other_names().is_empty() {
                    message.value.insert("x-aliases".into(), json!(of.other_names()));
                }
                if of.known_versions().len() > 1 {
                    message.value.insert("x-versions".into(), json!(of.known_versions()));
                }
            }
            if let Some(headers) = headers(table, of, side) {
                message.value.insert("headers".into(), headers);
            }
            message
        })
    })
}

fn message(name: &str, codecs: Option<&DecisionTable>, codec: Option<&str>, side: Side) -> ChannelMessage {
    let mut value = Map::new();
    value.insert("name".into(), name.into());
    let written = codecs.and_then(|table| {
        // A sender has to use a type that the consumer accepts.
        let mut usable = table.codecs.iter().filter(|codec| side == Side::Sending || codec.accepts_own);
        let first = usable.clone().next();
        codec.and_then(|name| usable.find(|codec| codec.name == name)).or(first)
    });
    if let Some(codec) = written {
        value.insert("contentType".into(), codec.writes.into());
    }
    ChannelMessage { name: name.into(), value, is_fallback: false }
}

/// The application properties that say how the body is read: those of the newest version, which the payload is of.
fn headers(table: &TypeTable, of: &MessageType, side: Side) -> Option<Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    if let Some(property) = table.type_property() {
        let name = match side {
            Side::Sending => json!({ "type": "string", "const": of.name() }),
            Side::Receiving => {
                let names: Vec<_> = std::iter::once(of.name()).chain(of.other_names().iter().copied()).collect();
                json!({ "type": "string", "enum": names })
            }
        };
        properties.insert(property.into(), name);
        required.push(property);
    }
    if let (Some(first), Some(newest)) = (of.known_versions().first(), of.newest()) {
        let mut version = json!({ "type": "integer", "const": newest });
        // Without the property, the body is of the first version.
        let is_needed = *first != newest;
        if side == Side::Receiving && is_needed {
            version["description"] = format!("A message without it has a body of version {first}").into();
        }
        properties.insert(table.property_of_version().into(), version);
        if side == Side::Sending || is_needed {
            required.push(table.property_of_version());
        }
    }
    if properties.is_empty() {
        return None;
    }
    let mut headers = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        headers["required"] = json!(required);
    }
    Some(headers)
}
