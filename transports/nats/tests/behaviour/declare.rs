//! Entities by the administration of the model, from several connections.

use std::time::Duration;

use consign::{
    Message,
    administration::{
        Administration, EntityKind, EntitySettings, QueueSettings, Status, SubscriptionSettings, TopicSettings,
    },
    message::EntityPath,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{
        Delivery, DynLease, DynTransport, ErrorKind, ReceiveMode, ReceiverExt, Sender, Transport, TransportRegistry,
    },
};
use consign_nats::{Nats, async_nats::jetstream};
use futures_util::future::join_all;

use crate::{LONG, server};

/// A connection by URL. `None` without a server.
pub(crate) async fn connect() -> Option<DynTransport> {
    let url = format!("{}?namespace=test&server_syncs=true", server::url()?);
    Some(TransportRegistry::new().with(consign_nats::connector()).connect(&url).await.expect("a server"))
}

/// A path that no other test has.
pub(crate) fn new_path() -> EntityPath {
    EntityPath::new(&format!("T{:016x}", fastrand::u64(..))).expect("it is valid")
}

/// A queue, a topic and its subscription, in an order in which they can be created.
fn entities() -> [(EntityPath, EntitySettings); 3] {
    let (queue, topic) = (new_path(), new_path());
    let subscription = topic.subscription_of("All").expect("it is valid");
    let lock = Duration::from_secs(30);
    [
        (queue, QueueSettings::default().lock_duration(lock).duplicate_detection(lock).into()),
        (topic, TopicSettings::default().duplicate_detection(lock).into()),
        (subscription, SubscriptionSettings::default().lock_duration(lock).max_delivery_count(3).into()),
    ]
}

/// Deletes entities; subscriptions with their topic.
async fn delete_all(transport: &DynTransport, entities: &[(EntityPath, EntitySettings)]) {
    for (path, settings) in entities {
        if settings.kind() != EntityKind::Subscription {
            transport.delete(path).await.expect("it exists");
        }
    }
}

fn context(transport: &DynTransport) -> jetstream::Context {
    jetstream::new(transport.extension::<Nats>().expect("the client").client().clone())
}

/// The name of an entity's stream.
fn stream(path: &EntityPath) -> String {
    format!("test_{}", path.as_str().to_lowercase().replace('/', "=2F"))
}

async fn receive(transport: &DynTransport, path: &EntityPath) -> Delivery<DynLease> {
    let mut receiver = transport.receiver(path, ReceiveMode::PeekLock).await.expect("an answer");
    receiver.receive_within(LONG).await.expect("an answer")
}

/// Sends to one entity, and takes the message from another through its dead letters.
async fn exchange(transport: &DynTransport, to: &EntityPath, from: &EntityPath) {
    transport.sender(to).await.expect("an answer").send(Message::new("a")).await.expect("an answer");
    receive(transport, from)
        .await
        .dead_letter(DeadLetter::new(DeadLetterReason::Application("why".into()), ""))
        .await
        .expect("an answer");
    receive(transport, &from.dead_letter()).await.complete().await.expect("an answer");
}

#[tokio::test]
async fn an_entity_that_exists_is_declared_again_and_not_created_again() {
    let Some(transport) = connect().await else { return };
    let entities = entities();
    for (path, settings) in &entities {
        for _ in 0..2 {
            transport.declare(path, settings).await.unwrap();
            assert_eq!(&transport.settings(path).await.unwrap(), settings, "{path}");
        }
        let error = transport.create(path, settings).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{path}: {error}");
    }
    let [(queue, _), (topic, _), (subscription, _)] = &entities;
    exchange(&transport, queue, queue).await;
    exchange(&transport, topic, subscription).await;
    delete_all(&transport, &entities).await;
    for (path, _) in &entities {
        for error in [transport.delete(path).await, transport.settings(path).await.map(drop)] {
            assert_eq!(error.unwrap_err().kind(), ErrorKind::EntityNotFound, "{path}");
        }
    }
}

#[tokio::test]
async fn a_declaration_with_another_setting_names_it_and_changes_nothing() {
    let (Some(one), Some(other)) = (connect().await, connect().await) else { return };
    let entities = entities();
    for (path, settings) in &entities {
        one.declare(path, settings).await.unwrap();
    }
    let [(queue, EntitySettings::Queue(of_queue)), (topic, of_topic), (subscription, _)] = &entities else { panic!() };
    let minute = Duration::from_secs(60);
    let of_subscription = |settings: SubscriptionSettings| settings.lock_duration(Duration::from_secs(30));
    for (path, declared, setting) in [
        (queue, of_queue.clone().lock_duration(minute).into(), "lock_duration"),
        (queue, of_queue.clone().max_delivery_count(9).into(), "max_delivery_count"),
        (queue, of_queue.clone().requires_session(true).into(), "requires_session"),
        (queue, of_queue.clone().duplicate_detection(minute).into(), "duplicate_detection"),
        (queue, QueueSettings::default().lock_duration(of_queue.lock_duration).into(), "duplicate_detection"),
        (queue, of_topic.clone(), "kind"),
        (topic, TopicSettings::default().into(), "duplicate_detection"),
        (topic, of_queue.clone().into(), "kind"),
        (subscription, of_subscription(SubscriptionSettings::default()).into(), "max_delivery_count"),
        (
            subscription,
            of_subscription(SubscriptionSettings::default())
                .max_delivery_count(3)
                .dead_letter_on_filter_error(false)
                .into(),
            "dead_letter_on_filter_error",
        ),
    ] {
        // The second connection has never seen the entity.
        for transport in [&one, &other] {
            let error = transport.declare(path, &declared).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{setting}: {error}");
            assert!(error.to_string().contains(setting), "{setting}: {error}");
        }
    }
    for (path, settings) in &entities {
        assert_eq!(&other.settings(path).await.unwrap(), settings, "{path}");
        other.declare(path, settings).await.unwrap();
    }
    delete_all(&one, &entities).await;
}

#[tokio::test]
async fn a_queue_with_settings_that_only_this_transport_has_can_be_declared() {
    let Some(transport) = connect().await else { return };
    let path = new_path();
    let mut own = consign_nats::QueueSettings::default();
    own.max_bytes = Some(1 << 20);
    own.max_age = Some(LONG);
    transport.extension::<Nats>().unwrap().create_queue(path.as_str(), own).await.unwrap();
    let precise = QueueSettings::default().lock_duration(Duration::from_nanos(60_000_000_001));
    for settings in [QueueSettings::default(), precise] {
        transport.declare(&path, &settings.into()).await.unwrap();
    }
    let config = context(&transport).get_stream(stream(&path)).await.unwrap().cached_info().config.clone();
    assert_eq!((config.max_bytes, config.max_age), (1 << 20, LONG));
    transport.delete(&path).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entity_that_several_connections_declare_at_once_is_complete_for_each() {
    let mut connections = Vec::new();
    for _ in 0..4 {
        let Some(connection) = connect().await else { return };
        connections.push(connection);
    }
    for _ in 0..8 {
        let entities = entities();
        let [(queue, _), (topic, _), (subscription, _)] = &entities;
        join_all(connections.iter().map(|transport| async {
            for (path, settings) in &entities {
                transport.declare(path, settings).await.unwrap();
            }
            transport.sender(queue).await.unwrap().send(Message::new("a")).await.unwrap();
            receive(transport, queue).await.complete().await.unwrap();
        }))
        .await;
        exchange(&connections[0], topic, subscription).await;
        delete_all(&connections[0], &entities).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_that_create_an_entity_at_once_one_succeeds_and_declarations_take_it() {
    let mut connections = Vec::new();
    for _ in 0..6 {
        let Some(connection) = connect().await else { return };
        connections.push(connection);
    }
    for round in 0..24 {
        let path = new_path();
        let settings = EntitySettings::from(QueueSettings::default());
        let mut own = consign_nats::QueueSettings::default();
        // Every other time a declaration would not create the same stream.
        own.max_bytes = (round % 2 == 0).then_some(1 << 20);
        let created = join_all(connections.iter().enumerate().map(|(number, transport)| {
            let (path, settings, own) = (&path, &settings, own.clone());
            let nats = transport.extension::<Nats>().expect("the client");
            async move {
                match number % 2 {
                    0 => nats.create_queue(path.as_str(), own).await.map(|()| 1),
                    _ => transport.declare(path, settings).await.map(|()| 0),
                }
            }
        }))
        .await;
        let mut creators = 0;
        for outcome in created {
            match outcome {
                Ok(creator) => creators += creator,
                Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
            }
        }
        assert!(creators <= 1, "{creators} have created it");
        exchange(&connections[0], &path, &path).await;
        connections[0].delete(&path).await.unwrap();
    }
}

#[tokio::test]
async fn a_declaration_restores_the_records_that_a_deletion_has_removed_alone() {
    let Some(transport) = connect().await else { return };
    let (path, settings) = (new_path(), EntitySettings::from(QueueSettings::default()));
    transport.declare(&path, &settings).await.unwrap();
    transport.sender(&path).await.unwrap().send(Message::new("a")).await.unwrap();
    // As after a process that died while it deleted the queue.
    context(&transport).delete_stream(format!("{}_x", stream(&path))).await.unwrap();
    transport.declare(&path, &settings).await.unwrap();
    exchange(&transport, &path, &path).await;
    transport.delete(&path).await.unwrap();
}

#[tokio::test]
async fn a_declaration_completes_what_a_dead_creator_has_left() {
    let Some(transport) = connect().await else { return };
    let entities = entities();
    for (path, settings) in &entities {
        transport.declare(path, settings).await.unwrap();
    }
    let [(queue, settings), (topic, _), (subscription, of_subscription)] = &entities;
    let context = context(&transport);
    for (path, settings, to) in [(queue, settings, queue), (subscription, of_subscription, topic)] {
        // The states between the steps of a creator: first the one in which only the stream beside the entity exists.
        let (main, beside) = (stream(path), format!("{}_x", stream(path)));
        context.delete_stream(&main).await.unwrap();
        let left = context.get_stream(&beside).await.unwrap();
        left.delete_consumer("dead").await.unwrap();
        // The rules of a subscription.
        left.purge().await.unwrap();
        let error = transport.settings(path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EntityNotFound, "{error}");
        transport.declare(path, settings).await.unwrap();
        assert_eq!(&transport.settings(path).await.unwrap(), settings, "{path}");
        exchange(&transport, to, path).await;
        context.get_stream(&main).await.unwrap().delete_consumer("q").await.unwrap();
        transport.declare(path, settings).await.unwrap();
        exchange(&transport, to, path).await;
    }
    context.get_stream(stream(topic)).await.unwrap().delete_consumer("all").await.unwrap();
    transport.declare(subscription, of_subscription).await.unwrap();
    exchange(&transport, topic, subscription).await;
    delete_all(&transport, &entities).await;
}

#[tokio::test]
async fn a_stream_of_another_program_is_not_declared() {
    let Some(transport) = connect().await else { return };
    let (path, context) = (new_path(), context(&transport));
    let settings = EntitySettings::from(QueueSettings::default());
    let taken =
        jetstream::stream::Config { name: stream(&path), subjects: vec![format!("of.{path}")], ..Default::default() };
    context.create_stream(taken).await.unwrap();
    let error = transport.declare(&path, &settings).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation, "{error}");
    context.delete_stream(stream(&path)).await.unwrap();

    let root = stream(&path).replacen('_', ".", 1);
    let subject = jetstream::stream::Config {
        name: format!("of_{path}"),
        subjects: vec![format!("{root}.m")],
        ..Default::default()
    };
    context.create_stream(subject).await.unwrap();
    let error = transport.declare(&path, &settings).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation, "{error}");
    context.get_stream(format!("{}_x", stream(&path))).await.expect_err("nothing is left of the entity");
    context.delete_stream(format!("of_{path}")).await.unwrap();
}

#[tokio::test]
async fn a_setting_that_jetstream_does_not_have_is_refused_by_name_and_nothing_is_created() {
    let Some(transport) = connect().await else { return };
    let (path, hour) = (new_path(), Duration::from_secs(3_600));
    let queue = QueueSettings::default;
    let of_queue: [(QueueSettings, &str); 10] = [
        (queue().default_time_to_live(hour), "default_time_to_live"),
        (queue().dead_letter_on_expiration(true), "dead_letter_on_expiration"),
        (queue().max_size(1 << 20), "max_size"),
        (queue().max_message_size(1 << 20), "max_message_size"),
        (queue().max_duplicate_ids(10), "max_duplicate_ids"),
        (queue().partitioned(true), "partitioned"),
        (queue().forward_to("other"), "forward_to"),
        (queue().forward_dead_letters_to("other"), "forward_dead_letters_to"),
        (queue().auto_delete_on_idle(hour), "auto_delete_on_idle"),
        (queue().status(Status::SendDisabled), "status"),
    ];
    let mut all: Vec<(EntitySettings, &str)> =
        of_queue.into_iter().map(|(settings, setting)| (settings.into(), setting)).collect();
    all.push((TopicSettings::default().default_time_to_live(hour).into(), "default_time_to_live"));
    all.push((TopicSettings::default().max_size(1 << 20).into(), "max_size"));
    all.push((SubscriptionSettings::default().forward_to("other").into(), "forward_to"));
    for (settings, setting) in &all {
        let path = match settings.kind() {
            EntityKind::Subscription => path.subscription_of("all").unwrap(),
            _ => path.clone(),
        };
        for refused in [transport.create(&path, settings).await, transport.declare(&path, settings).await] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{setting}: {error}");
            assert!(error.to_string().contains(setting), "{setting}: {error}");
        }
        assert_eq!(transport.settings(&path).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    }
    let out_of_range = QueueSettings::default().lock_duration(Duration::from_secs(1));
    let error = transport.create(&path, &out_of_range.into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    for path in [path.subscription_of("all").unwrap(), path.dead_letter()] {
        for refused in [transport.create(&path, &queue().into()).await, transport.declare(&path, &queue().into()).await]
        {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidOperation, "{path}");
        }
    }
    let of_no_topic = SubscriptionSettings::default().into();
    for path in [path.subscription_of("all").unwrap(), path] {
        for refused in [transport.create(&path, &of_no_topic).await, transport.declare(&path, &of_no_topic).await] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::EntityNotFound, "{path}");
        }
    }
}

#[tokio::test]
async fn an_update_that_changes_a_setting_is_refused() {
    let Some(transport) = connect().await else { return };
    let path = new_path();
    let settings = QueueSettings::default();
    let update = |settings: QueueSettings| {
        let (transport, path) = (transport.clone(), path.clone());
        async move { transport.update(&path, &settings.into()).await.map_err(|error| error.kind()) }
    };
    assert_eq!(update(settings.clone()).await, Err(ErrorKind::EntityNotFound));
    transport.declare(&path, &settings.clone().into()).await.unwrap();
    assert_eq!(update(settings.clone()).await, Ok(()));
    assert_eq!(update(settings.clone().max_delivery_count(3)).await, Err(ErrorKind::NotSupported));
    assert_eq!(update(settings.clone().requires_session(true)).await, Err(ErrorKind::InvalidOperation));
    let error = transport.update(&path, &TopicSettings::default().into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation, "{error}");
    assert_eq!(transport.settings(&path).await.unwrap(), settings.into());
    transport.delete(&path).await.unwrap();
}

#[tokio::test]
async fn all_entities_of_a_namespace_are_listed_in_the_order_of_their_paths() {
    let Some(url) = server::url() else { return };
    let registry = TransportRegistry::new().with(consign_nats::connector());
    let url = format!("{url}?namespace=list{:08x}&server_syncs=true", fastrand::u32(..));
    let transport = registry.connect(&url).await.unwrap();
    assert!(transport.list().await.unwrap().is_empty());
    let path = |text: &str| EntityPath::new(text).unwrap();
    let queue = EntitySettings::from(QueueSettings::default());
    // More than one page of the server.
    for number in 0..130 {
        transport.create(&path(&format!("many/{number:03}")), &queue).await.unwrap();
    }
    for (text, settings) in [
        ("Zebra", queue.clone()),
        ("events", TopicSettings::default().into()),
        // The names of their streams are in another order.
        ("a-b", queue.clone()),
        ("a b", queue.clone()),
        ("events/Subscriptions/b", SubscriptionSettings::default().into()),
        ("Events/Subscriptions/A", SubscriptionSettings::default().requires_session(true).into()),
    ] {
        transport.create(&path(text), &settings).await.unwrap();
    }
    let list = transport.list().await.unwrap();
    let listed: Vec<_> = list.iter().map(|entity| (entity.path.as_str(), entity.kind)).collect();
    assert_eq!(listed.len(), 136);
    assert_eq!(
        &listed[..6],
        [
            ("a b", EntityKind::Queue),
            ("a-b", EntityKind::Queue),
            ("events", EntityKind::Topic),
            ("Events/Subscriptions/A", EntityKind::Subscription),
            ("events/Subscriptions/b", EntityKind::Subscription),
            ("many/000", EntityKind::Queue),
        ]
    );
    assert_eq!(listed[135], ("Zebra", EntityKind::Queue));
    for entity in list.iter().filter(|entity| entity.kind != EntityKind::Subscription) {
        transport.delete(&entity.path).await.unwrap();
    }
    assert!(transport.list().await.unwrap().is_empty());
}
