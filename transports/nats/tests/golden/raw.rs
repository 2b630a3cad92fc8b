//! What the server stores, read and written by its client alone.

use consign_conformance::golden;
use consign_nats::async_nats::{
    Client, HeaderMap, HeaderValue,
    jetstream::{self, Context},
};
use serde_json::{Value as Json, json};

/// What stands in a file for the namespace, which no two runs share.
const NAMESPACE: &str = "NAMESPACE";

/// The settings of a stream and of a consumer that this crate chooses. Others are the server's.
const OF_STREAM: [&str; 10] = [
    "name",
    "subjects",
    "retention",
    "storage",
    "discard",
    "max_msgs_per_subject",
    "max_bytes",
    "max_age",
    "duplicate_window",
    "allow_direct",
];
const OF_CONSUMER: [&str; 8] = [
    "durable_name",
    "deliver_policy",
    "ack_policy",
    "ack_wait",
    "max_deliver",
    "replay_policy",
    "max_ack_pending",
    "filter_subject",
];

pub(crate) struct Raw {
    context: Context,
    namespace: String,
}

impl Raw {
    pub(crate) fn new(client: &Client, namespace: &str) -> Self {
        Self { context: jetstream::new(client.clone()), namespace: namespace.to_owned() }
    }

    async fn request(&self, subject: &str, payload: &Json) -> Json {
        let answer: Json = self.context.request(subject.to_owned(), payload).await.expect("a server that answers");
        assert!(answer["error"].is_null(), "{subject}: {answer}");
        answer
    }

    /// The streams of these names, their consumers and their messages.
    pub(crate) async fn read(&self, streams: &[&str]) -> Vec<Json> {
        let mut entries = Vec::new();
        for name in streams {
            self.read_stream(&format!("{}_{name}", self.namespace), &mut entries).await;
        }
        let text = json!(entries).to_string().replace(&self.namespace, NAMESPACE);
        serde_json::from_str(&constant_ids(&text)).expect("JSON")
    }

    async fn read_stream(&self, name: &str, entries: &mut Vec<Json>) {
        let info = self.request(&format!("STREAM.INFO.{name}"), &json!({})).await;
        let mut stream = picked(&info["config"], &OF_STREAM);
        let description = info["config"]["description"].as_str().unwrap_or_default();
        stream["description"] = serde_json::from_str(description).expect("JSON");
        entries.push(json!({ "stream": stream }));
        let listed = self.request(&format!("CONSUMER.LIST.{name}"), &json!({})).await;
        for consumer in listed["consumers"].as_array().into_iter().flatten() {
            // That of the holder of a session goes with the holder.
            if !is_holder(consumer["name"].as_str().unwrap_or_default()) {
                entries.push(json!({ "consumer": picked(&consumer["config"], &OF_CONSUMER), "of": name }));
            }
        }
        let stream = self.context.get_stream(name).await.expect("a stream");
        let state = &stream.cached_info().state;
        for number in state.first_sequence..=state.last_sequence {
            let Ok(message) = stream.direct_get(number).await else { continue };
            let headers = message.headers.iter().filter_map(|(name, values)| header(name.as_ref(), values));
            let mut headers: Vec<_> = headers.collect();
            headers.sort_by_key(Json::to_string);
            let mut entry =
                json!({ "at": message.subject.as_str(), "headers": headers, "body": golden::bytes(&message.payload) });
            // The stream beside an entity is read by its subjects.
            if !name.ends_with("_x") {
                entry["number"] = json!(number);
            }
            entries.push(entry);
        }
    }

    /// Stores what [`read`](Self::read) has returned.
    pub(crate) async fn write(&self, entries: &[Json]) {
        let text = json!(entries).to_string().replace(NAMESPACE, &self.namespace);
        let entries: Vec<Json> = serde_json::from_str(&text).expect("JSON");
        let mut last = 0;
        for entry in &entries {
            if !entry["stream"].is_null() {
                let mut stream = entry["stream"].clone();
                stream["description"] = json!(stream["description"].to_string());
                let name = stream["name"].as_str().expect("a name").to_owned();
                self.request(&format!("STREAM.CREATE.{name}"), &stream).await;
                last = 0;
            } else if !entry["consumer"].is_null() {
                let stream = entry["of"].as_str().expect("a stream");
                let name = entry["consumer"]["durable_name"].as_str().expect("a name");
                let asked = json!({ "stream_name": stream, "config": entry["consumer"] });
                self.request(&format!("CONSUMER.DURABLE.CREATE.{stream}.{name}"), &asked).await;
            } else {
                let at = entry["at"].as_str().expect("a subject");
                // A message that was removed has left its number.
                while entry["number"].as_u64().is_some_and(|number| number > last + 1) {
                    last = self.publish(at, HeaderMap::new(), Vec::new(), true).await;
                }
                last = self.publish(at, headers(&entry["headers"]), golden::bytes_of(&entry["body"]), false).await;
                assert!(entry["number"].as_u64().is_none_or(|number| number == last), "{entry} is {last}");
            }
        }
    }

    async fn publish(&self, at: &str, headers: HeaderMap, body: Vec<u8>, is_removed: bool) -> u64 {
        let sent = self.context.publish_with_headers(at.to_owned(), headers, body.into()).await;
        let stored = sent.expect("a server").await.expect("a server that takes it");
        if is_removed {
            let stream = self.context.get_stream(&stored.stream).await.expect("a stream");
            stream.delete_message(stored.sequence).await.expect("a message");
        }
        stored.sequence
    }
}

fn picked(config: &Json, names: &[&str]) -> Json {
    names
        .iter()
        .filter(|name| !config[**name].is_null())
        .map(|name| ((*name).to_owned(), config[*name].clone()))
        .collect()
}

/// A header as it is stored: a read adds those of the first kind.
fn header(name: &str, values: &[HeaderValue]) -> Option<Json> {
    let values: Vec<&str> = values.iter().map(HeaderValue::as_str).collect();
    match name {
        "Nats-Sequence" | "Nats-Stream" | "Nats-Subject" | "Nats-Time-Stamp" => None,
        "Sb-Enqueued-Time" | "Sb-Locked-Until" => Some(json!([name, "1600000000000"])),
        // The holder of a session writes its record again and again.
        "Nats-Expected-Last-Subject-Sequence" => Some(json!([name, "0"])),
        _ => Some(json!([name, values.join("\n")])),
    }
}

fn headers(entry: &Json) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for pair in entry.as_array().expect("headers") {
        let (name, values) = (pair[0].as_str().expect("a name"), pair[1].as_str().expect("a value"));
        // An instruction to the server, which names what was there before.
        if !name.starts_with("Nats-Expected-") {
            values.split('\n').for_each(|value| headers.append(name, value));
        }
    }
    headers
}

fn is_holder(consumer: &str) -> bool {
    consumer.len() == 33 && consumer.starts_with('s') && consumer[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Replaces the ids of entities, and the names of the consumers of holders.
fn constant_ids(text: &str) -> String {
    let mut constant = golden::constant_uuids(text);
    for holder in text.split(|char: char| !char.is_ascii_alphanumeric()).filter(|word| is_holder(word)) {
        constant = constant.replace(holder, &format!("s{:032}", 0));
    }
    constant
}
