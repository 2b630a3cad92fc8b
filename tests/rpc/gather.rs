//! One request, several replies.

use std::num::NonZeroUsize;

use consign::{
    Message,
    administration::{SubscriptionSettings, TopicSettings},
    codecs::Codecs,
    consumer::Consumer,
    routing::Body,
    rpc::{CallErrorKind, Client, Fault, Gather, Reply, ReplyQueue, Requester, Responder},
    transport::{ErrorKind, SendError, SendService},
};
use tokio::time::{Instant, sleep};
use tower::{Service, ServiceExt, service_fn};

use crate::{Bench, answer, seconds, settle, text, within};

fn gather(max: usize) -> Gather {
    let request = Message::builder().time_to_live(seconds(10)).build("ask").unwrap();
    Gather { request, max: NonZeroUsize::new(max).unwrap() }
}

/// Rules: R-02.
#[tokio::test(start_paused = true)]
async fn the_stream_ends_after_as_many_as_were_requested() {
    let bench = Bench::new();
    let requester = bench.requester();
    let mut answers = requester.clone().oneshot(gather(3)).await.unwrap();
    let request = bench.request().await.message.clone();
    for body in ["1", "2", "3", "4"] {
        bench.reply(answer(&request, body)).await;
    }
    settle().await;
    // The fourth is kept nowhere.
    assert_eq!((requester.answered(), requester.orphans()), (3, 1));
    for body in ["1", "2", "3"] {
        assert_eq!(text(&answers.next().await.unwrap().unwrap()), body);
    }
    // It leaves its place although it is still there.
    assert_eq!(requester.pending(), 0);
    assert!(answers.next().await.is_none() && answers.next().await.is_none());
}

/// Rules: R-02.
#[tokio::test(start_paused = true)]
async fn the_stream_ends_at_the_deadline() {
    let bench = Bench::new();
    let requester = bench.requester();
    let began = Instant::now();
    let mut answers = requester.clone().oneshot(gather(100)).await.unwrap();
    let request = bench.request().await.message.clone();
    bench.reply(answer(&request, "1")).await;
    assert_eq!(text(&within(answers.next()).await.unwrap().unwrap()), "1");
    sleep(seconds(9)).await;
    bench.reply(answer(&request, "2")).await;
    assert_eq!(text(&within(answers.next()).await.unwrap().unwrap()), "2");
    assert!(within(answers.next()).await.is_none());
    assert_eq!(began.elapsed(), seconds(10));
}

/// Rules: R-02.
#[tokio::test(start_paused = true)]
async fn a_message_counts_once_and_not_after_the_deadline() {
    let bench = Bench::new();
    let requester = bench.requester();
    let mut answers = requester.clone().oneshot(gather(3)).await.unwrap();
    let request = bench.request().await.message.clone();
    let mut reply = answer(&request, "1");
    reply.properties_mut().set_message_id("one").unwrap();
    bench.reply(reply.clone()).await;
    bench.reply(reply).await;
    settle().await;
    assert_eq!((requester.answered(), requester.orphans()), (1, 1));
    // Nobody looks until it is over.
    sleep(seconds(10)).await;
    bench.reply(answer(&request, "late")).await;
    settle().await;
    assert_eq!(requester.orphans(), 2);
    assert_eq!(text(&answers.next().await.unwrap().unwrap()), "1");
    assert!(answers.next().await.is_none());
    assert_eq!(requester.pending(), 0);
}

/// Rules: R-02.
#[tokio::test(start_paused = true)]
async fn no_reply_is_an_end_and_a_lost_connection_an_error() {
    let bench = Bench::new();
    let requester = bench.requester();
    let mut nothing = requester.clone().oneshot(gather(1)).await.unwrap();
    assert!(within(nothing.next()).await.is_none());

    let mut answers = requester.clone().oneshot(gather(2)).await.unwrap();
    requester.close();
    assert_eq!(answers.next().await.unwrap().unwrap_err().kind(), CallErrorKind::Closed);
    assert!(answers.next().await.is_none());
}

/// Rules: R-02.
#[tokio::test(start_paused = true)]
async fn replies_that_have_arrived_are_worth_more_than_the_loss_of_the_confirmation() {
    // The broker stores the request, and its answer is lost: with the connection, or silently.
    for lost_after in [Some(seconds(1)), None] {
        let bench = Bench::new();
        let inner = SendService::new(bench.requests.sender().unwrap());
        let sender = service_fn(move |request: Message| {
            let sent = inner.clone().oneshot(request);
            async move {
                sent.await?;
                match lost_after {
                    Some(after) => sleep(after).await,
                    None => std::future::pending::<()>().await,
                }
                Err::<(), _>(SendError::new(ErrorKind::CommunicationProblem))
            }
        });
        let requester = bench.requester().with_sender(sender);
        let gathering = tokio::spawn(requester.clone().oneshot(gather(2)));
        let request = bench.request().await.message.clone();
        bench.reply(answer(&request, "1")).await;
        let mut answers = within(gathering).await.unwrap().unwrap();
        assert_eq!(text(&within(answers.next()).await.unwrap().unwrap()), "1");
        assert!(within(answers.next()).await.is_none());
        // Without a reply it is the error of the send.
        let kind = match lost_after {
            Some(_) => CallErrorKind::Send,
            None => CallErrorKind::Timeout,
        };
        assert_eq!(within(requester.oneshot(gather(2))).await.unwrap_err().kind(), kind);
    }
}

/// Rules: R-03.
#[tokio::test(start_paused = true)]
async fn all_subscribers_of_a_topic_answer_and_one_of_them_with_a_fault() {
    let bench = Bench::new();
    let topic = bench.broker.create_topic("questions", TopicSettings::default()).unwrap();
    for name in ["north", "south", "west"] {
        let subscription = topic.create_subscription(name, SubscriptionSettings::default()).unwrap();
        let stock = move |Body(sku): Body<String>| async move {
            if name == "west" { Err(Fault::application("Closed")) } else { Ok(format!("{name}: {sku}")) }
        };
        let responder =
            Responder::builder(bench.senders()).codecs(Codecs::json()).answer("stock", stock).build().unwrap();
        tokio::spawn(Consumer::new(subscription.queue().receiver(), responder).run());
    }
    let (everyone, replies) = Requester::builder(SendService::new(topic.sender()))
        .timeout(seconds(5))
        .build(ReplyQueue::new("replies", bench.replies.receiver()))
        .unwrap();
    tokio::spawn(replies.run());
    let client = Client::new(everyone.clone(), Codecs::json()).subject("stock");
    let mut answers = client.call_many::<String>(&"nail", NonZeroUsize::new(10).unwrap()).await.unwrap();
    let (mut read, mut faults) = (Vec::new(), 0);
    while let Some(answer) = within(answers.next()).await {
        match answer {
            Ok(text) => read.push(text),
            Err(error) => {
                assert_eq!(error.fault().unwrap().code().as_str(), "Closed");
                faults += 1;
            }
        }
    }
    read.sort();
    assert_eq!((read, faults), (vec!["north: nail".to_owned(), "south: nail".to_owned()], 1));
    drop(answers);
    assert_eq!(everyone.pending(), 0);
}

/// Rules: R-03.
#[tokio::test(start_paused = true)]
async fn replies_may_go_to_a_topic() {
    let bench = Bench::new();
    let topic = bench.broker.create_topic("answers", TopicSettings::default()).unwrap();
    let mine = topic.create_subscription("mine", SubscriptionSettings::default()).unwrap();
    let double = async |Body(number): Body<u32>| Reply(number * 2);
    let responder = Responder::builder(bench.senders()).codecs(Codecs::json()).fallback(double).build().unwrap();
    tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
    let requester = bench.requester_with(ReplyQueue::new("answers", mine.queue().receiver()));
    assert_eq!(within(Client::new(requester, Codecs::json()).call::<u32>(&21)).await.unwrap(), 42);
}

/// Rules: R-30.
#[tokio::test(start_paused = true)]
async fn a_gather_over_the_limit_is_refused() {
    let bench = Bench::new();
    let sender = SendService::new(bench.requests.sender().unwrap());
    let (mut requester, _replies) = Requester::builder(sender).max_in_flight(0).build(bench.reply_queue()).unwrap();
    let refused = Service::<Gather>::call(&mut requester, gather(1)).await.unwrap_err();
    assert_eq!(refused.kind(), CallErrorKind::TooManyRequests);
    assert_eq!(bench.requests.counts().active, 0);
}

/// Rules: R-32.
#[tokio::test(start_paused = true)]
async fn a_gather_whose_request_is_being_sent_fails_when_the_requester_is_closed() {
    let bench = Bench::new();
    let sender = service_fn(|_: Message| std::future::pending::<Result<(), SendError>>());
    let (requester, replies) = Requester::builder(sender).build(bench.reply_queue()).unwrap();
    tokio::spawn(replies.run());
    let gathering = tokio::spawn(requester.clone().oneshot(gather(2)));
    settle().await;
    requester.close();
    settle().await;
    assert!(gathering.is_finished(), "it waits for its deadline");
    assert_eq!(gathering.await.unwrap().unwrap_err().kind(), CallErrorKind::Closed);
}
