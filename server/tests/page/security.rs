use axum::http::{Method, StatusCode, header};
use consign_broker::Broker;
use consign_core::{Message, transport::Sender};
use consign_server::{AccessKey, page::Page};

use crate::support::{Browser, HOST, bury, queue};

const KEY: &str = "the key of operators";
const SCRIPT: &str = "<script>alert(1)</script>\"'&";

fn with_key(broker: &Broker) -> Page {
    Page::builder(broker.clone()).key(AccessKey::new(KEY).unwrap()).build()
}

/// Rules: HT-40.
#[tokio::test]
async fn every_answer_has_the_headers_of_a_page() {
    let mut browser = Browser::new(&Page::builder(Broker::new()).build());
    for address in
        ["/$page/", "/$page/jobs", "/$page/assets/page.js", "/$page/assets/none", "/$page/messages?path=none"]
    {
        let answer = browser.get(address).await;
        let header = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let policy = header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{address}: {policy}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{address}");
        assert_eq!(header("referrer-policy"), "same-origin", "{address}");
        assert_eq!(header("x-frame-options"), "DENY", "{address}");
    }
}

/// Rules: HT-40.
#[tokio::test]
async fn no_page_has_an_inline_script_or_style() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let page = Page::builder(broker).build();
    bury(&queue, [("Reason", "text".to_owned(), Message::new("{}"))]).await;
    queue.sender().unwrap().send(Message::new("{}")).await.unwrap();
    let mut browser = Browser::new(&page);
    for address in [
        "/$page/",
        "/$page/messages?path=orders",
        "/$page/message?path=orders&number=2",
        "/$page/dead-letters?path=orders",
        "/$page/edit?path=orders/$deadletterqueue&number=1",
        "/$page/confirm?action=remove&path=orders",
        "/$page/sessions?path=orders",
        "/$page/jobs",
        "/$page/message?path=none&number=1",
    ] {
        let answer = browser.get(address).await;
        let text = answer.text().replace("<script src=\"/$page/assets/page.js\" defer></script>", "");
        for inline in ["<script", "<style", " style=", " onclick=", "javascript:", "http://", "https://"] {
            assert!(!text.contains(inline), "{address} has {inline}: {text}");
        }
    }
}

/// Rules: HT-40.
#[tokio::test]
async fn names_properties_and_bodies_are_text() {
    let broker = Broker::new();
    let queue = broker.create_queue("a<script>b\"'&", consign_core::administration::QueueSettings::default()).unwrap();
    let message = || {
        let message = Message::builder().message_id(SCRIPT).subject(SCRIPT).content_type(SCRIPT).correlation_id(SCRIPT);
        message.session_id(SCRIPT).property(SCRIPT, SCRIPT).build(SCRIPT).unwrap()
    };
    bury(&queue, [("<script>", SCRIPT.to_owned(), message())]).await;
    queue.sender().unwrap().send(message()).await.unwrap();
    let mut browser = Browser::new(&Page::builder(broker).build());
    let path = "a%3Cscript%3Eb%22%27%26";
    let groups = browser.get(&format!("/$page/dead-letters?path={path}")).await;
    let group = groups.text().split_once("group=").unwrap().1.split('"').next().unwrap().to_owned();
    for address in [
        "/$page/".to_owned(),
        format!("/$page/messages?path={path}&q=%3Cscript%3E"),
        format!("/$page/messages?path={path}%2F%24deadletterqueue"),
        format!("/$page/message?path={path}&number=2"),
        format!("/$page/message?path={path}%2F%24deadletterqueue&number=1"),
        format!("/$page/dead-letters?path={path}"),
        format!("/$page/dead-letters/group?path={path}&group={group}"),
        format!("/$page/edit?path={path}%2F%24deadletterqueue&number=1"),
        format!("/$page/confirm?action=resubmit&path={path}&group={group}"),
        format!("/$page/sessions?path={path}"),
        format!("/$page/messages?path={path}none"),
        "/$page/?q=%3Cscript%3E%22".to_owned(),
    ] {
        let answer = browser.get(&address).await;
        answer.has_not("<script>");
        answer.has_not("\"\"'");
        assert!(answer.text().contains("&#60;script"), "{address}: {}", answer.text());
    }
}

/// Rules: HT-42.
#[tokio::test]
async fn another_host_is_refused_without_a_key() {
    let mut browser = Browser::new(&Page::builder(Broker::new()).build());
    for (host, status) in [
        ("rebound.example.org", StatusCode::MISDIRECTED_REQUEST),
        ("127.0.0.1.example.org:8080", StatusCode::MISDIRECTED_REQUEST),
        ("localhost:8080", StatusCode::OK),
        ("[::1]:8080", StatusCode::OK),
        (HOST, StatusCode::OK),
    ] {
        let answer = browser.send(Method::GET, "/$page/", &[("host", host)], String::new()).await;
        assert_eq!(answer.status, status, "{host}");
    }
    let none = browser.send(Method::GET, "/$page/", &[], String::new()).await;
    assert_eq!(none.status, StatusCode::MISDIRECTED_REQUEST);
}

/// Rules: HT-43.
#[tokio::test]
async fn a_form_needs_the_token_of_its_session() {
    let broker = Broker::new();
    let queue = queue(&broker);
    queue.sender().unwrap().send(Message::new("1")).await.unwrap();
    let page = Page::builder(broker).build();
    let (mut browser, mut other) = (Browser::new(&page), Browser::new(&page));
    let confirm = "/$page/confirm?action=purge&path=orders";
    let (own, foreign) = (browser.get(confirm).await.csrf().unwrap(), other.get(confirm).await.csrf().unwrap());
    let fields = [("action", "purge"), ("path", "orders")];
    for token in ["", "00", &foreign, &own.to_uppercase()[..10]] {
        let refused = browser.post("/$page/jobs", token, &fields).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{token}");
        refused.has("no valid token");
    }
    let media_type = (header::CONTENT_TYPE.as_str(), "application/x-www-form-urlencoded");
    let form = format!("csrf={own}&action=purge&path=orders");
    for site in ["cross-site", "same-site"] {
        let headers = [("host", HOST), ("sec-fetch-site", site), media_type];
        let refused = browser.send(Method::POST, "/$page/jobs", &headers, form.clone()).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{site}");
    }
    for address in ["/$page/jobs", "/$page/job/stop", "/$page/edit", "/$page/cancel", "/$page/logout", "/$page/login"] {
        let refused =
            browser.send(Method::POST, address, &[("host", HOST), media_type], "path=orders".to_owned()).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{address}");
    }
    assert_eq!(browser.post("/$page/jobs", &own, &fields).await.status, StatusCode::SEE_OTHER);
}

/// Rules: HT-41.
#[tokio::test]
async fn nothing_is_shown_without_the_key() {
    let broker = Broker::new();
    queue(&broker);
    let mut browser = Browser::new(&with_key(&broker));
    for address in ["/$page/", "/$page/messages?path=orders", "/$page/events", "/$page/body?path=orders&number=1"] {
        let answer = browser.get(address).await;
        assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "/$page/login".to_owned()), "{address}");
        answer.has_not("orders");
    }
    let login = browser.get("/$page/login").await;
    let wrong = browser.post("/$page/login", &login.csrf().unwrap(), &[("key", "another key")]).await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    wrong.has("This is not the key.");
    let purge = browser.post("/$page/jobs", &wrong.csrf().unwrap(), &[("action", "purge"), ("path", "orders")]).await;
    assert_eq!(purge.status, StatusCode::UNAUTHORIZED);
}

/// Rules: HT-41.
#[tokio::test]
async fn a_session_begins_with_the_key_and_ends() {
    let broker = Broker::new();
    queue(&broker);
    let mut browser = Browser::new(&with_key(&broker));
    let token = browser.get("/$page/login").await.csrf().unwrap();
    let begun = browser.post("/$page/login", &token, &[("key", KEY)]).await;
    assert_eq!(begun.status, StatusCode::SEE_OTHER);
    let cookie = begun.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict") && !cookie.contains("Secure"), "{cookie}");
    let shown = browser.get("/$page/").await;
    shown.has("orders");
    // The token of before the login is that of another session.
    assert_eq!(browser.post("/$page/logout", &token, &[]).await.status, StatusCode::FORBIDDEN);
    assert_eq!(browser.post("/$page/logout", &shown.csrf().unwrap(), &[]).await.status, StatusCode::SEE_OTHER);
    assert_eq!(browser.get("/$page/").await.status, StatusCode::SEE_OTHER);
}

/// Rules: HT-41.
#[tokio::test]
async fn too_many_wrong_keys_close_the_form_for_a_minute() {
    let mut browser = Browser::new(&with_key(&Broker::new()));
    let token = browser.get("/$page/login").await.csrf().unwrap();
    for _ in 0..20 {
        assert_eq!(browser.post("/$page/login", &token, &[("key", "wrong")]).await.status, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(browser.post("/$page/login", &token, &[("key", KEY)]).await.status, StatusCode::TOO_MANY_REQUESTS);
}

/// Rules: HT-41.
/// Attacks: 101.
#[tokio::test]
async fn before_the_login_little_is_read() {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt;

    let page = with_key(&Broker::new());
    let mut browser = Browser::new(&page);
    let token = browser.get("/$page/login").await.csrf().unwrap();
    let long = "a".repeat(64 << 10);
    assert_eq!(browser.post("/$page/login", &token, &[("key", &long)]).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let never = Body::from_stream(futures_util::stream::pending::<Result<axum::body::Bytes, std::io::Error>>());
    let request = Request::post("/$page/assets/page.js").header(header::HOST, HOST).body(never).unwrap();
    let router: axum::Router = page.router();
    assert_eq!(router.oneshot(request).await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
}

/// Rules: HT-41.
#[tokio::test(start_paused = true)]
async fn events_end_with_their_session() {
    use axum::{body::Body, http::Request};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    let broker = Broker::new();
    queue(&broker);
    let page = with_key(&broker);
    let mut browser = Browser::new(&page);
    let token = browser.get("/$page/login").await.csrf().unwrap();
    let begun = browser.post("/$page/login", &token, &[("key", KEY)]).await;
    let cookie = begun.headers[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap();
    let request = Request::get("/$page/events").header(header::HOST, HOST).header(header::COOKIE, cookie);
    let router: axum::Router = page.router();
    let mut events = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap().into_body();
    let first = events.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(std::str::from_utf8(&first).unwrap().contains("\"entities\""), "{first:?}");
    let shown = browser.get("/$page/").await;
    assert_eq!(browser.post("/$page/logout", &shown.csrf().unwrap(), &[]).await.status, StatusCode::SEE_OTHER);
    let rest = tokio::time::timeout(std::time::Duration::from_secs(3_600), events.collect()).await;
    let rest = rest.expect("the stream has ended").unwrap().to_bytes();
    assert!(!std::str::from_utf8(&rest).unwrap().contains("\"entities\""), "{rest:?}");
}

/// Rules: HT-40.
#[tokio::test]
async fn a_body_is_downloaded_and_never_shown_by_its_type() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let message = Message::builder().content_type("text/html").build(SCRIPT).unwrap();
    queue.sender().unwrap().send(message).await.unwrap();
    let answer = Browser::new(&Page::builder(broker).build()).get("/$page/body?path=orders&number=1").await;
    assert_eq!(answer.body, SCRIPT.as_bytes());
    assert_eq!(answer.headers[header::CONTENT_TYPE], "application/octet-stream");
    assert_eq!(answer.headers[header::CONTENT_DISPOSITION], "attachment; filename=\"message-1\"");
    assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
}

/// Rules: HT-43.
#[tokio::test(start_paused = true)]
async fn a_form_that_does_not_arrive_is_refused_after_a_minute() {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt;

    let (_sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let never = futures_util::stream::once(async move {
        let _ = receiver.await;
        Ok::<_, std::io::Error>(axum::body::Bytes::new())
    });
    let request = Request::post("/$page/login").header(header::HOST, HOST).body(Body::from_stream(never)).unwrap();
    let began = tokio::time::Instant::now();
    let page = with_key(&Broker::new());
    let router: axum::Router = page.router();
    let answer = router.oneshot(request).await.unwrap();
    assert_eq!((answer.status(), began.elapsed().as_secs()), (StatusCode::REQUEST_TIMEOUT, 60));
}
