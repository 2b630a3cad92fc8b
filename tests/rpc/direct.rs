//! Replies that are passed to their calls without being stored.

use consign::{Message, administration::QueueSettings, broker::Broker, transport::ReceiverExt};
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::{Bench, QueueRequester, answer, settle, text, within};

type Call = JoinHandle<Result<Message, consign::rpc::CallError>>;

/// A call whose request was completed, and the loop of the replies waits.
async fn begun(bench: &Bench, requester: &QueueRequester) -> (Call, Message) {
    let call = tokio::spawn(requester.clone().oneshot(Message::new("ask")));
    let request = bench.request().await;
    let message = request.message.clone();
    request.complete().await.unwrap();
    settle().await;
    (call, message)
}

/// Messages that arrived at the reply entity, were delivered and were completed; and those that are there.
fn replies(bench: &Bench) -> ([u64; 3], usize) {
    let all = bench.broker.statistics();
    let replies = all.iter().find(|entity| entity.path.as_str() == "replies").unwrap();
    let (totals, counts) = (replies.totals, &replies.counts);
    ([totals.arrived, totals.delivered, totals.completed], counts.active + counts.locked)
}

/// Rules: R-206.
#[tokio::test(start_paused = true)]
async fn a_reply_to_a_waiting_call_is_completed_with_its_send() {
    let bench = Bench::new();
    let requester = bench.requester();
    let (call, request) = begun(&bench, &requester).await;
    // No other task runs in between.
    bench.reply(answer(&request, "42")).await;
    assert_eq!((requester.answered(), replies(&bench)), (1, ([1, 1, 1], 0)));
    let reply = within(call).await.unwrap().unwrap();
    let received = reply.received().unwrap();
    assert_eq!((text(&reply), received.sequence_number.get(), received.delivery_count), ("42", 1, 1));
    assert!(bench.is_idle());
}

/// Rules: R-206.
#[tokio::test(start_paused = true)]
async fn a_message_that_no_call_waits_for_is_stored() {
    let bench = Bench::new();
    let requester = bench.requester();
    let (_call, request) = begun(&bench, &requester).await;
    bench.reply(Message::builder().correlation_id("another").build("?").unwrap()).await;
    assert_eq!((requester.answered(), replies(&bench)), (0, ([1, 0, 0], 1)));
    // It is before the reply, which waits for its turn.
    bench.reply(answer(&request, "42")).await;
    assert_eq!((requester.answered(), replies(&bench)), (0, ([2, 0, 0], 2)));
    settle().await;
    assert_eq!((requester.answered(), requester.orphans(), replies(&bench)), (1, 1, ([2, 2, 2], 0)));
}

/// Rules: R-206.
#[tokio::test(start_paused = true)]
async fn a_reply_is_stored_while_another_receiver_waits() {
    let bench = Bench::new();
    let requester = bench.requester();
    let (_call, request) = begun(&bench, &requester).await;
    let mut other = bench.replies.receiver();
    let receiving = tokio::spawn(async move { drop(other.receive().await) });
    settle().await;
    bench.reply(answer(&request, "42")).await;
    assert_eq!((requester.answered(), replies(&bench)), (0, ([1, 0, 0], 1)));
    receiving.abort();
}

/// Rules: R-206.
#[tokio::test(start_paused = true)]
async fn a_reply_is_stored_when_the_loop_has_ended() {
    let bench = Bench::new();
    let requester = bench.requester();
    let (call, request) = begun(&bench, &requester).await;
    requester.close();
    within(call).await.unwrap().unwrap_err();
    settle().await;
    bench.reply(answer(&request, "42")).await;
    assert_eq!((requester.answered(), replies(&bench)), (0, ([1, 0, 0], 1)));
}

/// Rules: R-206.
#[tokio::test]
async fn a_reply_on_a_disk_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path().join("broker")).unwrap();
    let create = |name| broker.create_queue(name, QueueSettings::default()).unwrap();
    let (requests, queue) = (create("requests"), create("replies"));
    let bench = Bench { requests, replies: queue, broker: broker.clone(), ..Bench::new() };
    let requester = bench.requester();
    let (call, request) = begun(&bench, &requester).await;
    let sent = consign::transport::Sender::send(&bench.replies.sender().unwrap(), answer(&request, "42"));
    assert_eq!((requester.answered(), replies(&bench)), (0, ([1, 0, 0], 1)));
    sent.await.unwrap();
    assert_eq!(text(&within(call).await.unwrap().unwrap()), "42");
    requester.close();
    settle().await;
    broker.close().await.unwrap();
}
