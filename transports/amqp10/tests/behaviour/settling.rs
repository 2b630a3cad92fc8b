//! What a broker answers to settlements.

use consign::{
    message::EntityPath,
    transport::{Delivery, ErrorKind, Lease, ReceiveMode, ReceiverExt, SettleError, Transport},
};
use consign_amqp::{
    codec,
    engine::{self, CommandError, Event, OutboundDelivery},
    message::{Body, Sections},
    types::{Accepted, DeliveryState, Error, Modified, Rejected, Released},
    value::Symbol,
};
use consign_amqp10::{Amqp10, Amqp10Lease, Amqp10Receiver};
use tokio::{net::TcpListener, time::timeout};

use super::{SOON, stub};

/// A receiver of a broker that answers each settlement with `answer`.
async fn receiver(answer: Option<DeliveryState>) -> Amqp10Receiver {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp10://{}", listener.local_addr().unwrap());
    tokio::spawn(stub::serve(listener, move |engine, event| on(engine, event, answer.as_ref())));
    let amqp = Amqp10::connect(&url).await.unwrap();
    amqp.receiver(&EntityPath::new("orders").unwrap(), ReceiveMode::PeekLock).await.unwrap()
}

/// Sends a message for each credit.
fn on(engine: &mut engine::Connection, event: Event, answer: Option<&DeliveryState>) -> Result<(), CommandError> {
    match event {
        Event::AttachRequested { link, attach } => stub::accept(engine, link, *attach),
        Event::CreditChanged { link, credit, .. } => {
            let message = Sections { body: Body::Value("a".into()), ..Sections::default() };
            let encoded = codec::encode(&message).unwrap();
            for _ in 0..credit {
                engine.send(link, OutboundDelivery::default(), std::slice::from_ref(&encoded))?;
            }
            Ok(())
        }
        Event::Disposition { deliveries, settled: false, .. } => {
            for (link, delivery) in deliveries.iter() {
                engine.settle(link, [delivery], answer, true)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

async fn next(receiver: &mut Amqp10Receiver) -> Delivery<Amqp10Lease> {
    timeout(SOON, receiver.receive()).await.unwrap().unwrap()
}

fn is_lost(error: &SettleError) -> bool {
    error.kind() == ErrorKind::MessageLockLost && error.to_string().contains("taken the message back")
}

/// Rules: A-20, K-275.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_the_broker_has_again_is_not_completed() {
    let modified = Modified { delivery_failed: true, ..Modified::default() };
    for answer in [Released {}.into(), DeliveryState::Modified(modified)] {
        let mut receiver = receiver(Some(answer)).await;
        let error = next(&mut receiver).await.complete().await.unwrap_err();
        assert!(is_lost(&error), "{error:?}");
        let both = [next(&mut receiver).await, next(&mut receiver).await];
        let error = Delivery::complete_all(both).await.unwrap_err();
        assert!(error.failures().len() == 2 && error.failures().all(|(_, error)| is_lost(error)), "{error:?}");
        next(&mut receiver).await.lease.release().await.unwrap();
    }
}

/// Rules: A-20, K-275.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_an_outcome_confirms_that_of_the_receiver() {
    for answer in [None, Some(Accepted {}.into())] {
        next(&mut receiver(answer).await).await.complete().await.unwrap();
    }
}

/// Rules: K-275.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_settlement_has_the_reason_of_the_broker() {
    for (condition, kind) in
        [("my:cond", ErrorKind::General), ("com.microsoft:message-lock-lost", ErrorKind::MessageLockLost)]
    {
        let error = Error::new(Symbol::from_static(condition), "very specific text");
        let answer = Rejected { error: Some(error) }.into();
        let error = next(&mut receiver(Some(answer)).await).await.complete().await.unwrap_err();
        assert_eq!((error.kind(), error.condition()), (kind, Some(condition)), "{error:?}");
        assert!(error.to_string().contains(&format!("{condition}: very specific text")), "{error}");
    }
}
