//! Events that the SDKs for Python and JavaScript have written, as the programs in `golden` tell. Each file there was
//! written by the program of its name.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use consign::{
    Disposition, Message,
    cloud_events::{CloudEvent, CloudEventBatch, CloudEventError, Mode},
    codecs::Codecs,
    message::PropertyValue,
    routing::Router,
};
use serde::Deserialize;
use tower::ServiceExt;

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

/// As Dapr publishes an event to a component without the metadata `rawPayload`: its envelope, with a ContentType that does not say so.
const DAPR: &str = r#"{"data":{"id":7},"datacontenttype":"application/json","id":"5929aaac-a5e2-4ca1-859c-edfe73f11565","pubsubname":"orders","source":"checkout","specversion":"1.0","time":"2026-03-01T12:00:00Z","topic":"placed","traceid":"00-113ad9c4e42b27583ae98ba698d54255-e3743e35ff56f219-01","traceparent":"00-113ad9c4e42b27583ae98ba698d54255-e3743e35ff56f219-01","tracestate":"","type":"com.dapr.event.sent"}"#;

/// Rules: H-66.
#[tokio::test]
async fn an_event_whose_content_type_does_not_say_so_is_read() {
    let of = |content_type: Option<&'static str>, body: String| match content_type {
        Some(content_type) => Message::builder().content_type(content_type).build(body).unwrap(),
        None => Message::new(body),
    };
    let mut declared = vec![None, Some(""), Some("text/plain"), Some("text/plain; charset=utf-8")];
    declared.extend([Some("Application/JSON"), Some("application/octet-stream")]);
    for content_type in declared {
        for body in [DAPR.to_owned(), format!("\u{feff} {DAPR}\n")] {
            let event = CloudEvent::from_message(&of(content_type, body)).unwrap();
            assert_eq!((event.event_type(), event.data()), ("com.dapr.event.sent", Some(&br#"{"id":7}"#[..])));
            assert_eq!(event, CloudEvent::from_json(DAPR.as_bytes()).unwrap());
        }
        for other in
            ["{}", "[]", "7", "", "{", r#"{"id":"1"}"#, r#"[{"specversion":"1.0"}]"#, r#"{"a":{"specversion":1}}"#]
        {
            let error = CloudEvent::from_message(&of(content_type, other.to_owned())).unwrap_err();
            assert_eq!(error, CloudEventError::NotAnEvent, "{other}");
        }
        // An event that breaks a rule is refused for that.
        let broken = of(content_type, r#"{"specversion":"0.3","id":"1","source":"/s","type":"t"}"#.to_owned());
        assert_eq!(CloudEvent::from_message(&broken), Err(CloudEventError::Version));
    }
    for other in ["image/png", "application/vnd.orders+json", "application/xml", "text"] {
        let error = CloudEvent::from_message(&of(Some(other), DAPR.to_owned())).unwrap_err();
        assert_eq!(error, CloudEventError::NotAnEvent, "{other}");
        assert!(error.to_string().contains("expected the ContentType `application/cloudevents+json`"), "{error}");
    }
    // Properties of binary mode come first, and a compressed body is not looked into.
    let mut binary = of(Some("application/json"), DAPR.to_owned());
    for (name, value) in [("specversion", "1.0"), ("id", "outer"), ("source", "/s"), ("type", "t")] {
        binary.properties_mut().application_properties_mut().insert(format!("ce-{name}"), value);
    }
    assert_eq!(CloudEvent::from_message(&binary).unwrap().id(), "outer");
    for (content_type, error) in [
        (None, CloudEventError::ContentEncoding("gzip".into())),
        (Some("text/plain"), CloudEventError::ContentEncoding("gzip".into())),
        (Some("application/xml"), CloudEventError::NotAnEvent),
    ] {
        let mut compressed = of(content_type, DAPR.to_owned());
        compressed.properties_mut().pass_through_mut().content_encoding = Some("gzip".into());
        assert_eq!(CloudEvent::from_message(&compressed), Err(error), "{content_type:?}");
    }
    // A handler gets it, and a batch of one.
    let router = Router::new(Codecs::json()).fallback(async |_: CloudEvent| {}).build().unwrap();
    assert_eq!(router.oneshot(of(Some("text/plain"), DAPR.to_owned())).await.unwrap(), Disposition::Complete);
    assert_eq!(CloudEventBatch::from_message(&of(None, DAPR.to_owned())).unwrap().events().len(), 1);
}

/// Rules: H-66, H-121.
#[test]
fn a_property_with_a_prefix_by_chance_does_not_hide_an_event() {
    for name in ["ce-tag", "CE_Region", "cloudEvents_x"] {
        let of = |body: &'static str| Message::builder().property(name, "eu").build(body).unwrap();
        assert_eq!(CloudEvent::from_message(&of(DAPR)), CloudEvent::from_json(DAPR.as_bytes()), "{name}");
        assert_eq!(CloudEvent::from_message(&of("{}")), Err(CloudEventError::Version), "{name}");
    }
}

/// Rules: H-63, H-66.
#[test]
fn the_limits_hold_for_an_event_from_any_source() {
    let of = |extensions: usize| {
        let members = (0..extensions).map(|n| format!(r#","e{n}":{n}"#)).collect::<Vec<_>>().concat();
        format!(r#"{{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1{members}}}"#)
    };
    let most = of(1_021);
    assert!(CloudEvent::from_json(most.as_bytes()).is_ok());
    assert!(CloudEvent::from_message(&Message::new(most)).is_ok());
    for more in [of(1_022), format!(r#"{{"specversion":"1.0"{}}}"#, r#","":0"#.repeat(5_000))] {
        for error in [CloudEvent::from_json(more.as_bytes()), CloudEvent::from_message(&Message::new(more.clone()))] {
            assert_eq!(error.unwrap_err().to_string(), "the properties are more than 1024");
        }
    }
    let deep = format!(r#"{{"specversion":"1.0","data":{}}}"#, "[".repeat(100_000));
    assert!(matches!(CloudEvent::from_json(deep.as_bytes()), Err(CloudEventError::Json { .. })));
    assert_eq!(CloudEvent::from_message(&Message::new(deep)), Err(CloudEventError::NotAnEvent));
    let twice = br#"{"specversion":"1.0","id":"1","id":"1","source":"/s","type":"t"}"#;
    assert_eq!(CloudEvent::from_json(twice), Err(CloudEventError::Twice("id".into())));
    assert_eq!(CloudEvent::from_json(b""), Err(CloudEventError::Json { line: 1, column: 0 }));
}
