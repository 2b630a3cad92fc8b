//! A message that is larger than the receiver's options permit.

use bytes::Bytes;
use consign::transport::{AcceptSession, ErrorKind, ReceiveMode, ReceiverExt, Sessions, Transport};
use consign_amqp::{
    engine::{Connection as Engine, Event, LinkId, OutboundDelivery},
    server::Commands,
};
use consign_conformance::log::Lines;
use consign_servicebus::ServiceBus;
use tokio::time::timeout;

use super::{WHILE, path};
use crate::support::stub;

/// Connects to a server that sends a message of 2 KiB for each credit of `orders`.
async fn connect() -> ServiceBus {
    let options = ServiceBus::options().max_message_size(1_024);
    stub::connect(options, |_| {
        let mut entity = None;
        move |commands: &Commands, event| {
            match &event {
                Event::AttachRequested { link, attach } if stub::address(attach) == "orders" => entity = Some(*link),
                Event::CreditChanged { link, credit: 1.., .. } if entity == Some(*link) => {
                    commands.run(|engine| send_large(engine, *link));
                    return None;
                }
                _ => {}
            }
            Some(event)
        }
    })
    .await
}

fn send_large(engine: &mut Engine, link: LinkId) {
    // It ignores the size that the receiver has announced.
    engine.set_peer_message_size(link, None).unwrap();
    engine.send(link, OutboundDelivery::default(), &[Bytes::from(vec![0; 2_048])]).unwrap();
}

/// Rules: K-301.
#[tokio::test(start_paused = true)]
async fn a_message_over_the_limit_fails_each_receive() {
    let (lines, _guard) = Lines::capture();
    let service_bus = connect().await;
    let mut receiver = service_bus.receiver(&path("orders"), ReceiveMode::PeekLock).await.unwrap();
    for _ in 0..2 {
        let error = timeout(WHILE, receiver.receive()).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MessageSizeExceeded, "{error:?}");
        assert!(!error.is_retryable(), "{error:?}");
    }
    let lines = lines.of("consign::servicebus");
    let names_the_option = |line: &String| line.starts_with("WARN") && line.contains("larger than max_message_size");
    assert!(lines.len() == 2 && lines.iter().all(names_the_option), "{lines:?}");
}

/// Rules: K-301.
#[tokio::test(start_paused = true)]
async fn a_message_over_the_limit_fails_the_receive_of_its_session() {
    let service_bus = connect().await;
    let mut sessions = service_bus.sessions(&path("orders")).await.unwrap();
    let mut session = sessions.accept("one").await.unwrap();
    let error = timeout(WHILE, session.receive()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageSizeExceeded, "{error:?}");
    assert!(!error.is_retryable(), "{error:?}");
}
