use consign_core::{Message, message::PropertyValue};
use consign_http::{MessageErrorKind as Kind, from_batch, to_batch};

fn refusal(body: &str) -> Kind {
    let error = from_batch(body.as_bytes(), 3).unwrap_err();
    assert!(!error.to_string().contains("canary"), "{error}");
    error.kind()
}

/// Rules: HT-02.
#[test]
fn a_batch_is_an_array_of_messages() {
    let body = r#"[{"Body":"one","BrokerProperties":{"Label":"M1","ContentType":"text/plain"},"UserProperties":{"Priority":"Low","n":5,"f":0.5,"b":true}},
        {"Body":"two"},{}]"#;
    let messages = from_batch(body.as_bytes(), 3).unwrap();
    let bodies: Vec<_> = messages.iter().map(|message| message.payload().unwrap()).collect();
    assert_eq!(bodies, [&b"one"[..], b"two", b""]);
    assert_eq!((messages[0].subject(), messages[0].content_type()), (Some("M1"), Some("text/plain")));
    let properties: Vec<_> = messages[0].application_properties().iter().collect();
    assert_eq!(
        properties,
        [("Priority", &"Low".into()), ("b", &true.into()), ("f", &0.5_f64.into()), ("n", &PropertyValue::I64(5)),]
    );
    let again = from_batch(&to_batch(&messages).unwrap(), 3).unwrap();
    for (one, other) in messages.iter().zip(&again) {
        assert_eq!((one.properties(), one.body()), (other.properties(), other.body()));
    }
}

#[test]
fn what_is_not_a_batch_is_refused_without_its_values() {
    for body in [
        "",
        "{}",
        "canary",
        "[1]",
        "[{}",
        "[{}] 1",
        "[{},{},{},{}]",
        r#"[{"Body":5}]"#,
        r#"[{"Body":{"a":"canary"}}]"#,
        r#"[{"BrokerProperties":"canary"}]"#,
        r#"[{"UserProperties":[]}]"#,
        r#"[{"body":"canary"}]"#,
    ] {
        assert_eq!(refusal(body), Kind::Batch, "{body}");
    }
    assert_eq!(refusal(r#"[{"UserProperties":{"a":["canary"]}}]"#), Kind::ApplicationProperty);
    assert_eq!(refusal(r#"[{"BrokerProperties":{"Label":5}}]"#), Kind::BrokerProperty);
    assert_eq!(refusal(r#"[{"BrokerProperties":{"MessageId":""}}]"#), Kind::InvalidArgument);
    assert_eq!(refusal(&"[".repeat(100_000)), Kind::Batch);
}

#[test]
fn a_body_that_is_not_text_has_no_batch() {
    assert_eq!(to_batch([&Message::new(vec![0xff])]).unwrap_err().kind(), Kind::Body);
}
