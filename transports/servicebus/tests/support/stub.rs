//! The server's end of one connection, whose behaviour a test decides. It accepts each token of `$cbs`.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use consign_amqp::{
    codec,
    engine::{self, Connection as Engine, Event, LinkId, OutboundDelivery},
    message::{ApplicationProperties, Body, EncodedMessage, Properties, Sections},
    server::{Commands, Connection},
    types::{Accepted, Attach, AttachTarget, Open, Role, SaslCode},
    value::{Symbol, Value},
};
use consign_servicebus::{Options, ServiceBus};
use tokio::io::DuplexStream;

use super::{ANY_KEY, TokioClock};

/// Serves a connection. What `on` returns of an event is done as by a server that accepts everything. The links to `$cbs` are
/// accepted after a pause.
pub(crate) async fn serve(
    stream: DuplexStream,
    pause: Duration,
    mut on: impl FnMut(&Commands, Event) -> Option<Event> + Send,
) {
    let options = engine::Options::default().sasl_mechanisms([Symbol::from_static("ANONYMOUS")]);
    let mut connection = Connection::accept(stream, options);
    let commands = connection.commands();
    // The links of requests and answers, by the addresses of their nodes.
    let mut nodes = Vec::new();
    while let Some(event) = connection.next_event().await {
        match event {
            Event::AttachRequested { link, attach } if address(&attach) == "$cbs" => {
                nodes.push((address(&attach), attach.role, link));
                let commands = commands.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(pause).await;
                    commands.run(|engine| accept(engine, link, *attach)).unwrap();
                });
            }
            Event::Delivery(request) if nodes.iter().any(|(node, _, link)| node == "$cbs" && *link == request.link) => {
                let answers = answers_to(&nodes, request.link).unwrap();
                commands.run(|engine| answer(engine, request, answers, Value::Null));
            }
            event => {
                if let Event::AttachRequested { link, attach } = &event {
                    nodes.push((address(attach), attach.role, *link));
                }
                match on(&commands, event) {
                    Some(Event::Delivery(request)) => commands.run(|engine| match answers_to(&nodes, request.link) {
                        Some(answers) => answer(engine, request, answers, Value::Null),
                        None => default(engine, Event::Delivery(request)),
                    }),
                    Some(event) => commands.run(|engine| default(engine, event)),
                    None => {}
                }
            }
        }
    }
}

/// The link of the answers to what a link of a node transfers.
fn answers_to(nodes: &[(String, Role, LinkId)], requests: LinkId) -> Option<LinkId> {
    let (node, ..) = nodes.iter().find(|(node, _, link)| node.contains('$') && *link == requests)?;
    let mut answers = nodes.iter().rev().filter(|(other, role, _)| other == node && *role == Role::Receiver);
    answers.next().map(|(.., link)| *link)
}

/// The address of the server's end of a link.
pub(crate) fn address(attach: &Attach) -> String {
    let target = || match &attach.target {
        Some(AttachTarget::Target(target)) => target.address.clone(),
        _ => None,
    };
    let source = || attach.source.as_ref().and_then(|source| source.address.clone());
    let address = if attach.role == Role::Sender { target() } else { source() };
    address.map(|address| address.as_str().to_owned()).unwrap_or_default()
}

/// Accepts a link, with credit if it is one that the client sends over.
pub(crate) fn accept(engine: &mut Engine, link: LinkId, attach: Attach) -> Result<(), engine::CommandError> {
    let is_sender = attach.role == Role::Sender;
    engine.accept(link, Attach { source: attach.source, target: attach.target, ..Attach::default() })?;
    if is_sender { engine.credit(link, 100) } else { Ok(()) }
}

fn default(engine: &mut Engine, event: Event) {
    let done = match event {
        Event::SaslInit(_) => engine.sasl_outcome(SaslCode::Ok),
        Event::Opened(_) => engine.open(Open { container_id: "server".into(), ..Open::default() }),
        Event::AttachRequested { link, attach } => accept(engine, link, *attach),
        Event::Delivery(delivery) => {
            engine.settle(delivery.link, [delivery.id], Some(&Accepted {}.into()), true).map(drop)
        }
        _ => Ok(()),
    };
    done.unwrap();
}

/// Answers a request with success.
pub(crate) fn answer(engine: &mut Engine, request: engine::Delivery, answers: LinkId, body: Value) {
    engine.settle(request.link, [request.id], Some(&Accepted {}.into()), true).unwrap();
    let message = EncodedMessage::split(request.payload.into_bytes()).unwrap();
    let id = message.properties().unwrap().unwrap().message_id;
    let status = ApplicationProperties(vec![("status-code".into(), Value::Int(202))]);
    let sections = Sections {
        properties: Some(Properties { correlation_id: id, ..Properties::default() }),
        application_properties: Some(status),
        body: Body::Value(body),
        ..Sections::default()
    };
    let tag = request.tag.to_vec();
    let delivery = OutboundDelivery { tag: tag.into(), settled: true, ..OutboundDelivery::default() };
    engine.send(answers, delivery, &[codec::encode(&sections).unwrap()]).unwrap();
}

/// Connects to servers that are made for each connection, with its number.
pub(crate) async fn connect<F>(options: Options, on: impl Fn(usize) -> F + Send + Sync + 'static) -> ServiceBus
where
    F: FnMut(&Commands, Event) -> Option<Event> + Send + 'static,
{
    let dials = AtomicUsize::new(0);
    let options = options.dial_with(move |_, _| {
        let (client, server) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve(server, Duration::ZERO, on(dials.fetch_add(1, Ordering::Relaxed))));
        async move { Ok(client) }
    });
    options.clock(TokioClock::new()).connect(ANY_KEY).await.unwrap()
}
