//! Entities over HTTP, on loopback and in real time.

use std::time::Duration;

use consign::{
    Message,
    administration::{
        Administration, Entity, EntityKind, EntitySettings, QueueSettings, Status, SubscriptionSettings, TopicSettings,
    },
    message::EntityPath,
    rules::{Filter, ManageRules, Rule, SqlFilter},
    transport::{Capability, DynTransport, ErrorKind, ReceiveMode, ReceiverExt, Sender, Transport, TransportRegistry},
};
use consign_server::auth::{Rights, SharedAccessKey as ServerKey, SharedAccessKeys};
use consign_servicebus::{ServiceBus, connector};

use super::{InMemory, path};
use crate::support::listen_with_http;

async fn connect(server: &InMemory) -> ServiceBus {
    let (amqp, http) = listen_with_http(&server.server).await;
    let text = format!(
        "Endpoint=sb://127.0.0.1:{amqp};SharedAccessKeyName=root;SharedAccessKey=s3cret;UseDevelopmentEmulator=true"
    );
    ServiceBus::options().http_port(http).connect(&text).await.unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T, consign::transport::ManageError>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// Rules: K-312.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entities_are_created_changed_listed_and_deleted() {
    let server = InMemory::new();
    let service_bus = connect(&server).await;
    let (queue, topic, subscription) = (path("sales/orders"), path("prices"), path("prices/Subscriptions/audit"));
    let mut settings = QueueSettings::default().requires_session(true).lock_duration(Duration::from_secs(7));
    service_bus.declare(&queue, &settings.clone().into()).await.unwrap();
    service_bus.declare(&queue, &settings.clone().into()).await.unwrap();
    assert_eq!(kind(service_bus.declare(&queue, &QueueSettings::default().into()).await), ErrorKind::AlreadyExists);
    assert_eq!(kind(service_bus.create(&queue, &settings.clone().into()).await), ErrorKind::AlreadyExists);
    service_bus.create(&topic, &TopicSettings::default().into()).await.unwrap();
    let of_topic = SubscriptionSettings::default().forward_to("sales/orders");
    service_bus.create(&subscription, &of_topic.clone().into()).await.unwrap();
    assert_eq!(service_bus.settings(&queue).await.unwrap(), settings.clone().into());
    assert_eq!(service_bus.settings(&subscription).await.unwrap(), of_topic.into());

    settings.status = Status::SendDisabled;
    service_bus.update(&queue, &settings.clone().into()).await.unwrap();
    assert_eq!(service_bus.settings(&queue).await.unwrap(), settings.into());
    assert_eq!(kind(service_bus.update(&queue, &QueueSettings::default().into()).await), ErrorKind::InvalidOperation);

    let entity = |path: &EntityPath, kind| Entity::new(path.clone(), kind);
    let all = [
        entity(&topic, EntityKind::Topic),
        entity(&subscription, EntityKind::Subscription),
        entity(&queue, EntityKind::Queue),
    ];
    assert_eq!(service_bus.list().await.unwrap(), all);
    service_bus.delete(&topic).await.unwrap();
    service_bus.delete(&queue).await.unwrap();
    assert_eq!(service_bus.list().await.unwrap(), []);
    assert_eq!(kind(service_bus.delete(&queue).await), ErrorKind::EntityNotFound);
    assert_eq!(kind(service_bus.settings(&queue).await), ErrorKind::EntityNotFound);
    assert_eq!(kind(service_bus.counts(&subscription).await), ErrorKind::EntityNotFound);
    let missing = service_bus.create(&subscription, &SubscriptionSettings::default().into()).await;
    assert_eq!(kind(missing), ErrorKind::EntityNotFound);
}

/// Rules: K-312.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_service_cannot_have_is_refused_before_a_request() {
    let server = InMemory::new();
    let service_bus = connect(&server).await;
    let orders = path("orders");
    let odd = QueueSettings::default().max_size(1_000_000);
    let error = service_bus.create(&orders, &odd.into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(error.to_string().contains("max_size"), "{error}");
    let none = QueueSettings::default().max_delivery_count(0);
    assert_eq!(kind(service_bus.create(&orders, &none.into()).await), ErrorKind::InvalidArgument);
    let dead = EntitySettings::from(QueueSettings::default());
    assert_eq!(kind(service_bus.create(&orders.dead_letter(), &dead).await), ErrorKind::InvalidOperation);
    assert_eq!(service_bus.list().await.unwrap(), []);
}

/// More than a page.
/// Rules: K-312.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_has_all_pages() {
    let server = InMemory::new();
    let service_bus = connect(&server).await;
    for queue in 0..205 {
        server.broker().create_queue(&format!("q-{queue:03}"), QueueSettings::default()).unwrap();
    }
    let listed = service_bus.list().await.unwrap();
    let expected: Vec<_> = (0..205).map(|queue| format!("q-{queue:03}")).collect();
    assert_eq!(listed.iter().map(|entity| entity.path.to_string()).collect::<Vec<_>>(), expected);
}

/// Rules: K-312.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_has_administration_and_rules() {
    let server = InMemory::new();
    let (amqp, http) = listen_with_http(&server.server).await;
    let registry = TransportRegistry::new().with(connector());
    let url = format!("servicebus://any:any@127.0.0.1:{amqp}?emulator=true&http_port={http}");
    let transport: DynTransport = registry.connect(&url).await.unwrap();
    for (capability, _) in transport.capabilities().iter() {
        let claims = transport.capabilities().supports(capability);
        assert!(!claims || transport.implements(capability), "{capability}");
    }
    assert!(transport.implements(Capability::Topics));
    let (topic, subscription) = (path("prices"), path("prices/Subscriptions/audit"));
    transport.declare(&topic, &TopicSettings::default().into()).await.unwrap();
    transport.declare(&subscription, &SubscriptionSettings::default().into()).await.unwrap();
    let rule = Rule::new("large", SqlFilter::parse("n > 5").unwrap()).unwrap();
    transport.create_rule(&subscription, &rule).await.unwrap();
    transport.delete_rule(&subscription, "$Default").await.unwrap();
    let rules = transport.rules(&subscription).await.unwrap();
    assert!(matches!(&rules[..], [one] if one.name() == "large" && matches!(one.filter(), Filter::Sql(_))));
    let here = server.server.broker().topic("prices").unwrap().subscription("audit").unwrap().rules();
    assert!(here[0].created().is_some());
    assert_eq!(rules[0].created(), here[0].created());
    for n in [1_i32, 7] {
        let message = Message::builder().property("n", n).build("a").unwrap();
        transport.sender(&topic).await.unwrap().send(message).await.unwrap();
    }
    let counts = transport.counts(&subscription).await.unwrap();
    assert_eq!((counts.active, counts.dead_lettered), (1, 0));
    let mut receiver = transport.receiver(&subscription, ReceiveMode::PeekLock).await.unwrap();
    let delivery = receiver.receive().await.unwrap();
    let dead = consign::settlement::DeadLetter::new(consign::settlement::DeadLetterReason::HandlerPermanent, "");
    delivery.dead_letter(dead).await.unwrap();
    assert_eq!(transport.counts(&subscription.dead_letter()).await.unwrap().active, 1);
}

/// Rules: K-306, K-312.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_administration_needs_the_right_manage() {
    let server = InMemory::with(|_, builder| {
        let keys = [
            ServerKey::new("root", "s3cret", Rights::MANAGE),
            ServerKey::new("reader", "s3cret of reader", Rights::LISTEN),
        ];
        builder.authorizer(SharedAccessKeys::new(keys))
    });
    let (amqp, http) = listen_with_http(&server.server).await;
    let connect = async |name: &str, key: &str| {
        let text = format!(
            "Endpoint=sb://127.0.0.1:{amqp};SharedAccessKeyName={name};SharedAccessKey={key};UseDevelopmentEmulator=true"
        );
        ServiceBus::options().http_port(http).connect(&text).await.unwrap()
    };
    let settings = EntitySettings::from(QueueSettings::default());
    connect("root", "s3cret").await.declare(&path("orders"), &settings).await.unwrap();
    for (name, key) in [("reader", "s3cret of reader"), ("root", "wr0ng")] {
        let error = connect(name, key).await.declare(&path("orders"), &settings).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("wr0ng") && !shown.contains("sig="), "{shown}");
    }
}
