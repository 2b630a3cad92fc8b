//! What the embedded broker has beside queues: a topic whose rules choose and change copies, sessions that are handled in
//! order, a scheduled message that is taken back, a duplicate that is dropped, and a transaction over two entities.
//!
//! `cargo run --example broker`

use std::time::Duration;

use consign::{
    Disposition, Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    broker::{Broker, Queue},
    consumer::SessionConsumer,
    rules::{Rule, SqlAction, SqlFilter},
    time::{Clock, SystemClock},
    transport::{ReceiverExt, Sender},
};
use tower::{BoxError, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let broker = Broker::new();
    let [orders, bills] = entities(&broker)?;
    order(&broker).await?;
    schedule(&bills)?;
    bill(&broker, &orders, &bills).await?;
    in_order(&broker).await
}

/// `orders` gets a copy of every large order that is sent to the topic `shop`.
fn entities(broker: &Broker) -> Result<[Queue; 2], BoxError> {
    let window = Duration::from_secs(600);
    let shop = broker.create_topic("shop", TopicSettings::default().duplicate_detection(window))?;
    let large = Rule::new("large", SqlFilter::parse("amount >= 1000 AND sys.Subject LIKE 'order.%'")?)?
        .with_action(SqlAction::parse("SET priority = 'high'")?);
    let orders = shop.create_subscription_with("orders", SubscriptionSettings::default(), large)?;
    shop.create_subscription("audit", SubscriptionSettings::default())?;
    let bills = broker.create_queue("bills", QueueSettings::default())?;
    Ok([orders.queue().clone(), bills])
}

/// Sends three messages, of which one repeats another.
async fn order(broker: &Broker) -> Result<(), BoxError> {
    let shop = broker.topic("shop")?.sender();
    for (id, amount) in [("a", 1_500), ("b", 20), ("a", 1_500)] {
        let message =
            Message::builder().message_id(id).subject("order.created").property("amount", amount).build(id)?;
        shop.send(message).await?;
    }
    let audited = broker.queue("shop/Subscriptions/audit")?.counts().active;
    println!("3 sent, {audited} audited");
    assert_eq!(audited, 2);
    Ok(())
}

/// A reminder in an hour, and second thoughts.
fn schedule(bills: &Queue) -> Result<(), BoxError> {
    let in_an_hour = SystemClock::new().now().utc.saturating_add(Duration::from_secs(3_600));
    let numbers = bills.schedule(vec![Message::new("remind")], in_an_hour).wait()?;
    println!("{} scheduled", bills.counts().scheduled);
    bills.cancel_scheduled(&numbers).wait()?;
    assert_eq!(bills.counts().scheduled, 0);
    Ok(())
}

/// The order is completed and its bill is sent, or neither.
async fn bill(broker: &Broker, orders: &Queue, bills: &Queue) -> Result<(), BoxError> {
    let order = orders.receiver().receive().await?;
    println!("order {:?}: {:?}", order.message.message_id(), order.message.application_properties());
    let mut transaction = broker.transaction();
    transaction.complete(order)?;
    transaction.send(&bills.sender()?.via_topic(&broker.topic("shop")?), Message::new("one bill"))?;
    transaction.commit().wait()?;
    println!("{} bill, {} orders", bills.counts().active, orders.counts().active);
    assert_eq!((bills.counts().active, orders.counts().active), (1, 0));
    Ok(())
}

/// Two customers at once, each one's messages one after the other.
async fn in_order(broker: &Broker) -> Result<(), BoxError> {
    let queue = broker.create_queue("customers", QueueSettings::default().requires_session(true))?;
    for step in 1..=3 {
        for customer in ["ada", "bob"] {
            queue.sender()?.send(Message::builder().session_id(customer).build(format!("step {step}"))?).await?;
        }
    }
    let (done, mut all_done) = tokio::sync::mpsc::channel(1);
    let handler = service_fn(move |message: Message| {
        let done = done.clone();
        async move {
            let text = std::str::from_utf8(message.payload().unwrap_or_default())?;
            println!("{}: {text}", message.session_id().unwrap_or_default());
            done.send(()).await?;
            Ok::<_, BoxError>(Disposition::Complete)
        }
    });
    let six = async move {
        for _ in 0..6 {
            all_done.recv().await;
        }
    };
    let stats = SessionConsumer::new(queue.session_acceptor()?, handler).concurrency(2).run_until(six).await?;
    println!("{} sessions, {} messages", stats.sessions(), stats.completed());
    Ok(())
}

#[test]
fn the_tour_ends() -> Result<(), BoxError> {
    main()
}
