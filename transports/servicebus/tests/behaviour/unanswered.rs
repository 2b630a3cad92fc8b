//! A server that ends links and connections, or does not answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Message,
    transport::{ErrorKind, Sender, Transport},
};
use consign_amqp::{
    engine::Event,
    types::{Attach, Error, Role},
    value::Symbol,
};
use consign_servicebus::ServiceBus;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::path;
use crate::support::stub;

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
