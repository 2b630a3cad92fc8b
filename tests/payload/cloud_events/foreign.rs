//! Events that the SDKs for Python and JavaScript have written, as the programs in `golden` tell. Each file there was
//! written by the program of its name.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use consign::{
    Message,
    cloud_events::{CloudEvent, CloudEventBatch, Mode},
    message::PropertyValue,
};
use serde::Deserialize;

/// A message as its producer's client would hand it over, and what the producer had put into the event.
#[derive(Deserialize)]
struct Golden {
    name: String,
    content_type: Option<String>,
    properties: BTreeMap<String, Scalar>,
    body: String,
    attributes: BTreeMap<String, String>,
    data: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Truth(bool),
    Integer(i64),
    Text(String),
}

impl Golden {
    fn message(&self) -> Message {
        let mut message = Message::builder();
        if let Some(content_type) = &self.content_type {
            message = message.content_type(content_type.clone());
        }
        for (name, value) in &self.properties {
            let value = match value {
                Scalar::Truth(value) => PropertyValue::from(*value),
                Scalar::Integer(value) => PropertyValue::I64(*value),
                Scalar::Text(value) => PropertyValue::from(value.clone()),
            };
            message = message.property(name.clone(), value);
        }
        message.build(STANDARD.decode(&self.body).unwrap()).unwrap()
    }
}

fn read(name: &str, json: &str, count: usize) {
    let events: Vec<Golden> = serde_json::from_str(json).unwrap();
    assert_eq!(events.len(), count, "{name}");
    for golden in &events {
        let event = CloudEvent::from_message(&golden.message())
            .unwrap_or_else(|error| panic!("{name}: {}: {error}", golden.name));
        let attributes: BTreeMap<_, _> =
            event.attributes().map(|(name, value)| (name.into(), value.to_string())).collect();
        assert_eq!(attributes, golden.attributes, "{name}: {}", golden.name);
        let data = event.data().map(|data| STANDARD.encode(data));
        assert_eq!(data, golden.data, "{name}: {}", golden.name);
        // It can be sent on, but for names that no specification allows.
        let is_allowed = event.attributes().all(|(name, _)| !name.contains(['_', '-']));
        assert_eq!(event.to_message(Mode::Binary).is_ok(), is_allowed, "{name}: {}", golden.name);
    }
}

/// Rules: H-120.
#[test]
fn events_of_other_sdks_are_read_as_they_were_written() {
    read("python 2", include_str!("golden/python_2.json"), 56);
    read("python 1", include_str!("golden/python_1.json"), 8);
    read("javascript", include_str!("golden/javascript.json"), 24);
}

/// Rules: H-120.
#[test]
fn a_batch_of_another_sdk_is_read() {
    let batch = Message::builder().content_type("application/cloudevents-batch+json; charset=utf-8");
    let batch = batch.build(include_str!("golden/javascript_batch.json").trim().to_owned()).unwrap();
    let batch = CloudEventBatch::from_message(&batch).unwrap();
    let subjects: Vec<_> = batch.iter().map(|event| (event.subject(), event.data().map(<[u8]>::len))).collect();
    let json = Some(br#"{"id":7}"#.len());
    assert_eq!(
        subjects,
        [(None, None), (Some("order 7"), json), (None, Some("café".len())), (None, json), (None, json)]
    );
}
