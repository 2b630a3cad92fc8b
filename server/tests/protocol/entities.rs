use consign_core::administration::{QueueSettings, SubscriptionSettings, TopicSettings};

use crate::support::*;

/// Rules: A-39, S-100.
#[tokio::test(start_paused = true)]
async fn one_entity_has_several_addresses() {
    let harness = Harness::new();
    let session = harness.session().await;
    for address in ["orders", "/orders", "ORDERS", "amqps://host:5671/orders", "sb://host/orders/"] {
        send(&session, address, &[address]).await;
    }
    assert_eq!(harness.broker().entities().len(), 1);
    assert_eq!(harness.broker().queue("orders").unwrap().counts().active, 5);
    assert_eq!(refused(try_sender(&session, "orders?x=1").await), "amqp:not-found");
    for address in ["orders/$DeadLetterQueue", "orders/$deadletterqueue", "/Orders/$Transfer/$DeadLetterQueue"] {
        receiver(&session, address).await;
    }
}

/// Rules: A-35.
#[tokio::test(start_paused = true)]
async fn an_entity_that_does_not_exist_is_not_found_where_none_is_created() {
    let harness = Harness::with(|builder| builder.create_entities(false));
    let session = harness.session().await;
    for address in ["orders", "orders/$management", "", "a//b", "$other"] {
        let error = try_sender(&session, address).await.unwrap_err();
        let reported = error.reported().unwrap_or_else(|| panic!("{address}: {error}"));
        assert_eq!(reported.condition, "amqp:not-found", "{address}");
        let text = reported.description.as_ref().unwrap();
        assert!(text.contains("The messaging entity") && text.contains("could not be found"), "{text}");
    }
    assert_eq!(refused(try_receiver(&session, "orders").await), "amqp:not-found");
    assert_eq!(harness.broker().entities().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn entities_are_created_on_first_use() {
    let harness = Harness::new();
    let session = harness.session().await;
    receiver(&session, "orders").await;
    receiver(&session, "prices/subscriptions/audit").await;
    receiver(&session, "prices/subscriptions/other/$DeadLetterQueue").await;
    session_receiver(&session, "sessions", Some("s")).await;
    let paths: Vec<_> = harness.broker().entities().iter().map(|entity| entity.path.to_string()).collect();
    assert_eq!(paths, ["orders", "prices", "prices/Subscriptions/audit", "prices/Subscriptions/other", "sessions"]);
    assert!(harness.broker().queue("sessions").unwrap().settings().unwrap().requires_session);
}

/// Rules: S-103, T-60.
#[tokio::test(start_paused = true)]
async fn links_that_an_entity_does_not_have_are_refused() {
    let harness = Harness::new();
    let broker = harness.broker();
    broker.create_queue("orders", QueueSettings::default()).unwrap();
    broker.create_queue("forwards", QueueSettings::default().forward_to("orders")).unwrap();
    let topic = broker.create_topic("prices", TopicSettings::default()).unwrap();
    topic.create_subscription("audit", SubscriptionSettings::default()).unwrap();
    let session = harness.session().await;
    for address in ["orders/$deadletterqueue", "prices/subscriptions/audit"] {
        assert_eq!(refused(try_sender(&session, address).await), "amqp:not-allowed", "{address}");
    }
    for address in ["prices", "forwards"] {
        assert_eq!(refused(try_receiver(&session, address).await), "amqp:not-allowed", "{address}");
    }
}

/// Rules: M-26.
#[tokio::test(start_paused = true)]
async fn a_partitioned_queue_has_the_partition_of_its_messages() {
    let harness = Harness::new();
    let settings = QueueSettings::default().partitioned(true);
    harness.broker().create_queue("orders", settings).unwrap();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    assert_eq!(link.send(annotated("a", "x-opt-partition-key", "key")).await.unwrap(), Some(accepted()));
    let mut receiver = receiver(&session, "orders").await;
    let received = read(receive(&mut receiver).await);
    assert_eq!(annotation(&received, "x-opt-partition-key"), Some("key".into()));
    let Some(consign_amqp::value::Value::Short(partition)) = annotation(&received, "x-opt-partition-id") else {
        panic!("no partition")
    };
    assert_eq!(sequence_number(&received) >> 48, i64::from(partition));
}
