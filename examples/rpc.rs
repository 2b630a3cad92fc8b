//! Calls over queues: `cargo run --example rpc --features msgpack`.
//!
//! A responder reads requests from one queue and answers in the format of each request. A typed client calls it in two
//! formats, gets one fault, and gathers the answers of all subscribers of a topic.

use std::{error::Error, num::NonZeroUsize, time::Duration};

use consign::{
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    broker::{Broker, Queue},
    codecs::{Codecs, Json, MessagePack},
    consumer::Consumer,
    message::EntityPath,
    routing::Body,
    rpc::{CallErrorKind, Client, Fault, Reply, ReplyQueue, Requester, Responder},
    transport::SendService,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Ask {
    sku: String,
    count: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Quote {
    total: u32,
}

async fn quote(Body(ask): Body<Ask>) -> Result<Quote, Fault> {
    match ask.sku.as_str() {
        "apple" => Ok(Quote { total: 3 * ask.count }),
        _ => Err(Fault::application("UnknownSku").with_detail("there are apples only")),
    }
}

/// Answers the requests of one queue until the program ends.
fn serve(broker: &Broker, requests: &Queue, warehouse: &'static str) -> Result<(), Box<dyn Error>> {
    let broker = broker.clone();
    let stock = move |Body(sku): Body<String>| async move { Reply(format!("{warehouse} has {sku}s")) };
    let responder = Responder::builder(move |to: &EntityPath| Ok(SendService::new(broker.sender(to)?)))
        .codecs(Codecs::builder().with(Json::default()).with(MessagePack).build()?)
        .answer("quote", quote)
        .answer("stock", stock)
        .build()?;
    tokio::spawn(Consumer::new(requests.receiver(), responder).run());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let broker = Broker::new();
    let requests = broker.create_queue("requests", QueueSettings::default())?;
    serve(&broker, &requests, "the shop")?;

    // The replies of this process come to a queue of its own, which is deleted when it is not used.
    let idle = QueueSettings::default().auto_delete_on_idle(Duration::from_secs(300));
    let replies = broker.create_queue("replies.7f3a", idle)?;
    let (requester, receiving) = Requester::builder(SendService::new(requests.sender()?))
        .timeout(Duration::from_secs(5))
        .build(ReplyQueue::new("replies.7f3a", replies.receiver()))?;
    tokio::spawn(receiving.run());

    // One responder, requests in two formats, each answered in its own.
    let json = Client::new(requester.clone(), Codecs::json()).subject("quote");
    let ask = Ask { sku: "apple".into(), count: 14 };
    assert_eq!(json.call::<Quote>(&ask).await?, Quote { total: 42 });

    let packed = Client::new(requester.clone(), Codecs::builder().with(MessagePack).build()?).subject("quote");
    assert_eq!(packed.call::<Quote>(&ask).await?, Quote { total: 42 });

    // What the responder says instead of a reply is an error to match on.
    let error = json.call::<Quote>(&Ask { sku: "pear".into(), count: 1 }).await.expect_err("there are no pears");
    assert_eq!(error.kind(), CallErrorKind::Fault);
    println!("{error}");

    // One request to a topic, as many answers as there are subscribers.
    let topic = broker.create_topic("questions", TopicSettings::default())?;
    for (name, warehouse) in [("north", "the north"), ("south", "the south")] {
        let subscription = topic.create_subscription(name, SubscriptionSettings::default())?;
        serve(&broker, subscription.queue(), warehouse)?;
    }
    let gathered = broker.create_queue("replies.9c01", QueueSettings::default())?;
    let (everyone, receiving) = Requester::builder(SendService::new(topic.sender()))
        .build(ReplyQueue::new("replies.9c01", gathered.receiver()))?;
    tokio::spawn(receiving.run());
    let everyone = Client::new(everyone, Codecs::json()).subject("stock");
    let mut answers = everyone.call_many::<String>(&"pear", NonZeroUsize::new(2).expect("it is 2")).await?;
    while let Some(answer) = answers.next().await {
        println!("{}", answer?);
    }
    Ok(())
}

#[test]
fn the_example_runs() -> Result<(), Box<dyn Error>> {
    main()
}
