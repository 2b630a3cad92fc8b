use base64::{Engine, engine::general_purpose::STANDARD};
use consign_core::administration::{AuthorizationRule, QueueSettings};
use consign_server::auth::{Rights, SharedAccessKey, SharedAccessKeys};
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;

use crate::support::Harness;

/// A token that does not expire for some thousand years.
fn token(resource: &str, name: &str, key: &str) -> String {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let (resource, expiry) = (encode(resource), 99_999_999_999_u64);
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(format!("{resource}\n{expiry}").as_bytes());
    let signature = encode(&STANDARD.encode(mac.finalize().into_bytes()));
    format!("SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn={name}")
}

async fn harness() -> Harness {
    let keys = SharedAccessKeys::new([
        SharedAccessKey::new("root", "root key", Rights::MANAGE),
        SharedAccessKey::new("send", "send key", Rights::SEND),
        SharedAccessKey::new("listen", "listen key", Rights::LISTEN),
        SharedAccessKey::new("own", "own key", Rights::MANAGE).entity("q"),
    ]);
    let harness = Harness::with(|builder| builder.authorizer(keys).create_entities(false)).await;
    for name in ["q", "other"] {
        harness.broker().create_queue(name, QueueSettings::default()).unwrap();
    }
    harness
}

#[tokio::test]
async fn a_refused_key_is_logged_and_a_request_without_one_is_not() {
    tokio::time::pause();
    crate::log::without_earlier_lines().await;
    tokio::time::resume();
    let harness = harness().await;
    let (lines, _guard) = crate::log::captured();
    assert_eq!(harness.call("POST", "/q/messages", &[], "1").await.status, 401);
    assert_eq!(lines.take(), "");
    let wrong = token("http://localhost/q", "root", "wrong key");
    let headers = [("Authorization", wrong.as_str())];
    assert_eq!(harness.call("POST", "/q/messages", &headers, "1").await.status, 401);
    let lines = lines.take();
    assert!(lines.contains(" path=q/messages ") && lines.contains("denied=InvalidSignature"), "{lines}");
}

/// Rules: HT-24, G-55.
#[tokio::test]
async fn a_key_of_a_queue_is_not_for_a_name_that_ends_in_management() {
    let harness = harness().await;
    for resource in ["http://localhost/", "http://localhost/q"] {
        let token = token(resource, "own", "own key");
        for path in ["/q$management", "/Q$Management"] {
            let answer = harness.call("PUT", path, &[("Authorization", &token)], "").await;
            assert_eq!(answer.status, 401, "{resource} {path}");
        }
    }
}

/// Rules: HT-24.
/// Attacks: 80.
#[tokio::test]
async fn each_request_needs_its_right() {
    let harness = harness().await;
    let settle = "/q/messages/1/11111111-1111-1111-1111-111111111111";
    for (method, path, send, listen) in [
        ("POST", "/q/messages", 201, 401),
        ("DELETE", "/q/messages/head?timeout=0", 401, 200),
        ("POST", "/q/messages/head?timeout=0", 401, 204),
        ("DELETE", settle, 401, 404),
        ("PUT", settle, 401, 404),
        ("POST", settle, 401, 404),
        ("GET", "/q", 401, 401),
        ("GET", "/$Resources/queues", 401, 401),
        ("GET", "/$namespaceinfo", 401, 401),
        ("PUT", "/new", 401, 401),
        ("DELETE", "/other", 401, 401),
        ("GET", "/t/subscriptions/s/rules", 401, 401),
    ] {
        for (name, status) in [("send", send), ("listen", listen)] {
            let token = token("http://localhost/", name, &format!("{name} key"));
            let answer = harness.call(method, path, &[("Authorization", &token)], "").await;
            assert_eq!(answer.status, status, "{method} {path} by {name}: {answer:?}");
        }
        let answer = harness.call(method, path, &[], "").await;
        assert_eq!(answer.status, 401, "{method} {path}");
    }
    assert_eq!(harness.broker().entities().len(), 2);
}

/// Rules: HT-24.
#[tokio::test]
async fn a_token_is_for_its_resource_and_what_is_below() {
    let harness = harness().await;
    for (resource, name, key, statuses) in [
        ("sb://localhost:5300/q", "root", "root key", [201, 401, 401]),
        ("https://other.host/Q/", "own", "own key", [201, 401, 401]),
        ("http://localhost/", "own", "own key", [201, 401, 401]),
        ("http://localhost:5300/", "root", "root key", [201, 201, 200]),
        ("http://localhost:5300/q/messages", "root", "root key", [201, 401, 401]),
        ("http://localhost:5300/$Resources/queues?api-version=2021-05", "root", "root key", [401, 401, 200]),
    ] {
        let token = token(resource, name, key);
        let headers = [("Authorization", &*token)];
        let requests = [("POST", "/q/messages"), ("POST", "/other/messages"), ("GET", "/$Resources/queues")];
        for ((method, path), status) in requests.into_iter().zip(statuses) {
            assert_eq!(harness.call(method, path, &headers, "").await.status, status, "{resource} {name}: {path}");
        }
    }
}

/// Rules: HT-24.
#[tokio::test]
async fn other_credentials_are_a_key_or_are_refused() {
    let harness = harness().await;
    let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
    for (value, status) in [
        (basic("send:send key"), 201),
        (basic("send:wrong"), 401),
        (basic("own:own key"), 401),
        (basic("send"), 401),
        ("Basic !".to_owned(), 401),
        ("Bearer canary".to_owned(), 401),
        ("Digest canary".to_owned(), 401),
        ("canary".to_owned(), 401),
        (String::new(), 401),
        (token("http://localhost/", "send", "wrong"), 401),
        (token("http://localhost/", "none", "send key"), 401),
    ] {
        let answer = harness.call("POST", "/q/messages", &[("Authorization", &value)], "").await;
        assert_eq!(answer.status, status, "{value}");
        assert!(!answer.text().contains("canary") && !answer.text().contains("sig="), "{answer:?}");
    }
    let token = token("http://localhost/", "send", "send key");
    let twice = [("Authorization", &*token), ("Authorization", &*token)];
    assert_eq!(harness.call("POST", "/q/messages", &twice, "").await.status, 401);
}

/// 32 bytes in Base64.
fn key(byte: char) -> String {
    byte.to_string().repeat(43) + "="
}

/// Rules: G-55, HT-24.
#[tokio::test]
async fn a_key_of_a_rule_of_an_entity_signs_tokens_for_it() {
    let harness = harness().await;
    let mut settings = QueueSettings::default();
    settings.metadata.authorization_rules = vec![
        AuthorizationRule::new("sender", key('s'), key('S')).send(true),
        AuthorizationRule::new("owner", key('o'), key('O')).send(true).listen(true).manage(true),
    ];
    harness.broker().update_queue("q", settings.clone()).unwrap();
    let call = async |method: &str, path: &str, name: &str, key: &str| {
        let token = token("http://localhost/q", name, key);
        harness.call(method, path, &[("Authorization", &token)], "").await.status
    };
    assert_eq!(call("POST", "/q/messages", "sender", &key('S')).await, 201);
    assert_eq!(call("DELETE", "/q/messages/head?timeout=0", "sender", &key('s')).await, 401);
    assert_eq!(call("GET", "/q", "sender", &key('s')).await, 401);
    assert_eq!(call("DELETE", "/q/messages/head?timeout=0", "owner", &key('o')).await, 200);
    assert_eq!(call("GET", "/q", "owner", &key('o')).await, 200);
    for (method, path) in [("POST", "/other/messages"), ("PUT", "/q/new"), ("PUT", "/q/messages"), ("GET", "/other")] {
        assert_eq!(call(method, path, "owner", &key('o')).await, 401, "{path}");
    }
    settings.metadata.authorization_rules.clear();
    harness.broker().update_queue("q", settings).unwrap();
    assert_eq!(call("POST", "/q/messages", "sender", &key('s')).await, 401);
}
