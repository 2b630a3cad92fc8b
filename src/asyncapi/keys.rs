//! The keys of channels, messages, servers and schemas.

use serde_json::{Map, Value, json};

/// The key of the channel with this address, which is added if it is new.
pub(super) fn channel_of(channels: &mut Map<String, Value>, address: &str) -> String {
    let id = free_key(address, |id| channels.get(id).is_none_or(|other| other["address"] == address));
    channels.entry(&*id).or_insert_with(|| json!({ "address": address, "messages": {} }));
    id
}

/// Adds the channel of the replies to what comes to this address. Returns its key.
pub(super) fn channel_of_replies(channels: &mut Map<String, Value>, address: &str) -> String {
    let id = free_key(&format!("{address}.replies"), |id| !channels.contains_key(id));
    let channel = json!({
        "address": null,
        "summary": format!("Replies to requests at `{address}`"),
        "messages": {},
    });
    channels.insert(id.clone(), channel);
    id
}

/// Inserts a message into a channel, under a key made of its name. Returns a reference to it. An equal message of another
/// pipeline of the channel has the same key.
pub(super) fn insert(channels: &mut Map<String, Value>, channel: &str, message: Map<String, Value>) -> Value {
    let messages = &mut channels[channel]["messages"];
    let value = Value::from(message);
    let name = value["name"].as_str().unwrap_or_default();
    let id = free_key(name, |id| messages.get(id).is_none_or(|other| *other == value));
    messages[&id] = value;
    json!({ "$ref": format!("#/channels/{channel}/messages/{id}") })
}

/// The first key of this name that is free: names that differ may have one key.
pub(super) fn free_key(name: &str, is_free: impl Fn(&str) -> bool) -> String {
    let first = key(name);
    let mut id = first.clone();
    let mut count = 1;
    while !is_free(&id) {
        count += 1;
        id = format!("{first}.{count}");
    }
    id
}

/// AsyncAPI has keys of these characters.
pub(super) fn key(name: &str) -> String {
    let key = name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' });
    key.collect()
}
