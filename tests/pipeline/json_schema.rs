//! Validation of bodies by JSON Schema.

use consign::{
    BuildErrorKind, Disposition, Message,
    codecs::{Codec, Json, MediaType},
    message::{MessageBody, Value as AmqpValue},
    message_types::MessageTypes,
    middleware::json_schema::{JsonSchema, JsonSchemaLayer},
    pipeline::Pipeline,
    routing::{Handler as _, RawBody, Router, Typed},
    settlement::DeadLetterReason,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tower::{BoxError, Layer as _, ServiceBuilder, ServiceExt, service_fn};

fn order() -> JsonSchema {
    let schema = json!({
        "type": "object",
        "properties": {
            "count": { "type": "integer", "minimum": 1 },
            "sku": { "$ref": "#/$defs/sku" },
            "lines": { "type": "array", "items": { "type": "object", "required": ["id"] } },
        },
        "required": ["count"],
        "additionalProperties": { "type": "string" },
        "$defs": { "sku": { "pattern": "^[a-z]+-[0-9]+$" } },
    });
    JsonSchema::new("order", &schema).unwrap()
}

async fn answer(layer: &JsonSchemaLayer, message: Message) -> Disposition {
    let sent = message.clone();
    let stack = ServiceBuilder::new().layer(layer).service(service_fn(move |message: Message| {
        assert_eq!(message.properties(), sent.properties());
        assert_eq!(message.body(), sent.body());
        async { Ok::<_, BoxError>(Disposition::Complete) }
    }));
    stack.oneshot(message).await.unwrap()
}

fn dead_letter(disposition: Disposition) -> (String, String) {
    let Disposition::DeadLetter(letter) = disposition else { panic!("{disposition:?}") };
    (letter.reason.as_str().to_owned(), letter.description.clone().into_owned())
}

fn typed(content_type: &str, body: &'static str) -> Message {
    Message::builder().content_type(content_type.to_owned()).build(body).unwrap()
}

/// Rules: H-09.
#[tokio::test]
async fn a_compressed_body_is_not_validated() {
    for layer in [JsonSchemaLayer::new(order()), JsonSchemaLayer::new(order()).allow_other_content_types()] {
        let mut message = typed("application/json", r#"{"count":1}"#);
        message.properties_mut().pass_through_mut().content_encoding = Some("utf-8".into());
        assert_eq!(answer(&layer, message.clone()).await, Disposition::Complete);
        message.properties_mut().pass_through_mut().content_encoding = Some("gzip".into());
        let expected = "the body has a content encoding, and has to match the JSON Schema `order` without it";
        assert_eq!(dead_letter(answer(&layer, message).await), ("UnsupportedEncoding".into(), expected.into()));
    }
}

/// Rules: H-250.
#[tokio::test]
async fn it_reads_what_the_json_codec_reads() {
    let layer = JsonSchemaLayer::new(order());
    let types = Json::default().media_types().iter().filter(|of| !of.is_suffix()).map(MediaType::as_str);
    for content_type in types.chain(["application/json ; charset=utf-8", "APPLICATION/Vnd.Order+JSON", "", " "]) {
        let (valid, broken) = (typed(content_type, r#"{"count":1}"#), typed(content_type, r#"{"count":0}"#));
        assert_eq!(answer(&layer, valid).await, Disposition::Complete, "{content_type:?}");
        assert_eq!(dead_letter(answer(&layer, broken).await).0, "DeserializationFailed", "{content_type:?}");
    }
    let marked = typed("application/json", "\u{feff}{\"count\":1}");
    assert_eq!(answer(&layer, marked).await, Disposition::Complete, "a byte order mark");
}

/// Rules: B-270.
#[tokio::test]
async fn a_binary_and_a_string_value_are_validated() {
    for layer in [JsonSchemaLayer::new(order()), JsonSchemaLayer::new(order()).allow_other_content_types()] {
        for (text, is_valid) in [(r#"{"count":1}"#, true), (r#"{"count":0}"#, false)] {
            for body in [AmqpValue::from(bytes::Bytes::from_static(text.as_bytes())), AmqpValue::from(text)] {
                let answer = answer(&layer, Message::new(body)).await;
                assert_eq!(answer == Disposition::Complete, is_valid, "{answer:?}");
            }
        }
    }
}

/// Rules: H-250.
#[tokio::test]
async fn a_valid_body_passes_and_others_are_dead_letters_with_paths() {
    let layer = JsonSchemaLayer::new(order());
    for body in [r#"{"count":1}"#, r#" {"count":2,"sku":"a-1","lines":[{"id":1}],"x":"y"} "#] {
        assert_eq!(answer(&layer, Message::new(body)).await, Disposition::Complete);
    }
    for (body, violations) in [
        ("7", "type at the root"),
        ("{}", "required at the root"),
        (r#"{"count":0,"sku":"A"}"#, "minimum at /count; pattern at /sku"),
        (r#"{"count":1,"lines":[{"id":1},{},{}]}"#, "required at /lines/1; required at /lines/2"),
        (r#"{"count":1,"a/b~\u0000\n":7}"#, r"type at /a~1b~0\0\n"),
    ] {
        let (reason, description) = dead_letter(answer(&layer, Message::new(body)).await);
        let expected = format!("the body breaks the JSON Schema `order`: {violations}");
        assert_eq!((reason.as_str(), description), ("DeserializationFailed", expected));
    }
}

/// Rules: H-250.
#[tokio::test]
async fn the_description_is_bounded_and_has_no_value_of_the_body() {
    let many: Value = (0..100).map(|at| (format!("{at}-{}", "k".repeat(10_000)), json!(["secret"]))).collect();
    let violations = order().validate(many.to_string().as_bytes()).unwrap_err();
    assert_eq!((violations.violations().len(), violations.has_more()), (JsonSchema::MAX_VIOLATIONS, true));
    assert_eq!((violations.schema(), violations.reason()), ("order", DeadLetterReason::DeserializationFailed));
    let text = violations.to_string();
    assert!(text.len() < 2_000 && text.ends_with("; and more") && !text.contains("secret"), "{text}");
    let debug = format!("{violations:?}");
    assert!(!debug.contains("secret"), "{debug}");
    for key in ["k".repeat(1_000), "é".repeat(1_000), "\u{1b}".repeat(1_000)] {
        let broken = order().validate(json!({ "count": 1, key: 7 }).to_string().as_bytes()).unwrap_err();
        let path = &broken.violations()[0].path;
        assert!((120..=128).contains(&path.len()) && path.ends_with("..."), "{} {path}", path.len());
    }
}

/// Rules: H-253.
#[test]
fn of_a_body_with_many_values_the_first_violation_is_named() {
    let refused = |schema: Value, items: usize| {
        let mut body = vec![json!("a"); items];
        *body.last_mut().unwrap() = json!(7);
        let violations = JsonSchema::new("s", &schema).unwrap().validate_value(&Value::Array(body)).unwrap_err();
        assert!(!violations.has_more());
        violations.to_string()
    };
    // The array is a value too. The schema has two members.
    let text = json!({ "items": { "type": "string" } });
    assert_eq!(refused(text.clone(), 16_383), "the body breaks the JSON Schema `s`: type at /16382");
    assert_eq!(refused(text.clone(), 16_384), "the body breaks the JSON Schema `s`, first: type at /16383");
    let other = "https://json-schema.org/draft/2020-12/meta/core";
    for schema in [json!({ "anyOf": [text.clone()] }), json!({ "items": { "oneOf": [{ "type": "string" }] } })] {
        assert!(refused(schema.clone(), 8_191).starts_with("the body breaks the JSON Schema `s`: "), "{schema}");
        let expected = "the body breaks the JSON Schema `s`, and looking for each violation would take too long";
        assert_eq!(refused(schema, 8_192), expected);
    }
    assert!(refused(json!({ "$ref": other }), 1).ends_with("would take too long"));
    let nested = json!({ "items": { "$ref": "#/$defs/text" }, "$defs": {
        "text": { "type": "string", "items": { "$ref": "#/$defs/text" } }
    } });
    assert_eq!(refused(nested, 1), "the body breaks the JSON Schema `s`, first: type at /0");
}

/// Rules: H-251.
#[test]
fn a_schema_that_needs_another_document_or_is_wrong_is_refused() {
    for schema in [
        json!({ "$ref": "http://127.0.0.1:9/schema.json" }),
        json!({ "$ref": "https://example.com/schema.json" }),
        json!({ "$ref": "file:///etc/hostname" }),
        json!({ "properties": { "a": { "$ref": "other.json" } } }),
        json!({ "type": "nothing" }),
        json!({ "minimum": "1" }),
        json!({ "pattern": "(?=a)b" }),
        json!({ "pattern": r"(a)\1" }),
        json!({ "pattern": "(" }),
    ] {
        let error = JsonSchema::new("broken", &schema).unwrap_err();
        assert_eq!(error.to_string(), "the JSON Schema `broken` cannot be compiled", "{schema}");
        assert_eq!((error.kind(), error.name()), (BuildErrorKind::JsonSchema, "broken"));
        assert!(std::error::Error::source(&error).is_some());
    }
    // A pattern that takes exponential time where an engine backtracks.
    let schema = JsonSchema::new("slow", &json!({ "pattern": "^(a+)+$" })).unwrap();
    let body = format!("\"{}!\"", "a".repeat(100_000));
    assert!(schema.validate(body.as_bytes()).is_err());
}

/// Rules: H-251.
#[test]
fn the_draft_of_a_schema_is_its_own() {
    let tuple = |draft: &str| json!({ "$schema": draft, "items": [{ "type": "integer" }] });
    let fourth = JsonSchema::new("4", &tuple("http://json-schema.org/draft-04/schema#")).unwrap();
    assert!(fourth.validate(b"[1, \"a\"]").is_ok() && fourth.validate(b"[\"a\"]").is_err());
    assert!(JsonSchema::new("2020", &tuple("https://json-schema.org/draft/2020-12/schema")).is_err());
    let prefix = JsonSchema::new("none", &json!({ "prefixItems": [{ "type": "integer" }] })).unwrap();
    assert!(prefix.validate(b"[\"a\"]").is_err());
}

/// Rules: H-252.
#[tokio::test]
async fn what_is_not_json_is_refused() {
    let layer = JsonSchemaLayer::new(order()).max_bytes(1_000);
    let deep = "[".repeat(200) + &"]".repeat(200);
    let large = format!(r#"{{"count":1,"a":"{}"}}"#, "a".repeat(1_000));
    let value = Message::new(MessageBody::Value(Box::new(AmqpValue::from(7_i32))));
    let not_json = |at: &str| format!("the body is not JSON at {at}, and has to match the JSON Schema `order`");
    let other = "the ContentType is not one of JSON, and the body has to match the JSON Schema `order`";
    for (message, reason, description) in [
        (Message::new("{"), "DeserializationFailed", &*not_json("line 1, column 1")),
        (Message::new(""), "DeserializationFailed", &not_json("line 1, column 1")),
        (Message::new("{} x"), "DeserializationFailed", &not_json("line 1, column 4")),
        (Message::new("\u{feff}{} x"), "DeserializationFailed", &not_json("line 1, column 7")),
        (Message::new("\u{feff}{\n  ?"), "DeserializationFailed", &not_json("line 2, column 3")),
        (Message::new(b"\"\xff\"".to_vec()), "DeserializationFailed", &not_json("line 1, column 2")),
        (Message::new(deep), "DeserializationFailed", &not_json("line 1, column 128")),
        (Message::new(large), "LimitExceeded", "the body is too large to be validated by the JSON Schema `order`"),
        (
            value,
            "DeserializationFailed",
            "the body is an AMQP value or sequence, and has to match the JSON Schema `order`",
        ),
        (typed("application/msgpack", "{}"), "UnsupportedContentType", other),
        (typed("nonsense", "{}"), "UnsupportedContentType", other),
    ] {
        let refused = dead_letter(answer(&layer, message).await);
        assert_eq!((refused.0.as_str(), refused.1.as_str()), (reason, description));
    }
    for content_type in ["application/json", "text/json; charset=utf-8", "application/vnd.shop.order+json"] {
        assert_eq!(answer(&layer, typed(content_type, r#"{"count":1}"#)).await, Disposition::Complete);
        assert_eq!(dead_letter(answer(&layer, typed(content_type, "{}")).await).0, "DeserializationFailed");
    }
    let lenient = layer.allow_other_content_types();
    assert_eq!(answer(&lenient, typed("application/msgpack", "\u{1}")).await, Disposition::Complete);
    assert_eq!(dead_letter(answer(&lenient, Message::new("{}")).await).0, "DeserializationFailed");
}

/// Rules: H-252, J-43, J-45.
#[tokio::test]
async fn a_schema_is_chosen_by_subject_or_belongs_to_one_handler() {
    let layer = JsonSchemaLayer::by_subject([("order.created", order())]);
    let of = |subject: &'static str, body: &'static str| Message::builder().subject(subject).build(body).unwrap();
    assert_eq!(answer(&layer, of("order.cancelled", "?")).await, Disposition::Complete);
    assert_eq!(answer(&layer, Message::new("?")).await, Disposition::Complete);
    assert_eq!(dead_letter(answer(&layer, of("order.created", "{}")).await).0, "DeserializationFailed");

    let handler = async |_: RawBody| {};
    let router = Router::new(super::codecs())
        .route("order.created", handler.layer(JsonSchemaLayer::new(order())))
        .route("order.cancelled", handler)
        .build()
        .unwrap();
    assert_eq!(
        dead_letter(router.clone().oneshot(of("order.created", "{}")).await.unwrap()).0,
        "DeserializationFailed"
    );
    assert_eq!(router.clone().oneshot(of("order.cancelled", "{}")).await.unwrap(), Disposition::Complete);

    let pipeline = Pipeline::receiving("orders").layer(layer).router(router).unwrap();
    let text = pipeline.describe().to_string();
    assert!(text.contains("1 json_schema: max_bytes 262144, schemas order.created by order"), "{text}");
}

#[derive(MessageTypes)]
enum Priced {
    #[message("price.set", alias = "PriceSet", version = 2, from(1 = u8))]
    Set(Price),
}

#[derive(serde::Deserialize, serde::Serialize)]
struct Price {
    cents: u32,
}

impl From<u8> for Price {
    fn from(cents: u8) -> Self {
        Self { cents: cents.into() }
    }
}

#[derive(MessageTypes)]
#[message(property = "type")]
enum Named {
    #[message("price.set")]
    Set(Price),
}

async fn priced(_: Typed<Priced>) {}
async fn named(_: Typed<Named>) {}

/// Rules: H-254.
#[tokio::test]
async fn a_schema_of_a_subject_is_not_one_of_a_type() {
    let price = json!({ "type": "object", "properties": { "cents": { "minimum": 1 } }, "required": ["cents"] });
    let set = JsonSchema::new("price", &price).unwrap();
    let router = Router::new(super::codecs()).types(priced).build().unwrap();
    let of = |subject: &'static str, body: &'static str| {
        Message::builder().subject(subject).property("x-message-version", 2_u64).build(body).unwrap()
    };
    let first = || Message::builder().subject("price.set").build("7").unwrap();
    let free = r#"{"cents":0}"#;
    let by_subject = JsonSchemaLayer::by_subject([("price.set", set.clone())]);
    let stack = by_subject.layer(router.clone());
    let answer = async |message| stack.clone().oneshot(message).await.unwrap();
    assert_eq!(dead_letter(answer(of("price.set", free)).await).0, "DeserializationFailed");
    assert_eq!(answer(of("PriceSet", free)).await, Disposition::Complete, "an alias");
    assert_eq!(router.clone().oneshot(first()).await.unwrap(), Disposition::Complete, "the router reads it");
    assert_eq!(dead_letter(answer(first()).await).0, "DeserializationFailed", "the earlier version");

    // A schema of all versions, for all names.
    let all = JsonSchema::new("prices", &json!({ "anyOf": [price, { "type": "integer" }] })).unwrap();
    let stack = JsonSchemaLayer::by_subject([("price.set", all.clone()), ("PriceSet", all.clone())]).layer(router);
    let of_handler = Router::new(super::codecs()).types(priced.layer(JsonSchemaLayer::new(all))).build().unwrap();
    for subject in ["price.set", "PriceSet"] {
        let refused = stack.clone().oneshot(of(subject, free)).await.unwrap();
        assert_eq!(dead_letter(refused).0, "DeserializationFailed", "{subject}");
        let refused = of_handler.clone().oneshot(of(subject, free)).await.unwrap();
        assert_eq!(dead_letter(refused).0, "DeserializationFailed", "{subject}");
    }
    assert_eq!(stack.clone().oneshot(first()).await.unwrap(), Disposition::Complete);
    assert_eq!(of_handler.oneshot(first()).await.unwrap(), Disposition::Complete);

    // The type in a property.
    let typed = || Message::builder().subject("a price").property("type", "price.set").build(free).unwrap();
    let router = Router::new(super::codecs()).types(named).build().unwrap();
    assert_eq!(by_subject.layer(router).oneshot(typed()).await.unwrap(), Disposition::Complete);
    let router = Router::new(super::codecs()).types(named.layer(JsonSchemaLayer::new(set))).build().unwrap();
    assert_eq!(dead_letter(router.oneshot(typed()).await.unwrap()).0, "DeserializationFailed");
}

/// Rules: H-255.
/// The schema of a type does not have what serde's `alias` and `other` accept.
#[tokio::test]
async fn a_schema_of_a_type_has_no_aliases_and_no_other_variants() {
    #[derive(Deserialize, schemars::JsonSchema)]
    struct Placed {
        #[serde(alias = "Id")]
        id: u64,
        by: Channel,
    }

    #[derive(Debug, PartialEq, Deserialize, schemars::JsonSchema)]
    enum Channel {
        Web,
        #[serde(other)]
        Unknown,
    }

    let body = r#"{"Id":7,"by":"phone"}"#;
    let read: Placed = serde_json::from_str(body).unwrap();
    assert_eq!((read.id, read.by), (7, Channel::Unknown));
    let layer = JsonSchemaLayer::new(JsonSchema::of::<Placed>().unwrap());
    assert_eq!(answer(&layer, Message::new(r#"{"id":7,"by":"Web"}"#)).await, Disposition::Complete);
    let (reason, description) = dead_letter(answer(&layer, Message::new(body)).await);
    assert_eq!(reason, "DeserializationFailed");
    assert_eq!(description, "the body breaks the JSON Schema `Placed`: required at the root; enum at /by");

    let own = json!({
        "type": "object",
        "properties": { "id": { "type": "integer" }, "Id": { "type": "integer" }, "by": { "type": "string" } },
        "anyOf": [{ "required": ["id"] }, { "required": ["Id"] }],
        "required": ["by"],
    });
    let layer = JsonSchemaLayer::new(JsonSchema::new("Placed", &own).unwrap());
    assert_eq!(answer(&layer, Message::new(body)).await, Disposition::Complete);
    dead_letter(answer(&layer, Message::new(r#"{"by":"phone"}"#)).await);
}
