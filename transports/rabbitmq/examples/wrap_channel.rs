//! A lapin channel that the program has already, as a sender and a receiver.

use consign::{
    Message,
    transport::{ReceiverExt, Sender},
};
use consign_rabbitmq::{QueueSettings, RabbitMq, lapin};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::var("CONSIGN_RABBITMQ").unwrap_or("amqp://guest:guest@127.0.0.1:5672/%2f".into());
    let connection = lapin::Connection::connect(&address, lapin::ConnectionProperties::default()).await?;
    let rabbit = RabbitMq::wrap(connection.create_channel().await?);

    let queue = format!("wrap-{}", std::process::id());
    RabbitMq::connect(&address).await?.create_queue(&queue, QueueSettings::default()).await?;
    rabbit.sender(&queue)?.send(Message::new("hello")).await?;
    let delivery = rabbit.receiver(&queue)?.receive().await?;
    println!("{}", String::from_utf8_lossy(delivery.message.payload().unwrap_or_default()));
    delivery.complete().await?;
    Ok(RabbitMq::connect(&address).await?.delete(&queue).await?)
}
