//! A message that is larger than the receiver's options permit.

use bytes::Bytes;
use consign::{
    message::EntityPath,
    transport::{ErrorKind, ReceiveMode, ReceiverExt, Transport},
};
use consign_amqp::{
    engine::{self, Event, OutboundDelivery},
    server::Connection,
    types::{Attach, Open, SaslCode},
    value::Symbol,
};
use consign_amqp10::Amqp10;
use tokio::{net::TcpListener, time::timeout};

use super::SOON;

/// Sends a message of 2 KiB for each credit.
async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let options = engine::Options::default().sasl_mechanisms([Symbol::from_static("ANONYMOUS")]);
            let mut connection = Connection::accept(stream, options);
            while let Some(event) = connection.next_event().await {
                let answered = connection.command(|engine| match event {
                    Event::SaslInit(_) => engine.sasl_outcome(SaslCode::Ok),
                    Event::Opened(_) => engine.open(Open { container_id: "broker".into(), ..Open::default() }),
                    Event::AttachRequested { link, attach } => {
                        let answer = Attach { source: attach.source, target: attach.target, ..Attach::default() };
                        engine.accept(link, answer)
                    }
                    Event::CreditChanged { link, credit, .. } if credit > 0 => {
                        let payload = Bytes::from(vec![0; 2_048]);
                        // As RabbitMQ 3, it ignores the size that the receiver has announced.
                        engine.set_peer_message_size(link, None)?;
                        engine.send(link, OutboundDelivery::default(), &[payload]).map(drop)
                    }
                    _ => Ok(()),
                });
                answered.unwrap();
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_over_the_limit_fails_each_receive() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp10://{}", listener.local_addr().unwrap());
    tokio::spawn(serve(listener));
    let amqp = Amqp10::options().max_message_size(1_024).connect(&url).await.unwrap();
    let queue = EntityPath::new("orders").unwrap();
    let mut receiver = amqp.receiver(&queue, ReceiveMode::PeekLock).await.unwrap();
    for _ in 0..2 {
        let error = timeout(SOON, receiver.receive()).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MessageSizeExceeded, "{error:?}");
        assert!(!error.is_retryable(), "{error:?}");
    }
}
