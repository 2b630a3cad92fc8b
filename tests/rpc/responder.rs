//! What a responder does with requests, and what its replies look like.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::{QueueSettings, Status},
    broker::Queue,
    codecs::Codecs,
    consumer::Consumer,
    message::{EntityPath, PropertyValue, Received, SequenceNumber},
    middleware::dedup::{DedupLayer, MemoryStore},
    routing::{Body, MessageId, State},
    rpc::{
        Correlate, Fault, FaultCode, RecordedReplies, Refusal, Reply, ReplySenders, Responder, ResponderBuilder,
        ResponderStats,
    },
    settlement::{DeadLetterReason, Permanent, Transient},
    testing::{Faults, Link, LinkSettings, SendFault},
    time::Timestamp,
    transport::{Capability, Delivery, ErrorKind, ReceiverExt, SendError, SendService, Sender, Unsupported},
};
use tower::{ServiceExt, service_fn};

use crate::{Bench, seconds, settle, text, within};

async fn double(Body(number): Body<u32>) -> Reply<u32> {
    Reply(number * 2)
}

/// Serves the requests of `bench` with `double`.
fn serve<P: ReplySenders>(bench: &Bench, builder: ResponderBuilder<P>) -> ResponderStats {
    let builder = builder.clock(Arc::clone(&bench.clock)).codecs(Codecs::json());
    let responder = builder.answer("double", double).build().unwrap();
    let stats = responder.stats();
    tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
    stats
}

/// A request of `double` with everything that a requester sets.
fn request() -> consign::message::MessageBuilder {
    Message::builder().subject("double").message_id("question").reply_to("replies")
}

async fn send(bench: &Bench, message: Message) {
    bench.requests.sender().unwrap().send(message).await.unwrap();
}

async fn first(queue: &Queue) -> Message {
    let delivery: Delivery<_> = within(queue.receiver().receive()).await.unwrap();
    let message = delivery.message.clone();
    delivery.complete().await.unwrap();
    message
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn the_fields_of_a_reply() {
    let bench = Bench::new();
    serve(&bench, Responder::builder(bench.senders()).reply_subject("doubled"));
    let traced = request()
        .correlation_id("conversation")
        .partition_key("p")
        .to("somewhere")
        .time_to_live(seconds(10))
        .property("traceparent", "00-1-2-01")
        .property("tracestate", "a=b")
        .property("Diagnostic-Id", "d")
        .property("secret", "s");
    send(&bench, traced.build("21").unwrap()).await;

    let reply = first(&bench.replies).await;
    assert_eq!(text(&reply), "42");
    assert_eq!(reply.correlation_id(), Some("question"));
    assert!(reply.message_id().is_some_and(|id| id != "question"));
    assert_eq!((reply.session_id(), reply.partition_key(), reply.to()), (None, None, None));
    assert_eq!((reply.reply_to(), reply.reply_to_session_id()), (None, None));
    assert_eq!((reply.subject(), reply.content_type()), (Some("doubled"), Some("application/json")));
    assert_eq!(reply.time_to_live(), Some(seconds(10)));
    let names: Vec<_> = reply.application_properties().iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["Diagnostic-Id", "traceparent", "tracestate"]);
    settle().await;
    assert!(bench.is_idle());
}

/// Rules: R-17.
#[tokio::test(start_paused = true)]
async fn a_reply_lives_as_long_as_its_requester_waits() {
    let bench = Bench::new();
    send(&bench, request().time_to_live(seconds(10)).build("21").unwrap()).await;
    tokio::time::sleep(seconds(7)).await;
    serve(&bench, Responder::builder(bench.senders()));
    assert_eq!(first(&bench.replies).await.time_to_live(), Some(seconds(3)));

    send(&bench, request().build("21").unwrap()).await;
    assert_eq!(first(&bench.replies).await.time_to_live(), None);
}

/// Rules: R-17.
#[tokio::test(start_paused = true)]
async fn a_transport_that_expires_no_messages_gets_replies_without_a_time_to_live() {
    let bench = Bench::new();
    let replies = bench.replies.sender().unwrap();
    let refused = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&refused);
    let senders = move |_: &EntityPath| {
        let (replies, count) = (replies.clone(), Arc::clone(&count));
        Ok(service_fn(move |reply: Message| {
            let is_refused = reply.time_to_live().is_some();
            count.fetch_add(u32::from(is_refused), Ordering::Relaxed);
            let sent = (!is_refused).then(|| replies.send(reply));
            async move {
                match sent {
                    Some(sent) => sent.await,
                    None => Err(Unsupported::new(Capability::TimeToLive).into()),
                }
            }
        }))
    };
    let recorded = Responder::builder(senders).record(RecordedReplies::new(seconds(60)));
    let responder =
        recorded.clock(Arc::clone(&bench.clock)).codecs(Codecs::json()).answer("double", double).build().unwrap();
    let stats = responder.stats();
    let dedup = DedupLayer::new(MemoryStore::new(seconds(60)), "double").on_duplicate(responder.replay());
    let stack = tower::ServiceBuilder::new().layer(dedup).service(responder);
    tokio::spawn(Consumer::new(bench.requests.receiver(), stack).run());
    // An answer, the same again, and the fault of a body that cannot be decoded.
    for (id, body) in [("one", "21"), ("one", "21"), ("two", "x")] {
        send(&bench, request().message_id(id).time_to_live(seconds(10)).build(body).unwrap()).await;
        let reply = first(&bench.replies).await;
        assert_eq!((reply.correlation_id(), reply.time_to_live()), (Some(id), None), "{body}");
    }
    settle().await;
    assert_eq!((stats.answered(), stats.replayed(), stats.faults(), stats.undelivered()), (1, 1, 1, 0));
    assert_eq!(refused.load(Ordering::Relaxed), 3);
}

/// Rules: R-20.
#[tokio::test(start_paused = true)]
async fn without_an_address_the_handler_runs_and_the_value_is_counted() {
    let bench = Bench::new();
    let stats = serve(&bench, Responder::builder(bench.senders()));
    send(&bench, Message::builder().subject("double").build("21").unwrap()).await;
    settle().await;
    assert_eq!((stats.unwanted(), stats.answered()), (1, 0));
    assert!(bench.is_idle());
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn a_strict_responder_refuses_what_it_cannot_answer() {
    let bench = Bench::new();
    let builder = Responder::builder(bench.senders()).strict().correlate(Correlate::CorrelationId);
    let stats = serve(&bench, builder);
    send(&bench, Message::builder().subject("double").correlation_id("c").build("21").unwrap()).await;
    send(&bench, request().build("21").unwrap()).await;
    settle().await;
    let dead = bench.requests.dead_letter();
    assert_eq!(first(&dead).await.dead_letter_reason(), Some("MissingReplyTo"));
    assert_eq!(first(&dead).await.dead_letter_reason(), Some("MissingProperty"));
    // The second one has somewhere to hear of it.
    assert_eq!((stats.faults(), stats.unwanted()), (1, 0));
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn without_an_id_of_its_sender_a_request_is_answered_under_its_correlation_id() {
    let bench = Bench::new();
    serve(&bench, Responder::builder(bench.senders()));
    for call in ["call-1", "call-2"] {
        let request = Message::builder().subject("double").correlation_id(call).reply_to("replies");
        send(&bench, request.build("21").unwrap()).await;
        assert_eq!(first(&bench.replies).await.correlation_id(), Some(call));
    }
}

/// Rules: R-21.
#[tokio::test(start_paused = true)]
async fn a_request_without_any_id_is_a_dead_letter_that_says_so() {
    for (by, expected) in [
        (Correlate::default(), "MessageId or CorrelationId"),
        (Correlate::MessageId, "MessageId"),
        (Correlate::CorrelationId, "CorrelationId"),
        (Correlate::CorrelationIdOrMessageId, "MessageId or CorrelationId"),
    ] {
        let bench = Bench::new();
        serve(&bench, Responder::builder(bench.senders()).correlate(by));
        let request = Message::builder().subject("double").correlation_id("").reply_to("replies");
        send(&bench, request.build("21").unwrap()).await;
        let dead = first(&bench.requests.dead_letter()).await;
        assert_eq!(dead.dead_letter_reason(), Some("MissingProperty"));
        let why = dead.dead_letter_description().unwrap();
        assert!(why.contains(&format!("must set {expected},")) && why.contains("the broker has made"), "{why}");
        // The id that the broker made is on it, and no reply names it.
        assert!(dead.message_id().is_some() && dead.is_message_id_stamped());
        let fault = first(&bench.replies).await;
        assert_eq!(
            (Fault::of_reply(&fault).unwrap().code(), fault.correlation_id()),
            (&FaultCode::InvalidRequest, None)
        );
    }
}

/// Rules: R-205.
#[tokio::test(start_paused = true)]
async fn an_id_that_the_broker_made_stays_marked_and_one_of_a_sender_is_not() {
    let bench = Bench::new();
    send(&bench, Message::new("21")).await;
    let received = first(&bench.requests).await;
    assert!(received.message_id().is_some() && received.is_message_id_stamped());
    // As it is sent on.
    send(&bench, received.clone().without_received()).await;
    let mut again = first(&bench.requests).await;
    assert_eq!((again.message_id(), again.is_message_id_stamped()), (received.message_id(), true));
    again.properties_mut().set_message_id("mine").unwrap();
    assert!(!again.is_message_id_stamped());
    again.properties_mut().clear_message_id();
    assert_eq!((again.message_id(), again.is_message_id_stamped()), (None, false));
    send(&bench, request().build("21").unwrap()).await;
    assert!(!first(&bench.requests).await.is_message_id_stamped());
}

/// Rules: R-22.
#[tokio::test(start_paused = true)]
async fn an_entity_with_sessions_and_a_request_without_one() {
    let bench = Bench::new();
    bench.broker.create_queue("shared", QueueSettings::default().requires_session(true)).unwrap();
    serve(&bench, Responder::builder(bench.senders()));
    send(&bench, request().reply_to("shared").build("21").unwrap()).await;
    settle().await;
    assert_eq!(first(&bench.requests.dead_letter()).await.dead_letter_reason(), Some("MissingReplyToSessionId"));
}

/// Refuses what it is sent.
fn refusing(kind: ErrorKind) -> impl ReplySenders {
    move |_: &EntityPath| {
        Ok(service_fn(move |_: Message| {
            ready(Err(SendError::new(kind).with_detail("the name of the stream is taken")))
        }))
    }
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn a_reply_that_is_refused_for_another_reason_says_that_reason() {
    let bench = Bench::new();
    serve(&bench, Responder::builder(refusing(ErrorKind::InvalidOperation)));
    send(&bench, request().build("21").unwrap()).await;
    settle().await;
    let dead = first(&bench.requests.dead_letter()).await;
    assert_eq!(dead.dead_letter_reason(), Some("ReplyRejected"));
    let why = dead.dead_letter_description().unwrap();
    assert!(why.contains("the name of the stream is taken"), "{why}");
}

/// Rules: R-12.
#[tokio::test(start_paused = true)]
async fn a_session_for_an_entity_without_sessions_is_no_refusal() {
    let bench = Bench::new();
    serve(&bench, Responder::builder(bench.senders()));
    send(&bench, request().reply_to_session_id("mine").build("21").unwrap()).await;
    assert_eq!(first(&bench.replies).await.session_id(), Some("mine"));
}

/// Rules: R-202.
#[tokio::test(start_paused = true)]
async fn a_request_past_its_timeout_is_completed_and_counted() {
    let bench = Bench::new();
    for timeout in [0_i64, 5_000, 8_000] {
        let left = request().property("x-timeout-ms", timeout);
        send(&bench, left.build("21").unwrap()).await;
    }
    send(&bench, request().property("x-timeout-ms", "5000").subject("other").build("21").unwrap()).await;
    tokio::time::sleep(seconds(7)).await;
    let stats = serve(&bench, Responder::builder(bench.senders()));
    // It names no time to live, for its transport may have none.
    assert_eq!(first(&bench.replies).await.time_to_live(), None);
    settle().await;
    assert_eq!((stats.answered(), stats.faults(), stats.expired()), (1, 0, 3));
    assert!(bench.is_idle());
}

/// Rules: R-202.
#[tokio::test(start_paused = true)]
async fn a_request_whose_enqueued_time_is_unknown_has_no_deadline() {
    let bench = Bench::new();
    let responder =
        Responder::builder(bench.senders()).codecs(Codecs::json()).answer("double", double).build().unwrap();
    let stats = responder.stats();
    let asked = request().property("x-timeout-ms", 5_000).build("21").unwrap();
    // As a client delivers it that reports no time.
    let unknown = Received::new(SequenceNumber::default(), Timestamp::EPOCH, 1);
    let settled = responder.oneshot(asked.with_received(unknown)).await.unwrap();
    assert_eq!((settled, text(&first(&bench.replies).await)), (Disposition::Complete, "42"));
    assert_eq!((stats.answered(), stats.expired()), (1, 0));
}

/// Rules: R-203.
#[tokio::test(start_paused = true)]
async fn of_a_time_to_live_and_a_timeout_the_shorter_counts() {
    for (ttl, timeout, left) in [(10, 20_000, 3), (20, 10_000, 3), (20, 20_000, 13)] {
        let bench = Bench::new();
        let both = request().time_to_live(seconds(ttl)).property("x-timeout-ms", timeout);
        send(&bench, both.build("21").unwrap()).await;
        tokio::time::sleep(seconds(7)).await;
        serve(&bench, Responder::builder(bench.senders()));
        assert_eq!(first(&bench.replies).await.time_to_live(), Some(seconds(left)));
    }
}

/// Rules: R-201.
#[tokio::test(start_paused = true)]
async fn a_timeout_that_is_no_number_of_milliseconds_is_a_dead_letter() {
    let bench = Bench::new();
    let stats = serve(&bench, Responder::builder(bench.senders()));
    for hostile in [PropertyValue::from(-1), i64::MIN.into(), "soon".into(), "".into(), 1.5_f64.into(), "-5".into()] {
        send(&bench, request().property("x-timeout-ms", hostile).build("21").unwrap()).await;
        let fault = Fault::of_reply(&first(&bench.replies).await).unwrap();
        assert_eq!((fault.code(), fault.reason()), (&FaultCode::InvalidRequest, Some("InvalidProperty")));
        let dead = first(&bench.requests.dead_letter()).await;
        assert_eq!(dead.dead_letter_reason(), Some("InvalidProperty"));
        let why = "application property \"x-timeout-ms\" must be a whole number of milliseconds";
        assert_eq!(dead.dead_letter_description(), Some(why));
    }
    for huge in [PropertyValue::from(u64::MAX), i64::MAX.into(), "9".repeat(1_000).into()] {
        send(&bench, request().property("x-timeout-ms", huge).build("21").unwrap()).await;
        assert_eq!(text(&first(&bench.replies).await), "42");
    }
    settle().await;
    assert_eq!((stats.answered(), stats.expired()), (3, 0));
}

/// Rules: R-25.
#[tokio::test(start_paused = true)]
async fn the_request_is_completed_after_the_broker_has_the_reply() {
    let bench = Bench::new();
    let link = Link::new(LinkSettings::default().round_trip(seconds(2)));
    let (broker, slow) = (bench.broker.clone(), link.clone());
    serve(&bench, Responder::builder(move |to: &EntityPath| Ok(SendService::new(slow.sender(broker.sender(to)?)))));
    send(&bench, request().build("21").unwrap()).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!((bench.requests.counts().locked, bench.replies.counts().active), (1, 1));
    tokio::time::sleep(seconds(2)).await;
    assert_eq!((bench.requests.counts().locked, bench.replies.counts().active), (0, 1));
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn a_reply_whose_answer_was_lost_is_sent_twice_and_the_request_is_done() {
    let bench = Bench::new();
    let faults = Faults::none().on_send(1, SendFault::LoseAnswer(ErrorKind::ServiceTimeout));
    let link = Link::new(LinkSettings::default().faults(faults));
    let broker = bench.broker.clone();
    serve(&bench, Responder::builder(move |to: &EntityPath| Ok(SendService::new(link.sender(broker.sender(to)?)))));
    send(&bench, request().build("21").unwrap()).await;
    for _ in 0..2 {
        assert_eq!(first(&bench.replies).await.correlation_id(), Some("question"));
    }
    settle().await;
    assert!(bench.is_idle());
}

/// Rules: R-37.
#[tokio::test(start_paused = true)]
async fn a_requester_that_has_gone_is_counted_and_its_request_is_done() {
    let bench = Bench::new();
    let stats = serve(&bench, Responder::builder(bench.senders()));
    send(&bench, request().reply_to("gone").build("21").unwrap()).await;
    settle().await;
    assert_eq!(stats.undelivered(), 1);
    assert!(bench.is_idle());
}

/// Rules: R-10.
#[tokio::test(start_paused = true)]
async fn a_reply_entity_that_was_made_anew_gets_its_replies() {
    let bench = Bench::new();
    let stats = serve(&bench, Responder::builder(bench.senders()));
    for round in 1..=3 {
        send(&bench, request().build("21").unwrap()).await;
        assert_eq!(text(&first(&bench.broker.queue("replies").unwrap()).await), "42");
        settle().await;
        assert_eq!((stats.answered(), stats.undelivered()), (round, 0));
        bench.broker.delete("replies").unwrap();
        bench.broker.create_queue("replies", QueueSettings::default()).unwrap();
    }
}

/// Rules: R-37.
#[tokio::test(start_paused = true)]
async fn a_reply_that_is_refused_for_good_dead_letters_the_request() {
    let bench = Bench::new();
    let closed = QueueSettings::default().status(Status::SendDisabled);
    bench.broker.create_queue("closed", closed).unwrap();
    serve(&bench, Responder::builder(bench.senders()));
    send(&bench, request().reply_to("closed").build("21").unwrap()).await;
    settle().await;
    assert_eq!(first(&bench.requests.dead_letter()).await.dead_letter_reason(), Some("ReplyRejected"));
}

/// Rules: R-27.
/// Attacks: 66.
#[tokio::test(start_paused = true)]
async fn a_hostile_address_is_refused_before_the_handler_runs() {
    let bench = Bench::new();
    let allowed = Responder::builder(bench.senders()).allow(|to| to.as_str().starts_with("replies"));
    let never = |Body(_): Body<u32>| async { panic!("it must not be called") as Reply<u32> };
    let responder = allowed.codecs(Codecs::json()).answer("double", never).build().unwrap();
    let stats = responder.stats();
    tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
    for hostile in ["$management", "$cbs", "requests", "sb://elsewhere.example/replies", "replies/$deadletterqueue"] {
        send(&bench, Message::builder().subject("double").reply_to(hostile).build("21").unwrap()).await;
        settle().await;
        let dead = first(&bench.requests.dead_letter()).await;
        assert_eq!(dead.dead_letter_reason(), Some("ReplyAddressNotAllowed"), "{hostile}");
        assert_eq!(dead.dead_letter_description(), Some("replies may not go to the address in ReplyTo"));
    }
    assert!(bench.is_idle());
    assert_eq!(stats.not_allowed(), 5);
    // Also a request that no handler gets.
    send(&bench, Message::builder().subject("unknown").reply_to("$management").build("21").unwrap()).await;
    let dead = first(&bench.requests.dead_letter()).await;
    assert_eq!((dead.dead_letter_reason(), stats.not_allowed()), (Some("UnknownMessageType"), 6));
}

/// A stack that learns in `poll_ready` that the entity of its link is gone.
#[derive(Clone)]
struct Linked {
    sender: SendService<consign::broker::QueueSender>,
    /// How often each link may be used.
    left: Arc<AtomicU32>,
}

impl tower::Service<Message> for Linked {
    type Response = ();
    type Error = SendError;
    type Future = <SendService<consign::broker::QueueSender> as tower::Service<Message>>::Future;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SendError>> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.left.store(0, Ordering::Relaxed);
            return std::task::Poll::Ready(Err(SendError::new(ErrorKind::EntityNotFound)));
        }
        tower::Service::<Message>::poll_ready(&mut self.sender, cx)
    }

    fn call(&mut self, message: Message) -> Self::Future {
        self.sender.call(message)
    }
}

#[tokio::test(start_paused = true)]
async fn a_kept_sender_whose_entity_is_gone_is_replaced_when_it_is_not_ready_too() {
    let bench = Bench::new();
    let made = Arc::new(AtomicU32::new(0));
    let (counted, replies) = (Arc::clone(&made), bench.replies.clone());
    let senders = move |_: &EntityPath| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(Linked { sender: SendService::new(replies.sender()?), left: Arc::new(AtomicU32::new(2)) })
    };
    serve(&bench, Responder::builder(senders));
    for number in 0..5 {
        send(&bench, request().build(number.to_string()).unwrap()).await;
        assert_eq!(text(&first(&bench.replies).await), (number * 2).to_string());
    }
    assert_eq!(made.load(Ordering::Relaxed), 3, "each is used twice");
}

/// Rules: R-28.
#[tokio::test(start_paused = true)]
async fn correlation_ids_of_replies() {
    for (by, with, without) in [
        (Correlate::MessageIdOrCorrelationId, "question", Some("question")),
        (Correlate::MessageId, "question", Some("question")),
        (Correlate::CorrelationId, "conversation", None),
        (Correlate::CorrelationIdOrMessageId, "conversation", Some("question")),
    ] {
        let bench = Bench::new();
        serve(&bench, Responder::builder(bench.senders()).correlate(by));
        send(&bench, request().correlation_id("conversation").build("21").unwrap()).await;
        assert_eq!(first(&bench.replies).await.correlation_id(), Some(with), "{by:?}");
        send(&bench, request().build("21").unwrap()).await;
        assert_eq!(first(&bench.replies).await.correlation_id(), without, "{by:?}");
    }
}

/// Rules: R-11.
#[tokio::test(start_paused = true)]
async fn a_request_that_was_sent_again_is_answered_under_its_first_id() {
    let bench = Bench::new();
    serve(&bench, Responder::builder(bench.senders()));
    send(&bench, request().property("x-original-message-id", "first").build("21").unwrap()).await;
    assert_eq!(first(&bench.replies).await.correlation_id(), Some("first"));
}

/// What a handler may return, beside a reply.
async fn refuse(id: MessageId) -> Result<u32, Refusal> {
    Err(match id.as_str() {
        "transient" => Transient::new("busy").into(),
        "permanent" => Permanent::new("no such account: 4711").into(),
        "deferred" => Disposition::DEFER.into(),
        _ => Disposition::dead_letter(DeadLetterReason::Application("Mine".into()), "").into(),
    })
}

/// Rules: R-34.
#[tokio::test(start_paused = true)]
async fn a_disposition_of_a_handler_settles_the_request_and_a_dead_letter_is_a_fault() {
    let bench = Bench::new();
    let responder =
        Responder::builder(bench.senders()).codecs(Codecs::json()).answer("refuse", refuse).build().unwrap();
    tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
    let ask =
        |id: &'static str| Message::builder().subject("refuse").message_id(id).reply_to("replies").build("").unwrap();
    send(&bench, ask("deferred")).await;
    settle().await;
    assert_eq!((bench.requests.counts().deferred, bench.replies.counts().active), (1, 0));

    for (id, code, reason) in [("permanent", "Failed", "HandlerPermanent"), ("mine", "Failed", "Mine")] {
        send(&bench, ask(id)).await;
        let fault = Fault::of_reply(&first(&bench.replies).await).unwrap();
        assert_eq!((fault.code().as_str(), fault.reason()), (code, Some(reason)));
        assert_eq!((fault.request_id(), fault.detail()), (Some(id), None));
        assert_eq!(first(&bench.requests.dead_letter()).await.dead_letter_reason(), Some(reason));
    }

    // Ten deliveries, and no word to the requester but that nothing came.
    send(&bench, ask("transient")).await;
    settle().await;
    let dead = first(&bench.requests.dead_letter()).await;
    assert_eq!(dead.dead_letter_reason(), Some("MaxDeliveryCountExceeded"));
    assert_eq!(bench.replies.counts().active, 0);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_cannot_be_written_is_a_dead_letter_and_a_fault() {
    let bench = Bench::new();
    // JSON has no keys but text.
    let keys = async || Reply(std::collections::BTreeMap::from([((1, 2), 3)]));
    let responder = Responder::builder(bench.senders()).codecs(Codecs::json()).answer("double", keys).build().unwrap();
    tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
    send(&bench, request().build("21").unwrap()).await;
    let fault = Fault::of_reply(&first(&bench.replies).await).unwrap();
    assert_eq!((fault.code(), fault.reason()), (&FaultCode::Failed, Some("HandlerPermanent")));
}

#[tokio::test(start_paused = true)]
async fn handlers_share_state_and_some_answer_nothing() {
    let bench = Bench::new();
    let noted = Arc::new(AtomicU32::new(0));
    let add = async |State(sum): State<Arc<AtomicU32>>, Body(number): Body<u32>| {
        Reply(sum.fetch_add(number, Ordering::Relaxed) + number)
    };
    let note = async |State(sum): State<Arc<AtomicU32>>, Body(number): Body<u32>| {
        sum.fetch_add(number, Ordering::Relaxed);
    };
    let responder = Responder::builder(bench.senders())
        .codecs_and_state(Codecs::json(), Arc::clone(&noted))
        .route("note", note)
        .fallback(add)
        .build()
        .unwrap();
    let stats = responder.stats();
    tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
    send(&bench, Message::builder().subject("note").reply_to("replies").build("40").unwrap()).await;
    settle().await;
    send(&bench, Message::builder().message_id("add").reply_to("replies").build("2").unwrap()).await;
    assert_eq!(text(&first(&bench.replies).await), "42");
    settle().await;
    assert_eq!((stats.answered(), stats.unwanted()), (1, 0));
    assert!(bench.is_idle());
}
