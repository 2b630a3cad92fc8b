//! The operations of a transport, one line for each: the same on every broker, or why the broker does not have it.
//!
//! `cargo run --package consign-by-url --bin tour -- nats://127.0.0.1:4222`

use std::{error::Error, fmt::Debug, time::Duration};

use consign::{
    Message,
    administration::{Administration, QueueSettings},
    dead_letters::{DeadLetterFilter, DeadLetters},
    message::{EntityPath, SequenceNumber},
    settlement::{DeadLetter, DeadLetterReason},
    time::{Clock, SystemClock},
    transport::{AcceptSession, PeekMessages, ReceiverExt, ScheduleMessages, Sender, Session, Sessions, Transport},
};

const SECOND: Duration = Duration::from_secs(1);

/// Prints the result of an operation.
fn show<T: Debug>(operation: &str, result: Result<T, impl Error>) {
    println!("{operation}: {}", result.map_or_else(|error| error.to_string(), |value| format!("{value:?}")));
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let transport = consign_by_url::transports().connect(&url).await?;
    let queue = EntityPath::new(&format!("tour-{:08x}", fastrand::u32(..)))?;
    let settings = QueueSettings::default().requires_session(true).into();
    transport.declare(&queue, &settings).await?;
    show("declare again", transport.declare(&queue, &settings).await);

    let sender = transport.sender(&queue).await?;
    let message = Message::builder().session_id("customer-7").build("an order")?;
    show("send", sender.send(message.clone()).await);
    let peeked = transport.peek(&queue, SequenceNumber::new(0), 10).await;
    show("peek", peeked.map(|messages| messages.len()));
    let later = SystemClock::new().now().utc.saturating_add(3_600 * SECOND);
    show("schedule", transport.schedule(&queue, vec![message], later).await.map(|numbers| numbers.len()));

    let mut session = transport.sessions(&queue).await?.accept("customer-7").await?;
    let why = DeadLetter::new(DeadLetterReason::HandlerPermanent, "an example");
    show("dead-letter", session.receive_within(5 * SECOND).await?.dead_letter(why).await);
    let dead = DeadLetters::of(transport.clone(), &queue);
    for letter in dead.list(&DeadLetterFilter::all(), SequenceNumber::new(0), 10).await? {
        println!("explain: {}, {}", letter.reason().unwrap_or("?"), letter.description().unwrap_or("?"));
    }
    println!("resubmit: {}", dead.resubmit(DeadLetterFilter::all(), sender).run().await?.resubmitted);

    let delivery = session.receive_within(5 * SECOND).await?;
    let body = delivery.message.payload().map(String::from_utf8_lossy);
    println!("receive in session {:?}: {body:?}", delivery.message.session_id());
    show("complete", delivery.complete().await);
    show("session state", session.set_state(Some("step 2".into())).await);
    show("close", session.close().await);
    transport.delete(&queue).await?;
    Ok(transport.close().await?)
}
