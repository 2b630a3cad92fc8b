//! A body that breaks its schema in many places does not take memory for each.

use consign::middleware::json_schema::{JsonSchema, JsonSchemaLayer};
use serde_json::{Value, json};

use super::allocated_bytes;

/// A body of 256 KiB.
fn body(part: &str) -> Vec<u8> {
    let parts = (JsonSchemaLayer::MAX_BYTES - 2) / (part.len() + 1);
    format!("[{}]", vec![part; parts].join(",")).into_bytes()
}

/// Rules: H-253.
/// Attacks: 99.
/// The tree of the body is in the number of bytes, and everything that is asked for counts, given back or not.
#[test]
fn a_body_with_a_violation_in_each_value_takes_no_memory_for_each() {
    let text = json!({ "items": { "type": "string" } });
    let schemas: [(Value, &str); 4] = [
        (text.clone(), "`s`, first: type at /0"),
        (
            json!({ "anyOf": [text.clone(), { "$ref": "#/$defs/text" }], "$defs": { "text": text.clone() } }),
            "would take too long",
        ),
        (json!({ "oneOf": [text.clone(), text.clone()] }), "would take too long"),
        (json!({ "allOf": [{ "$ref": "#/$defs/text" }], "$defs": { "text": text } }), "`s`, first: type at /0"),
    ];
    for (schema, text) in schemas {
        let schema = JsonSchema::new("s", &schema).expect("a schema");
        for (part, most) in [("0", 12 << 20), ("{}", 12 << 20), (r#"{"":0}"#, 40 << 20)] {
            let body = body(part);
            let mut violations = None;
            let bytes = allocated_bytes(|| violations = schema.validate(&body).err());
            let violations = violations.expect("a body that breaks its schema").to_string();
            assert!(violations.ends_with(text), "{violations}");
            assert!(bytes < most, "{part}: {bytes} bytes");
        }
    }
}

/// Rules: H-253.
/// Attacks: 99.
#[test]
fn a_small_body_with_many_violations_takes_no_memory_for_each() {
    let both = |kind: &str| {
        let next = json!({ "$ref": "#/$defs/term" });
        json!({ "properties": { "kind": { "const": kind }, "left": next }, "required": ["kind", "left"] })
    };
    let term = json!({ "oneOf": [both("and"), both("or"), { "type": "integer" }] });
    let tagged = json!({ "$ref": "#/$defs/term", "$defs": { "term": term } });
    let chain = (0..18).fold(json!("leaf"), |left, _| json!({ "kind": "and", "left": left }));
    let names: Vec<String> = (0..100).map(|number| format!("name-{number}")).collect();
    let required = json!({ "items": { "required": names } });
    for (schema, body) in [(tagged, chain), (required, Value::Array(vec![json!({}); 1_023]))] {
        let schema = JsonSchema::new("s", &schema).expect("a schema");
        let bytes = allocated_bytes(|| assert!(schema.validate_value(&body).is_err()));
        assert!(bytes < 1 << 20, "{bytes} bytes");
    }
}
