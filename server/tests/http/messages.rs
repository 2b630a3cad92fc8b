use consign_core::{
    Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    message::{MessageBody, Properties, SequenceNumber, Value},
    transport::Sender,
};

use crate::support::Harness;

/// Rules: HT-01, HT-03, HT-10.
#[tokio::test]
async fn a_message_is_sent_and_received_and_deleted() {
    let harness = Harness::new().await;
    let headers = [
        ("Content-Type", "application/json"),
        ("BrokerProperties", r#"{"Label":"M1","MessageId":"id","Unknown":1}"#),
        ("Priority", "High"),
        ("count", "5"),
        ("x-ms-retrypolicy", "NoRetry"),
    ];
    let sent = harness.call("POST", "/q/messages?timeout=30", &headers, "{\"a\":1}").await;
    assert_eq!((sent.status, sent.text()), (201, ""));
    let message = &harness.broker().queue("q").unwrap().peek(SequenceNumber::default(), 1)[0];
    assert_eq!((message.subject(), message.message_id()), (Some("M1"), Some("id")));

    let received = harness.receive("q").await;
    assert_eq!((received.status, received.text()), (200, "{\"a\":1}"));
    assert_eq!(received.header("content-type"), Some("application/json"));
    assert_eq!(received.header("content-length"), None, "older clients take it for a property");
    assert_eq!((received.header("priority"), received.header("count")), (Some("\"High\""), Some("5")));
    let broker: serde_json::Value = serde_json::from_str(received.header("brokerproperties").unwrap()).unwrap();
    assert_eq!((&broker["SequenceNumber"], &broker["DeliveryCount"]), (&1.into(), &1.into()));
    assert!(broker.get("LockToken").is_none() && received.header("location").is_none());
    assert_eq!(harness.receive("q").await.status, 204);
    assert_eq!(harness.broker().queue("q").unwrap().counts().active, 0);
}

/// Rules: HT-02.
#[tokio::test]
async fn a_batch_is_sent_as_a_whole() {
    let harness = Harness::new().await;
    let batch = [("Content-Type", "application/vnd.microsoft.servicebus.json; charset=utf-8")];
    let body = r#"[{"Body":"1","UserProperties":{"Key":1}},{"Body":"2","BrokerProperties":{"Label":"l"}}]"#;
    assert_eq!(harness.call("POST", "/q/messages", &batch, body).await.status, 201);
    let wrong = r#"[{"Body":"3"},{"Body":"4","BrokerProperties":{"Label":5}}]"#;
    assert_eq!(harness.call("POST", "/q/messages", &batch, wrong).await.status, 400);
    let large = format!("[{{\"Body\":\"3\"}},{{\"Body\":\"{}\"}}]", "a".repeat(300_000));
    assert_eq!(harness.call("POST", "/q/messages", &batch, large).await.status, 403);
    for body in ["1", "2"] {
        assert_eq!(harness.receive("q").await.text(), body);
    }
    assert_eq!(harness.receive("q").await.status, 204);
}

/// Rules: HT-04, HT-05, HT-06, HT-07.
#[tokio::test]
async fn a_locked_message_is_renewed_abandoned_and_completed() {
    let harness = Harness::new().await;
    harness.send("q", "1").await;
    let lock = async || {
        let locked = harness.call("POST", "/q/messages/head?timeout=0", &[], "").await;
        assert_eq!((locked.status, locked.text()), (201, "1"));
        let location = locked.header("location").unwrap().to_owned();
        location.strip_prefix("http://localhost:5300").unwrap().to_owned()
    };
    let location = lock().await;
    assert!(location.starts_with("/q/messages/1/"), "{location}");
    assert_eq!(harness.call("POST", "/q/messages/head?timeout=0", &[], "").await.status, 204);
    assert_eq!(harness.call("POST", &location, &[], "").await.status, 200);
    assert_eq!(harness.call("PUT", &location, &[], "").await.status, 200);
    assert_eq!(harness.call("DELETE", &location, &[], "").await.status, 404, "it was abandoned");

    let location = lock().await;
    let token = location.rsplit('/').next().unwrap();
    for other in [format!("/q/messages/2/{token}"), "/q/messages/1/11111111-1111-1111-1111-111111111111".to_owned()] {
        assert_eq!(harness.call("DELETE", &other, &[], "").await.status, 404, "{other}");
    }
    harness.broker().create_queue("other", QueueSettings::default()).unwrap();
    assert_eq!(harness.call("DELETE", &format!("/other/messages/1/{token}"), &[], "").await.status, 404);
    assert_eq!(harness.call("DELETE", &location, &[], "").await.status, 200);
    assert_eq!(harness.call("DELETE", &location, &[], "").await.status, 404);
    let counts = harness.broker().queue("q").unwrap().counts();
    assert_eq!((counts.active, counts.locked), (0, 0));
}

/// Rules: HT-05.
#[tokio::test]
async fn a_message_is_named_by_its_id_too() {
    let harness = Harness::new().await;
    let id = [("BrokerProperties", r#"{"MessageId":"a/b c"}"#)];
    assert_eq!(harness.call("POST", "/q/messages", &id, "").await.status, 201);
    let locked = harness.call("POST", "/q/messages/head?timeout=0", &[], "").await;
    let token = locked.header("location").unwrap().rsplit('/').next().unwrap().to_owned();
    assert_eq!(harness.call("DELETE", &format!("/q/messages/a%2Fb%20c/{token}"), &[], "").await.status, 200);
}

#[tokio::test]
async fn subscriptions_and_sub_queues_have_messages() {
    let harness = Harness::new().await;
    let topic = harness.broker().create_topic("t", TopicSettings::default()).unwrap();
    topic.create_subscription("s", SubscriptionSettings::default().max_delivery_count(1)).unwrap();
    harness.send("t", "1").await;
    let locked = harness.call("POST", "/t/Subscriptions/s/messages/head?timeout=0", &[], "").await;
    let location = locked.header("location").unwrap().strip_prefix("http://localhost:5300").unwrap();
    assert_eq!(harness.call("PUT", location, &[], "").await.status, 200);
    assert_eq!(harness.receive("t/subscriptions/s").await.status, 204);
    let dead = harness.receive("t/subscriptions/s/$DeadLetterQueue").await;
    assert_eq!((dead.status, dead.text()), (200, "1"));
    assert_eq!(dead.header("deadletterreason"), Some("\"MaxDeliveryCountExceeded\""));
    assert_eq!(harness.receive("t").await.status, 400, "a topic");
}

/// Rules: HT-08.
#[tokio::test]
async fn sessions_are_not_available() {
    let harness = Harness::new().await;
    harness.broker().create_queue("sessions", QueueSettings::default().requires_session(true)).unwrap();
    let session = [("BrokerProperties", r#"{"SessionId":"s"}"#)];
    assert_eq!(harness.call("POST", "/sessions/messages", &session, "").await.status, 201);
    assert_eq!(harness.call("POST", "/sessions/messages", &[], "").await.status, 400);
    for method in ["POST", "DELETE"] {
        assert_eq!(harness.call(method, "/sessions/messages/head?timeout=0", &[], "").await.status, 501);
    }
}

/// Rules: B-05.
#[tokio::test]
async fn a_body_that_is_not_data_is_received_as_amqp() {
    let harness = Harness::new().await;
    let sender = harness.broker().queue("q").unwrap().sender().unwrap();
    sender.send(Message::new(Value::from("text"))).await.unwrap();
    let sequence = MessageBody::Sequence([vec![Value::from(true)]].into());
    sender.send(Message::from_parts(Properties::default(), sequence)).await.unwrap();
    let received = harness.receive("q").await;
    assert_eq!(received.header("content-type"), Some("application/vnd.amqp"));
    assert_eq!(received.body, b"\x00\x53\x77\xa1\x04text");
    let received = harness.receive("q").await;
    assert_eq!(received.header("content-type"), Some("application/vnd.amqp"));
    assert!(received.body.starts_with(b"\x00\x53\x76"), "{:?}", received.body);
}

/// Rules: HT-01, HT-03.
#[tokio::test]
async fn refusals_have_the_status_of_the_service() {
    let harness = Harness::new().await;
    let large = vec![0; 300_000];
    for (method, path, headers, body, status) in [
        ("POST", "/missing/messages", &[][..], &b""[..], 410),
        ("DELETE", "/missing/messages/head", &[], b"", 410),
        ("POST", "/missing/messages/head", &[], b"", 410),
        ("DELETE", "/missing/messages/1/11111111-1111-1111-1111-111111111111", &[], b"", 410),
        ("POST", "/q/messages", &[("BrokerProperties", "{")], b"", 400),
        ("POST", "/q/messages", &[], &large, 403),
        ("POST", "/q/messages?timeout=x", &[], b"", 400),
        ("DELETE", "/q/messages/1/2", &[], b"", 400),
        ("PUT", "/q/messages/head", &[], b"", 405),
        ("PATCH", "/q/messages/1/11111111-1111-1111-1111-111111111111", &[], b"", 405),
        ("PATCH", "/q", &[], b"", 405),
        ("POST", "/a%3Fb/messages", &[], b"", 400),
        ("POST", "/q/messages", &[("Origin", "http://other")], b"", 403),
    ] {
        let answer = harness.call(method, path, headers, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert!(answer.text().starts_with(&format!("<Error><Code>{status}</Code><Detail>")), "{answer:?}");
    }
    assert_eq!(harness.broker().queue("q").unwrap().counts().active, 0);
}

#[tokio::test]
async fn entities_are_created_on_first_use() {
    let harness = Harness::with(|builder| builder).await;
    assert_eq!(harness.receive("a/b").await.status, 204);
    harness.send("a/b", "1").await;
    assert_eq!(harness.receive("a/b").await.text(), "1");
    assert_eq!(harness.receive("t/subscriptions/s").await.status, 204);
    harness.send("t", "2").await;
    assert_eq!(harness.receive("t/subscriptions/s").await.text(), "2");
}

/// Rules: HT-17.
#[tokio::test]
async fn exact_properties_are_sent_and_asked_for() {
    let harness = Harness::new().await;
    let exact = [("x-prop-names", r#"{"Priority":{"u8":5},"with space":"a\nb"}"#)];
    assert_eq!(harness.call("POST", "/q/messages", &exact, "").await.status, 201);
    assert_eq!(harness.call("POST", "/q/messages", &exact, "").await.status, 201);
    let received = harness.call("DELETE", "/q/messages/head", &[("x-prop-names", "")], "").await;
    assert_eq!(received.header("x-prop-names"), Some(exact[0].1));
    let received = harness.receive("q").await;
    assert_eq!((received.header("x-prop-names"), received.header("priority")), (None, Some("5")));
}

#[tokio::test]
async fn a_message_that_arrives_ends_the_wait() {
    let harness = Harness::new().await;
    let receive = harness.call("DELETE", "/q/messages/head?timeout=60", &[], "");
    let (received, ()) = tokio::join!(receive, harness.send("q", "1"));
    assert_eq!((received.status, received.text()), (200, "1"));
}

/// Rules: HT-01, HT-03.
#[tokio::test]
async fn the_refusal_of_a_disabled_entity_names_it() {
    use consign_core::administration::Status;

    let harness = Harness::new().await;
    harness.broker().update_queue("q", QueueSettings::default().status(Status::Disabled)).unwrap();
    for (method, path) in [("POST", "/q/messages"), ("DELETE", "/q/messages/head?timeout=0")] {
        let answer = harness.call(method, path, &[], "1").await;
        let is_named = answer.text().contains("The entity &apos;q&apos; is disabled.");
        assert!(answer.status == 403 && is_named, "{method}: {}", answer.text());
    }
}

/// Rules: S-11, HT-05.
#[tokio::test]
async fn a_refused_settlement_leaves_the_lock() {
    use consign_core::administration::Status;

    let harness = Harness::new().await;
    harness.send("q", "1").await;
    let locked = harness.call("POST", "/q/messages/head?timeout=0", &[], "").await;
    let location = locked.header("Location").unwrap().to_owned();
    let path = location.strip_prefix("http://localhost:5300").unwrap();
    let status = |status| harness.broker().update_queue("q", QueueSettings::default().status(status)).unwrap();
    status(Status::ReceiveDisabled);
    assert_eq!(harness.call("DELETE", path, &[], "").await.status, 403);
    status(Status::Active);
    assert_eq!(harness.call("DELETE", path, &[], "").await.status, 200);
    assert_eq!(harness.broker().queue("q").unwrap().counts().locked, 0);
}
