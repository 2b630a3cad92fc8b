use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use consign::{
    Message,
    codecs::{Codecs, Json, MessagePack},
    dead_letters::{DeadLetterFilter, DeadLetters, Explained},
    message::{MessageBody, SequenceNumber, Value},
    routing::{Body as Decoded, Router},
    settlement::DeadLetter,
    time::ManualClock,
    transport::ErrorKind,
};

use crate::support::{Bench, OTHER, UNDECODABLE};

const START: SequenceNumber = SequenceNumber::new(0);

/// Rules: L-01.
#[tokio::test(start_paused = true)]
async fn an_undecodable_message_says_what_was_tried() {
    let bench = Bench::new();
    let codecs =
        Codecs::builder().with(Json::default()).with(MessagePack).fallback(["json", "msgpack"]).build().unwrap();
    let order = Message::builder().message_id("m-1").subject("order").content_type("application/json");
    bench.queue.send_message(order.build("{\"canary").unwrap());
    bench.queue.run(Router::new(codecs).fallback(async |_: Decoded<BTreeMap<String, u32>>| {}).build().unwrap()).await;

    let clock = ManualClock::new(bench.broker.now().saturating_add(Duration::from_secs(90)));
    let dead = DeadLetters::with_clock(bench.queue.dead_letter(), clock);
    let [letter] = &dead.list(&DeadLetterFilter::all(), START, 10).await.unwrap()[..] else { panic!("one") };

    assert_eq!(letter.reason(), Some("DeserializationFailed"));
    let tried: Vec<_> = letter.attempts().iter().map(|attempt| (attempt.codec(), attempt.code())).collect();
    assert_eq!(tried, [("json", "Truncated"), ("msgpack", "Trailing")]);
    assert!(letter.attempts().iter().all(|attempt| attempt.kind().is_some() && attempt.position().is_some()));
    assert!(letter.description().unwrap().contains("json"));
    assert_eq!((letter.age(), letter.failed_deliveries()), (Some(Duration::from_secs(90)), Some(0)));
    assert_eq!((letter.original_message_id(), letter.resubmit_count()), (Some("m-1"), 0));
    assert_eq!(letter.source(), None);
    let shown = letter.to_string();
    assert!(shown.contains("tried msgpack (fallback): Trailing at") && !shown.contains("canary"), "{shown}");
}

/// Rules: L-02.
#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_read_hides_nothing() {
    let bench = Bench::new();
    let odd = |body: MessageBody| {
        let odd = Message::builder().subject("\u{1b}").content_type("\u{7f};;").property("x-resubmit-count", "\u{0}");
        odd.property("x-original-message-id", Bytes::from_static(b"\xff")).build(body).unwrap()
    };
    for body in [MessageBody::from(&b"\xff\xfe"[..]), MessageBody::from(Value::List(vec![])), MessageBody::from("")] {
        bench.bury(odd(body), OTHER).await;
        bench.bury(Message::new("good"), OTHER).await;
    }
    // What the broker does not let in: reason, description and trail that are no text.
    let mut worst = odd(MessageBody::from(""));
    for name in [DeadLetter::REASON, DeadLetter::DESCRIPTION, DeadLetter::TRAIL] {
        worst.properties_mut().application_properties_mut().insert(name, Bytes::from_static(b"\xff"));
    }
    let worst = Explained::new(worst, bench.broker.now());
    assert!(worst.is_trail_unreadable() && worst.reason().is_none() && worst.age().is_none());
    assert!(worst.to_string().starts_with("#0 (no reason)"), "{worst}");

    let letters = bench.dead().list(&DeadLetterFilter::all(), START, 10).await.unwrap();
    assert_eq!(letters.len(), 6);
    for letter in letters {
        assert!(letter.to_string().contains(OTHER.as_str()) && letter.with_body(10).to_string().contains("body"));
    }
}

/// Rules: L-05.
#[tokio::test(start_paused = true)]
async fn a_peek_goes_on_over_pages_and_locks_nothing() {
    let bench = Bench::new();
    bench.bury_many(0, 350, &OTHER).await;
    bench.bury_many(350, 3, &UNDECODABLE).await;
    let wanted = DeadLetterFilter::all().reason(UNDECODABLE.as_str());

    let held = bench.queue.receive_dead_letter_now().unwrap();
    let found = bench.dead().list(&wanted, START, 2).await.unwrap();
    let numbers: Vec<_> = found.iter().map(Explained::sequence_number).collect();
    assert_eq!(numbers, [351, 352].map(SequenceNumber::new));
    let rest = bench.dead().list(&wanted, numbers[1].next(), 2).await.unwrap();
    assert_eq!(rest.len(), 1);
    assert_eq!(bench.dead().list(&DeadLetterFilter::all(), START, 1_000).await.unwrap().len(), 353);
    assert!(bench.dead().list(&wanted, START, 0).await.unwrap().is_empty());
    assert_eq!(bench.queue.dead_letter().counts().locked, 1);
    held.complete().await.unwrap();
}

/// Rules: L-06.
#[tokio::test(start_paused = true)]
async fn live_messages_are_no_dead_letters() {
    let bench = Bench::new();
    bench.queue.send("alive");
    let live = DeadLetters::new(consign::broker::Queue::clone(&bench.queue));
    let refused = live.list(&DeadLetterFilter::all(), START, 10).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOperation);
}
