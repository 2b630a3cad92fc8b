//! Entities: created, declared, described and deleted.

use std::time::Duration;

use consign::{
    Message,
    administration::{Administration, EntitySettings, QueueSettings, SubscriptionSettings, TopicSettings},
    rules::{CorrelationFilter, ManageRules, Rule, SqlFilter},
    transport::{DynTransport, ErrorKind, ReceiveMode, ReceiverExt, Sender, Transport},
};
use consign_rabbitmq::lapin::{
    Connection, ConnectionProperties, ExchangeKind,
    options::{ExchangeDeclareOptions, ExchangeDeleteOptions, QueueDeclareOptions, QueueDeleteOptions},
    types::FieldTable,
};
use futures_util::future::join_all;

use crate::{SOON, connect, declared, end, path, registry, settings, support, url};

fn queue(settings: QueueSettings) -> EntitySettings {
    settings.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entity_is_declared_twice_and_refused_with_a_difference() {
    let Some(transport) = connect().await else { return };
    let orders = declared(&transport, "orders", settings()).await;
    transport.declare(&orders, &settings().into()).await.unwrap();
    let refused = transport.create(&orders, &settings().into()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);

    let hour = Duration::from_secs(3_600);
    for (name, other) in [
        ("max_delivery_count", settings().max_delivery_count(3)),
        ("lock_duration", settings().lock_duration(Duration::from_secs(6))),
        ("default_time_to_live", settings().default_time_to_live(hour)),
        ("dead_letter_on_expiration", settings().dead_letter_on_expiration(true)),
        ("requires_session", settings().requires_session(true)),
        ("max_message_size", settings().max_message_size(1_000)),
    ] {
        let refused = transport.declare(&orders, &other.into()).await.unwrap_err();
        assert!(refused.kind() == ErrorKind::AlreadyExists && refused.to_string().contains(name), "{name}: {refused}");
    }
    let topic = EntitySettings::from(TopicSettings::default());
    let refused = transport.declare(&orders, &topic).await.unwrap_err();
    assert!(refused.kind() == ErrorKind::AlreadyExists && refused.to_string().contains("kind"), "{refused}");
    assert_eq!(transport.settings(&orders).await.unwrap(), settings().into());
    end(transport, &[&orders]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_client_finds_the_settings_and_declares_the_same() {
    let Some(transport) = connect().await else { return };
    let orders = declared(&transport, "orders", settings()).await;
    let prices = declared(&transport, "prices", TopicSettings::default().default_time_to_live(SOON)).await;
    let audit = prices.subscription_of("audit").unwrap();
    let by_session = SubscriptionSettings::default().requires_session(true).max_delivery_count(3);
    transport.create(&audit, &by_session.clone().into()).await.unwrap();

    let other = connect().await.unwrap();
    assert_eq!(other.settings(&orders).await.unwrap(), settings().into());
    assert_eq!(other.settings(&orders.dead_letter()).await.unwrap(), settings().into());
    assert_eq!(other.settings(&audit).await.unwrap(), by_session.clone().into());
    other.declare(&orders, &settings().into()).await.unwrap();
    other.declare(&prices, &TopicSettings::default().default_time_to_live(SOON).into()).await.unwrap();
    other.declare(&audit, &by_session.into()).await.unwrap();
    let refused = other.declare(&orders, &queue(QueueSettings::default())).await.unwrap_err();
    assert!(refused.kind() == ErrorKind::AlreadyExists && refused.to_string().contains("lock_duration"), "{refused}");
    let refused = other.declare(&prices, &TopicSettings::default().into()).await.unwrap_err();
    assert!(refused.to_string().contains("default_time_to_live"), "{refused}");
    transport.close().await.unwrap();
    end(other, &[&orders, &prices]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_declare_at_the_same_time_agree_on_one_entity() {
    let Some(transport) = connect().await else { return };
    let others = [connect().await.unwrap(), connect().await.unwrap(), connect().await.unwrap()];
    for round in 0..5 {
        let same = path("same");
        let declaring = others.iter().map(|client| async {
            let settings = settings().requires_session(round == 4);
            client.declare(&same, &settings.into()).await
        });
        for declared in join_all(declaring).await {
            declared.unwrap();
        }
        // With different settings one wins, whichever, and the others are refused.
        let contested = path("contested");
        let entity = &contested;
        let declaring = others.iter().zip(2_u32..).map(|(client, count)| async move {
            let settings = settings().max_delivery_count(count);
            client.declare(entity, &settings.into()).await
        });
        let outcomes = join_all(declaring).await;
        let EntitySettings::Queue(won) = transport.settings(&contested).await.unwrap() else { panic!("a queue") };
        for (outcome, count) in outcomes.into_iter().zip(2_u32..) {
            match outcome {
                Ok(()) => assert_eq!(won.max_delivery_count, count),
                Err(error) => {
                    assert_ne!(won.max_delivery_count, count);
                    let text = error.to_string();
                    assert!(error.kind() == ErrorKind::AlreadyExists && text.contains("max_delivery_count"), "{text}");
                }
            }
        }
        transport.delete(&same).await.unwrap();
        transport.delete(&contested).await.unwrap();
    }
    join_all(others.map(|client| async move { client.close().await.unwrap() })).await;
    end(transport, &[]).await;
}

/// RabbitMQ 3.10 may keep the first question, and all later ones behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_without_an_answer_are_removed() {
    let Some(transport) = connect().await else { return };
    let orders = path("orders");
    let name = format!("{orders}/$settings");
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let (exchange, headers) = (ExchangeDeclareOptions::default(), ExchangeKind::Headers);
    channel.exchange_declare(name.as_str().into(), headers, exchange, FieldTable::default()).await.unwrap();
    // Its messages do not expire.
    let declare = async |options| channel.queue_declare(name.as_str().into(), options, FieldTable::default()).await;
    declare(QueueDeclareOptions::durable()).await.unwrap();

    let impatient = registry().connect(&url("timeout=3500ms")).await.unwrap();
    let error = impatient.settings(&orders).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServiceTimeout, "{error}");
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
    let left = declare(passive).await.unwrap().message_count();
    assert!(left <= 1, "{left} questions are left");

    channel.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    channel.exchange_delete(name.as_str().into(), ExchangeDeleteOptions::default()).await.unwrap();
    connection.close(200, "OK".into()).await.unwrap();
    impatient.close().await.unwrap();
    end(transport, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsupported_settings_are_refused_by_name_and_create_nothing() {
    let Some(transport) = connect().await else { return };
    let orders = path("orders");
    let refused = queue(settings().duplicate_detection(Duration::from_secs(60)));
    for error in [
        transport.create(&orders, &refused).await.unwrap_err(),
        transport.declare(&orders, &refused).await.unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(error.kind() == ErrorKind::NotSupported && text.contains("duplicate_detection"), "{text}");
    }
    let out_of_range = queue(settings().lock_duration(Duration::from_secs(1)));
    let error = transport.create(&orders, &out_of_range).await.unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("lock_duration"), "{error}");
    for missing in [
        transport.settings(&orders).await.map(drop),
        transport.counts(&orders).await.map(drop),
        transport.delete(&orders).await,
        transport.update(&orders, &settings().into()).await,
        transport.create(&orders.subscription_of("audit").unwrap(), &SubscriptionSettings::default().into()).await,
    ] {
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::EntityNotFound);
    }
    assert_eq!(transport.list().await.unwrap_err().kind(), ErrorKind::NotSupported);
    transport.create(&orders, &settings().into()).await.unwrap();
    let fixed = transport.update(&orders, &queue(QueueSettings::default())).await.unwrap_err();
    assert_eq!(fixed.kind(), ErrorKind::NotSupported);
    assert_eq!(transport.settings(&orders).await.unwrap(), settings().into());
    end(transport, &[&orders]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_is_deleted_with_subscriptions_of_other_clients() {
    let Some(transport) = connect().await else { return };
    let prices = declared(&transport, "prices", TopicSettings::default()).await;
    let creator = connect().await.unwrap();
    let subscriptions: Vec<_> = ["a", "b", "c"].iter().map(|name| prices.subscription_of(name).unwrap()).collect();
    for (path, by_session) in subscriptions.iter().zip([false, false, true]) {
        let settings = SubscriptionSettings::default().requires_session(by_session);
        creator.create(path, &settings.into()).await.unwrap();
    }
    creator.close().await.unwrap();
    let other = connect().await.unwrap();
    other.delete(&prices).await.unwrap();
    for path in subscriptions.iter().chain([&prices]) {
        for error in [other.settings(path).await.unwrap_err(), transport.counts(path).await.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::EntityNotFound, "{path}: {error}");
        }
    }
    // Nothing of a rule or a setting is left.
    transport.create(&prices, &TopicSettings::default().into()).await.unwrap();
    let again = SubscriptionSettings::default().max_delivery_count(1);
    transport.create(&subscriptions[0], &again.into()).await.unwrap();
    transport.close().await.unwrap();
    end(other, &[&subscriptions[0], &prices]).await;
}

async fn arrives(transport: &DynTransport, from: &consign::message::EntityPath) -> Option<String> {
    let mut receiver = transport.receiver(from, ReceiveMode::ReceiveAndDelete).await.expect("a server");
    let delivery = receiver.receive_within(SOON).await.ok()?;
    String::from_utf8(delivery.message.payload()?.to_vec()).ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_created_and_deleted_by_their_names_from_any_client() {
    let Some(transport) = connect().await else { return };
    let prices = declared(&transport, "prices", TopicSettings::default()).await;
    let audit = prices.subscription_of("audit").unwrap();
    transport.create(&audit, &SubscriptionSettings::default().into()).await.unwrap();
    let large = Rule::new("large", CorrelationFilter::builder().subject("large").build().unwrap()).unwrap();
    let other = connect().await.unwrap();
    other.create_rule(&audit, &large).await.unwrap();
    assert_eq!(transport.create_rule(&audit, &large).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    other.delete_rule(&audit, Rule::DEFAULT_NAME).await.unwrap();
    let missing = other.delete_rule(&audit, Rule::DEFAULT_NAME).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::EntityNotFound);
    // Declaring the subscription again does not bring its first rule back.
    other.declare(&audit, &SubscriptionSettings::default().into()).await.unwrap();

    let sender = transport.sender(&prices).await.unwrap();
    for subject in ["small", "large"] {
        let message = Message::builder().subject(subject).build(subject).unwrap();
        sender.send(message).await.unwrap();
    }
    assert_eq!(arrives(&other, &audit).await.as_deref(), Some("large"));
    let marker = || Message::builder().subject("marker").build("marker").unwrap();
    let marked = Rule::new("marked", CorrelationFilter::builder().subject("marker").build().unwrap()).unwrap();
    other.create_rule(&audit, &marked).await.unwrap();
    sender.send(marker()).await.unwrap();
    assert_eq!(arrives(&other, &audit).await.as_deref(), Some("marker"), "and nothing before it");
    transport.delete_rule(&audit, "large").await.unwrap();
    sender.send(Message::builder().subject("large").build("late").unwrap()).await.unwrap();
    sender.send(marker()).await.unwrap();
    assert_eq!(arrives(&other, &audit).await.as_deref(), Some("marker"), "and nothing before it");

    let sql = Rule::new("sql", SqlFilter::parse("quantity > 3").unwrap()).unwrap();
    assert_eq!(transport.create_rule(&audit, &sql).await.unwrap_err().kind(), ErrorKind::NotSupported);
    assert_eq!(transport.rules(&audit).await.unwrap_err().kind(), ErrorKind::NotSupported);
    let absent = prices.subscription_of("absent").unwrap();
    assert_eq!(transport.create_rule(&absent, &large).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    other.close().await.unwrap();
    end(transport, &[&prices]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deletion_of_a_topic_leaves_nothing_on_the_server() {
    use consign_rabbitmq::lapin::{
        Connection, ConnectionProperties,
        options::{ExchangeDeclareOptions, QueueDeclareOptions},
        types::FieldTable,
    };
    let Some(transport) = connect().await else { return };
    let prices = declared(&transport, "prices", TopicSettings::default()).await;
    let audit = prices.subscription_of("audit").unwrap();
    transport.create(&audit, &SubscriptionSettings::default().into()).await.unwrap();
    end(transport, &[&prices]).await;

    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    for queue in [format!("{prices}/$settings"), format!("{audit}/$settings"), audit.dead_letter().to_string()] {
        let channel = connection.create_channel().await.unwrap();
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let found = channel.queue_declare(queue.as_str().into(), passive, FieldTable::default()).await;
        assert!(found.is_err(), "{queue}");
    }
    for exchange in [
        prices.to_string(),
        format!("{prices}/$settings"),
        format!("{prices}/$subscriptions"),
        format!("{audit}/$rule-$Default"),
    ] {
        let channel = connection.create_channel().await.unwrap();
        let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let kind = consign_rabbitmq::lapin::ExchangeKind::Headers;
        let found = channel.exchange_declare(exchange.as_str().into(), kind, passive, FieldTable::default()).await;
        assert!(found.is_err(), "{exchange}");
    }
    connection.close(200, "OK".into()).await.unwrap();
}
