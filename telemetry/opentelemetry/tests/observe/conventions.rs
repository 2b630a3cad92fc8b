//! The names of the conventions: which system has which attributes, the schema, the server and the client.

use std::num::NonZeroU64;

use consign::{
    Disposition, Message,
    message::{Received, SequenceNumber},
    time::Timestamp,
    transport::{ReceiverExt, SendService, Sender, ServerAddress, Transport},
};
use consign_opentelemetry::{Conventions, Telemetry, TelemetryBuilder};
use tower::{BoxError, Layer, ServiceExt, service_fn};

use crate::bench::{Bench, attributes};

/// A message that RabbitMQ has delivered.
fn delivered() -> Message {
    let mut received = Received::new(SequenceNumber::new(7), Timestamp::from_millis(1_701_393_730_999), 2);
    received.delivery_tag = NonZeroU64::new(123);
    Message::builder().message_id("m-1").build("body").unwrap().with_received(received)
}

async fn handle(telemetry: &Telemetry, path: &str) {
    let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::DEFER));
    telemetry.process(path).layer(handler).oneshot(delivered()).await.unwrap();
}

async fn send(telemetry: &Telemetry) {
    let transport = || service_fn(async |_: Message| Ok::<_, consign::transport::SendError>(()));
    telemetry.send("orders").routing_key("orders").layer(transport()).oneshot(Message::new("")).await.unwrap();
}

/// Names and values of a span without those that every span has.
fn own(bench: &Bench, name: &str) -> Vec<String> {
    let common = ["messaging.operation.", "messaging.destination.name", "messaging.message.", "messaging.system"];
    let mut all = bench.spans().attributes(name);
    all.retain(|attribute| !common.iter().any(|common| attribute.starts_with(common)));
    all
}

/// Rules: O-17.
#[tokio::test(start_paused = true)]
async fn the_attributes_of_a_system_are_on_its_spans_only() {
    let old = Conventions::V1_44;
    for (system, conventions, process, sent) in [
        (
            "servicebus",
            old,
            &[
                "consign.disposition=defer",
                "messaging.servicebus.message.delivery_count=2",
                "messaging.servicebus.message.enqueued_time=*",
            ][..],
            &[][..],
        ),
        (
            "rabbitmq",
            old,
            &[
                "consign.disposition=defer",
                "consign.message.delivery_count=2",
                "consign.message.enqueued_time=1701393730",
                "messaging.rabbitmq.message.delivery_tag=123",
            ],
            &["messaging.rabbitmq.destination.routing_key=orders"],
        ),
        (
            "nats",
            old,
            &[
                "consign.disposition=defer",
                "consign.message.delivery_count=2",
                "consign.message.enqueued_time=1701393730",
            ],
            &[],
        ),
        (
            "servicebus",
            Conventions::V1_45,
            &[
                "azure.servicebus.message.delivery_count=2",
                "azure.servicebus.message.enqueued_time=1701393730",
                "consign.disposition=defer",
            ],
            &[],
        ),
        (
            "rabbitmq",
            Conventions::V1_45,
            &[
                "consign.disposition=defer",
                "consign.message.delivery_count=2",
                "consign.message.enqueued_time=1701393730",
                "rabbitmq.message.delivery_tag=123",
            ],
            &["rabbitmq.destination.routing_key=orders"],
        ),
    ] {
        let bench = Bench::of(system, |builder| builder.conventions(conventions));
        handle(&bench.telemetry, "orders").await;
        assert_eq!(own(&bench, "process orders"), process, "{system} {conventions:?}");
        send(&bench.telemetry).await;
        assert_eq!(own(&bench, "send orders"), sent, "{system} {conventions:?}");
    }
}

/// Rules: O-17.
#[tokio::test(start_paused = true)]
async fn a_settlement_has_the_disposition_of_its_system() {
    for (system, conventions, name) in [
        ("servicebus", Conventions::V1_44, "messaging.servicebus.disposition_status"),
        ("azure.servicebus", Conventions::V1_45, "azure.servicebus.disposition_status"),
        ("nats", Conventions::V1_44, "consign.disposition"),
    ] {
        let bench = Bench::of(system, |builder| builder.conventions(conventions));
        let queue = bench.queue("orders");
        queue.sender().unwrap().send(Message::new("")).await.unwrap();
        let mut receiver = bench.telemetry.receiver("orders", queue.receiver());
        receiver.receive().await.unwrap().abandon().await.unwrap();
        assert_eq!(own(&bench, "abandon orders"), [format!("{name}=abandon")], "{system}");
    }
}

/// Rules: O-18.
#[tokio::test(start_paused = true)]
async fn the_schema_is_that_of_the_names() {
    for (conventions, system, schema) in [
        (Conventions::V1_44, "messaging.system=servicebus", "https://opentelemetry.io/schemas/1.44.0"),
        (Conventions::V1_45, "messaging.system.name=azure.servicebus", "https://opentelemetry.io/schemas/1.45.0"),
    ] {
        let bench = Bench::with(|builder| builder.conventions(conventions));
        handle(&bench.telemetry, "orders").await;
        let spans = bench.spans();
        let [span] = &spans.0[..] else { panic!("{:?}", spans.tree()) };
        assert_eq!(span.instrumentation_scope.schema_url(), Some(schema));
        assert!(attributes(span).contains(&system.into()), "{span:?}");
        let series = bench.series();
        assert!(!series.is_empty() && series.keys().all(|series| series.contains(system)), "{series:?}");
        assert_eq!(bench.schemas(), [schema]);
    }
}

/// Rules: O-19.
#[tokio::test(start_paused = true)]
async fn server_client_and_group_are_where_the_conventions_have_them() {
    let set = |builder: TelemetryBuilder| {
        let server = ServerAddress::new("mq.example.com").with_port(5672);
        builder.server(server).server(None).client_id("worker-1").consumer_group("billing")
    };
    let bench = Bench::with(set);
    send(&bench.telemetry).await;
    let server = ["server.address=mq.example.com", "server.port=5672"];
    assert_eq!(own(&bench, "send orders"), [&["messaging.client.id=worker-1"][..], &server].concat());
    handle(&bench.telemetry, "prices/Subscriptions/audit").await;
    let consumer = [
        "consign.disposition=defer",
        "messaging.client.id=worker-1",
        "messaging.consumer.group.name=billing",
        "messaging.destination.subscription.name=audit",
        "messaging.servicebus.message.delivery_count=2",
        "messaging.servicebus.message.enqueued_time=*",
    ];
    assert_eq!(own(&bench, "process prices"), [&consumer[..], &server].concat());

    let series = bench.series();
    let all = |part: &str| series.keys().filter(|series| series.contains(part)).count();
    assert_eq!(all("server.address=mq.example.com server.port=5672"), series.len(), "{series:?}");
    assert_eq!((series.len(), all("messaging.consumer.group.name=billing"), all("client.id")), (4, 2, 0), "{series:?}");
}

/// Rules: O-19.
#[tokio::test(start_paused = true)]
async fn the_embedded_broker_has_no_server() {
    let broker = consign::broker::Broker::new();
    let bench = Bench::with(|builder| builder.server(broker.server()));
    send(&bench.telemetry).await;
    assert_eq!(own(&bench, "send orders"), [""; 0]);
}

/// Rules: O-17.
#[tokio::test(start_paused = true)]
async fn an_empty_routing_key_is_none() {
    let bench = Bench::of("rabbitmq", |builder| builder);
    let queue = bench.queue("prices");
    let layer = bench.telemetry.send("prices").routing_key("");
    layer.layer(SendService::new(queue.sender().unwrap())).oneshot(Message::new("")).await.unwrap();
    assert_eq!(own(&bench, "send prices"), [""; 0]);
}
