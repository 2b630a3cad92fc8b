use consign_core::Message;

use super::*;
use crate::wire::{decode, encode, encode_copy};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn headers(all: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        headers.append(*name, *value);
    }
    headers
}

fn read(all: &[(&str, &str)]) -> Message {
    decode(Some(&headers(all)), "body".into()).unwrap()
}

fn text<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    message.application_properties().get(name).and_then(PropertyValue::as_str)
}

/// Rules: K-100.
#[test]
fn plain_headers_are_read_in_any_case() {
    let spellings = [
        ["content-type", "CONTENT-ENCODING", "nats-msg-id", "Traceparent", "TraceState", "Ce-Id"],
        ["Content-Type", "Content-Encoding", "Nats-Msg-Id", "traceparent", "tracestate", "ce-id"],
    ];
    for [content_type, encoding, id, parent, state, event] in spellings {
        let message = read(&[
            (content_type, "application/json; x=50%"),
            (encoding, "gzip"),
            (id, "one"),
            (parent, PARENT),
            (state, "a=1"),
            (event, "a%20b"),
            ("X-Tenant", "50%zz"),
            ("Nats-Expected-Stream", "s"),
        ]);
        assert_eq!(message.content_type(), Some("application/json; x=50%"));
        assert_eq!(message.pass_through().unwrap().content_encoding.as_deref(), Some("gzip"));
        assert_eq!(message.message_id(), Some("one"));
        let all: Vec<_> = message.application_properties().iter().map(|(name, _)| name).collect();
        assert_eq!(all, ["X-Tenant", "ce-id", "traceparent", "tracestate"]);
        assert_eq!((text(&message, "traceparent"), text(&message, "tracestate")), (Some(PARENT), Some("a=1")));
        assert_eq!((text(&message, "ce-id"), text(&message, "X-Tenant")), (Some("a b"), Some("50%zz")));
    }
}

/// Rules: K-101.
#[test]
fn the_plain_header_wins_but_for_the_message_id() {
    let message = read(&[
        ("Sb-Content-Type", "text/plain"),
        ("Content-Type", "application/json"),
        ("Sb-Message-Id", "ours"),
        ("Nats-Msg-Id", "stream-7"),
        ("Sb-Pass-Through", r#"{"content_encoding":"gzip","priority":3,"annotations":[],"footer":[]}"#),
        ("Content-Encoding", "zstd"),
        ("Sb-P-traceparent", &format!("s:{PARENT}")),
        ("traceparent", OTHER),
        ("Sb-P-n", "i32:7"),
        ("n", "7"),
        ("Sb-P-m", "i32:7"),
        ("m", "8"),
    ]);
    assert_eq!((message.content_type(), message.message_id()), (Some("application/json"), Some("ours")));
    let rest = message.pass_through().unwrap();
    assert_eq!((rest.content_encoding.as_deref(), rest.priority), (Some("zstd"), Some(3)));
    assert_eq!(text(&message, "traceparent"), Some(OTHER));
    assert_eq!(message.application_properties().get("n"), Some(&PropertyValue::I32(7)));
    assert_eq!(text(&message, "m"), Some("8"));
}

/// Rules: K-102.
#[test]
fn several_values_are_one_list_and_the_first_id_counts() {
    let message = read(&[
        ("tracestate", "a=1"),
        ("tracestate", "b=2"),
        ("traceparent", PARENT),
        ("traceparent", OTHER),
        ("Content-Type", "text/plain"),
        ("Content-Type", "application/json"),
        ("Nats-Msg-Id", "one"),
        ("Nats-Msg-Id", "two"),
        ("X-Tag", "a"),
        ("X-Tag", "b"),
        // Another spelling of a name that is there.
        ("TRACEPARENT", "other"),
    ]);
    assert_eq!((text(&message, "tracestate"), text(&message, "X-Tag")), (Some("a=1, b=2"), Some("a, b")));
    assert_eq!((text(&message, "traceparent"), message.content_type()), (Some(OTHER), Some("application/json")));
    assert_eq!(message.message_id(), Some("one"));
}

/// Rules: K-103.
#[test]
fn other_clients_see_what_plain_headers_can_hold() {
    let mut message = Message::builder()
        .content_type("text/plain; x=50%")
        .message_id("id")
        .property("traceparent", PARENT)
        .property("tracestate", "a=1")
        .property("ce-subject", "50% \u{fc}")
        .property("tenant", "acme")
        .property("baggage", "")
        .property("Traceparent", "not the name")
        .property("Diagnostic-Id", 7_i32)
        .build("")
        .unwrap();
    message.properties_mut().pass_through_mut().content_encoding = Some("line\nbreak".into());
    let (headers, payload) = encode(&message).unwrap();
    let mut plain: Vec<_> = headers
        .iter()
        .map(|(name, values)| (AsRef::<str>::as_ref(name), values[0].as_str()))
        .filter(|(name, _)| !is_own(name))
        .collect();
    plain.sort_unstable();
    let expected = [
        ("Content-Type", "text/plain; x=50%"),
        ("ce-subject", "50%25%20%C3%BC"),
        ("traceparent", PARENT),
        ("tracestate", "a=1"),
    ];
    assert_eq!(plain, expected);
    let back = decode(Some(&headers), payload).unwrap();
    assert_eq!(back.properties(), message.properties());
}

/// Rules: K-104.
#[test]
fn an_invalid_message_id_is_a_property() {
    let long = "x".repeat(129);
    let message = read(&[("Nats-Msg-Id", &long), ("Content-Type", ""), ("X-Tab", "a\tb")]);
    assert_eq!((message.message_id(), message.content_type()), (None, None));
    assert_eq!((text(&message, "Nats-Msg-Id"), text(&message, "X-Tab")), (Some(&*long), Some("a\tb")));
}

#[test]
fn a_copy_keeps_headers_that_say_what_the_message_has() {
    let came = headers(&[("X-Tag", "a"), ("X-Tag", "b"), ("X-Old", "1"), ("traceparent", PARENT), ("gone", "1")]);
    let mut message = decode(Some(&came), "".into()).unwrap();
    message.properties_mut().application_properties_mut().insert("X-Old", "2");
    message.properties_mut().application_properties_mut().remove("gone");
    let (mut copy, payload) = encode_copy(&message, &came).unwrap();
    assert_eq!(copy.get_all("X-Tag").map(HeaderValue::as_str).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((copy.get("X-Old"), copy.get("gone"), copy.get("Sb-P-X-Tag")), (None, None, None));
    assert_eq!(decode(Some(&copy), payload.clone()).unwrap().properties(), message.properties());
    add_unread(&came, &message, &mut copy);
    assert_eq!((copy.get("X-Old"), copy.get("gone").map(HeaderValue::as_str)), (None, Some("1")));
}

/// Rules: K-104.
#[test]
fn random_headers_are_read_and_copied_without_loss() {
    const NAMES: [&str; 16] = [
        "Content-Type",
        "content-type",
        "Content-Encoding",
        "Nats-Msg-Id",
        "nats-msg-id",
        "traceparent",
        "Traceparent",
        "tracestate",
        "ce-id",
        "Ce-Id",
        "X",
        "x",
        "Sb-P-x",
        "Sb-P-traceparent",
        "Sb-Tenant",
        "Sb-P-Sb-Tenant",
    ];
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("replay: SEED={seed} cargo test --package consign-nats random_headers_are_read_and_copied_without_loss");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..4_000 {
        let mut came = HeaderMap::new();
        for _ in 0..random.usize(0..6) {
            let name = *random.choice(&NAMES).unwrap();
            let text: String = (0..random.usize(0..200)).map(|_| random.char('\u{1}'..='\u{ff}')).collect();
            let text: String = text.chars().filter(|char| !"\r\n%".contains(*char)).collect();
            let mut value = text.trim().to_owned();
            if is_own(name) {
                value.insert_str(0, "s:");
            } else if random.bool() {
                value.push('%');
            }
            came.append(name, value);
        }
        let Ok(message) = decode(Some(&came), "body".into()) else { panic!("{came:?}") };
        let (copy, payload) = encode_copy(&message, &came).unwrap();
        let back = decode(Some(&copy), payload).unwrap();
        assert_eq!(back.properties(), message.properties(), "{came:?}");
    }
}

/// Rules: K-203.
#[test]
fn the_error_of_a_service_is_read_in_any_case() {
    for spelling in [["nats-service-error", "NATS-Service-Error-CODE"], [SERVICE_ERROR, SERVICE_ERROR_CODE]] {
        let [error, code] = spelling;
        let mut reply = Properties::new();
        read_service_error(Some(&headers(&[(error, "no stock"), (code, "409")])), false, &mut reply);
        let property = |name| reply.application_properties().get(name).and_then(PropertyValue::as_str);
        assert_eq!((property(FAULT), property(FAULT_DETAIL)), (Some("409"), Some("no stock")), "{spelling:?}");
    }
}
