//! A server with messages that cannot be decoded.

use consign::transport::{ReceiveMode, ReceiverExt, Transport};
use consign_amqp::{
    codec,
    engine::{self, Event, LinkId, OutboundDelivery},
    message::{ApplicationProperties, Body, EncodedMessage, Header, Properties, Sections},
    server::Connection,
    types::{Accepted, Attach, DeliveryState, Open, Role, SaslCode},
    value::{List, Map, Symbol, Value},
};
use consign_conformance::log::Lines;
use consign_servicebus::{ServiceBus, SharedAccessSignature};
use tokio::{io::DuplexStream, sync::mpsc};

use super::{path, text};

/// Accepts tokens, sends these messages to the receiver of an entity, and reports what they are settled with.
async fn serve(stream: DuplexStream, mut messages: Vec<Vec<u8>>, settled: mpsc::Sender<DeliveryState>) {
    let options = engine::Options::default().sasl_mechanisms([Symbol::from_static("ANONYMOUS")]);
    let mut connection = Connection::accept(stream, options);
    let (mut answers, mut receiver): (Option<LinkId>, Option<LinkId>) = (None, None);
    let mut tag = 0;
    while let Some(event) = connection.next_event().await {
        let answered = connection.command(|engine| match event {
            Event::SaslInit(_) => engine.sasl_outcome(SaslCode::Ok),
            Event::Opened(_) => engine.open(Open { container_id: "server".into(), ..Open::default() }),
            Event::AttachRequested { link, attach } => {
                let is_sender = attach.role == Role::Sender;
                let source = attach.source.as_ref().and_then(|source| source.address.as_ref());
                if !is_sender {
                    let is_cbs = source.is_some_and(|address| address.as_str() == "$cbs");
                    *(if is_cbs { &mut answers } else { &mut receiver }) = Some(link);
                }
                engine.accept(link, Attach { source: attach.source, target: attach.target, ..Attach::default() })?;
                if is_sender { engine.credit(link, 100) } else { Ok(()) }
            }
            Event::Delivery(request) => {
                engine.settle(request.link, [request.id], Some(&Accepted {}.into()), true)?;
                let message = EncodedMessage::split(request.payload.into_bytes()).unwrap();
                let id = message.properties().unwrap().unwrap().message_id;
                let status = ApplicationProperties(vec![("status-code".into(), Value::Int(202))]);
                let sections = Sections {
                    properties: Some(Properties { correlation_id: id, ..Properties::default() }),
                    application_properties: Some(status),
                    body: Body::Value(Value::Null),
                    ..Sections::default()
                };
                let delivery = OutboundDelivery { tag: vec![0].into(), settled: true, ..OutboundDelivery::default() };
                engine.send(answers.unwrap(), delivery, &[codec::encode(&sections).unwrap()]).map(drop)
            }
            Event::CreditChanged { link, credit, .. } if Some(link) == receiver && credit > 0 => {
                let Some(message) = (!messages.is_empty()).then(|| messages.remove(0)) else { return Ok(()) };
                tag += 1;
                let delivery = OutboundDelivery { tag: vec![tag; 16].into(), ..OutboundDelivery::default() };
                engine.send(link, delivery, &[message.into()]).map(drop)
            }
            Event::Disposition { deliveries, state, .. } => {
                if let Some(state) = state.clone().filter(|_| receiver.is_some()) {
                    settled.try_send(state).unwrap();
                }
                let ids: Vec<_> = deliveries.iter().map(|(_, id)| id).collect();
                engine.settle(receiver.unwrap(), ids, state.as_ref(), true).map(drop)
            }
            _ => Ok(()),
        });
        answered.unwrap();
    }
}

/// Rules: K-314, K-315, K-316.
#[tokio::test]
async fn a_message_that_cannot_be_decoded_is_dead_lettered_and_the_next_is_received() {
    let (lines, _guard) = Lines::capture();
    let application =
        ApplicationProperties(vec![("map".into(), Map::default().into()), ("tenant".into(), Value::Int(7))]);
    let good = Sections {
        header: Some(Header { ttl: Some(0), ..Header::default() }),
        properties: Some(Properties {
            message_id: Some("".into()),
            subject: Some("order".into()),
            ..Properties::default()
        }),
        application_properties: Some(application),
        body: Body::Data(vec![b"{}".to_vec().into()]),
        ..Sections::default()
    };
    let long = Properties { group_id: Some("x".repeat(129).as_str().into()), ..Properties::default() };
    let bad = Sections { properties: Some(long), body: Body::Sequence(vec![List::default()]), ..Sections::default() };
    let messages = [&bad, &good].map(|sections| codec::encode(sections).unwrap().to_vec());
    let (settled, mut states) = mpsc::channel(8);
    let options = ServiceBus::options().plain().dial_with(move |_, _| {
        let (client, server) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve(server, messages.to_vec(), settled.clone()));
        async move { Ok(client) }
    });
    let service_bus = options.connect_with("localhost", SharedAccessSignature::new("any")).await.unwrap();
    let mut receiver = service_bus.receiver(&path("orders"), ReceiveMode::PeekLock).await.unwrap();
    let delivery = receiver.receive().await.unwrap();
    let message = &delivery.message;
    assert_eq!((text(message), message.subject(), message.time_to_live()), ("{}", Some("order"), None));
    assert!(message.application_properties().get("tenant").is_some());
    let Some(DeliveryState::Rejected(rejected)) = states.recv().await else { panic!("it is dead-lettered") };
    let info = rejected.error.unwrap().info.unwrap();
    assert_eq!(info.get("DeadLetterReason").and_then(Value::as_str), Some("MalformedMessage"));
    let description = info.get("DeadLetterErrorDescription").and_then(Value::as_str).unwrap();
    assert!(description.contains("at `group-id` in properties"), "{description}");
    delivery.complete().await.unwrap();
    assert_eq!(states.recv().await, Some(Accepted {}.into()));
    let warned = lines.of("consign::servicebus");
    assert!(warned.len() == 1 && warned[0].contains("dead-lettered as MalformedMessage"), "{warned:?}");
}
