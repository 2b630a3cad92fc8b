//! Where replies come from: a queue of one's own, and one session of an entity that many share.

use consign::{
    BuildErrorKind, Message,
    administration::QueueSettings,
    broker::Queue,
    codecs::Codecs,
    consumer::Consumer,
    routing::Body,
    rpc::{Client, Reply, ReplyQueue, ReplySession, Requester, Responder},
    transport::{ReceiverExt, SendService},
};
use tokio::time::sleep;
use tower::ServiceExt;

use crate::{Bench, seconds, settle, text, within};

fn shared(bench: &Bench) -> Queue {
    let settings = QueueSettings::default().requires_session(true).lock_duration(seconds(30));
    bench.broker.create_queue("shared", settings).unwrap()
}

fn serve(bench: &Bench) {
    let double = async |Body(number): Body<u32>| Reply(number * 2);
    let responder = Responder::builder(bench.senders()).codecs(Codecs::json()).fallback(double).build().unwrap();
    tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
}

/// Rules: R-05.
#[tokio::test(start_paused = true)]
async fn several_requesters_share_an_entity_by_sessions() {
    let bench = Bench::new();
    let shared = shared(&bench);
    serve(&bench);
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let source = ReplySession::new("shared", shared.session_acceptor().unwrap());
            Client::new(bench.requester_with(source), Codecs::json())
        })
        .collect();
    for number in 0..100_u32 {
        let client = &clients[number as usize % 3];
        assert_eq!(within(client.call::<u32>(&number)).await.unwrap(), number * 2);
    }
    assert_eq!(shared.counts().active, 0);
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn the_session_of_a_reply_is_the_one_that_the_request_names() {
    let bench = Bench::new();
    let shared = shared(&bench);
    let source = ReplySession::with_id("shared", shared.session_acceptor().unwrap(), "mine");
    let requester = bench.requester_with(source);
    serve(&bench);
    let reply = within(requester.oneshot(Message::new("21"))).await.unwrap();
    assert_eq!((reply.session_id(), text(&reply)), (Some("mine"), "42"));
    assert_eq!(shared.counts().active, 0);
}

/// Rules: R-06.
#[tokio::test(start_paused = true)]
async fn the_id_of_a_session_is_random() {
    let bench = Bench::new();
    let shared = shared(&bench);
    let mut ids = std::collections::HashSet::new();
    for _ in 0..3 {
        let requester = bench.requester_with(ReplySession::new("shared", shared.session_acceptor().unwrap()));
        let call = tokio::spawn(requester.oneshot(Message::new("21")));
        let mut requests = bench.requests.receiver();
        let request = within(requests.receive()).await.unwrap();
        let id = request.message.reply_to_session_id().unwrap().to_owned();
        assert!(id.len() == 36 && ids.insert(id));
        request.complete().await.unwrap();
        call.abort();
    }
}

/// Rules: R-26.
#[tokio::test(start_paused = true)]
async fn the_lock_of_the_session_is_renewed_and_a_lost_one_is_taken_anew() {
    let bench = Bench::new();
    let shared = shared(&bench);
    let source = ReplySession::with_id("shared", shared.session_acceptor().unwrap(), "mine");
    let requester = bench.requester_with(source);
    let request = Message::builder().time_to_live(seconds(3_000)).build("21").unwrap();
    let call = tokio::spawn(requester.oneshot(request));
    // Ten locks later it is still held.
    sleep(seconds(300)).await;
    shared.accept_session("mine").unwrap_err();

    shared.lose_locks();
    let thief = shared.accept_session("mine").unwrap();
    sleep(seconds(10)).await;
    drop(thief);
    sleep(seconds(1)).await;
    shared.accept_session("mine").unwrap_err();

    serve(&bench);
    assert_eq!(text(&within(call).await.unwrap().unwrap()), "42");
}

/// Rules: R-05.
#[tokio::test(start_paused = true)]
async fn a_queue_that_others_receive_from_is_refused_when_it_is_built() {
    let bench = Bench::new();
    let builder = || Requester::builder(SendService::new(bench.requests.sender().unwrap()));
    let nowhere = builder().build(ReplyQueue::new("", bench.replies.receiver())).unwrap_err();
    assert_eq!(nowhere.kind(), BuildErrorKind::NoReplyAddress);
    let refused = builder().build(bench.reply_queue().shared(true)).unwrap_err();
    assert_eq!(refused.kind(), BuildErrorKind::SharedWithoutSessions);
    assert!(refused.to_string().contains("sessions"));
    drop(builder().build(bench.reply_queue().shared(false)).unwrap());
    let long = ReplySession::with_id("shared", shared(&bench).session_acceptor().unwrap(), "x".repeat(129));
    assert_eq!(builder().build(long).unwrap_err().kind(), BuildErrorKind::InvalidArgument);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_given_up_when_the_requester_goes() {
    let bench = Bench::new();
    let shared = shared(&bench);
    let source = ReplySession::with_id("shared", shared.session_acceptor().unwrap(), "mine");
    let requester = bench.requester_with(source);
    settle().await;
    shared.accept_session("mine").unwrap_err();
    drop(requester);
    settle().await;
    shared.accept_session("mine").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_not_there_any_more_ends_the_loop() {
    let bench = Bench::new();
    let source = ReplyQueue::new("replies", bench.replies.receiver());
    let sender = SendService::new(bench.requests.sender().unwrap());
    let (_requester, replies) = Requester::builder(sender).build(source).unwrap();
    bench.broker.delete("replies").unwrap();
    within(replies.run()).await.unwrap_err();
}
