//! A server that ends the links to `$cbs`, or their session.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::transport::{ReceiveMode, ReceiverExt, Transport};
use consign_amqp::{
    codec,
    engine::{self, Event, LinkId, OutboundDelivery},
    message::{ApplicationProperties, Body, EncodedMessage, Properties, Sections},
    server::Connection,
    types::{Accepted, Attach, Error, Open, Role, SaslCode},
    value::{Symbol, Value},
};
use consign_servicebus::{ServiceBus, SharedAccessKey};
use tokio::io::DuplexStream;

use super::path;
use crate::support::{ANY_KEY, TokioClock, stub};

/// What becomes of the links of a request after its answer.
#[derive(Clone, Copy, Debug)]
enum Then {
    Detach,
    EndTheSession,
}

/// Accepts each token, and ends the links of the request then. Links of other sessions stay attached.
async fn serve_tokens(stream: DuplexStream, tokens: Arc<AtomicUsize>, then: Then) {
    let options = engine::Options::default().sasl_mechanisms([Symbol::from_static("ANONYMOUS")]);
    let mut connection = Connection::accept(stream, options);
    let mut answers: Option<LinkId> = None;
    while let Some(event) = connection.next_event().await {
        let answered = connection.command(|engine| match event {
            Event::SaslInit(_) => engine.sasl_outcome(SaslCode::Ok),
            Event::Opened(_) => engine.open(Open { container_id: "server".into(), ..Open::default() }),
            Event::AttachRequested { link, attach } => {
                let is_sender = attach.role == Role::Sender;
                let source = attach.source.as_ref().and_then(|source| source.address.as_ref());
                if !is_sender && source.is_some_and(|address| address.as_str() == "$cbs") {
                    answers = Some(link);
                }
                engine.accept(link, Attach { source: attach.source, target: attach.target, ..Attach::default() })?;
                if is_sender { engine.credit(link, 100) } else { Ok(()) }
            }
            Event::Delivery(request) => {
                tokens.fetch_add(1, Ordering::Relaxed);
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
                let answers = answers.take().unwrap();
                let delivery = OutboundDelivery { tag: vec![1].into(), settled: true, ..OutboundDelivery::default() };
                engine.send(answers, delivery, &[codec::encode(&sections).unwrap()])?;
                match then {
                    Then::Detach => {
                        engine.detach(answers, true, None)?;
                        engine.detach(request.link, true, None)
                    }
                    Then::EndTheSession => {
                        let error = Error::new(Symbol::from_static("amqp:internal-error"), "the node is moved");
                        engine.end(request.link.session(), Some(error))
                    }
                }
            }
            _ => Ok(()),
        });
        answered.unwrap();
    }
}

/// Rules: K-300.
#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_over_new_links_when_those_to_cbs_are_detached() {
    renews(Then::Detach).await;
}

/// Rules: K-300.
#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_in_a_new_session_when_that_of_cbs_ends_with_an_error() {
    renews(Then::EndTheSession).await;
}

async fn renews(then: Then) {
    let tokens = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tokens);
    let options = ServiceBus::options().plain().dial_with(move |_, _| {
        let (client, server) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve_tokens(server, Arc::clone(&counted), then));
        async move { Ok(client) }
    });
    let clock = TokioClock::new();
    let key = SharedAccessKey::new("root", "s3cret").clock(clock).lifetime(Duration::from_secs(600));
    let service_bus = options.clock(clock).connect_with("localhost", key).await.unwrap();
    let _receiver = service_bus.receiver(&path("orders"), ReceiveMode::PeekLock).await.unwrap();
    // It is renewed at 540 s and at 1,080 s.
    for (seconds, expected) in [(530, 1), (20, 2), (500, 2), (60, 3)] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        assert_eq!(tokens.load(Ordering::Relaxed), expected);
    }
}

/// A receiver that was stopped while it attaches goes on with it: others wait for the same links.
/// Rules: K-301.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_was_stopped_while_it_attaches_keeps_no_other_entity_waiting() {
    let dials = AtomicUsize::new(0);
    let options = ServiceBus::options().plain().dial_with(move |_, _| {
        let (client, server) = tokio::io::duplex(1 << 16);
        let is_first = dials.fetch_add(1, Ordering::Relaxed) == 0;
        let pause = if is_first { Duration::ZERO } else { Duration::from_secs(3) };
        tokio::spawn(stub::serve(server, pause, |_, event| Some(event)));
        async move { Ok(client) }
    });
    let service_bus = options.clock(TokioClock::new()).connect(ANY_KEY).await.unwrap();
    let mut receiver = service_bus.receiver(&path("orders"), ReceiveMode::PeekLock).await.unwrap();
    service_bus.disconnect().await.unwrap();
    let received = receiver.receive_within(Duration::from_secs(1)).await;
    assert!(received.is_err(), "{received:?}");
    let invoices = path("invoices");
    let sender = tokio::time::timeout(Duration::from_secs(10), service_bus.sender(&invoices));
    sender.await.unwrap().unwrap();
    drop(receiver);
}
