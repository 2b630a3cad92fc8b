//! Transports that cannot do all that the embedded broker can.

use std::time::Duration;

use axum::http::StatusCode;
use consign::dead_letters::ListLimit;
use consign_broker::{Broker, QueueReceiver, QueueSender};
use consign_core::{
    Message,
    message::EntityPath,
    transport::{
        Capabilities, Capability, DynTransport, Level, ReceiveError, ReceiveMode, ReceiverExt, SendError, Sender,
        Transport,
    },
};
use consign_server::page::{Builder, Page};

use crate::support::{Browser, bury, queue};

/// A broker that can only send and receive.
#[derive(Clone)]
struct Plain {
    broker: Broker,
    capabilities: Capabilities,
}

impl Transport for Plain {
    type Sender = QueueSender;
    type Lease = consign_broker::QueueLease;
    type Receiver = QueueReceiver;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn sender(&self, path: &EntityPath) -> Result<QueueSender, SendError> {
        Transport::sender(&self.broker, path).await
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<QueueReceiver, ReceiveError> {
        Transport::receiver(&self.broker, path, mode).await
    }
}

fn plain(broker: &Broker, capabilities: &[Capability]) -> Builder {
    let capabilities = Capabilities::none().with_each(capabilities, Level::Native);
    Page::builder(DynTransport::builder(Plain { broker: broker.clone(), capabilities }).build())
}

/// Rules: HT-44.
#[tokio::test(start_paused = true)]
async fn without_peek_messages_are_received_and_released() {
    let broker = Broker::new();
    let queue = queue(&broker);
    for body in ["first", "second"] {
        queue.sender().unwrap().send(Message::new(body)).await.unwrap();
    }
    let mut browser = Browser::new(&plain(&broker, &[Capability::PeekLock, Capability::Release]).build());
    let answer = browser.get("/$page/messages?path=orders").await;
    for text in ["These messages were received and released", "first", "second"] {
        answer.has(text);
    }
    assert_eq!((queue.counts().active, queue.counts().locked), (2, 0));
    // No delivery has counted.
    assert_eq!(queue.receiver().receive().await.unwrap().message.received().unwrap().delivery_count, 1);
    browser.get("/$page/").await.has("This transport cannot peek");
    // One message is not found again, and neither are the messages counted.
    answer.has("one message cannot be opened");
    answer.has_not("/$page/message?");
    answer.has("<span data-count=\"dead\">–</span>");
}

/// Rules: HT-44.
#[tokio::test(start_paused = true)]
async fn without_peek_a_search_says_how_far_it_has_looked() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let send = async |id: String| {
        queue.sender().unwrap().send(Message::builder().message_id(id).build("").unwrap()).await.unwrap();
    };
    for number in 0..49 {
        send(format!("id-{number}")).await;
    }
    let mut browser = Browser::new(&plain(&broker, &[Capability::PeekLock, Capability::Release]).build());
    let all = browser.get("/$page/messages?path=orders&q=wanted").await;
    all.has("There are no messages.");
    all.has_not("Only the first 50");
    for id in ["id-49", "wanted"] {
        send(id.to_owned()).await;
    }
    let cut = browser.get("/$page/messages?path=orders&q=wanted").await;
    cut.has("Only the first 50 were looked at; there may be more.");
    cut.has("No message so far passes the filter.");
    cut.has_not("There are no messages.");
    browser.get("/$page/messages?path=orders").await.has("Only the first 50");
}

/// Rules: HT-44.
#[tokio::test(start_paused = true)]
async fn listing_that_counts_deliveries_has_to_be_allowed() {
    let broker = Broker::new();
    let queue = queue(&broker);
    queue.sender().unwrap().send(Message::new("first")).await.unwrap();
    let answer =
        Browser::new(&plain(&broker, &[Capability::PeekLock]).build()).get("/$page/messages?path=orders").await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    answer.has("needs --consume");
    answer.has_not("first");
    let allowed = plain(&broker, &[Capability::PeekLock]).consume(true).build();
    Browser::new(&allowed).get("/$page/messages?path=orders").await.has("first");
}

/// Rules: HT-46.
#[tokio::test(start_paused = true)]
async fn dead_letters_are_resubmitted_without_transactions() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let letters = |reason: &'static str| (0..5).map(move |_| (reason, "failed".to_owned(), Message::new(reason)));
    bury(&queue, letters("Stays")).await;
    bury(&queue, letters("Goes")).await;
    let page = plain(&broker, &[Capability::PeekLock, Capability::Release]).build();
    let background = page.clone();
    tokio::spawn(async move { background.run().await });
    let mut browser = Browser::new(&page);
    let groups = browser.get("/$page/dead-letters?path=orders").await;
    groups.has("10 dead letters by reason");
    let goes = groups.text().split("<tr>").find(|row| row.contains("<bdi>Goes</bdi>")).unwrap();
    let group = goes.split_once("group=").unwrap().1.split('"').next().unwrap().to_owned();
    let fields = [("action", "resubmit"), ("path", "orders"), ("group", &group)];
    let begun = browser.submit("/$page/confirm?action=resubmit&path=orders", "/$page/jobs", &fields).await;
    while !browser.get(&begun.location()).await.text().contains("aria-live=\"polite\">done") {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((queue.counts().active, queue.counts().dead_lettered), (5, 5));
    assert_eq!(queue.receiver().receive().await.unwrap().message.payload(), Some(&b"Goes"[..]));
}

/// Rules: HT-46.
#[tokio::test]
async fn without_numbers_dead_letters_of_later_messages_stay() {
    let letters = |count| (0..count).map(|_| ("R", String::new(), Message::new("")));
    for (action, active) in [("resubmit", 3), ("remove", 0)] {
        let broker = Broker::new();
        let queue = queue(&broker);
        bury(&queue, letters(3)).await;
        let page = plain(&broker, &[Capability::PeekLock, Capability::Release]);
        let page = page.undo_window(Duration::from_millis(500)).build();
        let background = page.clone();
        tokio::spawn(async move { background.run().await });
        let mut browser = Browser::new(&page);
        let confirm = format!("/$page/confirm?action={action}&path=orders");
        let begun = browser.submit(&confirm, "/$page/jobs", &[("action", action), ("path", "orders")]).await;
        // The job waits until it can no longer be undone.
        tokio::time::sleep(Duration::from_millis(5)).await;
        bury(&queue, letters(2)).await;
        let job = loop {
            let job = browser.get(&begun.location()).await;
            if job.text().contains("aria-live=\"polite\">done") {
                break job;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        job.has("<span data-job-done>3</span> of 3 done");
        assert_eq!((queue.counts().active, queue.counts().dead_lettered), (active, 2), "{action}");
    }
}

#[tokio::test]
async fn entities_that_cannot_be_listed_are_opened_by_their_path() {
    let broker = Broker::new();
    queue(&broker);
    let mut browser = Browser::new(&plain(&broker, &[Capability::Release]).build());
    let answer = browser.get("/$page/").await;
    answer.has("The entities cannot be listed");
    answer.has("Open an entity by its path");
    browser.get("/$page/sessions?path=orders").await.has("This transport cannot list sessions.");
}

/// Rules: HT-44.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_cut_off_counts_no_delivery() {
    let broker = Broker::new();
    let queue = queue(&broker);
    for body in ["first", "second"] {
        queue.sender().unwrap().send(Message::new(body)).await.unwrap();
    }
    let mut browser = Browser::new(&plain(&broker, &[Capability::PeekLock, Capability::Release]).build());
    for _ in 0..3 {
        let request = browser.get("/$page/messages?path=orders");
        assert!(tokio::time::timeout(Duration::from_millis(500), request).await.is_err());
        assert_eq!(queue.counts().locked, 2);
        // The list goes on to its end without the browser.
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert_eq!((queue.counts().active, queue.counts().locked), (2, 0));
    for delivery in queue.receiver().receive_batch(2).await.unwrap() {
        assert_eq!(delivery.message.received().unwrap().delivery_count, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_removed_is_not_offered() {
    let broker = Broker::new();
    let queue = queue(&broker);
    bury(&queue, [("R", String::new(), Message::new(""))]).await;
    queue.sender().unwrap().send(Message::new("first")).await.unwrap();
    let mut browser = Browser::new(&plain(&broker, &[Capability::PeekLock, Capability::Release]).build());
    browser.get("/$page/messages?path=orders").await.has_not("Remove all messages");
    let confirm = "/$page/confirm?action=purge&path=orders";
    assert_eq!(browser.get(confirm).await.status, StatusCode::CONFLICT);
    let token = browser.get("/$page/confirm?action=remove&path=orders").await.csrf().unwrap();
    let begun = browser.post("/$page/jobs", &token, &[("action", "purge"), ("path", "orders")]).await;
    assert_eq!(begun.status, StatusCode::CONFLICT);

    let mut browser = Browser::new(&Page::builder(broker).build());
    browser.get("/$page/messages?path=orders").await.has("Remove all messages");
    assert_eq!(browser.get(confirm).await.status, StatusCode::OK);
    assert_eq!(browser.get("/$page/confirm?action=purge&path=nosuch").await.status, StatusCode::NOT_FOUND);
}

/// Rules: L-05.
#[tokio::test]
async fn a_group_of_more_than_can_be_locked_shows_those_that_were_found() {
    let broker = Broker::new();
    let queue = queue(&broker);
    bury(&queue, (0..=ListLimit::MAX).map(|_| ("R", String::new(), Message::new("")))).await;
    let mut browser = Browser::new(&plain(&broker, &[Capability::PeekLock, Capability::Release]).build());
    let groups = browser.get("/$page/dead-letters?path=orders").await;
    groups.has("there are more");
    let group = groups.text().split_once("group=").unwrap().1.split('"').next().unwrap().to_owned();
    // The last page of those that are locked.
    let from = ListLimit::MAX - 9;
    let list = browser.get(&format!("/$page/dead-letters/group?path=orders&group={group}&from={from}")).await;
    assert_eq!(list.status, StatusCode::OK);
    list.has("Only the first 16384 dead letters were looked at.");
    list.has(&format!("Dead letters from number {from} on"));
}
