//! One request, one reply: what a requester does with whatever comes.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use consign::{
    Message,
    administration::QueueSettings,
    broker::Broker,
    codecs::Codecs,
    rpc::{CallErrorKind, Client, Correlate, ReplyQueue, Requester},
    testing::{Link, LinkSettings},
    transport::{
        Capabilities, Capability, Delivery, ErrorKind, Level, ReceiveError, Receiver, ReceiverExt, SendError,
        SendService,
    },
};
use tokio::time::Instant;
use tokio_test::task;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use crate::{Bench, QueueRequester, answer, seconds, settle, text, within};

/// A call that is on its way, with its request.
async fn begun(
    bench: &Bench,
    requester: &QueueRequester,
) -> (tokio::task::JoinHandle<Result<Message, consign::rpc::CallError>>, Message) {
    let call = tokio::spawn(requester.clone().oneshot(Message::new("ask")));
    let request = bench.request().await;
    let message = request.message.clone();
    request.complete().await.unwrap();
    (call, message)
}

/// Rules: R-01.
#[tokio::test(start_paused = true)]
async fn a_reply_names_the_request_by_its_message_id() {
    let bench = Bench::new();
    let requester = bench.requester();
    let (call, request) = begun(&bench, &requester).await;
    assert_eq!((request.reply_to(), request.correlation_id()), (Some("replies"), None));
    assert_eq!(request.time_to_live(), Some(seconds(30)));

    bench.reply(answer(&request, "42")).await;
    assert_eq!(text(&call.await.unwrap().unwrap()), "42");
    settle().await;
    assert_eq!((requester.pending(), requester.answered(), requester.orphans()), (0, 1, 0));
    assert!(bench.is_idle());
}

/// Rules: R-01.
/// Attacks: 63.
#[tokio::test(start_paused = true)]
async fn every_call_has_an_id_of_its_own_with_122_random_bits() {
    let bench = Bench::new();
    let requester = bench.requester();
    let mut ids = std::collections::HashSet::new();
    for _ in 0..100 {
        let same = Message::builder().message_id("mine").build("ask").unwrap();
        let call = tokio::spawn(requester.clone().oneshot(same));
        let request = bench.request().await;
        let id = request.message.message_id().unwrap().to_owned();
        // A random UUID as 32 digits: six bits say that it is one.
        assert!(id.len() == 32 && id.as_bytes()[12] == b'4', "{id}");
        assert!(ids.insert(id));
        request.complete().await.unwrap();
        call.abort();
    }
}

/// Rules: R-23.
/// Attacks: 63.
#[tokio::test(start_paused = true)]
async fn replies_without_a_call_are_completed_and_counted() {
    let bench = Bench::new();
    let requester = bench.requester();
    let (call, request) = begun(&bench, &requester).await;
    let id = request.message_id().unwrap();

    let next = format!("{:032x}", u128::from_str_radix(id, 16).unwrap().wrapping_add(1));
    for forged in [next, id.to_uppercase(), format!(" {id}"), String::from("x"), String::new()] {
        bench.reply(Message::builder().correlation_id(forged).build("forged").unwrap()).await;
    }
    bench.reply(Message::new("without an id")).await;
    settle().await;
    assert_eq!((requester.pending(), requester.orphans()), (1, 6));

    bench.reply(answer(&request, "true")).await;
    assert_eq!(text(&call.await.unwrap().unwrap()), "true");
    settle().await;
    assert!(bench.is_idle());
}

/// Rules: R-24.
/// Attacks: 64.
#[tokio::test(start_paused = true)]
async fn the_second_reply_is_dropped() {
    let bench = Bench::new();
    let requester = bench.requester();
    let (call, request) = begun(&bench, &requester).await;
    // Both before the caller's task runs.
    bench.reply(answer(&request, "first")).await;
    bench.reply(answer(&request, "second")).await;
    assert_eq!(text(&call.await.unwrap().unwrap()), "first");
    bench.reply(answer(&request, "third")).await;
    settle().await;
    assert_eq!((requester.answered(), requester.orphans()), (1, 2));
    assert!(bench.is_idle());
}

/// Rules: R-23.
/// Attacks: 65.
#[tokio::test(start_paused = true)]
async fn a_reply_after_the_deadline_is_dropped() {
    let bench = Bench::new();
    let requester = bench.requester();
    let call = Message::builder().time_to_live(seconds(5)).build("ask").unwrap();
    let began = Instant::now();
    let call = tokio::spawn(requester.clone().oneshot(call));
    let request = bench.request().await;
    assert_eq!(request.message.time_to_live(), Some(seconds(5)));

    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), began.elapsed()), (CallErrorKind::Timeout, seconds(5)));
    assert!(error.is_retryable() && error.is_outcome_unknown());
    assert_eq!(requester.pending(), 0);

    bench.reply(answer(&request.message, "late")).await;
    request.complete().await.unwrap();
    settle().await;
    assert_eq!(requester.orphans(), 1);
    assert!(bench.is_idle());
}

/// Rules: R-31.
/// Attacks: 65.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_its_place() {
    let bench = Bench::new();
    let requester = bench.requester();
    for _ in 0..1_000 {
        let mut call = task::spawn(requester.clone().oneshot(Message::new("ask")));
        assert!(call.poll().is_pending());
        assert_eq!(requester.pending(), 1);
        drop(call);
        assert_eq!(requester.pending(), 0);
    }
}

/// Rules: R-30.
/// Attacks: 67.
#[tokio::test(start_paused = true)]
async fn calls_over_the_limit_are_refused_and_not_sent() {
    let bench = Bench::new();
    let sender = SendService::new(bench.requests.sender().unwrap());
    let (requester, _replies) = Requester::builder(sender).max_in_flight(3).build(bench.reply_queue()).unwrap();
    let mut calls: Vec<_> = (0..4).map(|_| task::spawn(requester.clone().oneshot(Message::new("ask")))).collect();
    for call in &mut calls[..3] {
        assert!(call.poll().is_pending());
    }
    let Poll::Ready(Err(error)) = calls[3].poll() else { panic!("one is too many") };
    assert_eq!(error.kind(), CallErrorKind::TooManyRequests);
    assert!(error.is_retryable() && !error.is_outcome_unknown());
    assert_eq!(bench.requests.counts().active, 3);

    drop(calls);
    assert!(task::spawn(requester.oneshot(Message::new("ask"))).poll().is_pending());
}

/// Rules: R-31.
#[tokio::test(start_paused = true)]
async fn a_send_that_fails_leaves_no_place_taken() {
    let refused = service_fn(|_: Message| ready(Err(SendError::new(ErrorKind::QuotaExceeded))));
    let bench = Bench::new();
    let (requester, _replies) = Requester::builder(refused).build(bench.reply_queue()).unwrap();
    let error = requester.clone().oneshot(Message::new("ask")).await.unwrap_err();
    assert_eq!(error.kind(), CallErrorKind::Send);
    assert_eq!(error.send_error().unwrap().kind(), ErrorKind::QuotaExceeded);
    assert_eq!(requester.pending(), 0);
}

/// Rules: R-29.
#[tokio::test(start_paused = true)]
async fn the_deadline_covers_the_send() {
    let bench = Bench::new();
    let link = Link::new(LinkSettings::default().round_trip(seconds(20)));
    let sender = SendService::new(link.sender(bench.requests.sender().unwrap()));
    let (requester, _replies) = Requester::builder(sender).timeout(seconds(5)).build(bench.reply_queue()).unwrap();
    let began = Instant::now();
    let error = within(requester.clone().oneshot(Message::new("ask"))).await.unwrap_err();
    assert_eq!((error.kind(), began.elapsed()), (CallErrorKind::Timeout, seconds(5)));
    assert_eq!(requester.pending(), 0);
}

/// Rules: R-29.
#[tokio::test(start_paused = true)]
async fn a_deadline_may_be_as_far_away_as_there_is() {
    let bench = Bench::new();
    let requester = bench.requester();
    let patient = Message::builder().time_to_live(std::time::Duration::MAX).build("ask").unwrap();
    let call = tokio::spawn(requester.clone().oneshot(patient));
    let request = bench.request().await;
    bench.reply(answer(&request.message, "42")).await;
    assert_eq!(text(&within(call).await.unwrap().unwrap()), "42");
}

/// A call with this time to live, and after how many seconds it failed.
fn timed_out(requester: &QueueRequester, to_live: u64) -> tokio::task::JoinHandle<(CallErrorKind, u64)> {
    let call = requester.clone().oneshot(Message::builder().time_to_live(seconds(to_live)).build("ask").unwrap());
    tokio::spawn(async move {
        let began = Instant::now();
        let error = call.await.unwrap_err();
        (error.kind(), began.elapsed().as_secs())
    })
}

/// Rules: R-29.
#[tokio::test(start_paused = true)]
async fn each_call_has_its_own_deadline_in_whatever_order_they_come() {
    let bench = Bench::new();
    let sender = SendService::new(bench.requests.sender().unwrap());
    let (requester, replies) = Requester::builder(sender).build(bench.reply_queue()).unwrap();
    // Some begin before anybody receives, and some while they wait.
    let mut calls = Vec::new();
    for to_live in [9, 3, 6, 3] {
        calls.push((to_live, timed_out(&requester, to_live)));
    }
    tokio::time::sleep(seconds(1)).await;
    tokio::spawn(replies.run());
    for to_live in [9, 3, 6, 1] {
        calls.push((to_live, timed_out(&requester, to_live)));
        tokio::time::sleep(seconds(1)).await;
    }
    for (to_live, call) in calls {
        assert_eq!(within(call).await.unwrap(), (CallErrorKind::Timeout, to_live));
    }
    assert_eq!(requester.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_tells_if_nothing_receives_replies() {
    let bench = Bench::new();
    let sender = SendService::new(bench.requests.sender().unwrap());
    let (requester, replies) = Requester::builder(sender).build(bench.reply_queue()).unwrap();
    let error = requester.clone().oneshot(Message::new("ask")).await.unwrap_err();
    assert_eq!(error.kind(), CallErrorKind::Timeout);
    assert!(error.is_retryable() && error.is_outcome_unknown());
    assert!(error.to_string().ends_with("no task runs the `Replies` of the requester"), "{error}");

    tokio::spawn(replies.run());
    let error = requester.oneshot(Message::new("ask")).await.unwrap_err();
    assert_eq!(error.kind(), CallErrorKind::Timeout);
    assert!(error.to_string().ends_with("no reply before the deadline"), "{error}");
}

/// Rules: R-29.
#[tokio::test(start_paused = true)]
async fn settlements_that_take_their_time_hold_no_deadline_up() {
    let bench = Bench::new();
    let link = Link::new(LinkSettings::default().round_trip(seconds(20)));
    let source = ReplyQueue::new("replies", link.receiver(bench.replies.receiver()));
    let requester = bench.requester_with(source);
    for _ in 0..100 {
        bench.reply(Message::new("nobody waits for it")).await;
    }
    tokio::time::sleep(seconds(21)).await;
    assert!((1..100).contains(&requester.orphans()), "it can receive no more");
    assert_eq!(within(timed_out(&requester, 5)).await.unwrap(), (CallErrorKind::Timeout, 5));
    assert!(requester.orphans() < 100);
}

#[tokio::test(start_paused = true)]
async fn a_reply_may_overtake_the_word_that_the_request_was_accepted() {
    let bench = Bench::new();
    let (told, heard) = tokio::sync::mpsc::channel(1);
    let sender = service_fn(move |request: Message| {
        let told = told.clone();
        async move {
            told.send(request).await.unwrap();
            std::future::pending::<()>().await;
            Ok::<_, SendError>(())
        }
    });
    let (requester, replies) = Requester::builder(sender).build(bench.reply_queue()).unwrap();
    tokio::spawn(replies.run());
    let call = tokio::spawn(requester.oneshot(Message::new("ask")));
    let mut heard = heard;
    bench.reply(answer(&heard.recv().await.unwrap(), "42")).await;
    assert_eq!(text(&within(call).await.unwrap().unwrap()), "42");
}

/// Rules: R-32.
#[tokio::test(start_paused = true)]
async fn close_fails_what_waits_and_what_comes_and_ends_the_loop() {
    let bench = Bench::new();
    let sender = SendService::new(bench.requests.sender().unwrap());
    let (requester, replies) = Requester::builder(sender).build(bench.reply_queue()).unwrap();
    let run = tokio::spawn(replies.run());
    let mut calls: Vec<_> = (0..3).map(|_| tokio::spawn(requester.clone().oneshot(Message::new("ask")))).collect();
    settle().await;
    let began = Instant::now();
    requester.close();
    for call in calls.drain(..) {
        assert_eq!(call.await.unwrap().unwrap_err().kind(), CallErrorKind::Closed);
    }
    assert_eq!(requester.clone().oneshot(Message::new("ask")).await.unwrap_err().kind(), CallErrorKind::Closed);
    run.await.unwrap().unwrap();
    assert_eq!((began.elapsed(), requester.pending()), (seconds(0), 0));
    assert_eq!(bench.requests.counts().active, 3);
}

#[tokio::test(start_paused = true)]
async fn the_loop_ends_with_the_last_requester() {
    let bench = Bench::new();
    let sender = SendService::new(bench.requests.sender().unwrap());
    let (requester, replies) = Requester::builder(sender).build(bench.reply_queue()).unwrap();
    let run = tokio::spawn(replies.run());
    let other = requester.clone();
    drop(requester);
    settle().await;
    assert!(!run.is_finished());
    drop(other);
    within(run).await.unwrap().unwrap();
}

/// Rules: R-32.
#[tokio::test(start_paused = true)]
async fn a_lost_connection_fails_what_waits_at_once_and_later_calls_work() {
    let bench = Bench::new();
    let link = Link::new(LinkSettings::default());
    let sender = SendService::new(bench.requests.sender().unwrap());
    let source = ReplyQueue::new("replies", link.receiver(bench.replies.receiver()));
    let (requester, replies) = Requester::builder(sender).build(source).unwrap();
    tokio::spawn(replies.run());
    let (call, _) = begun(&bench, &requester).await;
    settle().await;

    let began = Instant::now();
    link.disconnect();
    let error = within(call).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), began.elapsed()), (CallErrorKind::Disconnected, seconds(0)));
    assert!(error.is_retryable() && error.is_outcome_unknown());
    // What is called meanwhile is not sent, and says so.
    let error = requester.clone().oneshot(Message::new("ask")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_outcome_unknown()), (CallErrorKind::Disconnected, false));
    assert_eq!(bench.requests.counts().active, 0);

    link.reconnect();
    tokio::time::sleep(seconds(60)).await;
    let (call, request) = begun(&bench, &requester).await;
    bench.reply(answer(&request, "again")).await;
    assert_eq!(text(&within(call).await.unwrap().unwrap()), "again");
}

/// Rules: R-32.
#[tokio::test(start_paused = true)]
async fn a_loop_that_is_dropped_or_fails_for_good_fails_its_calls() {
    let bench = Bench::new();
    let sender = SendService::new(bench.requests.sender().unwrap());
    let (requester, replies) = Requester::builder(sender.clone()).build(bench.reply_queue()).unwrap();
    let run = tokio::spawn(replies.run());
    let (call, _) = begun(&bench, &requester).await;
    run.abort();
    assert_eq!(within(call).await.unwrap().unwrap_err().kind(), CallErrorKind::Disconnected);
    // It will not come back, so a retry would be in vain.
    let error = requester.oneshot(Message::new("ask")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable(), error.is_outcome_unknown()), (CallErrorKind::Closed, false, false));

    let (requester, replies) = Requester::builder(sender)
        .build(ReplyQueue::new("gone", bench.broker.queue("replies").unwrap().receiver()))
        .unwrap();
    bench.broker.delete("replies").unwrap();
    let call = tokio::spawn(requester.oneshot(Message::new("ask")));
    settle().await;
    within(replies.run()).await.unwrap_err();
    assert_eq!(within(call).await.unwrap().unwrap_err().kind(), CallErrorKind::Disconnected);
}

#[tokio::test(start_paused = true)]
async fn layers_go_around_a_requester() {
    let bench = Bench::new();
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let stack = ServiceBuilder::new()
        .load_shed()
        .timeout(seconds(2))
        .map_request(move |request: Message| {
            counted.fetch_add(1, Ordering::Relaxed);
            request
        })
        .service(bench.requester());
    let client = Client::new(stack, Codecs::json());
    let began = Instant::now();
    let error = client.call::<u32>(&1).await.unwrap_err();
    assert_eq!((error.kind(), began.elapsed()), (CallErrorKind::Timeout, seconds(2)));
    assert_eq!(attempts.load(Ordering::Relaxed), 1);

    // A failure of the requester comes out of the layers as itself.
    let requester = bench.requester();
    requester.close();
    let client = Client::new(ServiceBuilder::new().load_shed().service(requester), Codecs::json());
    assert_eq!(client.call::<u32>(&1).await.unwrap_err().kind(), CallErrorKind::Closed);
}

/// Rules: R-11.
#[tokio::test(start_paused = true)]
async fn an_id_that_a_message_brings_along_is_not_its_own() {
    let bench = Bench::new();
    let requester = bench.requester();
    let sent_again = Message::builder().property("x-original-message-id", "first").build("ask").unwrap();
    let call = tokio::spawn(requester.clone().oneshot(sent_again));
    let request = bench.request().await;
    assert!(request.message.application_properties().get("x-original-message-id").is_none());
    bench.reply(answer(&request.message, "42")).await;
    assert_eq!(text(&within(call).await.unwrap().unwrap()), "42");
}

#[tokio::test(start_paused = true)]
async fn requesters_of_several_entities_share_their_replies() {
    let bench = Bench::new();
    let other = bench.broker.create_queue("other", QueueSettings::default()).unwrap();
    let requester = bench.requester();
    let to_other = requester.with_sender(SendService::new(other.sender().unwrap()));
    let call = tokio::spawn(to_other.oneshot(Message::new("ask")));
    let request = within(other.receiver().receive()).await.unwrap();
    assert_eq!(requester.pending(), 1);
    bench.reply(answer(&request.message, "42")).await;
    assert_eq!(text(&within(call).await.unwrap().unwrap()), "42");
    assert_eq!(requester.answered(), 1);
}

/// Rules: R-28.
#[tokio::test(start_paused = true)]
async fn a_peer_that_hands_on_the_correlation_id_gets_one() {
    let bench = Bench::new();
    let sender = SendService::new(bench.requests.sender().unwrap());
    let builder = Requester::builder(sender).correlate(Correlate::CorrelationId);
    let (requester, replies) = builder.build(bench.reply_queue()).unwrap();
    tokio::spawn(replies.run());
    let (call, request) = begun(&bench, &requester).await;
    let id = request.correlation_id().unwrap().to_owned();
    assert_eq!(request.message_id(), Some(&*id));
    bench.reply(Message::builder().correlation_id(id).build("42").unwrap()).await;
    assert_eq!(text(&within(call).await.unwrap().unwrap()), "42");
}

/// Rules: R-33.
/// Attacks: 68.
#[tokio::test(start_paused = true)]
async fn a_reply_of_the_wrong_type_is_an_error_and_no_hang() {
    let bench = Bench::new();
    let client = Client::new(bench.requester(), Codecs::json());
    let call = tokio::spawn(async move { client.call::<u32>(&1).await });
    let request = bench.request().await;
    bench.reply(answer(&request.message, r#""forty-two""#)).await;
    let error = within(call).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), CallErrorKind::Undecodable);
    assert!(error.undecodable().unwrap().failure().is_some() && !error.to_string().contains("forty"));
}

#[tokio::test]
async fn an_invalid_requester_is_refused_when_it_is_built() {
    let bench = Bench::new();
    let sender = || SendService::new(bench.requests.sender().unwrap());
    let zero = Requester::builder(sender()).timeout(seconds(0)).build(bench.reply_queue());
    let zero = zero.unwrap_err();
    assert_eq!(zero.kind(), consign::BuildErrorKind::InvalidArgument);
    assert!(std::error::Error::source(&zero).is_some());
    Client::new((), Codecs::json()).timeout(seconds(0)).unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_requester_asks_for_readiness_of_its_sender() {
    let bench = Bench::new();
    let (mock, mut handle) = tower_test::mock::pair::<Message, ()>();
    let sender = mock.map_err(|_: tower::BoxError| SendError::new(ErrorKind::General));
    let (mut requester, _replies) = Requester::builder(sender).build(bench.reply_queue()).unwrap();
    handle.allow(0);
    let mut ready = task::spawn(std::future::poll_fn(|cx| Service::<Message>::poll_ready(&mut requester, cx)));
    assert!(ready.poll().is_pending());
    handle.allow(1);
    assert!(ready.poll().is_ready());
}

/// Rules: R-200.
#[tokio::test(start_paused = true)]
async fn without_a_time_to_live_the_deadline_is_a_property() {
    let bench = Bench::new();
    let cannot = Broker::CAPABILITIES.with(Capability::TimeToLive, Level::Unsupported);
    let sender = SendService::new(bench.requests.sender().unwrap());
    let builder = Requester::builder(sender).capabilities(cannot).timeout(seconds(30));
    let (requester, replies) = builder.build(bench.reply_queue()).unwrap();
    tokio::spawn(replies.run());
    let own =
        Message::builder().time_to_live(seconds(5)).property("x-timeout-ms", "none of this").build("ask").unwrap();
    for (ask, timeout) in [(Message::new("ask"), seconds(30)), (own, seconds(5))] {
        let began = Instant::now();
        let call = tokio::spawn(requester.clone().oneshot(ask));
        let request = bench.request().await;
        assert_eq!((request.message.time_to_live(), request.message.timeout()), (None, Ok(Some(timeout))));
        request.complete().await.unwrap();
        let error = call.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (CallErrorKind::Timeout, timeout));
    }
}

/// What can be done is what the receiver of the replies says.
struct Without<R>(R);

impl<R: Receiver> Receiver for Without<R> {
    type Lease = R::Lease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<R::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.0.poll_receive(cx, max, out)
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities().with(Capability::TimeToLive, Level::Unsupported)
    }
}

/// Rules: R-200.
#[tokio::test(start_paused = true)]
async fn the_receiver_of_the_replies_says_what_the_transport_can_do() {
    let bench = Bench::new();
    let requester = bench.requester_with(ReplyQueue::new("replies", Without(bench.replies.receiver())));
    let call = tokio::spawn(requester.clone().oneshot(Message::new("ask")));
    let request = bench.request().await;
    assert_eq!((request.message.time_to_live(), request.message.timeout()), (None, Ok(Some(seconds(30)))));
    call.abort();
    // Where there is a time to live, there is one deadline.
    let both = Message::builder().property("x-timeout-ms", 1).build("ask").unwrap();
    let call = tokio::spawn(bench.requester().oneshot(both));
    let request = bench.request().await;
    assert_eq!((request.message.time_to_live(), request.message.timeout()), (Some(seconds(30)), Ok(None)));
    call.abort();
}
