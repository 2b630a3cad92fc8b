//! What a server answers to settlements.

use consign::transport::{
    AcceptSession, Delivery, ErrorKind, Lease, ReceiveMode, ReceiverExt, Sessions, SettleError, Transport,
};
use consign_amqp::{
    codec,
    engine::{Event, OutboundDelivery},
    message::{Body, Sections},
    types::{DeliveryState, Modified, Released},
};
use consign_servicebus::{ServiceBus, ServiceBusLease, ServiceBusReceiver};
use tokio::time::timeout;

use super::{WHILE, path};
use crate::support::stub;

/// Connects to a server that sends a message for each credit of `orders`, and answers each settlement with `answer`.
async fn connect(answer: DeliveryState) -> ServiceBus {
    stub::connect(ServiceBus::options(), move |_| {
        let (answer, mut entity) = (answer.clone(), None);
        move |commands, event| {
            match &event {
                Event::AttachRequested { link, attach } if stub::address(attach) == "orders" => entity = Some(*link),
                Event::CreditChanged { link, credit, .. } if entity == Some(*link) => {
                    let message = Sections { body: Body::Value("a".into()), ..Sections::default() };
                    for _ in 0..*credit {
                        let tag = OutboundDelivery { tag: vec![7; 16].into(), ..OutboundDelivery::default() };
                        commands.run(|engine| engine.send(*link, tag, &[codec::encode(&message).unwrap()])).unwrap();
                    }
                    return None;
                }
                Event::Disposition { deliveries, settled: false, .. } => {
                    for (link, delivery) in deliveries.iter() {
                        commands.run(|engine| engine.settle(link, [delivery], Some(&answer), true)).unwrap();
                    }
                    return None;
                }
                _ => {}
            }
            Some(event)
        }
    })
    .await
}

async fn next(receiver: &mut ServiceBusReceiver) -> Delivery<ServiceBusLease> {
    timeout(WHILE, receiver.receive()).await.unwrap().unwrap()
}

fn is_lost(error: &SettleError) -> bool {
    error.kind() == ErrorKind::MessageLockLost && error.to_string().contains("taken the message back")
}

/// Rules: A-20.
#[tokio::test(start_paused = true)]
async fn a_message_that_the_server_has_again_is_not_settled() {
    for answer in [Released {}.into(), DeliveryState::Modified(Modified::default())] {
        let service_bus = connect(answer).await;
        let mut receiver = service_bus.receiver(&path("orders"), ReceiveMode::PeekLock).await.unwrap();
        let error = next(&mut receiver).await.complete().await.unwrap_err();
        assert!(is_lost(&error), "{error:?}");
        let both = [next(&mut receiver).await, next(&mut receiver).await];
        let error = Delivery::complete_all(both).await.unwrap_err();
        assert!(error.failures().len() == 2 && error.failures().all(|(_, error)| is_lost(error)), "{error:?}");
        next(&mut receiver).await.lease.release().await.unwrap();
        next(&mut receiver).await.abandon().await.unwrap();
    }
}

/// Rules: A-20.
#[tokio::test(start_paused = true)]
async fn a_message_of_a_session_that_the_server_has_again_is_not_settled() {
    let service_bus = connect(Released {}.into()).await;
    let mut session = service_bus.sessions(&path("orders")).await.unwrap().accept("one").await.unwrap();
    let delivery = timeout(WHILE, session.receive()).await.unwrap().unwrap();
    assert_eq!(delivery.complete().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
}
