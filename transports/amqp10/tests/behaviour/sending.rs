//! Sends.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, OnceLock},
    task::Poll,
    time::Duration,
};

use consign::{
    Message,
    transport::{Batch, ErrorKind, PresettledSender, ReceiverExt, SendError, Sender, Transport},
};
use consign_amqp::{
    engine::{self, Delivery, Event, LinkId},
    server::{Commands, Connection},
    types::{Accepted, Attach, DeliveryState, Error, Open, Rejected, Role, SaslCode, condition},
    value::Symbol,
};
use consign_amqp10::Amqp10;
use consign_conformance::log::Lines;
use tokio::{net::TcpListener, sync::Notify, time::timeout};

use super::{Bench, SOON, stub, text};

/// Rules: A-34.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_presettled_send_has_no_answer() {
    let Some(bench) = Bench::new().await else { return };
    let sender = bench.amqp.sender(&bench.queue).await.unwrap();
    sender.send_presettled(Message::new("a")).await;
    let delivery = timeout(SOON, bench.receiver().await.receive()).await.unwrap().unwrap();
    assert_eq!(text(&delivery.message), "a");
    delivery.complete().await.unwrap();
}

#[tokio::test]
async fn a_presettled_send_that_fails_is_logged() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new().await else { return };
    let sender = bench.amqp.sender(&bench.queue).await.unwrap();
    sender.send_presettled(Message::builder().time_to_live(Duration::from_secs(1)).build("a").unwrap()).await;
    let warned = lines.of("consign::amqp10");
    assert!(warned.len() == 1 && warned[0].contains("was not sent"), "{warned:?}");
}

/// Rules: K-280.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_stored_in_part_has_an_unknown_outcome() {
    let Some(bench) = Bench::new().await else { return };
    let small = super::EntityPath::new(&super::unique("small")).unwrap();
    bench.proton.queues().create_small(small.as_str(), 2_000).await.unwrap();
    let sender = bench.amqp.sender(&small).await.unwrap();
    let large = || Message::new(vec![0; 1_500]);
    let error = sender.send_batch(Batch::from([large(), large()])).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error:?}");
    let error = sender.send(large()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::QuotaExceeded, false));
}

/// Rules: K-281.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_to_live_is_sent_if_the_option_says_so() {
    let message = || Message::builder().time_to_live(Duration::from_secs(60)).build("a").unwrap();
    let Some(bench) = Bench::new().await else { return };
    let refused = bench.amqp.sender(&bench.queue).await.unwrap().send(message()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported);
    let amqp = Amqp10::options().time_to_live(true).connect(&bench.proton.url()).await.unwrap();
    amqp.sender(&bench.queue).await.unwrap().send(message()).await.unwrap();
    let delivery = timeout(SOON, bench.receiver().await.receive()).await.unwrap().unwrap();
    assert_eq!(delivery.message.time_to_live(), Some(Duration::from_secs(60)));
    delivery.complete().await.unwrap();
}

/// Rejects the first message, and ends the connection at the second one, without its outcome.
async fn reject_and_end(listener: TcpListener) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut messages = 0;
    let answer = |engine: &mut engine::Connection, event| match event {
        Event::AttachRequested { link, attach } => {
            stub::accept(engine, link, *attach)?;
            engine.credit(link, 100)
        }
        Event::Delivery(delivery) => {
            messages += 1;
            if messages > 1 {
                return engine.close(None);
            }
            let error = Some(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, "full"));
            let rejected = DeliveryState::Rejected(Box::new(Rejected { error }));
            engine.settle(delivery.link, [delivery.id], Some(&rejected), true).map(drop)
        }
        _ => Ok(()),
    };
    stub::serve_one(stream, answer).await;
}

/// Rules: K-280.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_which_one_outcome_is_unknown_has_an_unknown_outcome() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp10://{}", listener.local_addr().unwrap());
    tokio::spawn(reject_and_end(listener));
    let amqp = Amqp10::connect(&url).await.unwrap();
    let sender = amqp.sender(&super::EntityPath::new("orders").unwrap()).await.unwrap();
    let sent = sender.send_batch(Batch::from([Message::new("rejected"), Message::new("unanswered")]));
    let error = timeout(SOON, sent).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::CommunicationProblem, true), "{error:?}");
}

/// Serves a connection: `on` gets each delivery, with how many there were, and each attach of a sender before it is accepted.
async fn serve(
    listener: TcpListener,
    credit: u32,
    mut on_attach: impl FnMut(&Commands, LinkId) + Send,
    mut on_delivery: impl FnMut(&mut engine::Connection, Delivery) -> Result<(), engine::CommandError> + Send,
) {
    let (stream, _) = listener.accept().await.unwrap();
    let options = engine::Options::default().sasl_mechanisms([Symbol::from_static("ANONYMOUS")]);
    let mut connection = Connection::accept(stream, options);
    let commands = connection.commands();
    while let Some(event) = connection.next_event().await {
        let attached = match &event {
            Event::AttachRequested { link, attach } if attach.role == Role::Sender => Some(*link),
            _ => None,
        };
        let answered = connection.command(|engine| match event {
            Event::SaslInit(_) => engine.sasl_outcome(SaslCode::Ok),
            Event::Opened(_) => engine.open(Open { container_id: "broker".into(), ..Open::default() }),
            Event::AttachRequested { link, attach } => {
                let is_sender = attach.role == Role::Sender;
                let answer = Attach { source: attach.source, target: attach.target, ..Attach::default() };
                engine.accept(link, answer)?;
                if is_sender && credit > 0 { engine.credit(link, credit) } else { Ok(()) }
            }
            Event::Delivery(delivery) => on_delivery(engine, delivery),
            _ => Ok(()),
        });
        answered.unwrap();
        if let Some(link) = attached {
            on_attach(&commands, link);
        }
    }
}

/// Sends one message to a stub, and returns the error.
async fn sent(
    credit: u32,
    on_attach: impl FnMut(&Commands, LinkId) + Send + 'static,
    on_delivery: impl FnMut(&mut engine::Connection, Delivery) -> Result<(), engine::CommandError> + Send + 'static,
) -> SendError {
    sent_by(credit, on_attach, on_delivery, || {}).await
}

/// As `sent`, and calls `begun` when the send has begun.
async fn sent_by(
    credit: u32,
    on_attach: impl FnMut(&Commands, LinkId) + Send + 'static,
    on_delivery: impl FnMut(&mut engine::Connection, Delivery) -> Result<(), engine::CommandError> + Send + 'static,
    begun: impl FnOnce(),
) -> SendError {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp10://{}", listener.local_addr().unwrap());
    tokio::spawn(serve(listener, credit, on_attach, on_delivery));
    let amqp = Amqp10::connect(&url).await.unwrap();
    let sender = amqp.sender(&super::EntityPath::new("orders").unwrap()).await.unwrap();
    let mut sending = pin!(sender.send(Message::new("a")));
    let polled = poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await;
    begun();
    let sent = match polled {
        Poll::Ready(sent) => sent,
        Poll::Pending => timeout(SOON, sending).await.unwrap(),
    };
    sent.unwrap_err()
}

/// Rules: K-272.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_that_waits_for_credit_when_its_link_ends_is_certainly_not_sent() {
    let is_sending = Arc::new(Notify::new());
    let begun = Arc::clone(&is_sending);
    let detach = move |commands: &Commands, link: LinkId| {
        let (commands, begun) = (commands.clone(), Arc::clone(&begun));
        tokio::spawn(async move {
            // The send waits for credit then.
            begun.notified().await;
            let forced = Error::new(Symbol::from_static("amqp:link:detach-forced"), "maintenance");
            commands.run(|engine| engine.detach(link, true, Some(forced))).unwrap();
        });
    };
    let error = sent_by(0, detach, |_, _| Ok(()), || is_sending.notify_one()).await;
    assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::ServiceBusy, false), "{error:?}");
    assert!(error.is_retryable(), "{error:?}");
}

/// The condition may be about another message.
/// Rules: K-272.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_was_not_answered_has_an_unknown_outcome_whatever_ended_the_link() {
    for condition in ["amqp:link:message-size-exceeded", "amqp:not-found", "amqp:unauthorized-access"] {
        let detach = move |engine: &mut engine::Connection, delivery: Delivery| {
            engine.detach(delivery.link, true, Some(Error::new(Symbol::from_static(condition), "why")))
        };
        let error = sent(100, |_, _| {}, detach).await;
        assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::CommunicationProblem, true), "{error:?}");
    }
}

/// Rules: K-272.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_on_which_no_transfer_is_answered_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp10://{}", listener.local_addr().unwrap());
    let first = Arc::new(OnceLock::new());
    let attached = Arc::clone(&first);
    let on_attach = move |_: &Commands, link: LinkId| {
        attached.get_or_init(|| link);
    };
    tokio::spawn(serve(listener, 2, on_attach, move |engine, delivery| {
        if first.get() == Some(&delivery.link) {
            return Ok(());
        }
        engine.settle(delivery.link, [delivery.id], Some(&Accepted {}.into()), true).map(drop)
    }));
    let amqp = Amqp10::options().timeout(Duration::from_secs(5)).connect(&url).await.unwrap();
    let sender = amqp.sender(&super::EntityPath::new("orders").unwrap()).await.unwrap();
    let mut failures = 0;
    while let Err(error) = timeout(2 * SOON, sender.send(Message::new("a"))).await.unwrap() {
        assert!(matches!(error.kind(), ErrorKind::ServiceTimeout | ErrorKind::ServiceBusy), "{error:?}");
        failures += 1;
        assert!(failures < 5, "the link is not left");
    }
    assert!(failures > 0);
}
