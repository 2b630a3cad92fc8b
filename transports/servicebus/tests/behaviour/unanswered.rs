//! A server that ends links and connections, or does not answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Message,
    message::SequenceNumber,
    transport::{ErrorKind, PeekMessages, Sender, Transport},
};
use consign_amqp::{
    engine::Event,
    types::{Attach, Error, Role},
    value::{List, Map, Symbol, Value},
};
use consign_servicebus::ServiceBus;
use futures_util::future::join_all;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::Instant,
};

use super::path;
use crate::support::{ANY_KEY, TokioClock, stub};

/// Whether an event is the attach of a sender to `orders`.
fn is_sender(event: &Event) -> bool {
    let Event::AttachRequested { attach, .. } = event else { return false };
    attach.role == Role::Sender && stub::address(attach) == "orders"
}

/// Rules: K-304.
#[tokio::test(start_paused = true)]
async fn sends_that_wait_for_credit_are_repeated_when_their_link_is_detached() {
    let transfers = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&transfers);
    let service_bus = stub::connect(ServiceBus::options(), move |_| {
        let (counted, mut links) = (Arc::clone(&counted), 0);
        move |commands, event| match event {
            Event::AttachRequested { link, ref attach } if is_sender(&event) => {
                links += 1;
                if links > 1 {
                    return Some(event);
                }
                let answer =
                    Attach { source: attach.source.clone(), target: attach.target.clone(), ..Attach::default() };
                commands.run(|engine| engine.accept(link, answer)).unwrap();
                let commands = commands.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let busy = Error::new(Symbol::from_static("com.microsoft:server-busy"), "try again");
                    commands.run(|engine| engine.detach(link, true, Some(busy))).unwrap();
                });
                None
            }
            Event::Delivery(_) => {
                counted.fetch_add(1, Ordering::Relaxed);
                Some(event)
            }
            event => Some(event),
        }
    });
    let sender = service_bus.await.sender(&path("orders")).await.unwrap();
    for sent in join_all((0..3).map(|_| sender.send(Message::new("a")))).await {
        sent.unwrap();
    }
    assert_eq!(transfers.load(Ordering::Relaxed), 3);
}

/// Rules: K-48, K-301.
/// A server may end a connection on which there are no links, as one that only pings use.
#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_after_a_ping_is_followed_by_no_pause() {
    let dials = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&dials);
    let service_bus = stub::connect(ServiceBus::options(), move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        |commands, event| {
            if let Event::Ended { .. } = event {
                let commands = commands.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let forced = Error::new(Symbol::from_static("amqp:connection:forced"), "no links");
                    commands.run(|engine| engine.close(Some(forced))).unwrap();
                });
            }
            Some(event)
        }
    });
    let service_bus = service_bus.await;
    let began = Instant::now();
    for _ in 0..20 {
        service_bus.ping().await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(dials.load(Ordering::Relaxed), 20);
    assert_eq!(began.elapsed().as_secs(), 40);
}

/// Rules: K-301.
#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_before_a_session_begins_is_followed_by_a_pause() {
    let dials = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&dials);
    let service_bus = stub::connect(ServiceBus::options().retries(0), move |number| {
        counted.fetch_add(1, Ordering::Relaxed);
        move |commands, event| match event {
            Event::Begun { .. } if number > 0 => {
                let forced = Error::new(Symbol::from_static("amqp:connection:forced"), "maintenance");
                commands.run(|engine| engine.close(Some(forced))).unwrap();
                None
            }
            event => Some(event),
        }
    });
    let service_bus = service_bus.await;
    let sender = service_bus.sender(&path("orders")).await.unwrap();
    service_bus.disconnect().await.unwrap();
    let began = Instant::now();
    for _ in 0..20 {
        assert!(sender.send(Message::new("a")).await.is_err());
    }
    assert!(began.elapsed() > Duration::from_secs(60), "{} connections at once", dials.load(Ordering::Relaxed));
}

/// Rules: K-304.
#[tokio::test(start_paused = true)]
async fn a_link_on_which_no_transfer_is_answered_is_left() {
    let service_bus = stub::connect(ServiceBus::options(), |_| {
        let mut first = None;
        move |commands, event| match event {
            Event::AttachRequested { link, ref attach } if is_sender(&event) && first.is_none() => {
                first = Some(link);
                let answer =
                    Attach { source: attach.source.clone(), target: attach.target.clone(), ..Attach::default() };
                commands.run(|engine| engine.accept(link, answer).and_then(|()| engine.credit(link, 2))).unwrap();
                None
            }
            Event::Delivery(ref delivery) if Some(delivery.link) == first => None,
            event => Some(event),
        }
    });
    let sender = service_bus.await.sender(&path("orders")).await.unwrap();
    for sent in join_all((0..2).map(|_| sender.send(Message::new("a")))).await {
        let error = sent.unwrap_err();
        assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::ServiceTimeout, true), "{error}");
    }
    sender.send(Message::new("a")).await.unwrap();
}

/// Rules: K-304.
#[tokio::test(start_paused = true)]
async fn links_to_a_node_on_which_no_request_is_answered_are_left() {
    let service_bus = stub::connect(ServiceBus::options(), |_| {
        let (mut links, mut requests) = (Vec::new(), 0);
        move |commands, event| match event {
            Event::AttachRequested { link, ref attach } => {
                links.push((attach.role == Role::Receiver, link));
                Some(event)
            }
            Event::Delivery(request) => {
                requests += 1;
                if requests > 1 {
                    let (_, answers) = links.iter().rev().find(|(is_receiver, _)| *is_receiver).unwrap();
                    let body = Map::from_iter([("messages".into(), Value::List(List::default()))]);
                    commands.run(|engine| {
                        assert!(Some(&(false, request.link)) != links.first(), "the first pair");
                        stub::answer(engine, request, *answers, Value::Map(body));
                    });
                }
                None
            }
            event => Some(event),
        }
    });
    let service_bus = service_bus.await;
    let peek = async || service_bus.peek(&path("orders"), SequenceNumber::new(0), 1).await;
    assert_eq!(peek().await.unwrap_err().kind(), ErrorKind::ServiceTimeout);
    assert!(peek().await.unwrap().is_empty());
}

/// A server that is there and answers nothing, from some time on.
/// Rules: K-301.
#[tokio::test(start_paused = true)]
async fn a_connection_on_which_nothing_is_answered_is_left() {
    let is_deaf = Arc::new(AtomicBool::new(false));
    let (deaf, dials) = (Arc::clone(&is_deaf), AtomicUsize::new(0));
    let options = ServiceBus::options().dial_with(move |_, _| {
        let (client, mut relay) = tokio::io::duplex(1 << 16);
        let (mut server, of_server) = tokio::io::duplex(1 << 16);
        tokio::spawn(stub::serve(of_server, Duration::ZERO, |_, event| Some(event)));
        let deaf = (dials.fetch_add(1, Ordering::Relaxed) == 0).then(|| Arc::clone(&deaf));
        tokio::spawn(async move {
            let (mut read, mut written) = (vec![0; 1 << 16], vec![0; 1 << 16]);
            loop {
                tokio::select! {
                    Ok(count @ 1..) = relay.read(&mut read) => {
                        if deaf.as_ref().is_none_or(|deaf| !deaf.load(Ordering::Relaxed)) {
                            server.write_all(&read[..count]).await.unwrap();
                        }
                    }
                    Ok(count @ 1..) = server.read(&mut written) => {
                        if relay.write_all(&written[..count]).await.is_err() {
                            return;
                        }
                    }
                    else => return,
                }
            }
        });
        async move { Ok(client) }
    });
    let service_bus = options.clock(TokioClock::new()).connect(ANY_KEY).await.unwrap();
    let sender = service_bus.sender(&path("orders")).await.unwrap();
    sender.send(Message::new("a")).await.unwrap();
    is_deaf.store(true, Ordering::Relaxed);
    let mut sent = sender.send(Message::new("b")).await;
    for _ in 0..4 {
        if sent.is_ok() {
            break;
        }
        sent = sender.send(Message::new("b")).await;
    }
    sent.unwrap();
}
