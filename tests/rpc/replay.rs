//! Duplicates of requests, whose handler does not run again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use consign::{
    Message,
    administration::QueueSettings,
    broker::Queue,
    codecs::Codecs,
    consumer::Consumer,
    message::{MessageBuilder, Properties},
    middleware::dedup::{DedupKey, DedupLayer, DedupStats, MemoryStore, StoreError, StoreErrorKind},
    routing::Body,
    rpc::{Fault, MemoryReplies, RecordedReplies, RecordedReply, Reply, ReplyStore, Responder, ResponderStats},
    testing::{DeliveryFault, Faults, Link, LinkSettings},
    transport::{Delivery, ErrorKind, ReceiverExt, Sender},
};
use tokio::time::sleep;
use tower::{Layer, ServiceExt};

use crate::{Bench, seconds, text, within};

const WINDOW: Duration = Duration::from_secs(600);

struct Served {
    bench: Bench,
    runs: Arc<AtomicU32>,
    stats: ResponderStats,
    dedup: DedupStats,
}

/// Serves "count", which takes a second and answers with how often it was called, or with a fault for 0.
fn serve<R: ReplyStore>(recorded: RecordedReplies<R>, faults: Faults) -> Served {
    let (bench, runs) = (Bench::new(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&runs);
    let count = move |Body(number): Body<u32>| {
        let count = counted.fetch_add(1, Ordering::Relaxed) + 1;
        async move {
            sleep(seconds(1)).await;
            if number == 0 { Err(Fault::application("Zero").with_detail(&count.to_string())) } else { Ok(count) }
        }
    };
    let responder = Responder::builder(bench.senders()).record(recorded).codecs(Codecs::json()).answer("count", count);
    let responder = responder.build().unwrap();
    let (stats, replay) = (responder.stats(), responder.replay());
    let layer = DedupLayer::new(MemoryStore::new(WINDOW), "requests").on_duplicate(replay);
    let dedup = layer.stats();
    let link = Link::new(LinkSettings::default().faults(faults));
    let receiver = link.receiver(bench.requests.receiver());
    tokio::spawn(Consumer::new(receiver, layer.layer(responder)).concurrency(8).run());
    Served { bench, runs, stats, dedup }
}

fn recorded() -> RecordedReplies {
    RecordedReplies::new(WINDOW)
}

fn request() -> MessageBuilder {
    Message::builder().subject("count").message_id("question").reply_to("replies")
}

impl Served {
    async fn send(&self, message: Message) {
        self.bench.requests.sender().unwrap().send(message).await.unwrap();
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::Relaxed)
    }
}

async fn first(queue: &Queue) -> Message {
    let delivery: Delivery<_> = within(queue.receiver().receive()).await.unwrap();
    let message = delivery.message.clone();
    delivery.complete().await.unwrap();
    message
}

/// Rules: W-15.
#[tokio::test(start_paused = true)]
async fn a_request_that_comes_twice_is_answered_twice_with_equal_bytes() {
    for pause in [seconds(0), seconds(10)] {
        let served = serve(recorded(), Faults::none());
        served.send(request().build("7").unwrap()).await;
        sleep(pause).await;
        served.send(request().build("7").unwrap()).await;
        let replies = [first(&served.bench.replies).await, first(&served.bench.replies).await];
        assert_eq!(served.runs(), 1, "{pause:?} apart");
        assert_eq!(replies[0].payload(), replies[1].payload());
        assert_eq!(replies[0].content_type(), replies[1].content_type());
        assert_eq!(replies.each_ref().map(|reply| reply.correlation_id()), [Some("question"); 2]);
        assert_ne!(replies[0].message_id(), replies[1].message_id(), "a broker does not drop the second");
        sleep(seconds(10)).await;
        assert_eq!((served.stats.answered(), served.stats.replayed(), served.dedup.duplicates()), (1, 1, 1));
        assert!(served.bench.is_idle());
    }
}

/// Rules: W-21.
#[tokio::test(start_paused = true)]
async fn a_request_that_came_too_late_is_no_first_one() {
    let served = serve(recorded(), Faults::none());
    let mut late = request().build("7").unwrap();
    late.properties_mut().set_timeout(Duration::ZERO);
    served.send(late).await;
    sleep(seconds(10)).await;
    assert_eq!((served.stats.expired(), served.runs()), (1, 0));
    served.send(request().build("7").unwrap()).await;
    sleep(seconds(10)).await;
    assert_eq!((served.runs(), served.stats.answered(), served.stats.unrecorded()), (1, 1, 0));
}

/// Rules: R-201, R-202.
#[tokio::test(start_paused = true)]
async fn a_duplicate_past_its_deadline_is_not_answered_and_an_invalid_one_is_a_dead_letter() {
    let served = serve(recorded(), Faults::none());
    served.send(request().build("7").unwrap()).await;
    first(&served.bench.replies).await;
    let mut late = request().build("7").unwrap();
    late.properties_mut().set_timeout(Duration::ZERO);
    served.send(late).await;
    sleep(seconds(10)).await;
    assert_eq!((served.stats.expired(), served.stats.replayed()), (1, 0));
    served.send(request().property(Properties::TIMEOUT, "abc").build("7").unwrap()).await;
    let dead = first(&served.bench.requests.dead_letter()).await;
    assert_eq!((dead.dead_letter_reason(), served.stats.replayed()), (Some("InvalidProperty"), 0));
    assert!(served.bench.is_idle());
}

/// Rules: W-15.
#[tokio::test(start_paused = true)]
async fn the_reply_goes_where_the_duplicate_wants_it() {
    let served = serve(recorded(), Faults::none());
    let others = served.bench.broker.create_queue("others", QueueSettings::default()).unwrap();
    served.send(request().property("traceparent", "00-1").build("7").unwrap()).await;
    first(&served.bench.replies).await;
    // A retry of the requester: a new id, and the first one as a property.
    let again = Message::builder().subject("count").message_id("again").reply_to("others");
    served.send(again.property(Properties::ORIGINAL_MESSAGE_ID, "question").build("7").unwrap()).await;
    let reply = first(&others).await;
    assert_eq!((text(&reply), reply.correlation_id(), served.runs()), ("1", Some("question"), 1));
    assert!(reply.application_properties().is_empty(), "the trace is another one");
}

/// Rules: W-15.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_repeated_under_a_key_of_its_own_is_answered_from_the_record() {
    let key = |request: &Message| Some(request.application_properties().get("order")?.as_str()?.to_owned());
    let (bench, runs) = (Bench::new(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&runs);
    let responder = Responder::builder(bench.senders()).record(recorded().key(key)).codecs(Codecs::json());
    let responder = responder
        .fallback(move || {
            let run = counted.fetch_add(1, Ordering::Relaxed);
            async move { Reply(run) }
        })
        .build()
        .unwrap();
    let layer = DedupLayer::new(MemoryStore::new(WINDOW), "requests").key(key).on_duplicate(responder.replay());
    tokio::spawn(Consumer::new(bench.requests.receiver(), layer.layer(responder)).run());

    let requester = bench.requester();
    for (order, answer) in [("17", "0"), ("17", "0"), ("18", "1"), ("17", "0")] {
        let request = Message::builder().property("order", order).build("").unwrap();
        assert_eq!(text(&within(requester.clone().oneshot(request)).await.unwrap()), answer);
    }
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

/// Rules: W-15.
#[tokio::test(start_paused = true)]
async fn a_fault_is_a_reply_like_any_other() {
    let served = serve(recorded(), Faults::none());
    for _ in 0..2 {
        served.send(request().build("0").unwrap()).await;
        let fault = Fault::of_reply(&first(&served.bench.replies).await).unwrap();
        assert_eq!((fault.code().as_str(), fault.detail()), ("Zero", Some("1")));
    }
    assert_eq!(served.runs(), 1);
}

/// Rules: W-15.
#[tokio::test(start_paused = true)]
async fn a_lost_settlement_costs_a_second_reply_and_no_second_run() {
    let lost = DeliveryFault::LoseSettlement(ErrorKind::CommunicationProblem);
    let served = serve(recorded(), Faults::none().on_delivery(1, lost));
    served.send(request().build("7").unwrap()).await;
    for _ in 0..2 {
        assert_eq!(text(&first(&served.bench.replies).await), "1");
    }
    sleep(seconds(10)).await;
    assert!(served.bench.is_idle());
    assert_eq!(served.runs(), 1);
}

/// Fails so often at each, once it is told to.
struct Failing {
    replies: MemoryReplies,
    puts: AtomicU32,
    finds: AtomicU32,
}

impl Failing {
    fn fails(left: &AtomicU32) -> Result<(), StoreError> {
        let less = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if less.is_ok() { Err(StoreError::new(StoreErrorKind::Unavailable)) } else { Ok(()) }
    }
}

impl ReplyStore for Failing {
    async fn put(&self, key: DedupKey<'_>, reply: RecordedReply) -> Result<(), StoreError> {
        sleep(seconds(1)).await;
        Self::fails(&self.puts)?;
        self.replies.put(key, reply).await
    }

    async fn find(&self, key: DedupKey<'_>) -> Result<Option<RecordedReply>, StoreError> {
        sleep(seconds(1)).await;
        Self::fails(&self.finds)?;
        self.replies.find(key).await
    }
}

fn failing(puts: u32, finds: u32) -> RecordedReplies<Failing> {
    let replies = MemoryReplies::new(WINDOW);
    RecordedReplies::in_store(Failing { replies, puts: puts.into(), finds: finds.into() })
}

/// Rules: W-17.
#[tokio::test(start_paused = true)]
async fn a_store_without_the_reply_has_the_duplicate_redelivered() {
    let served = serve(failing(0, 2), Faults::none());
    for _ in 0..2 {
        served.send(request().build("7").unwrap()).await;
        assert_eq!(text(&first(&served.bench.replies).await), "1");
    }
    sleep(seconds(10)).await;
    assert_eq!((served.runs(), served.stats.replayed(), served.stats.record_failed()), (1, 1, 2));
    assert!(served.bench.is_idle());
}

/// Rules: W-17.
#[tokio::test(start_paused = true)]
async fn a_reply_that_is_not_recorded_is_sent_all_the_same() {
    let served = serve(failing(1, 0), Faults::none());
    served.send(request().build("7").unwrap()).await;
    assert_eq!(text(&first(&served.bench.replies).await), "1");
    served.send(request().build("7").unwrap()).await;
    sleep(seconds(10)).await;
    assert_eq!((served.runs(), served.stats.unrecorded(), served.stats.record_failed()), (1, 1, 1));
    assert!(served.bench.is_idle());
}

/// Rules: W-17.
#[tokio::test]
async fn scopes_keep_replies_of_one_store_apart() {
    let store = Arc::new(MemoryReplies::new(WINDOW));
    let bench = Bench::new();
    let mut runs = Vec::new();
    for scope in ["a", "b", "a"] {
        let recorded = RecordedReplies::in_store(Arc::clone(&store)).scope(scope);
        let responder = Responder::builder(bench.senders()).record(recorded).codecs(Codecs::json());
        let responder = responder.answer("count", move || async move { Reply(scope) }).build().unwrap();
        let replay = responder.replay();
        let request = || request().build("7").unwrap();
        replay.oneshot(request()).await.unwrap();
        responder.oneshot(request()).await.unwrap();
        runs.push(text(&first(&bench.replies).await).to_owned());
    }
    assert_eq!(runs, [r#""a""#, r#""b""#, r#""a""#]);
    // The third had a reply to send again.
    assert_eq!(text(&first(&bench.replies).await), r#""a""#);
    assert!(bench.is_idle());
}

/// Rules: W-16.
#[tokio::test(start_paused = true)]
async fn without_a_record_a_duplicate_is_completed_and_counted() {
    let served = serve(recorded().max_bytes(0), Faults::none());
    served.send(request().build("7").unwrap()).await;
    first(&served.bench.replies).await;
    served.send(request().build("7").unwrap()).await;
    sleep(seconds(10)).await;
    assert_eq!((served.stats.unrecorded(), served.runs()), (1, 1));
    assert!(served.bench.is_idle());
}
