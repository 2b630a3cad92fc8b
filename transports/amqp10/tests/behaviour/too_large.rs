//! A message that is larger than the receiver's options permit.

use bytes::Bytes;
use consign::{
    Message,
    message::EntityPath,
    transport::{ErrorKind, ReceiveMode, ReceiverExt, Sender, Transport},
};
use consign_amqp::{
    engine::{self, CommandError, Event, OutboundDelivery},
    types::Attach,
};
use consign_amqp10::Amqp10;
use tokio::{net::TcpListener, time::timeout};

use super::{SOON, stub};

/// Sends a message of 2 KiB for each credit.
fn answer(engine: &mut engine::Connection, event: Event) -> Result<(), CommandError> {
    match event {
        Event::AttachRequested { link, attach } => stub::accept(engine, link, *attach),
        Event::CreditChanged { link, credit, .. } if credit > 0 => {
            // As RabbitMQ 3, it ignores the size that the receiver has announced.
            engine.set_peer_message_size(link, None)?;
            engine.send(link, OutboundDelivery::default(), &[Bytes::from(vec![0; 2_048])]).map(drop)
        }
        _ => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_over_the_limit_fails_each_receive() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp10://{}", listener.local_addr().unwrap());
    tokio::spawn(stub::serve(listener, answer));
    let amqp = Amqp10::options().max_message_size(1_024).connect(&url).await.unwrap();
    let queue = EntityPath::new("orders").unwrap();
    let mut receiver = amqp.receiver(&queue, ReceiveMode::PeekLock).await.unwrap();
    for _ in 0..2 {
        let error = timeout(SOON, receiver.receive()).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MessageSizeExceeded, "{error:?}");
        assert!(!error.is_retryable(), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_over_the_limit_of_the_broker_has_its_size_and_the_limit_in_the_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp10://{}", listener.local_addr().unwrap());
    tokio::spawn(stub::serve(listener, |engine, event| match event {
        Event::AttachRequested { link, attach } => {
            let Attach { source, target, .. } = *attach;
            engine.accept(link, Attach { source, target, max_message_size: Some(100), ..Attach::default() })?;
            engine.credit(link, 10)
        }
        _ => Ok(()),
    }));
    let amqp = Amqp10::connect(&url).await.unwrap();
    let sender = amqp.sender(&EntityPath::new("orders").unwrap()).await.unwrap();
    let error = timeout(SOON, sender.send(Message::new(vec![0; 200]))).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageSizeExceeded, "{error:?}");
    assert!(error.to_string().contains("bytes; the limit is 100)"), "{error}");
}
