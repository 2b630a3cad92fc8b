use axum::http::StatusCode;
use consign_broker::Broker;
use consign_core::{
    Disposition, Message,
    administration::QueueSettings,
    settlement::Changes,
    time::Timestamp,
    transport::{Batch, Lease, ReceiverExt, Sender},
};
use consign_server::page::Page;

use crate::support::{Browser, bury, queue};

fn rows(text: &str) -> usize {
    text.matches("data-label=\"MessageId\"").count()
}

/// Rules: HT-44.
#[tokio::test]
async fn a_queue_of_100000_messages_is_shown_page_by_page() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let sender = queue.sender().unwrap();
    for start in (0..100_000).step_by(1_000) {
        let batch: Vec<_> =
            (start..start + 1_000).map(|number: usize| Message::new(format!("order {number}"))).collect();
        sender.send_batch(Batch::from_iter(batch)).await.unwrap();
    }
    let mut browser = Browser::new(&Page::builder(broker).build());
    let first = browser.get("/$page/messages?path=orders").await;
    assert_eq!(rows(first.text()), 50);
    first.has("order 49");
    first.has_not("order 50<");
    first.has("from=51");
    let last = browser.get("/$page/messages?path=orders&from=99990").await;
    assert_eq!(rows(last.text()), 11);
    last.has_not("Next page");
    let search = browser.get("/$page/messages?path=orders&q=none-of-them").await;
    assert_eq!(rows(search.text()), 0);
    search.has("Search on");
    assert_eq!(queue.counts().active, 100_000);
}

/// Rules: HT-44.
#[tokio::test]
async fn messages_are_filtered_by_properties_and_state() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let sender = queue.sender().unwrap();
    let message = |id: &'static str| Message::builder().message_id(id);
    sender.send(message("first").subject("invoice").build("1").unwrap()).await.unwrap();
    sender
        .send(message("second").property("tenant", "acme").property("retries", 17_i32).build("2").unwrap())
        .await
        .unwrap();
    sender.schedule(vec![message("third").build("3").unwrap()], Timestamp::MAX).await.unwrap();
    sender.send(message("fourth").build("4").unwrap()).await.unwrap();
    let mut receiver = queue.receiver();
    receiver.receive().await.unwrap().lease.settle(Disposition::Defer(Changes::NONE)).await.unwrap();
    let mut browser = Browser::new(&Page::builder(broker).build());
    for (query, ids) in [
        ("", &["first", "second", "third", "fourth"][..]),
        ("&q=invoice", &["first"]),
        ("&q=acme", &["second"]),
        ("&q=17", &["second"]),
        ("&q=fourth", &["fourth"]),
        ("&q=none", &[]),
        ("&state=deferred", &["first"]),
        ("&state=scheduled", &["third"]),
        ("&state=active", &["second", "fourth"]),
    ] {
        let answer = browser.get(&format!("/$page/messages?path=orders{query}")).await;
        assert_eq!(rows(answer.text()), ids.len(), "{query}");
        for id in ids {
            answer.has(&format!(">{id}<"));
        }
    }
}

#[tokio::test]
async fn a_message_is_shown_with_its_body_and_its_properties() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let message = Message::builder().content_type("application/msgpack").property("tenant", "acme").session_id("s");
    queue.sender().unwrap().send(message.build(b"\x81\xa1a\x01".to_vec()).unwrap()).await.unwrap();
    let mut browser = Browser::new(&Page::builder(broker).build());
    let answer = browser.get("/$page/message?path=orders&number=1").await;
    for text in ["MessagePack, as JSON", "{\n  &#34;a&#34;: 1\n}", "tenant", "acme", "application/msgpack"] {
        answer.has(text);
    }
    assert_eq!(browser.get("/$page/message?path=orders&number=2").await.status, StatusCode::NOT_FOUND);
    assert_eq!(browser.get("/$page/message?path=none&number=1").await.status, StatusCode::NOT_FOUND);
    assert_eq!(browser.get("/$page/message?path=orders&number=x").await.status, StatusCode::BAD_REQUEST);
}

/// Rules: HT-45.
#[tokio::test]
async fn dead_letters_are_grouped_by_reason_and_first_error() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let letters = (0..7).map(|number| ("HandlerFailed", format!("order {number} failed"), Message::new("x")));
    bury(&queue, letters).await;
    bury(
        &queue,
        [
            ("DeserializationFailed", "json: line 1".to_owned(), Message::new("{")),
            ("HandlerFailed", "no stock".to_owned(), Message::new("x")),
        ],
    )
    .await;
    let mut browser = Browser::new(&Page::builder(broker).build());
    let answer = browser.get("/$page/dead-letters?path=orders").await;
    answer.has("9 dead letters by reason and first error");
    assert_eq!(answer.text().matches("data-label=\"First error\"").count(), 3);
    answer.has("order # failed");
    answer.has("<td data-label=\"Count\" class=\"n\">7</td>");
    let group = answer.text().split_once("group=").unwrap().1.split('"').next().unwrap().to_owned();
    let answer = browser.get(&format!("/$page/dead-letters/group?path=orders&group={group}")).await;
    assert_eq!(rows(answer.text()), 7);
}

#[tokio::test]
async fn sessions_and_entities_are_listed() {
    let broker = Broker::new();
    let queue = broker.create_queue("with-sessions", QueueSettings::default().requires_session(true)).unwrap();
    for session in ["blue", "red"] {
        queue.sender().unwrap().send(Message::builder().session_id(session).build("").unwrap()).await.unwrap();
    }
    broker.create_topic("prices", consign_core::administration::TopicSettings::default()).unwrap();
    let mut browser = Browser::new(&Page::builder(broker).build());
    let sessions = browser.get("/$page/sessions?path=with-sessions").await;
    sessions.has("<bdi>blue</bdi>");
    sessions.has("<bdi>red</bdi>");
    let entities = browser.get("/$page/").await;
    entities.has("2 entities");
    entities.has("with-sessions");
    entities.has("<span data-count=\"active\">2</span>");
    let filtered = browser.get("/$page/?q=PRI").await;
    assert_eq!(browser.get(&format!("/$page/?page={}", usize::MAX)).await.status, StatusCode::OK);
    filtered.has("1 entity");
    filtered.has_not("with-sessions");
}

/// A group is listed from its first dead letter on. A page that begins far before it looks at a limited number.
#[tokio::test]
async fn a_rare_group_is_found_and_a_page_is_bounded() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let letters = |count, reason| (0..count).map(move |_| (reason, String::new(), Message::new("")));
    bury(&queue, letters(10_050, "Common").chain(letters(60, "Rare"))).await;
    let mut browser = Browser::new(&Page::builder(broker).build());
    let groups = browser.get("/$page/dead-letters?path=orders").await;
    let link = groups.text().split("href=\"").find(|link| link.contains("from=10051")).unwrap();
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let first = browser.get(&link).await;
    assert_eq!(rows(first.text()), 50);
    first.has("from=10101\">Next page");
    assert_eq!(rows(browser.get(&link.replace("from=10051", "from=10101")).await.text()), 10);
    let before = browser.get(&link.replace("from=10051", "from=0")).await;
    assert_eq!(rows(before.text()), 0);
    before.has("from=10001\">Search on");
}
