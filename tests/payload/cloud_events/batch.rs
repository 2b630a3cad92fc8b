use consign::{
    Disposition, Message,
    cloud_events::{CloudEvent, CloudEventBatch, CloudEventError, Mode},
    codecs::Codecs,
    message::{MessageBody, Value},
    routing::Router,
    settlement::DeadLetterReason,
};
use tower::ServiceExt;

use super::{JSON, binary, event, structured};

const EVENT: &str = r#"{"specversion":"1.0","id":"1","source":"/s","type":"t"}"#;

fn batch(body: impl Into<MessageBody>) -> Message {
    Message::builder().content_type("application/cloudevents-batch+json; charset=UTF-8").build(body).unwrap()
}

fn read(body: &str) -> Result<CloudEventBatch, CloudEventError> {
    CloudEventBatch::from_message(&batch(body.to_owned()))
}

/// Rules: H-125.
#[test]
fn a_batch_is_the_events_of_an_array() {
    let events = vec![event().with_data("application/json", "[1,  2]").unwrap(), event().with_subject("s").unwrap()];
    let written = CloudEventBatch::new(events.clone()).to_message().unwrap();
    assert_eq!(written.content_type(), Some("application/cloudevents-batch+json; charset=utf-8"));
    let expected = r#"[{"specversion":"1.0","datacontenttype":"application/json","id":"1","source":"/s","type":"t","data":[1,  2]},{"specversion":"1.0","id":"1","source":"/s","subject":"s","type":"t"}]"#;
    assert_eq!(written.payload(), Some(expected.as_bytes()));
    assert_eq!(CloudEventBatch::from_message(&written).unwrap().into_events(), events);

    assert_eq!(read("[]").unwrap().events(), []);
    assert_eq!(CloudEventBatch::default().to_message().unwrap().payload(), Some(&b"[]"[..]));
    assert_eq!(read(&format!("\u{feff} [ {EVENT} , {EVENT} ] ")).unwrap().iter().count(), 2);
}

/// Rules: H-125.
#[test]
fn one_broken_event_is_named_by_its_index() {
    let json = |column| CloudEventError::Json { line: 1, column };
    let in_batch = |index, error| CloudEventError::InBatch { index, error: Box::new(error) };
    for (body, error) in [
        ("", json(0)),
        ("{}", json(0)),
        (&format!("[{EVENT}"), json(EVENT.len() + 1)),
        (&format!("[{EVENT}] x"), json(EVENT.len() + 4)),
        (&format!("[{EVENT},7]"), in_batch(1, json(1))),
        (&format!("[{EVENT},{EVENT},{{}},7]"), in_batch(2, CloudEventError::Version)),
        (&format!("[{}]", EVENT.replace("\"t\"", "\"\"")), in_batch(0, CloudEventError::Missing("type"))),
    ] {
        assert_eq!(read(body).unwrap_err(), error, "{body}");
    }
    let shown = read("[{}]").unwrap_err().to_string();
    assert_eq!(shown, "event 0 of the batch: the `specversion` of the CloudEvent is missing or not `1.0`");
    let value = batch(Value::from(7));
    assert_eq!(CloudEventBatch::from_message(&value).unwrap_err(), CloudEventError::NotBytes);
    let upper = CloudEvent::from_message(&structured(EVENT.replace('}', ",\"A\":1}"))).unwrap();
    let written = CloudEventBatch::from(vec![event(), upper]).to_message();
    assert_eq!(written.unwrap_err(), in_batch(1, CloudEventError::WrittenName("A".into())));
}

/// Rules: H-125.
#[tokio::test]
async fn a_handler_takes_a_batch_and_a_single_event_is_a_batch_of_one() {
    let handler = async |batch: CloudEventBatch| assert_eq!(batch.iter().next().unwrap().id().len(), 14);
    let router = Router::new(Codecs::json()).fallback(handler).build().unwrap();
    for message in [batch(format!("[{JSON}]")), structured(JSON), binary("ce-")] {
        assert_eq!(router.clone().oneshot(message).await.unwrap(), Disposition::Complete);
    }
    for message in [batch("[{}]"), Message::new("[]")] {
        let Disposition::DeadLetter(letter) = router.clone().oneshot(message).await.unwrap() else {
            panic!("a dead letter")
        };
        assert_eq!(letter.reason, DeadLetterReason::DeserializationFailed);
    }
    // A handler that takes one event takes no batch.
    assert_eq!(CloudEvent::from_message(&batch("[]")), Err(CloudEventError::Batch));
}

/// Rules: H-126.
#[test]
fn the_structured_content_type_is_what_other_sdks_compare_with() {
    let message = event().to_message(Mode::Structured).unwrap();
    assert_eq!(message.content_type(), Some("application/cloudevents+json; charset=utf-8"));
    let read = |content_type: &'static str, body: &[u8]| {
        CloudEvent::from_message(&Message::builder().content_type(content_type).build(body.to_vec()).unwrap())
    };
    for content_type in [
        "application/cloudevents+json",
        "Application/CloudEvents+JSON;charset=\"UTF-8\"",
        "application/cloudevents+json; charset=us-ascii",
    ] {
        assert_eq!(read(content_type, EVENT.as_bytes()), Ok(event()), "{content_type}");
        assert_eq!(read(content_type, format!("\u{feff}{EVENT}").as_bytes()), Ok(event()), "{content_type}");
    }
    // JSON is UTF-8 whatever is declared.
    let latin = EVENT.as_bytes().strip_suffix(b"\"}").map(|start| [start, b"\xe9\"}"].concat()).unwrap();
    let refused = read("application/cloudevents+json; charset=iso-8859-1", &latin).unwrap_err();
    assert!(matches!(refused, CloudEventError::Json { line: 1, column } if column > 50), "{refused}");
    for content_type in
        ["application/cloudevents+avro", "application/cloudevents-batch+protobuf", "application/cloudevents"]
    {
        let error = read(content_type, EVENT.as_bytes()).unwrap_err();
        assert_eq!(error, CloudEventError::Format(content_type.into()));
        assert!(error.to_string().ends_with("and `application/cloudevents+json` is expected"), "{error}");
    }
}
