//! Stacks around a plain client of fe2o3-amqp, on a server of this library in the process: `cargo run --bin wrap_fe2o3`.
#![forbid(unsafe_code)]
use consign::message::EntityPath;
use consign::middleware::encode::{EncodeLayer, OutboundMessage};
use consign::middleware::{dead_letter::DeadLetterLayer, delivery_limit::DeliveryLimitLayer};
use consign::routing::{Body, Router};
use consign::settlement::{DeadLetter, DeadLetterReason, Transient};
use consign::transport::{ErrorKind, ReceiveMode, ReceiverExt, SendError, SendExt, Transport};
use consign::{Disposition, codecs::Codecs, middleware::catch_panic::CatchPanicLayer};
use consign_amqp::mapping::{self, Direction, InboundMessage};
use consign_amqp::{codec, message::EncodedMessage, message::Sections};
use fe2o3_amqp::link::{RecvError, delivery::DeliveryInfo, receiver::CreditMode};
use fe2o3_amqp::types::messaging::message::{__private::Serializable, DecodeIntoMessage};
use fe2o3_amqp::types::messaging::{Body as AmqpBody, Message as AmqpMessage, Modified, Outcome};
use fe2o3_amqp::types::{definitions, primitives::Value};
use fe2o3_amqp::{Connection, Receiver, Sender, Session, sasl_profile::SaslProfile};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

type Plain = AmqpMessage<AmqpBody<Value>>;

/// An encoded message is the same for both libraries.
fn to_plain(message: &consign::Message) -> Result<Plain, BoxError> {
    let bytes = codec::encode(&mapping::to_sections(message, Direction::Send)?)?;
    Ok(AmqpBody::<Value>::decode_message_from_reader(serde_amqp::read::SliceReader::new(&bytes))?)
}

/// A message of another program that cannot be read is a dead letter.
fn from_plain(message: &Plain) -> Result<consign::Message, DeadLetter> {
    let read = || -> Result<_, BoxError> {
        let bytes = serde_amqp::to_vec(&Serializable(message.clone()))?;
        let sections = Sections::decode(&EncodedMessage::split(bytes.into())?)?;
        Ok(InboundMessage::from_received(sections, Direction::Deliver)?.message)
    };
    read().map_err(unreadable)
}

fn unreadable(error: impl ToString) -> DeadLetter {
    DeadLetter::new(DeadLetterReason::Application("MalformedMessage".into()), error.to_string())
}

async fn priced(Body((sku, cents)): Body<(String, u64)>) -> Result<(), Transient> {
    if cents == 0 { Err(Transient::new(format!("{sku} has no price"))) } else { Ok(()) }
}

async fn place(sender: &tokio::sync::Mutex<Sender>, order: (&str, u64)) -> Result<(), SendError> {
    let failed = |kind, error: BoxError| SendError::new(kind).with_source(error);
    let client = service_fn(async |message: consign::Message| {
        let plain = to_plain(&message).map_err(|error| failed(ErrorKind::InvalidArgument, error))?;
        let sent = Sender::send(&mut *sender.lock().await, plain).await;
        match sent.map_err(|error| failed(ErrorKind::CommunicationProblem, error.into()))? {
            Outcome::Accepted(_) => Ok(()),
            // A broker refuses such a message again.
            rejected @ Outcome::Rejected(_) => Err(failed(ErrorKind::InvalidOperation, format!("{rejected:?}").into())),
            other => Err(failed(ErrorKind::ServiceBusy, format!("{other:?}").into())),
        }
    });
    ServiceBuilder::new()
        .layer(EncodeLayer::new(Codecs::json()))
        .service(client)
        .send(OutboundMessage::new(order))
        .await
}

/// Settles so many deliveries.
async fn consume(receiver: &mut Receiver, mut count: usize) -> Result<(), BoxError> {
    let layers = ServiceBuilder::new().layer(DeadLetterLayer::new()).layer(DeliveryLimitLayer::new(3));
    let router = Router::new(Codecs::json()).fallback(priced).build()?;
    let mut stack = layers.layer(CatchPanicLayer::new()).service(router);
    while count > 0 {
        let (delivery, message) = match receiver.recv::<AmqpBody<Value>>().await {
            Ok(delivery) => (DeliveryInfo::from(&delivery), from_plain(delivery.message())),
            Err(RecvError::MessageDecode(error)) => (error.info, Err(unreadable(error.source))),
            Err(error) => return Err(error.into()),
        };
        count -= 1;
        let disposition = match message {
            Ok(message) => stack.ready().await?.call(message).await,
            Err(why) => Ok(Disposition::DeadLetter(why.into())),
        };
        match disposition {
            Ok(Disposition::Complete) => receiver.accept(delivery).await?,
            // Azure Service Bus makes the two texts the reason and the description of the dead letter.
            Ok(Disposition::DeadLetter(why)) => {
                let info = [
                    ("DeadLetterReason", why.reason.to_string()),
                    ("DeadLetterErrorDescription", why.description.into()),
                ];
                let info = info.map(|(key, text)| (key.into(), Value::String(text)));
                let condition = definitions::ErrorCondition::Custom("com.microsoft:dead-letter".into());
                receiver
                    .reject(delivery, definitions::Error::new(condition, None, Some(info.into_iter().collect())))
                    .await?;
            }
            _ => {
                count += 1;
                let failed =
                    Modified { delivery_failed: Some(true), undeliverable_here: None, message_annotations: None };
                receiver.modify(delivery, failed).await?;
            }
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let broker = consign_broker::Broker::new();
    broker.create_queue("orders", Default::default())?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("amqp://{}", listener.local_addr()?);
    let server = consign_server::Server::builder().broker(broker.clone()).build();
    tokio::spawn(async move { server.serve(listener).await });

    let builder = Connection::builder().container_id("wrap").sasl_profile(SaslProfile::Anonymous);
    let mut connection = builder.open(address.as_str()).await?;
    let mut session = Session::begin(&mut connection).await?;
    let sender = tokio::sync::Mutex::new(Sender::attach(&mut session, "sender", "orders").await?);
    place(&sender, ("pen", 120)).await?;
    place(&sender, ("ink", 0)).await?;
    Sender::send(&mut *sender.lock().await, "not an order").await?;
    // A lock runs while its message waits in the client: one message at a time.
    let builder = Receiver::builder().name("receiver").source("orders").credit_mode(CreditMode::Auto(1));
    consume(&mut builder.attach(&mut session).await?, 3).await?;

    let path = EntityPath::new("orders")?.dead_letter();
    let mut dead = broker.receiver(&path, ReceiveMode::PeekLock).await?;
    let mut reasons = Vec::new();
    for _ in 0..2 {
        let letter = dead.receive().await?;
        println!("{:?}", (letter.message.dead_letter_reason(), letter.message.dead_letter_description()));
        reasons.extend(letter.message.dead_letter_reason().map(str::to_owned));
        letter.complete().await?;
    }
    reasons.sort();
    assert_eq!(reasons, ["DeserializationFailed", "MaxDeliveryCountExceeded"]);
    Ok(())
}
