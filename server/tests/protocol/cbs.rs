use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use consign_amqp::{
    client::Error,
    engine::{self, SaslCredentials},
    value::{Symbol, Value},
};
use consign_core::administration::{AuthorizationRule, QueueSettings};
use consign_server::{
    Limits,
    auth::{Access, Authorizer, Credentials, Denied, Grant, Rights, SharedAccessKey, SharedAccessKeys, Token},
};
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;

use crate::{support::*, transactions::try_coordinator};

/// Accepts the key `right`, and tokens that name rights.
struct Keys;

impl Authorizer for Keys {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Access, Denied> {
        match credentials {
            Credentials::Plain { key: "right", .. } => Ok(Access::Granted(Grant::new(Rights::SEND))),
            Credentials::Plain { .. } => Err(Denied::new("the key is wrong")),
            _ => Ok(Access::ByToken),
        }
    }

    fn authorize(&self, token: &Token<'_>) -> Result<Grant, Denied> {
        match token.token {
            "send" => Ok(Grant::new(Rights::SEND)),
            "listen" => Ok(Grant::new(Rights::LISTEN)),
            "short" => Ok(Grant::new(Rights::SEND | Rights::LISTEN).valid_for(Duration::from_secs(30))),
            _ => Err(Denied::new("the signature is wrong")),
        }
    }
}

fn harness() -> Harness {
    Harness::with(|builder| builder.authorizer(Keys))
}

async fn put(cbs: &mut Requester, audience: &str, token: &str) -> Answer {
    put_of_type(cbs, audience, token, "servicebus.windows.net:sastoken").await
}

async fn put_of_type(cbs: &mut Requester, audience: &str, token: &str, of_type: &str) -> Answer {
    let more = [("name", Value::from(audience)), ("type", of_type.into())];
    cbs.call_with("put-token", &more, None, token).await
}

/// Rules: G-03.
#[tokio::test(start_paused = true)]
async fn a_token_for_an_entity_that_does_not_exist_is_refused_where_none_is_created() {
    let harness = Harness::with(|builder| builder.authorizer(Keys).create_entities(false));
    harness.broker().create_queue("orders", QueueSettings::default()).unwrap();
    let session = harness.session().await;
    let mut cbs = Requester::attach(&session, "$cbs").await;
    for (audience, token, status) in [
        ("amqps://host/orders", "send", 202),
        ("amqps://host/orders/$management", "send", 202),
        ("amqps://host/orders/$deadletterqueue", "listen", 202),
        ("amqps://host/", "send", 202),
        ("amqps://host/other", "send", 404),
        ("amqps://host/other/Subscriptions/audit", "listen", 404),
        ("amqps://host/a//b", "send", 404),
        ("amqps://host/other", "wrong", 401),
    ] {
        assert_eq!(put(&mut cbs, audience, token).await.status(), status, "{audience}");
    }
}

/// Rules: G-01, G-02, G-03, C-11.
#[tokio::test(start_paused = true)]
async fn tokens_are_accepted_for_development() {
    let harness = Harness::new();
    let session = harness.session().await;
    let mut cbs = Requester::attach(&session, "$cbs").await;
    for of_type in ["servicebus.windows.net:sastoken", "jwt", "amqp:jwt", "amqp:swt"] {
        let answer = put_of_type(&mut cbs, "sb://host/orders", "any", of_type).await;
        assert_eq!((answer.status(), answer.properties.get("status-code")), (202, Some(&202_i32.into())));
        assert!(answer.properties.get("status-description").is_some());
        assert!(answer.properties.get("statusCode").is_none());
    }
    assert_eq!(cbs.call("other", "token").await.status(), 501);
    assert_eq!(cbs.call("put-token", "token").await.status(), 400);
}

/// Attacks: 88.
#[tokio::test(start_paused = true)]
async fn a_client_has_few_sessions_until_it_has_a_right() {
    let harness = harness();
    let connection = harness.try_connect(engine::Options::default().max_sessions(1_000)).await.unwrap();
    let mut sessions = Vec::new();
    for _ in 0..256 {
        sessions.push(connection.begin().await.unwrap());
    }
    let refused = match connection.begin().await {
        Ok(session) => session.attach_sender("sender", "$cbs").await.map(drop),
        Err(error) => Err(error),
    };
    assert_eq!(self::refused(refused), "amqp:resource-limit-exceeded");
    let mut cbs = Requester::attach(&sessions[0], "$cbs").await;
    assert_eq!(put(&mut cbs, "sb://host/orders", "send").await.status(), 202);
    let more = connection.begin().await.unwrap();
    sender(&more, "orders").await;
}

/// Rules: G-04, G-06.
/// Attacks: 80.
#[tokio::test(start_paused = true)]
async fn a_link_needs_the_right_of_a_token_for_its_entity() {
    let harness = harness();
    let session = harness.session().await;
    assert_eq!(refused(try_sender(&session, "orders").await), "amqp:unauthorized-access");
    assert_eq!(refused(try_sender(&session, "orders/$management").await), "amqp:unauthorized-access");
    assert_eq!(harness.broker().entities().len(), 0);
    let mut cbs = Requester::attach(&session, "$cbs").await;
    let answer = put(&mut cbs, "sb://host/orders", "forged").await;
    assert_eq!(
        (answer.status(), answer.properties.get("status-description")),
        (401, Some(&"the signature is wrong".into()))
    );
    assert_eq!(put(&mut cbs, "sb://host/orders", "send").await.status(), 202);
    sender(&session, "orders").await;
    assert_eq!(refused(try_receiver(&session, "orders").await), "amqp:unauthorized-access");
    assert_eq!(refused(try_sender(&session, "bills").await), "amqp:unauthorized-access");
    assert_eq!(put(&mut cbs, "sb://host/orders", "listen").await.status(), 202);
    receiver(&session, "orders").await;
    // A token is of its connection.
    let other = harness.session().await;
    assert_eq!(refused(try_receiver(&other, "orders").await), "amqp:unauthorized-access");
}

/// The SDK for Java attaches one before it puts its token.
/// Rules: A-58.
#[tokio::test(start_paused = true)]
async fn a_client_without_a_token_has_few_coordinators() {
    let harness = harness();
    let session = harness.session().await;
    let mut cbs = Requester::attach(&session, "$cbs").await;
    let mut links = Vec::new();
    for nth in 0..32 {
        links.push(try_coordinator(&session, &nth.to_string()).await.unwrap());
    }
    assert_eq!(refused(try_coordinator(&session, "one more").await), "amqp:resource-limit-exceeded");
    assert_eq!(put(&mut cbs, "sb://host/orders", "send").await.status(), 202);
    try_coordinator(&session, "one more").await.unwrap();
}

/// The server keeps the audience of a token.
/// Rules: G-03, A-58.
#[tokio::test(start_paused = true)]
async fn the_audience_of_a_token_has_a_limit() {
    let harness = harness();
    let session = harness.session().await;
    let mut cbs = Requester::attach(&session, "$cbs").await;
    let audience = |length: usize| format!("sb://host/{}", "a".repeat(length - 10));
    assert_eq!(put(&mut cbs, &audience(1_024), "send").await.status(), 202);
    assert_eq!(put(&mut cbs, &audience(1_025), "send").await.status(), 400);
}

/// Rules: A-73.
#[tokio::test(start_paused = true)]
async fn a_client_without_a_token_has_not_authenticated() {
    let limits = Limits::default().max_connections(1).max_unauthenticated(1);
    let harness = Harness::with(|builder| builder.authorizer(Keys).limits(limits));
    let resource_limit = |error: Error| {
        assert_eq!(error.condition().map(Symbol::as_str), Some("amqp:resource-limit-exceeded"));
    };

    let stranger = harness.connect().await;
    let mut refused = Requester::attach(&stranger.begin().await.unwrap(), "$cbs").await;
    assert_eq!(put(&mut refused, "sb://host/orders", "forged").await.status(), 401);
    let client = harness.connect().await;
    resource_limit(stranger.closed().await);

    let session = client.begin().await.unwrap();
    let mut cbs = Requester::attach(&session, "$cbs").await;
    assert_eq!(put(&mut cbs, "sb://host/orders", "send").await.status(), 202);
    let other = harness.connect().await;
    let third = harness.connect().await;
    resource_limit(other.closed().await);
    sender(&session, "orders").await;

    // With a key there is no token, and the other limit.
    let plain = engine::Options::default().sasl_client(SaslCredentials::plain("name", "right"));
    resource_limit(harness.try_connect(plain).await.unwrap_err());
    resource_limit(third.closed().await);
    sender(&session, "orders").await;
}

/// Rules: G-06.
/// Attacks: 82.
#[tokio::test(start_paused = true)]
async fn a_link_is_detached_by_a_token_that_lacks_its_right() {
    let harness = harness();
    let session = harness.session().await;
    let mut cbs = Requester::attach(&session, "$cbs").await;
    put(&mut cbs, "sb://host/orders", "send").await;
    let link = sender(&session, "orders").await;
    put(&mut cbs, "sb://host/orders", "short").await;
    assert_eq!(link.send(message("a")).await.unwrap(), Some(accepted()));
    assert_eq!(put(&mut cbs, "sb://host/orders", "listen").await.status(), 202);
    let error = link.send(message("b")).await.unwrap_err();
    assert_eq!(error.condition().map(Symbol::as_str), Some("amqp:unauthorized-access"));
}

/// Rules: G-04.
#[tokio::test(start_paused = true)]
async fn operations_of_management_need_a_right_of_their_own() {
    let harness = harness();
    let session = harness.session().await;
    let mut cbs = Requester::attach(&session, "$cbs").await;
    put(&mut cbs, "sb://host/orders", "send").await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let answer = manage.call("com.microsoft:peek-message", fields([])).await;
    assert_eq!((answer.status(), answer.condition()), (401, Some("amqp:unauthorized-access")));
    put(&mut cbs, "sb://host/orders/$management", "listen").await;
    assert_eq!(manage.call("com.microsoft:peek-message", fields([])).await.status(), 204);
    assert_eq!(manage.call("com.microsoft:cancel-scheduled-message", fields([])).await.status(), 401);
}

/// Rules: G-06.
/// Attacks: 82.
#[tokio::test(start_paused = true)]
async fn links_are_detached_when_their_token_expires() {
    let harness = harness();
    let session = harness.session().await;
    let mut cbs = Requester::attach(&session, "$cbs").await;
    put(&mut cbs, "sb://host/orders", "short").await;
    put(&mut cbs, "sb://host/bills", "listen").await;
    let mut link = receiver(&session, "orders").await;
    let mut other = receiver(&session, "bills").await;
    link.set_credit(1).unwrap();
    other.set_credit(1).unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    // It is renewed once.
    put(&mut cbs, "sb://host/orders", "short").await;
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert!(tokio::time::timeout(Duration::from_millis(1), link.recv()).await.is_err());
    let error = tokio::time::timeout(Duration::from_secs(5), link.recv()).await.unwrap().unwrap_err();
    assert_eq!(error.condition().unwrap(), "amqp:unauthorized-access");
    assert!(tokio::time::timeout(Duration::from_secs(5), other.recv()).await.is_err());
}

/// Rules: G-06.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_session_ends_when_its_token_expires() {
    let harness = harness();
    harness.broker().create_queue("sessions", QueueSettings::default().requires_session(true)).unwrap();
    let session = harness.session().await;
    let mut cbs = Requester::attach(&session, "$cbs").await;
    put(&mut cbs, "sb://host/sessions", "short").await;
    put(&mut cbs, "sb://host/bills", "listen").await;
    let began = tokio::time::Instant::now();
    let outcome = session.attach_receiver_with(session_attach("sessions", None)).await;
    assert_eq!(refused(outcome), "amqp:unauthorized-access");
    assert!(began.elapsed().as_secs() < 60);
}

/// Rules: G-05.
#[tokio::test(start_paused = true)]
async fn plain_authenticates_by_a_key() {
    let harness = harness();
    let options = |key| engine::Options::default().sasl_client(SaslCredentials::plain("name", key));
    let session = harness.try_connect(options("right")).await.unwrap().begin().await.unwrap();
    sender(&session, "orders").await;
    assert_eq!(refused(try_receiver(&session, "orders").await), "amqp:unauthorized-access");
    let error = harness.try_connect(options("wrong")).await.unwrap_err();
    assert!(error.to_string().contains("credentials"), "{error}");
    for mechanism in ["ANONYMOUS", "MSSBCBS", "EXTERNAL"] {
        let mechanism = consign_amqp::value::Symbol::from_static(mechanism);
        let credentials = SaslCredentials { mechanism, ..SaslCredentials::default() };
        harness.try_connect(engine::Options::default().sasl_client(credentials)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_of_a_connection_are_bounded() {
    let limits = consign_server::Limits::default().max_tokens(2);
    let harness = Harness::with(|builder| builder.authorizer(Keys).limits(limits));
    let session = harness.session().await;
    let mut cbs = Requester::attach(&session, "$cbs").await;
    let mut statuses = Vec::new();
    for entity in ["a", "b", "a", "c"] {
        statuses.push(put(&mut cbs, &format!("sb://host/{entity}"), "send").await.status());
    }
    assert_eq!(statuses, [202, 202, 202, 403]);
}

/// Rules: A-41.
#[tokio::test(start_paused = true)]
async fn a_client_without_a_token_is_disconnected_after_20_seconds() {
    let harness = harness();
    let began = tokio::time::Instant::now();
    let error = harness.connect().await.closed().await;
    assert_eq!((error.condition().unwrap().as_str(), began.elapsed().as_secs()), ("amqp:unauthorized-access", 20));

    let connection = harness.connect().await;
    let session = connection.begin().await.unwrap();
    let mut cbs = Requester::attach(&session, "$cbs").await;
    put(&mut cbs, "sb://host/orders", "short").await;
    let began = tokio::time::Instant::now();
    let error = connection.closed().await;
    assert_eq!((error.condition().unwrap().as_str(), began.elapsed().as_secs()), ("amqp:unauthorized-access", 50));
}

/// Rules: G-55.
#[tokio::test(start_paused = true)]
async fn a_token_that_a_key_of_a_rule_has_signed_is_for_its_queue() {
    let key = |byte: char| byte.to_string().repeat(43) + "=";
    let keys = SharedAccessKeys::new([SharedAccessKey::new("root", "root key", Rights::MANAGE)]);
    let harness = Harness::with(|builder| builder.authorizer(keys).create_entities(false));
    let mut settings = QueueSettings::default();
    settings.metadata.authorization_rules = vec![AuthorizationRule::new("sender", key('p'), key('s')).send(true)];
    harness.broker().create_queue("orders", settings).unwrap();
    harness.broker().create_queue("bills", QueueSettings::default()).unwrap();
    let session = harness.session().await;
    let mut cbs = Requester::attach(&session, "$cbs").await;
    let signed = |path: &str, key: &str| signature(&format!("sb://host/{path}"), "sender", key);
    assert_eq!(put(&mut cbs, "amqps://host/bills", &signed("bills", &key('p'))).await.status(), 401);
    let wrong = put(&mut cbs, "amqps://host/orders", &signed("orders", &key('x'))).await;
    assert_eq!(wrong.status(), 401);
    assert_eq!(put(&mut cbs, "amqps://host/orders", &signed("orders", &key('s'))).await.status(), 202);
    sender(&session, "orders").await;
    assert_eq!(refused(try_receiver(&session, "orders").await), "amqp:unauthorized-access");
    assert_eq!(refused(try_sender(&session, "bills").await), "amqp:unauthorized-access");
}

#[tokio::test(start_paused = true)]
async fn the_audience_of_a_refused_token_forges_no_log_line() {
    crate::log::without_earlier_lines().await;
    let (lines, _guard) = crate::log::captured();
    let keys = SharedAccessKeys::new([SharedAccessKey::new("orders", "secret", Rights::SEND).entity("orders")]);
    let harness = Harness::with(|builder| builder.authorizer(keys));
    let session = harness.session().await;
    let mut cbs = Requester::attach(&session, "$cbs").await;
    let token = signature("sb://host/orders", "orders", "secret");
    assert_eq!(put(&mut cbs, "sb://host/a\nWARN forged\u{1b}[31m", &token).await.status(), 401);
    let lines = lines.take();
    assert!(lines.contains("denied=InvalidAudience"), "{lines}");
    assert!(!lines.trim_end().contains(char::is_control), "{lines}");
}

/// A token that does not expire for some thousand years.
fn signature(resource: &str, name: &str, key: &str) -> String {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let (resource, expiry) = (encode(resource), 99_999_999_999_u64);
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("a key of any length");
    mac.update(format!("{resource}\n{expiry}").as_bytes());
    let signature = encode(&STANDARD.encode(mac.finalize().into_bytes()));
    format!("SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn={name}")
}
