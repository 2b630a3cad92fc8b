//! The test vectors of `docs/signed-and-encrypted-messages.md`, and the implementation in Python that was written from that
//! page.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use chacha20poly1305::{KeyInit, XChaCha20Poly1305, aead::Aead};
use consign::{
    Message,
    message::{PropertyValue, Value},
    middleware::{
        encryption::{DecryptLayer, EncryptLayer},
        keys::{Key, Keys},
        signing::{SignLayer, VerifyLayer},
    },
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
};
use serde_json::{Map, Value as Json, json};

use super::stacks::{received, sent};

const VECTORS: &str = include_str!("../../docs/vectors/signed-and-encrypted-messages.json");
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/formats/encrypted/consign_payload.py");

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn value(json: &Json) -> PropertyValue {
    let kind = json[0].as_str().unwrap();
    let text = json[1].as_str().unwrap_or_default();
    let number = || text.parse::<i64>().unwrap();
    match kind {
        "null" => PropertyValue::Null,
        "bool" => (text == "true").into(),
        "int" => text.parse::<i64>().map_or_else(|_| text.parse::<u64>().unwrap().into(), Into::into),
        "float" => text.parse::<f64>().unwrap().into(),
        "text" => text.into(),
        "bytes" => bytes::Bytes::from(bytes(text)).into(),
        "uuid" => PropertyValue::Uuid(bytes(text).try_into().unwrap()),
        "timestamp" => Timestamp::from_millis(number()).into(),
        "offset" => PropertyValue::DateTimeOffset(number()),
        "span" => PropertyValue::TimeSpan(number()),
        "decimal" => PropertyValue::Decimal(bytes(text).try_into().unwrap()),
        other => panic!("{other}"),
    }
}

fn message(json: &Json) -> Message {
    let mut message = match json["body"].as_str() {
        Some(body) => Message::new(bytes(body)),
        None => Message::new(Value::from(7)),
    };
    let properties = message.properties_mut();
    for (name, text) in json.as_object().unwrap() {
        let Some(text) = text.as_str().map(str::to_owned) else { continue };
        match &**name {
            "message_id" => _ = properties.set_message_id(text).unwrap(),
            "content_type" => _ = properties.set_content_type(text),
            "content_encoding" => properties.pass_through_mut().content_encoding = Some(text.into()),
            "subject" => _ = properties.set_subject(text),
            "session_id" => _ = properties.set_session_id(text).unwrap(),
            "correlation_id" => _ = properties.set_correlation_id(text),
            "reply_to" => _ = properties.set_reply_to(text),
            "reply_to_session_id" => _ = properties.set_reply_to_session_id(text).unwrap(),
            "body" => {}
            other => panic!("{other}"),
        }
    }
    for (name, json) in json["application"].as_object().unwrap() {
        properties.application_properties_mut().insert(&**name, value(json));
    }
    message
}

/// The other direction, for texts and whole numbers.
fn written(message: &Message) -> Json {
    let encoding = message.properties().pass_through().and_then(|rest| rest.content_encoding.as_deref());
    let texts = [
        ("message_id", message.message_id()),
        ("content_type", message.content_type()),
        ("content_encoding", encoding),
        ("subject", message.subject()),
        ("session_id", message.session_id()),
        ("correlation_id", message.correlation_id()),
        ("reply_to", message.reply_to()),
        ("reply_to_session_id", message.reply_to_session_id()),
    ];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text?))));
    let application: Map<_, _> = message
        .application_properties()
        .iter()
        .map(|(name, value)| {
            let value = match value {
                PropertyValue::I32(number) => json!(["int", number.to_string()]),
                PropertyValue::I64(number) => json!(["int", number.to_string()]),
                value => json!(["text", value.as_str().unwrap()]),
            };
            (name.to_owned(), value)
        })
        .collect();
    let mut json: Map<_, _> = texts.collect();
    json.insert("application".into(), application.into());
    json.insert("body".into(), hex(message.payload().unwrap()).into());
    json.into()
}

fn names(json: &Json) -> impl Iterator<Item = &str> {
    json.as_array().into_iter().flatten().map(|name| name.as_str().unwrap())
}

struct Vectors {
    json: Json,
    keys: HashMap<String, Key>,
}

impl Vectors {
    fn read() -> Self {
        let json: Json = serde_json::from_str(VECTORS).unwrap();
        let key = |(id, secret): (&String, &Json)| {
            let secret = bytes(secret.as_str().unwrap()).try_into().unwrap();
            (id.clone(), Key::new(&**id, secret).unwrap())
        };
        let keys = json["keys"].as_object().unwrap().iter().map(key).collect();
        Self { json, keys }
    }

    fn part(&self, name: &str) -> &[Json] {
        let cases = self.json[name].as_array().unwrap();
        assert!(!cases.is_empty());
        cases
    }

    fn key(&self, case: &Json) -> Key {
        self.keys[case["key"].as_str().unwrap()].clone()
    }

    fn opened(&self, case: &Json) -> Result<Message, DeadLetter> {
        let keys = self.keys.clone();
        let keys = move |id: Option<&str>| keys.get(id?).cloned();
        let message = message(&case["sent"]);
        if case["layer"] == "signing" {
            let layer = VerifyLayer::new(keys);
            received(&names(&case["require"]).fold(layer, VerifyLayer::require_bound), message)
        } else {
            let layer = DecryptLayer::new(keys);
            received(&names(&case["require"]).fold(layer, DecryptLayer::require_bound), message)
        }
    }
}

/// NaN is not equal to itself, so values are compared as text.
fn assert_same(one: &Message, other: &Message, name: &Json) {
    assert_eq!(one.body(), other.body(), "{name}");
    let shown = |message: &Message| {
        let mut properties = message.properties().clone();
        let application = std::mem::take(properties.application_properties_mut());
        let values: Vec<_> =
            application.iter().map(|(name, value)| format!("{name} {value:?} {:?}", value.as_str())).collect();
        (properties, values)
    };
    assert_eq!(shown(one), shown(other), "{name}");
}

/// Rules: H-157.
#[test]
fn the_vectors_are_read() {
    let vectors = Vectors::read();
    for case in vectors.part("vectors").iter().chain(vectors.part("opened")) {
        let opened = vectors.opened(case).unwrap_or_else(|letter| panic!("{}: {}", case["name"], letter.description));
        assert_same(&opened, &message(&case["message"]), &case["name"]);
    }
}

/// Rules: H-157.
#[test]
fn the_vectors_are_written() {
    let vectors = Vectors::read();
    for case in vectors.part("vectors") {
        let (key, expected) = (vectors.key(case), message(&case["sent"]));
        if case["layer"] == "signing" {
            let layer = names(&case["bind"]).fold(SignLayer::new(Keys::new(key)), SignLayer::bind);
            assert_same(&sent(&layer, message(&case["message"])), &expected, &case["name"]);
            continue;
        }
        let layer = names(&case["bind"]).fold(EncryptLayer::new(Keys::new(key)), EncryptLayer::bind);
        let sealed = sent(&layer, message(&case["message"]));
        // The nonce is another one, so what was written is decrypted here with the bytes of the vector.
        let bound = bytes(case["bound"].as_str().unwrap());
        let secret = vectors.json["keys"][case["key"].as_str().unwrap()].as_str().unwrap();
        let secret: [u8; 32] = bytes(secret).try_into().unwrap();
        let (nonce, rest) = sealed.payload().unwrap().split_first_chunk::<24>().unwrap();
        let payload = chacha20poly1305::aead::Payload { msg: rest, aad: &bound };
        let plain = XChaCha20Poly1305::new(&secret.into()).decrypt(nonce.into(), payload).unwrap();
        assert_eq!(plain, bytes(case["message"]["body"].as_str().unwrap()), "{}", case["name"]);
        let body = expected.payload().unwrap().to_vec();
        assert_same(&sealed.with_body(body), &expected, &case["name"]);
    }
}

/// What the description of each kind of error begins or ends with.
const ERRORS: [(&str, &str); 10] = [
    ("NotSigned", "the message is not signed"),
    ("NotEncrypted", "the message is not encrypted"),
    ("Version", "format is not 2"),
    ("Algorithm", "the algorithm of the "),
    ("UnknownKey", "there is no key `"),
    ("NoSignature", "the signature is not 64 "),
    ("NotBytes", "the body is an AMQP value"),
    ("TooShort", "the body is too short"),
    ("NotAuthentic", "not authentic: "),
    ("NotBound", "does not cover the property"),
];

/// Rules: H-157.
#[test]
fn the_vectors_are_refused() {
    let vectors = Vectors::read();
    for case in vectors.part("refused") {
        let Err(letter) = vectors.opened(case) else { panic!("{} was accepted", case["name"]) };
        let (_, says) = ERRORS.iter().find(|(kind, _)| case["error"] == *kind).unwrap();
        assert!(letter.description.contains(says), "{}: {}", case["name"], letter.description);
        assert_eq!(letter.reason, DeadLetterReason::SignatureInvalid);
    }
}

/// Each reads what the other has just written. Without `CONSIGN_PYTHON`, a Python that has the package `cryptography`,
/// this is left out.
#[test]
fn python_reads_what_is_written_here_and_the_other_way() {
    let Ok(python) = std::env::var("CONSIGN_PYTHON") else {
        let what = "the exchange of signed and encrypted messages with Python: CONSIGN_PYTHON names none";
        assert!(std::env::var_os("CONSIGN_LEAVE_NOTHING_OUT").is_none(), "left out: {what}");
        // Past the output capture of the test harness.
        let _ = writeln!(std::io::stderr(), "LEFT OUT: {what}");
        return;
    };
    let mut peer =
        Command::new(python).arg(PYTHON).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a Python");
    let (mut to, mut from) = (peer.stdin.take().unwrap(), BufReader::new(peer.stdout.take().unwrap()));
    let mut ask = |request: Json| -> Json {
        writeln!(to, "{request}").unwrap();
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let (secret, id) = ([9; 32], "live");
    let keys = || Keys::new(Key::new(id, secret).unwrap());
    let original = || {
        let message = Message::builder()
            .message_id("m-1")
            .content_type("application/json")
            .subject("语 order")
            .session_id("")
            .reply_to("amq.rabbitmq.reply-to")
            .property("x-message-version", 3)
            .property("ce-type", "order.paid")
            .property("kind", "order")
            .property("free", "1");
        message.build(r#"{"id":1}"#).unwrap()
    };
    let (sign, verify) = (SignLayer::new(keys()).bind("kind"), VerifyLayer::new(keys()).require_bound("kind"));
    let (encrypt, decrypt) = (EncryptLayer::new(keys()).bind("kind"), DecryptLayer::new(keys()).require_bound("kind"));
    for ops in [["verify", "sign"], ["open", "seal"]] {
        let is_signing = ops[0] == "verify";
        let mut ours = if is_signing { sent(&sign, original()) } else { sent(&encrypt, original()) };
        ours.properties_mut().set_reply_to("amq.rabbitmq.reply-to.token");
        let mut request = json!({
            "op": ops[0], "keys": {id: hex(&secret)}, "message": written(&ours), "require": ["kind"],
        });
        let answer = ask(request.clone());
        let mut expected = original();
        expected.properties_mut().set_reply_to("amq.rabbitmq.reply-to.token");
        assert_eq!(answer["ok"], written(&expected), "{answer}");
        request["message"]["application"]["x-message-version"] = json!(["int", "1"]);
        assert_eq!(ask(request), json!({"error": "NotAuthentic"}));

        let theirs = ask(json!({
            "op": ops[1], "key": [id, hex(&secret)], "message": written(&original()), "bind": ["kind"],
        }));
        let theirs = message(&theirs["ok"]);
        let seen = if is_signing { received(&verify, theirs.clone()) } else { received(&decrypt, theirs.clone()) };
        assert_eq!(written(&seen.unwrap()), written(&original()));
        let mut changed = theirs;
        changed.properties_mut().application_properties_mut().insert("kind", "invoice");
        assert!(if is_signing { received(&verify, changed) } else { received(&decrypt, changed) }.is_err());
    }
    drop(to);
    assert!(peer.wait().unwrap().success());
}
