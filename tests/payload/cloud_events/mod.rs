//! CloudEvents; those of other producers are in `foreign`.

mod batch;
mod foreign;
mod prefixes;

use consign::{
    Disposition, Message,
    cloud_events::{Attribute, CloudEvent, CloudEventBatch, CloudEventError, Mode, Prefix},
    codecs::{Codecs, MessagePack},
    message::{PropertyValue, Value},
    routing::Router,
    settlement::DeadLetterReason,
    time::Timestamp,
};
use proptest::{collection::vec, prelude::*};
use tower::ServiceExt;

use crate::random::{explain, runner};

const MODES: [Mode; 3] = [Mode::Binary, Mode::BinaryWith(Prefix::Colon), Mode::Structured];

/// The JSON event format 1.0.2, 3.2.
const JSON: &str = r#"{
    "specversion" : "1.0",
    "type" : "com.example.someevent",
    "source" : "/mycontext",
    "subject": null,
    "id" : "C234-1234-1234",
    "time" : "2018-04-05T17:31:00Z",
    "comexampleextension1" : "value",
    "comexampleothervalue" : 5,
    "datacontenttype" : "application/json",
    "data" : {
        "appinfoA" : "abc",
        "appinfoB" : 123,
        "appinfoC" : true
    }
}"#;

fn structured(body: impl Into<String>) -> Message {
    Message::builder().content_type("application/cloudevents+json; charset=utf-8").build(body.into()).unwrap()
}

fn read(body: &str) -> Result<CloudEvent, CloudEventError> {
    CloudEvent::from_message(&structured(body))
}

/// The AMQP protocol binding 1.0.2, 3.1.4.
fn binary(prefix: &str) -> Message {
    let property = |name| format!("{prefix}{name}");
    Message::builder()
        .property(property("specversion"), "1.0")
        .property(property("type"), "com.example.someevent")
        .property(property("time"), "2018-04-05T03:56:24Z")
        .property(property("id"), "1234-1234-1234")
        .property(property("source"), "/mycontext/subcontext")
        .property("another", "property")
        .content_type("application/json; charset=utf-8")
        .build(r#"{"id":1}"#)
        .unwrap()
}

fn event() -> CloudEvent {
    CloudEvent::new("1", "/s", "t").unwrap()
}

/// Rules: H-60.
#[test]
fn the_example_of_the_json_format_is_read() {
    let event = read(JSON).unwrap();
    assert_eq!(
        (event.id(), event.source(), event.event_type()),
        ("C234-1234-1234", "/mycontext", "com.example.someevent")
    );
    assert_eq!((event.subject(), event.time()), (None, Some("2018-04-05T17:31:00Z")));
    assert_eq!(event.attribute("comexampleextension1"), Some(&"value".into()));
    assert_eq!(event.attribute("comexampleothervalue"), Some(&5.into()));
    assert_eq!(event.data_content_type(), Some("application/json"));
    let data: serde_json::Value = event.decode(&Codecs::json()).unwrap();
    assert_eq!(data, serde_json::json!({"appinfoA": "abc", "appinfoB": 123, "appinfoC": true}));
}

/// Rules: H-60.
#[test]
fn the_example_of_the_amqp_binding_is_read_with_both_prefixes() {
    for prefix in ["cloudEvents:", "cloudEvents_"] {
        let event = CloudEvent::from_message(&binary(prefix)).unwrap();
        assert_eq!((event.id(), event.source()), ("1234-1234-1234", "/mycontext/subcontext"));
        assert_eq!((event.time(), event.data()), (Some("2018-04-05T03:56:24Z"), Some(&br#"{"id":1}"#[..])));
        assert_eq!(event.data_content_type(), Some("application/json; charset=utf-8"));
        assert_eq!(event.attributes().count(), 5);
    }
}

/// Rules: H-61.
#[test]
fn written_events_equal_those_of_the_specification() {
    let codecs = Codecs::json();
    let event = event().with_subject("s\"").unwrap().with_time("2018-04-05T17:31:00Z").unwrap();
    let event = event.with_extension("number", 5).unwrap().with_extension("truth", true).unwrap();
    let event = event.with_value(&codecs, &(1, "a")).unwrap();
    let message = event.to_message(Mode::Structured).unwrap();
    assert_eq!(message.content_type(), Some("application/cloudevents+json; charset=utf-8"));
    let expected = r#"{"specversion":"1.0","datacontenttype":"application/json","id":"1","number":5,"source":"/s","subject":"s\"","time":"2018-04-05T17:31:00Z","truth":true,"type":"t","data":[1,"a"]}"#;
    assert_eq!(message.payload(), Some(expected.as_bytes()));

    let message = event.to_message(Mode::Binary).unwrap();
    assert_eq!((message.content_type(), message.payload()), (Some("application/json"), Some(&br#"[1,"a"]"#[..])));
    let properties: Vec<_> =
        message.application_properties().iter().map(|(name, value)| (name, value.clone())).collect();
    let expected: [(&str, PropertyValue); 7] = [
        ("cloudEvents_id", "1".into()),
        ("cloudEvents_number", 5.into()),
        ("cloudEvents_source", "/s".into()),
        ("cloudEvents_specversion", "1.0".into()),
        ("cloudEvents_subject", "s\"".into()),
        ("cloudEvents_time", "2018-04-05T17:31:00Z".into()),
        ("cloudEvents_truth", true.into()),
    ];
    assert_eq!(properties[..7], expected);
    assert_eq!(properties[7], ("cloudEvents_type", "t".into()));
}

/// Rules: H-62.
#[test]
fn data_goes_as_its_type_says() {
    for (content_type, data, member) in [
        ("application/json", "{\"a\": 1.10}", r#""data":{"a": 1.10}"#),
        ("application/vnd.x+json;v=1", "12345678901234567890123", r#""data":12345678901234567890123"#),
        ("application/json", "not json", r#""data_base64":"bm90IGpzb24=""#),
        // White space around it is data too.
        ("application/json", "{}\n", r#""data_base64":"e30K""#),
        ("application/json", " [ 1 ]", r#""data_base64":"IFsgMSBd""#),
        ("application/json", "[ 1 ]", r#""data":[ 1 ]"#),
        ("application/xml", "<much wow=\"xml\"/>", r#""data":"<much wow=\"xml\"/>""#),
        ("text/plain", "", r#""data":"""#),
        ("application/vnd.apache.thrift.binary", "x", r#""data_base64":"eA==""#),
        ("application/octet-stream", "", r#""data_base64":"""#),
    ] {
        let event = event().with_data(content_type, data).unwrap();
        let message = event.to_message(Mode::Structured).unwrap();
        let body = std::str::from_utf8(message.payload().unwrap()).unwrap();
        assert!(body.ends_with(&format!(",{member}}}")), "{body}");
        assert_eq!(CloudEvent::from_message(&message).unwrap(), event);
    }
    let text = event().with_data("text/plain", b"\xff".to_vec()).unwrap();
    assert_eq!(CloudEvent::from_message(&text.to_message(Mode::Structured).unwrap()).unwrap(), text);
    // Without a type it is JSON.
    let event = read(r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data":null}"#).unwrap();
    assert_eq!((event.data(), event.data_content_type()), (Some(&b"null"[..]), None));
    let event = CloudEvent::from_message(&event.to_message(Mode::Structured).unwrap()).unwrap();
    assert_eq!(event.data(), Some(&b"null"[..]));
}

/// Rules: H-63.
/// Attacks: 44.
#[test]
fn each_broken_rule_has_its_own_error() {
    let with = |members: &str| read(&format!(r#"{{"specversion":"1.0","id":"1","source":"/s","type":"t"{members}}}"#));
    with("").unwrap();
    let invalid = |name: &str| CloudEventError::Invalid(name.into());
    for (members, error) in [
        (r#","id":"2""#, CloudEventError::Twice("id".into())),
        (r#","subject":"""#, invalid("subject")),
        (r#","time":"yesterday""#, invalid("time")),
        (r#","time":5"#, invalid("time")),
        (r#","dataschema":"""#, invalid("dataschema")),
        (r#","ext":1.5"#, invalid("ext")),
        (r#","ext":1e2"#, invalid("ext")),
        (r#","ext":{}"#, invalid("ext")),
        (r#","ext":["x"]"#, invalid("ext")),
        (r#","ext":"a\u0000b""#, invalid("ext")),
        (r#","a b":"x""#, CloudEventError::Name("a b".into())),
        (r#","é":"x""#, CloudEventError::Name("é".into())),
        (r#","":"x""#, CloudEventError::Name("".into())),
        (r#","data":1,"data_base64":"eA==""#, CloudEventError::Data),
        (r#","data_base64":"eA""#, CloudEventError::Data),
        (r#","data_base64":5"#, CloudEventError::Data),
        (r#","datacontenttype":"text/plain","data":{}"#, CloudEventError::Data),
    ] {
        assert_eq!(with(members).unwrap_err(), error, "{members}");
    }
    for (body, error) in [
        ("", CloudEventError::Json { line: 1, column: 0 }),
        ("[]", CloudEventError::Json { line: 1, column: 0 }),
        ("{\n} {}", CloudEventError::Json { line: 2, column: 3 }),
        (r#"{"id":"1","source":"/s","type":"t"}"#, CloudEventError::Version),
        (r#"{"specversion":1.0,"id":"1","source":"/s","type":"t"}"#, CloudEventError::Invalid("specversion".into())),
        (r#"{"specversion":"0.3","id":"1","source":"/s","type":"t"}"#, CloudEventError::Version),
        (r#"{"specversion":"1.0","id":"","source":"/s","type":"t"}"#, CloudEventError::Missing("id")),
        (r#"{"specversion":"1.0","id":"1","source":null,"type":"t"}"#, CloudEventError::Missing("source")),
        (r#"{"specversion":"1.0","id":"1","source":"/s"}"#, CloudEventError::Missing("type")),
        (r#"{"specversion":"1.0","id":1,"source":"/s","type":"t"}"#, CloudEventError::Invalid("id".into())),
    ] {
        assert_eq!(read(body).unwrap_err(), error, "{body}");
    }
    let mut binary_ = binary("cloudEvents_");
    binary_.properties_mut().application_properties_mut().insert("cloudEvents_ext", 1.5);
    assert_eq!(CloudEvent::from_message(&binary_).unwrap_err(), invalid("ext"));
    // The type of the data has a place of its own, which may not disagree.
    let mut binary_ = binary("cloudEvents_");
    binary_.properties_mut().application_properties_mut().insert("cloudEvents_datacontenttype", "text/plain");
    assert_eq!(CloudEvent::from_message(&binary_).unwrap_err(), invalid("datacontenttype"));
    let of = |content_type: &'static str| Message::builder().content_type(content_type).build("[]").unwrap();
    for (message, error) in [
        (of("application/json"), CloudEventError::NotAnEvent),
        (of("application/cloudevents-batch+json"), CloudEventError::Batch),
        (binary("cloudEvents:").with_body(Value::from(7)), CloudEventError::NotBytes),
    ] {
        assert_eq!(CloudEvent::from_message(&message).unwrap_err(), error);
    }
    assert!(CloudEvent::new("", "/s", "t").is_err() && event().with_extension("specversion", "1.1").is_err());
    assert!(event().with_extension("data", "x").is_err());
}

/// Rules: H-09.
#[tokio::test]
async fn a_compressed_event_is_a_dead_letter() {
    let router = Router::new(Codecs::json()).route("one", async |_: CloudEvent| {});
    let router = router.route("batch", async |_: CloudEventBatch| {}).build().unwrap();
    let batch = CloudEventBatch::new(vec![event()]).to_message().unwrap();
    for (subject, message) in [
        ("one", event().with_data("application/octet-stream", "x").unwrap().to_message(Mode::Binary).unwrap()),
        ("one", structured(JSON)),
        ("batch", structured(JSON)),
        ("batch", batch),
    ] {
        let mut message = message;
        message.properties_mut().set_subject(subject);
        message.properties_mut().pass_through_mut().content_encoding = Some("utf-8".into());
        assert_eq!(router.clone().oneshot(message.clone()).await.unwrap(), Disposition::Complete);
        message.properties_mut().pass_through_mut().content_encoding = Some("gzip, UTF-8".into());
        let Disposition::DeadLetter(letter) = router.clone().oneshot(message).await.unwrap() else {
            panic!("a dead letter")
        };
        assert_eq!(letter.reason, DeadLetterReason::UnsupportedEncoding);
        let expected = "the content encoding `gzip` needs a `DecompressLayer` (feature `gzip` of consign)";
        assert_eq!(letter.description, expected);
    }
    let mut other = Message::builder().content_type("image/png").build("").unwrap();
    other.properties_mut().pass_through_mut().content_encoding = Some("gzip".into());
    assert_eq!(CloudEvent::from_message(&other), Err(CloudEventError::NotAnEvent));
}

/// Rules: H-63.
#[test]
fn an_event_has_at_most_1_026_members() {
    let of = |extensions: usize| {
        let members = (0..extensions).map(|n| format!(r#","e{n}":{n}"#)).collect::<Vec<_>>().concat();
        read(&format!(r#"{{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1{members}}}"#))
    };
    let most = of(1_021).unwrap();
    assert_eq!(
        read(str::from_utf8(most.to_message(Mode::Structured).unwrap().payload().unwrap()).unwrap()),
        Ok(most.clone())
    );
    for error in [
        of(1_022).unwrap_err(),
        most.with_extension("more", 1).unwrap().to_message(Mode::Structured).unwrap_err(),
        read(&format!("{{{}\"x\":0}}", "\"\":0,".repeat(5_000))).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "the properties are more than 1024");
    }
}

/// Rules: H-63.
#[test]
fn a_member_for_bytes_that_is_null_is_missing() {
    let with = |members: &str| read(&format!(r#"{{"specversion":"1.0","id":"1","source":"/s","type":"t"{members}}}"#));
    assert_eq!(with(r#","data":{"a":1},"data_base64":null"#).unwrap().data(), Some(&br#"{"a":1}"#[..]));
    assert_eq!(with(r#","data_base64": null"#).unwrap().data(), None);
    assert_eq!(with(r#","data":null,"data_base64":"eA==""#).unwrap_err(), CloudEventError::Data);
}

/// Rules: H-64.
#[test]
fn an_event_without_data_has_none_unless_a_binary_message_says_its_type() {
    for mode in MODES {
        let event = event();
        assert_eq!(CloudEvent::from_message(&event.to_message(mode).unwrap()).unwrap(), event, "{mode:?}");
    }
    let typed =
        read(r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain"}"#).unwrap();
    assert_eq!(CloudEvent::from_message(&typed.to_message(Mode::Structured).unwrap()).unwrap(), typed);
    let binary = CloudEvent::from_message(&typed.to_message(Mode::Binary).unwrap()).unwrap();
    assert_eq!((typed.data(), binary.data()), (None, Some(&b""[..])));
}

/// Rules: B-270.
#[test]
fn a_binary_and_a_string_value_are_the_data() {
    let bytes = binary("cloudEvents:").payload().unwrap().to_vec();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let expected = CloudEvent::from_message(&binary("cloudEvents:")).unwrap();
    for body in [Value::from(bytes::Bytes::from(bytes)), Value::from(text)] {
        let message = binary("cloudEvents:").with_body(body);
        assert_eq!(CloudEvent::from_message(&message).unwrap(), expected);
    }
    let body = Value::from(bytes::Bytes::from_static(JSON.as_bytes()));
    assert_eq!(CloudEvent::from_message(&structured("").with_body(body)).unwrap(), read(JSON).unwrap());
}

/// Rules: H-63.
#[test]
fn instants_have_the_form_of_rfc_3339() {
    for right in ["2018-04-05T17:31:00Z", "2018-04-05t17:31:60.123456789+23:59", "0000-01-01T00:00:00-00:00"] {
        event().with_time(right).expect(right);
    }
    for wrong in [
        "2018-04-05",
        "2018-04-05 17:31:00Z",
        "2018-4-05T17:31:00Z",
        "2018-04-05T17:31Z",
        "2018-04-05T17:31:00",
        "2018-13-05T17:31:00Z",
        "2018-04-05T24:31:00Z",
        "2018-04-05T17:31:00.Z",
        "2018-04-05T17:31:00+2:00",
        "2018-04-05T17:31:00Zx",
        "2018-04-05T17:31:00Z01:00",
        "+018-04-05T17:31:00Z",
    ] {
        event().with_time(wrong).expect_err(wrong);
    }
    let mut message = binary("cloudEvents:");
    message.properties_mut().application_properties_mut().insert("cloudEvents:time", Timestamp::from_millis(0));
    assert_eq!(CloudEvent::from_message(&message).unwrap().time(), Some("1970-01-01T00:00:00.000Z"));
}

/// Rules: H-64.
#[test]
fn any_event_comes_back_in_both_modes() {
    let text = "[^\\p{Cc}]{1,12}";
    let attribute = prop_oneof![
        any::<bool>().prop_map(Attribute::from),
        any::<i32>().prop_map(Attribute::from),
        text.prop_map(Attribute::from),
    ];
    let extensions = vec(("ext[a-z0-9]{1,10}", attribute), 0..5);
    let types = prop_oneof!["text/plain", "application/json", "application/x-other", "image/svg\\+xml"];
    let events = (text, text, text, extensions, types, vec(any::<u8>(), 0..40));
    let result = runner(500).run(&events, |(id, source, event_type, extensions, content_type, data)| {
        let mut event = CloudEvent::new(id, source, event_type).unwrap().with_data(content_type, data).unwrap();
        for (name, value) in extensions {
            event = event.with_extension(&name, value).unwrap();
        }
        for mode in MODES {
            let message = event.to_message(mode).unwrap();
            prop_assert_eq!(&CloudEvent::from_message(&message).unwrap(), &event, "{:?}", mode);
        }
        Ok(())
    });
    explain(result, "any_event_comes_back_in_both_modes");
}

/// Rules: H-64.
#[test]
fn random_bytes_panic_no_reader() {
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 1..5);
    let result = runner(2_000).run(&(changes, vec(any::<u8>(), 0..40)), |(changes, noise)| {
        let mut body = JSON.as_bytes().to_vec();
        for (at, byte) in &changes {
            let at = at.index(body.len());
            body[at] = *byte;
        }
        for body in [body, noise] {
            let _ = CloudEvent::from_message(&structured("").with_body(body));
        }
        Ok(())
    });
    explain(result, "random_bytes_panic_no_reader");
}

/// Rules: H-65.
/// Attacks: 44.
#[tokio::test]
async fn a_handler_takes_an_event_and_what_is_none_is_a_dead_letter() {
    let codecs = Codecs::builder().with(consign::codecs::Json::default()).with(MessagePack).build().unwrap();
    let handler = async |event: CloudEvent| assert_eq!(event.event_type(), "com.example.someevent");
    let router = Router::new(codecs).fallback(handler).build().unwrap();
    for message in [structured(JSON), binary("cloudEvents:"), binary("cloudEvents_")] {
        assert_eq!(router.clone().oneshot(message).await.unwrap(), Disposition::Complete);
    }
    for message in [structured("{}"), Message::new("{}")] {
        let Disposition::DeadLetter(letter) = router.clone().oneshot(message).await.unwrap() else {
            panic!("a dead letter")
        };
        assert_eq!(letter.reason, DeadLetterReason::DeserializationFailed);
    }
    let shown = format!("{:?}", read(JSON).unwrap());
    assert!(!shown.contains("abc") && !shown.contains("C234"), "{shown}");
}
