//! The example around a plain async-nats client, with a stream, a consumer and a dead-letter subject of its owner.

use std::time::Duration;

use consign::{message::PropertyValue, settlement::DeadLetter};
use consign_nats::{
    async_nats::{
        self, HeaderMap,
        jetstream::{self, consumer::pull, stream},
    },
    convert,
};
use futures_util::StreamExt;

use crate::{LONG, server};

#[path = "../../examples/wrap_async_nats.rs"]
#[expect(dead_code, reason = "the test has a stream of its own, whose name `main` takes as an argument")]
mod wrap_async_nats;

/// The example loses nothing, dead-letters one delivery before the last one of the consumer, and keeps foreign headers.
#[tokio::test]
async fn the_example_around_an_async_nats_client_settles_each_message() {
    let Some(url) = server::url() else { return };
    let context = jetstream::new(async_nats::connect(url).await.unwrap());
    let name = format!("plain-{:016x}", fastrand::u64(..));
    let (orders, dead) = (format!("{name}.orders"), format!("{name}.dead"));
    // One stream for both: the copy is not a duplicate of its message.
    let config = stream::Config { name: name.clone(), subjects: vec![format!("{name}.*")], ..Default::default() };
    let stream = context.create_stream(config).await.unwrap();
    let consumer = |durable: &str, subject: &str, max_deliver| pull::Config {
        durable_name: Some(durable.into()),
        filter_subject: subject.into(),
        max_deliver,
        ..Default::default()
    };
    let of_orders = stream.create_consumer(consumer("orders", &orders, 4)).await.unwrap();
    let of_dead = stream.create_consumer(consumer("dead", &dead, -1)).await.unwrap();

    wrap_async_nats::place(&context, &orders, ("pen", 120)).await.unwrap();
    wrap_async_nats::place(&context, &orders, ("ink", 0)).await.unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("Content-Type", "application/json");
    headers.insert("Nats-Msg-Id", "order-7");
    headers.append("X-Tag", "a");
    headers.append("X-Tag", "b");
    context.publish_with_headers(orders.clone(), headers, "{not json".into()).await.unwrap().await.unwrap();

    let mut letters = of_dead.messages().await.unwrap();
    let mut seen = Vec::new();
    let collecting = async {
        while seen.len() < 2 {
            let letter = letters.next().await.unwrap().unwrap();
            letter.ack().await.unwrap();
            seen.push(letter);
        }
        // Each of the three is settled, the last one after its dead letter is stored.
        let mut of_orders = of_orders.clone();
        loop {
            let info = of_orders.info().await.unwrap();
            if info.num_ack_pending == 0 && info.num_pending == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        ended = wrap_async_nats::consume(&context, &of_orders, &dead) => panic!("{ended:?}"),
        collected = tokio::time::timeout(LONG, collecting) => collected.expect("two dead letters, and each message settled"),
    }
    seen.sort_by_key(|letter| letter.payload.len());
    let malformed = convert::from_jetstream(&seen[0]).unwrap();
    assert_eq!(
        (malformed.dead_letter_reason(), malformed.message_id()),
        (Some("DeserializationFailed"), Some("order-7"))
    );
    assert_eq!(malformed.application_properties().get("X-Tag").and_then(PropertyValue::as_str), Some("a, b"));
    assert_eq!(seen[0].headers.as_ref().unwrap().get_all("X-Tag").count(), 2);
    assert_eq!(malformed.received().map(|received| received.delivery_count), Some(1));
    let failed = convert::from_jetstream(&seen[1]).unwrap();
    let why = failed.application_properties().get(DeadLetter::DESCRIPTION).and_then(PropertyValue::as_str).unwrap();
    assert_eq!(
        (failed.dead_letter_reason(), failed.payload()),
        (Some("MaxDeliveryCountExceeded"), Some(&br#"["ink",0]"#[..]))
    );
    assert!(why.contains("3 delivery attempts"), "{why}");
    context.delete_stream(&name).await.unwrap();
}

/// The example has a delivery left when a dead letter cannot be published, with a `max_deliver` and without one.
#[tokio::test]
async fn a_dead_letter_that_cannot_be_published_is_published_at_the_next_delivery() {
    let Some(url) = server::url() else { return };
    let context = jetstream::new(async_nats::connect(url).await.unwrap());
    for max_deliver in [2, -1] {
        let name = format!("plain-{:016x}", fastrand::u64(..));
        let (orders, dead) = (format!("{name}.orders"), format!("{name}.dead"));
        let config = stream::Config { name: name.clone(), subjects: vec![orders.clone()], ..Default::default() };
        let stream = context.create_stream(config).await.unwrap();
        let consumer = pull::Config {
            durable_name: Some("orders".into()),
            ack_wait: Duration::from_millis(500),
            max_deliver,
            ..Default::default()
        };
        let consumer = stream.create_consumer(consumer).await.unwrap();
        wrap_async_nats::place(&context, &orders, ("ink", 0)).await.unwrap();
        // No stream takes the dead letter.
        let ended = tokio::time::timeout(LONG, wrap_async_nats::consume(&context, &consumer, &dead)).await;
        ended.expect("a dead letter").unwrap_err();

        let letters = format!("{name}-dead");
        let config = stream::Config { name: letters.clone(), subjects: vec![dead.clone()], ..Default::default() };
        let stream = context.create_stream(config).await.unwrap();
        let settled = async {
            let mut consumer = consumer.clone();
            while stream.get_info().await.unwrap().state.messages == 0
                || consumer.info().await.unwrap().num_ack_pending > 0
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            ended = wrap_async_nats::consume(&context, &consumer, &dead) => panic!("{ended:?}"),
            settled = tokio::time::timeout(LONG, settled) => settled.expect("a dead letter"),
        }
        context.delete_stream(&name).await.unwrap();
        context.delete_stream(&letters).await.unwrap();
    }
}

/// The example goes on: with a message that leaves no space for a reason, and when the dead-letter stream was full.
#[tokio::test]
async fn the_example_goes_on_after_what_may_succeed_later() {
    let Some(url) = server::url() else { return };
    let client = async_nats::connect(url).await.unwrap();
    let context = jetstream::new(client.clone());
    let name = format!("plain-{:016x}", fastrand::u64(..));
    let (orders, letters) = (format!("{name}.orders"), format!("{name}-dead"));
    let config = stream::Config { name: name.clone(), subjects: vec![orders.clone()], ..Default::default() };
    let stream = context.create_stream(config).await.unwrap();
    let config = stream::Config {
        name: letters.clone(),
        max_messages: 1,
        discard: stream::DiscardPolicy::New,
        ..Default::default()
    };
    let dead = context.create_stream(config).await.unwrap();
    let consumer = pull::Config { durable_name: Some("orders".into()), max_deliver: 6, ..Default::default() };
    let pulled = stream.create_consumer(consumer).await.unwrap();
    let mut consumer = pulled.clone();
    context.publish(letters.clone(), "full".into()).await.unwrap().await.unwrap();
    let largest = vec![b'x'; client.server_info().max_payload];
    context.publish(orders.clone(), largest.into()).await.unwrap().await.unwrap();
    context.publish(orders.clone(), "not json".into()).await.unwrap().await.unwrap();
    wrap_async_nats::place(&context, &orders, ("pen", 120)).await.unwrap();
    let settled = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        dead.purge().await.unwrap();
        loop {
            let info = consumer.info().await.unwrap();
            // The large one waits for its next delivery.
            if info.num_ack_pending == 1 && info.num_pending == 0 && info.delivered.stream_sequence == 3 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(dead.get_info().await.unwrap().state.messages, 1);
    };
    tokio::select! {
        ended = wrap_async_nats::consume(&context, &pulled, &letters) => panic!("{ended:?}"),
        settled = tokio::time::timeout(LONG, settled) => settled.expect("each message is settled but the large one"),
    }
    context.delete_stream(&name).await.unwrap();
    context.delete_stream(&letters).await.unwrap();
}

/// The acknowledgement wait of a message runs while it waits in the client.
#[tokio::test]
async fn the_example_pulls_a_message_when_it_can_handle_it() {
    let Some(url) = server::url() else { return };
    let client = async_nats::connect(url).await.unwrap();
    let context = jetstream::new(client.clone());
    let name = format!("plain-{:016x}", fastrand::u64(..));
    let config = stream::Config { name: name.clone(), subjects: vec![name.clone()], ..Default::default() };
    let stream = context.create_stream(config).await.unwrap();
    let config = pull::Config { durable_name: Some("orders".into()), ..Default::default() };
    let consumer = stream.create_consumer(config).await.unwrap();
    let mut pulls = client.subscribe(format!("$JS.API.CONSUMER.MSG.NEXT.{name}.orders")).await.unwrap();
    client.flush().await.unwrap();
    let pull = tokio::select! {
        ended = wrap_async_nats::consume(&context, &consumer, "none") => panic!("{ended:?}"),
        pull = tokio::time::timeout(LONG, pulls.next()) => pull.expect("a pull").unwrap(),
    };
    let pull: serde_json::Value = serde_json::from_slice(&pull.payload).unwrap();
    assert_eq!(pull["batch"], 1, "{pull}");
    context.delete_stream(&name).await.unwrap();
}

/// The page of wrapped clients has excerpts of the example.
#[test]
fn every_excerpt_of_the_page_is_in_the_example() {
    let (page, source) =
        (include_str!("../../../../docs/wrapping-a-client.md"), include_str!("../../examples/wrap_async_nats.rs"));
    let excerpts: Vec<&str> = page
        .split("```rust,ignore\n// transports/nats/examples/wrap_async_nats.rs\n")
        .skip(1)
        .filter_map(|rest| rest.split("\n```").next())
        .collect();
    assert_eq!(excerpts.len(), 4);
    for excerpt in excerpts {
        assert!(source.contains(excerpt), "the example no longer has\n{excerpt}");
    }
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    assert_eq!(source.lines().filter(is_code).count(), 87, "the page has this number");
}
