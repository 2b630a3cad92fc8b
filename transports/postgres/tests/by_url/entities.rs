//! Entities are created, declared, listed and deleted.

use std::time::Duration;

use consign::{
    administration::{
        Administration, EntityKind, EntitySettings, QueueSettings, Status, SubscriptionSettings, TopicSettings,
    },
    transport::{DynTransport, ErrorKind, ManageError},
};

use crate::{Fixture, path};

fn settings() -> EntitySettings {
    let settings = QueueSettings::default().max_delivery_count(3).default_time_to_live(Duration::from_secs(60));
    settings.forward_dead_letters_to("Dead").into()
}

#[tokio::test]
async fn an_entity_is_declared_again_also_by_a_process_that_never_saw_it() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.create("dead", QueueSettings::default()).await;
    let (queue, other) = (path("Orders"), fixture.other().await);
    for transport in [&fixture.transport, &fixture.transport, &other] {
        transport.declare(&queue, &settings()).await.unwrap();
    }
    let spelled = QueueSettings::default()
        .max_delivery_count(3)
        .default_time_to_live(Duration::from_micros(60_000_900))
        .forward_dead_letters_to("/dead/");
    other.declare(&path("orders"), &spelled.into()).await.unwrap();
    fixture.end().await;
}

#[tokio::test]
async fn a_declaration_with_another_setting_is_refused_by_its_name_and_changes_nothing() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.create("dead", QueueSettings::default()).await;
    fixture.create("topic", TopicSettings::default()).await;
    let queue = fixture.create("orders", settings()).await;
    let subscription = fixture.create("topic/Subscriptions/audit", SubscriptionSettings::default()).await;
    let other = fixture.other().await;
    let same = QueueSettings::default()
        .max_delivery_count(3)
        .default_time_to_live(Duration::from_secs(60))
        .forward_dead_letters_to("dead");
    for (path, declared, name) in [
        (&queue, same.clone().max_delivery_count(4).into(), "max_delivery_count"),
        (&queue, same.clone().lock_duration(Duration::from_secs(5)).into(), "lock_duration"),
        (&queue, same.clone().status(Status::Disabled).into(), "status"),
        (&queue, same.clone().requires_session(true).into(), "requires_session"),
        (&queue, same.forward_dead_letters_to("topic").into(), "forward_dead_letters_to"),
        (&queue, TopicSettings::default().into(), "kind"),
        (
            &subscription,
            SubscriptionSettings::default().dead_letter_on_filter_error(false).into(),
            "dead_letter_on_filter_error",
        ),
    ] {
        let error: ManageError = other.declare(path, &declared).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(other.settings(&queue).await.unwrap().difference(&settings()), None);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_declarations_of_several_processes_succeed() {
    let Some(fixture) = Fixture::new().await else { return };
    let other = fixture.other().await;
    fixture.create("topic", TopicSettings::default()).await;
    for round in 0..10 {
        let queue = path(&format!("queue-{round}"));
        let subscription = path(&format!("topic/Subscriptions/s{round}"));
        let declare = async |transport: &DynTransport| {
            transport.declare(&queue, &QueueSettings::default().into()).await?;
            transport.declare(&subscription, &SubscriptionSettings::default().into()).await
        };
        let declared =
            futures_util::future::join_all([&fixture.transport, &other, &fixture.transport, &other].map(&declare));
        for declared in declared.await {
            declared.unwrap();
        }
    }
    assert_eq!(other.list().await.unwrap().len(), 21);
    fixture.end().await;
}

#[tokio::test]
async fn creating_an_entity_that_exists_and_deleting_one_that_does_not_are_refused() {
    let Some(fixture) = Fixture::new().await else { return };
    let queue = fixture.create("orders", QueueSettings::default()).await;
    let other = fixture.other().await;
    let error = other.create(&queue, &QueueSettings::default().into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("orders"), "{error}");
    other.delete(&queue).await.unwrap();
    for error in [
        fixture.transport.delete(&queue).await.unwrap_err(),
        fixture.transport.settings(&queue).await.unwrap_err(),
        fixture.transport.counts(&queue).await.unwrap_err(),
        fixture.transport.update(&queue, &QueueSettings::default().into()).await.unwrap_err(),
        fixture
            .transport
            .create(&path("orders/Subscriptions/one"), &SubscriptionSettings::default().into())
            .await
            .unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::EntityNotFound, "{error}");
    }
    for (at, settings) in [
        ("orders/$deadletterqueue", EntitySettings::from(QueueSettings::default())),
        ("orders", SubscriptionSettings::default().into()),
        ("topic/Subscriptions/one", TopicSettings::default().into()),
    ] {
        let error = other.declare(&path(at), &settings).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOperation, "{at}: {error}");
    }
    fixture.end().await;
}

#[tokio::test]
async fn entities_are_listed_in_the_order_of_their_paths_with_their_settings() {
    let Some(fixture) = Fixture::new().await else { return };
    let topic = TopicSettings::default().duplicate_detection(Duration::from_secs(60));
    let subscription = SubscriptionSettings::default().requires_session(true);
    fixture.create("prices", topic.clone()).await;
    fixture.create("Orders", QueueSettings::default()).await;
    fixture.create("prices/Subscriptions/audit", subscription.clone()).await;
    let other = fixture.other().await;
    let listed = other.list().await.unwrap();
    let listed: Vec<_> = listed.iter().map(|entity| (entity.path.as_str(), entity.kind)).collect();
    let expected = [
        ("Orders", EntityKind::Queue),
        ("prices", EntityKind::Topic),
        ("prices/Subscriptions/audit", EntityKind::Subscription),
    ];
    assert_eq!(listed, expected);
    assert_eq!(other.settings(&path("prices")).await.unwrap(), topic.into());
    assert_eq!(other.settings(&path("prices/subscriptions/Audit")).await.unwrap(), subscription.into());
    other.delete(&path("prices")).await.unwrap();
    assert_eq!(other.list().await.unwrap().len(), 1);
    fixture.end().await;
}

#[tokio::test]
async fn settings_that_the_broker_does_not_have_are_refused_without_an_effect() {
    let Some(fixture) = Fixture::new().await else { return };
    let queue = path("orders");
    for (settings, name) in [
        (QueueSettings::default().partitioned(true), "partitioned"),
        (QueueSettings::default().auto_delete_on_idle(Duration::from_secs(600)), "auto_delete_on_idle"),
        (QueueSettings::default().max_duplicate_ids(5), "max_duplicate_ids"),
    ] {
        let settings = settings.into();
        for refused in
            [fixture.transport.create(&queue, &settings).await, fixture.transport.declare(&queue, &settings).await]
        {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    assert!(fixture.transport.list().await.unwrap().is_empty());
    fixture.end().await;
}
