//! The stores of the journeys.

use std::{path::Path, time::Duration};

use consign_broker::{Broker, Queue};
use consign_core::{
    Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    message::ApplicationProperties,
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{Batch, ReceiverExt, Sender},
};
use futures_util::future::try_join_all;

use crate::Failure;

const SCRIPT: &str = "<script>window.broken = true</script><img src=x onerror=\"window.broken = true\">";
/// The reasons of the dead letters, with the text of each description.
const REASONS: [(&str, &str); 5] = [
    ("DeserializationFailed", "json: not well-formed at line 1"),
    ("HandlerFailed", "order {} was not stored: connection refused"),
    ("MaxDeliveryCountExceeded", "the order could not be delivered 10 times"),
    ("TTLExpiredException", "The message expired and was dead lettered."),
    ("UnsupportedContentType", "no codec reads application/x-{}"),
];

pub(crate) async fn fill(folder: &Path) -> Result<(), Failure> {
    let broker = Broker::open(folder.join("main"))?;
    orders(&broker).await?;
    formats(&broker).await?;
    hostile(&broker).await?;
    others(&broker).await?;
    broker.close().await?;

    let broker = Broker::open(folder.join("killed"))?;
    let queue = broker.create_queue("invoices", QueueSettings::default())?;
    bury(&queue, (0..1_000).map(|number| ("HandlerFailed", "not stored".to_owned(), json(number)))).await?;
    broker.close().await?;

    let broker = Broker::open(folder.join("undone"))?;
    removed(&broker).await?;
    payments(&broker, "payments").await?;
    broker.close().await?;
    Ok(())
}

fn json(number: usize) -> Message {
    let body = format!("{{\"order\":{number},\"lines\":[{{\"sku\":\"sku-{number}\",\"count\":{}}}]}}", number % 7 + 1);
    let message = Message::builder().message_id(format!("order-{number}")).content_type("application/json");
    message.subject("order-placed").property("tenant", "acme").build(body).unwrap_or_else(|_| Message::new(""))
}

async fn send(queue: &Queue, messages: impl IntoIterator<Item = Message>) -> Result<(), Failure> {
    let messages: Vec<_> = messages.into_iter().collect();
    for batch in messages.chunks(200) {
        queue.sender()?.send_batch(Batch::from_iter(batch.to_vec())).await?;
    }
    Ok(())
}

async fn bury(
    queue: &Queue,
    letters: impl IntoIterator<Item = (&'static str, String, Message)>,
) -> Result<(), Failure> {
    let (causes, messages): (Vec<_>, Vec<_>) =
        letters.into_iter().map(|(reason, text, message)| ((reason, text), message)).unzip();
    send(queue, messages).await?;
    let mut receiver = queue.receiver();
    let mut causes = causes.into_iter();
    while causes.len() > 0 {
        let deliveries = receiver.receive_batch(500).await?;
        let dead = deliveries.into_iter().zip(causes.by_ref()).map(|(delivery, (reason, text))| {
            delivery.dead_letter(DeadLetter::new(DeadLetterReason::Application(reason.into()), text))
        });
        try_join_all(dead).await?;
    }
    Ok(())
}

/// 10,000 dead letters of five reasons, and some messages.
async fn orders(broker: &Broker) -> Result<(), Failure> {
    let queue = broker.create_queue("orders", QueueSettings::default())?;
    let letters = (0..10_000).map(|number| {
        let (reason, text) = REASONS[number % REASONS.len()];
        (reason, text.replace("{}", &number.to_string()), json(number))
    });
    bury(&queue, letters).await?;
    send(&queue, (10_000..10_120).map(json)).await
}

/// A body of each format.
async fn formats(broker: &Broker) -> Result<(), Failure> {
    let queue = broker.create_queue("formats", QueueSettings::default())?;
    let bodies: [(&str, &[u8]); 5] = [
        ("application/json", b"{\"sku\":\"a\",\"count\":3}"),
        ("application/msgpack", b"\x82\xa3sku\xa1a\xa5count\x03"),
        ("application/cbor", b"\xa2\x63sku\x61a\x65count\x03"),
        ("text/plain", "Grüße\nfrom a text".as_bytes()),
        ("application/octet-stream", b"\x00\x01\xfe\xff<b>"),
    ];
    for (content_type, body) in bodies {
        send(&queue, [Message::builder().content_type(content_type).build(body.to_vec())?]).await?;
    }
    let queue = broker.create_queue("transcoded", QueueSettings::default())?;
    let msgpack = Message::builder().content_type("application/msgpack").build(bodies[1].1.to_vec())?;
    bury(&queue, [("UnsupportedContentType", "no codec".to_owned(), msgpack)]).await
}

/// Text that would be a script if it was not escaped.
async fn hostile(broker: &Broker) -> Result<(), Failure> {
    let queue = broker.create_queue("hostile<img src=x>", QueueSettings::default())?;
    let message = || {
        let message = Message::builder().content_type("text/html").subject(SCRIPT).property(SCRIPT, SCRIPT);
        message.build(SCRIPT)
    };
    bury(&queue, [("<b>Reason</b>", SCRIPT.to_owned(), message()?)]).await?;
    send(&queue, [message()?]).await
}

async fn others(broker: &Broker) -> Result<(), Failure> {
    for name in ["payments", "refunds"] {
        payments(broker, name).await?;
    }
    removed(broker).await?;

    let sessions = broker.create_queue("carts", QueueSettings::default().requires_session(true))?;
    for number in 0..6 {
        let cart = format!("cart-{}", number % 3);
        send(&sessions, [Message::builder().session_id(cart).build(format!("{number}"))?]).await?;
    }
    let plans = broker.create_queue("plans", QueueSettings::default())?;
    let later = broker.now().saturating_add(Duration::from_secs(86_400));
    plans.sender()?.schedule((0..3).map(json).collect(), later).await?;
    plans.sender()?.schedule(vec![Message::new("never")], Timestamp::MAX).await?;

    let topic = broker.create_topic("prices", TopicSettings::default())?;
    topic.create_subscription("audit", SubscriptionSettings::default())?;
    for number in 0..200 {
        broker.create_queue(&format!("tenants/{number:03}/inbox"), QueueSettings::default())?;
    }
    broker.create_queue("live", QueueSettings::default())?;
    Ok(())
}

/// 3 dead letters with a trail.
async fn payments(broker: &Broker, name: &str) -> Result<(), Failure> {
    let queue = broker.create_queue(name, QueueSettings::default())?;
    let trail = "json;exact;Type;1:11;order;u32;text,msgpack;fallback;Syntax;0";
    let letters = (0..3).map(|number| {
        let text = format!("json: the value is not of the expected type in payment {number}");
        let message = Message::builder().content_type("application/json").subject("payment");
        let message = message.build(format!("{{\"order\":\"{number}\",\"amount\":12.50}}"));
        ("DeserializationFailed", text, message.unwrap_or_else(|_| Message::new("")))
    });
    bury_with_trail(&queue, trail, letters).await
}

/// 20 dead letters, and 20 messages.
async fn removed(broker: &Broker) -> Result<(), Failure> {
    let queue = broker.create_queue("removed", QueueSettings::default())?;
    bury(&queue, (0..20).map(|number| ("HandlerFailed", "no stock".to_owned(), json(number)))).await?;
    send(&queue, (0..20).map(json)).await
}

async fn bury_with_trail(
    queue: &Queue,
    trail: &'static str,
    letters: impl IntoIterator<Item = (&'static str, String, Message)>,
) -> Result<(), Failure> {
    for (reason, text, message) in letters {
        send(queue, [message]).await?;
        let mut dead = DeadLetter::new(DeadLetterReason::Application(reason.into()), text);
        let mut properties = ApplicationProperties::new();
        properties.insert(DeadLetter::TRAIL, trail);
        dead.changes = properties.into();
        queue.receiver().receive().await?.dead_letter(dead).await?;
    }
    Ok(())
}
