//! A broker on a disk: its answers come later.

use std::time::Duration;

use consign_amqp::types::{Attach, SenderSettleMode};
use consign_broker::Broker;
use consign_core::administration::QueueSettings;
use consign_server::Server;
use tempfile::TempDir;

use crate::{log, raw::Peer, support::*};

fn durable() -> (TempDir, Harness) {
    let folder = tempfile::tempdir().unwrap();
    let harness = Harness { server: Server::builder().broker(Broker::open(folder.path()).unwrap()).build() };
    (folder, harness)
}

/// Rules, S-26.
#[tokio::test]
async fn sends_and_settlements_are_answered_when_they_are_on_the_disk() {
    let (folder, harness) = durable();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let texts: Vec<_> = (0..300).map(|nth| nth.to_string()).collect();
    let sends = texts.iter().map(|text| link.send(message(text)));
    for outcome in futures_util::future::join_all(sends).await {
        assert_eq!(outcome.unwrap(), Some(accepted()));
    }
    let mut receiver = receiver(&session, "orders").await;
    receiver.set_credit(200).unwrap();
    let mut deliveries = Vec::new();
    for text in &texts[..200] {
        let delivery = receiver.recv().await.unwrap();
        assert_eq!(text_of(&delivery), *text);
        deliveries.push(delivery.id);
    }
    let settler = receiver.settler();
    let accepted = accepted();
    let answers = deliveries.iter().map(|id| settler.settle_confirmed(*id, &accepted));
    for answer in futures_util::future::join_all(answers).await {
        assert_eq!(answer.unwrap(), Some(accepted.clone()));
    }
    harness.server.shutdown().await;
    harness.broker().close().await.unwrap();
    let broker = Broker::open(folder.path()).unwrap();
    assert_eq!(broker.queue("orders").unwrap().counts().active, 100);
}

/// Rules: A-30, S-24.
#[tokio::test]
async fn messages_that_are_deleted_on_delivery_are_drained() {
    let (_folder, harness) = durable();
    let session = harness.session().await;
    let texts: Vec<_> = (0..100).map(|nth| nth.to_string()).collect();
    send(&session, "orders", &texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let attach = Attach { snd_settle_mode: SenderSettleMode::Settled, ..receiver_attach("orders") };
    let mut link = session.attach_receiver_with(attach).await.unwrap();
    link.set_credit(150).unwrap();
    link.drain().await.unwrap();
    let mut received = Vec::new();
    while received.len() < 100 {
        let delivery = tokio::time::timeout(Duration::from_secs(5), link.recv()).await.unwrap().unwrap();
        received.push(text_of(&delivery));
    }
    assert_eq!(received, texts);
}

/// Rules: G-23, G-25, G-27, T-74.
#[tokio::test]
async fn requests_are_answered_when_they_are_on_the_disk() {
    use consign_amqp::value::{Array, Binary, List, Value, ValueType};

    let (_folder, harness) = durable();
    let settings = QueueSettings::default().requires_session(true);
    harness.broker().create_queue("sessions", settings).unwrap();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let mut link = receiver(&session, "orders").await;
    let delivery = receive(&mut link).await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let tokens = Array::new(ValueType::Uuid, vec![token(&delivery).into()]).unwrap();
    let request = fields([("disposition-status", "defered".into()), ("lock-tokens", tokens.into())]);
    assert_eq!(manage.call("com.microsoft:update-disposition", request).await.status(), 200);
    let numbers = Array::new(ValueType::Long, vec![1_i64.into()]).unwrap();
    let request = fields([("sequence-numbers", numbers.into()), ("receiver-settle-mode", 0_i32.into())]);
    assert_eq!(manage.call("com.microsoft:receive-by-sequence-number", request).await.status(), 200);
    let at = harness.broker().now().as_millis() + 60_000;
    let later = consign_amqp::value::Timestamp(at);
    let scheduled = annotated("later", "x-opt-scheduled-enqueue-time", later);
    let list = List(vec![fields([("message", Binary(scheduled).into())]).into()]);
    let answer = manage.call("com.microsoft:schedule-message", fields([("messages", list.into())])).await;
    assert_eq!(answer.status(), 200);

    let link = session_receiver(&session, "sessions", Some("s")).await;
    let mut manage = Requester::attach(&session, "sessions/$management").await;
    let state = Value::from(Binary::from(b"state".to_vec()));
    let set = fields([("session-id", "s".into()), ("session-state", state.clone())]);
    assert_eq!(manage.call("com.microsoft:set-session-state", set).await.status(), 200);
    let get = fields([("session-id", "s".into())]);
    assert_eq!(*manage.call("com.microsoft:get-session-state", get).await.field("session-state"), state);
    link.detach().await.unwrap();
}

/// Rules: A-31.
#[tokio::test]
async fn removed_messages_that_were_not_sent_are_counted_when_the_connection_ends() {
    let (_folder, harness) = durable();
    let session = harness.session().await;
    send(&session, "orders", &[&*"x".repeat(200_000); 20]).await;
    let (lines, _guard) = log::captured();
    let mut peer = Peer::connect(&harness).await;
    peer.receive_and_delete(20).await;
    let orders = harness.broker().queue("orders").unwrap();
    while orders.counts().active > 0 {
        tokio::task::yield_now().await;
    }
    drop(peer);
    let written = async {
        loop {
            let line = lines.take();
            if !line.is_empty() {
                break line;
            }
            tokio::task::yield_now().await;
        }
    };
    let line = tokio::time::timeout(Duration::from_secs(20), written).await.expect("a line is written");
    assert!(line.contains("a link ended before removed messages were sent"), "{line}");
    let count = line.split("messages=").nth(1).and_then(|rest| rest.split_whitespace().next());
    assert!((13..20).contains(&count.unwrap().parse::<u32>().unwrap()), "{line}");
}
