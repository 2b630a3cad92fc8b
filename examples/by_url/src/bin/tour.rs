//! The operations of a transport, one line for each: the same on every broker, or why the broker does not have it.
//!
//! `cargo run --package consign-by-url --bin tour -- nats://127.0.0.1:4222`

use std::time::Duration;

use consign::{
    Message,
    administration::{Administration, QueueSettings},
    dead_letters::{DeadLetterFilter, DeadLetters},
    message::{EntityPath, SequenceNumber},
    settlement::{DeadLetter, DeadLetterReason},
    time::{Clock, SystemClock},
    transport::{
        AcceptSession, DynTransport, PeekMessages, ReceiveMode, ReceiverExt, ScheduleMessages, Sender, Session,
        Sessions, Transport,
    },
};
use tower::BoxError;

const SECOND: Duration = Duration::from_secs(1);

/// Prints the result of an operation.
fn show<T: std::fmt::Debug>(operation: &str, result: Result<T, impl std::fmt::Display>) {
    match result {
        Ok(value) => println!("{operation}: {value:?}"),
        Err(error) => println!("{operation}: {error}"),
    }
}

async fn tour(transport: &DynTransport, queue: &EntityPath) -> Result<(), BoxError> {
    transport.declare(queue, &QueueSettings::default().into()).await?;
    show("declare again", transport.declare(queue, &QueueSettings::default().into()).await);
    let sender = transport.sender(queue).await?;
    show("send", sender.send(Message::builder().message_id("1").build("first")?).await);

    let peeked = transport.peek(queue, SequenceNumber::new(0), 10).await;
    show("peek", peeked.map(|messages| messages.len()));
    let later = SystemClock::new().now().utc.saturating_add(3_600 * SECOND);
    let scheduled = transport.schedule(queue, vec![Message::new("later")], later).await;
    show("schedule", scheduled.map(|numbers| numbers.len()));

    let mut receiver = transport.receiver(queue, ReceiveMode::PeekLock).await?;
    let delivery = receiver.receive_within(5 * SECOND).await?;
    let why = DeadLetter::new(DeadLetterReason::HandlerPermanent, "an example");
    show("dead-letter", delivery.dead_letter(why).await);
    let dead = DeadLetters::of(transport.clone(), queue);
    for letter in dead.list(&DeadLetterFilter::all(), SequenceNumber::new(0), 10).await? {
        println!("explain: {}, {}", letter.reason().unwrap_or("?"), letter.description().unwrap_or("?"));
    }
    let report = dead.resubmit(DeadLetterFilter::all(), sender).run().await?;
    println!("resubmit: {}", report.resubmitted);
    let again = receiver.receive_within(5 * SECOND).await?;
    println!("receive: {:?}", again.message.payload().map(String::from_utf8_lossy));
    again.complete().await?;
    Ok(())
}

async fn sessions(transport: &DynTransport, queue: &EntityPath) -> Result<(), BoxError> {
    transport.declare(queue, &QueueSettings::default().with_sessions(true).into()).await?;
    let message = Message::builder().session_id("customer-7").build("in a session")?;
    transport.sender(queue).await?.send(message).await?;
    let mut session = transport.sessions(queue).await?.accept("customer-7").await?;
    let delivery = session.receive_within(5 * SECOND).await?;
    println!("session: {:?}", delivery.message.session_id());
    delivery.complete().await?;
    show("session state", session.set_state(Some("step 2".into())).await);
    show("close", session.close().await);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let transport = consign_by_url::transports().connect(&url).await?;
    for (name, is_session) in [("tour", false), ("tour-sessions", true)] {
        let queue = EntityPath::new(&format!("{name}-{:08x}", fastrand::u32(..)))?;
        let done = if is_session { sessions(&transport, &queue).await } else { tour(&transport, &queue).await };
        transport.delete(&queue).await?;
        done?;
    }
    Ok(transport.close().await?)
}
