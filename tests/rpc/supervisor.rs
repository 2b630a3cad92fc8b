//! Consumers whose handlers call, and the receive loop of their requester, under one supervisor.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Queue, QueueLease, QueueReceiver},
    codecs::Codecs,
    consumer::{Consumer, ConsumerState},
    routing::Body,
    rpc::{Replies, Reply, ReplyQueue, Requester, Responder},
    supervisor::{PartState, Supervisor, SupervisorErrorKind},
    transport::{Delivery, ReceiveError, Receiver, ReplySource, SendService, Sender},
};
use tokio::{
    sync::oneshot,
    time::{Instant, Sleep, sleep},
};
use tower::{BoxError, ServiceExt, service_fn};

use crate::{Bench, QueueRequester, request_builder, seconds, within};

/// A requester whose replies nothing receives yet.
fn requester(bench: &Bench) -> (QueueRequester, Replies<ReplyQueue<QueueReceiver>>) {
    request_builder(bench).build(bench.reply_queue()).unwrap()
}

/// Answers each request after a while.
fn serve(bench: &Bench, after: Duration) {
    let double = move |Body(number): Body<u32>| async move {
        sleep(after).await;
        Reply(number * 2)
    };
    let responder = Responder::builder(bench.senders()).codecs(Codecs::json()).fallback(double).build().unwrap();
    tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
}

/// A supervisor of a consumer whose handler calls and, before it in the order of parts, of the receive loop of its requester.
async fn supervise(bench: &Bench) -> (Supervisor, Queue) {
    let (requester, replies) = requester(bench);
    let orders = bench.broker.create_queue("orders", QueueSettings::default()).unwrap();
    orders.sender().unwrap().send(Message::new("an order")).await.unwrap();
    let receivers = orders.clone();
    let supervisor = Supervisor::new().replies("replies", replies).consumer("orders", move || {
        let requester = requester.clone();
        let handler = service_fn(move |_: Message| {
            let requester = requester.clone();
            async move { requester.oneshot(Message::new("21")).await.map(|_| Disposition::Complete) }
        });
        Consumer::new(receivers.receiver(), handler)
    });
    (supervisor, orders)
}

/// Rules: J-265.
#[tokio::test(start_paused = true)]
async fn a_handler_that_drains_gets_the_reply_of_its_call() {
    let bench = Bench::new();
    serve(&bench, seconds(5));
    let (supervisor, orders) = supervise(&bench).await;
    let (health, started) = (supervisor.health(), Instant::now());
    within(supervisor.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!(started.elapsed(), seconds(5));
    let consumer = health.part("orders").unwrap().consumer.unwrap();
    assert_eq!((consumer.completed, consumer.abandoned), (1, 0));
    assert_eq!((orders.counts().active, orders.counts().locked), (0, 0));
    assert!(health.snapshot().parts.iter().all(|part| part.state == PartState::Ended));
}

/// Rules: J-262, J-265.
#[tokio::test(start_paused = true)]
async fn a_receive_loop_that_waits_for_others_is_aborted_with_them_and_is_not_blamed() {
    let bench = Bench::new();
    let (supervisor, orders) = supervise(&bench).await;
    let supervisor = supervisor.drain_timeout(seconds(10));
    let (health, started) = (supervisor.health(), Instant::now());
    let error = within(supervisor.run_until(sleep(seconds(1)))).await.unwrap_err();
    assert_eq!((error.kind(), started.elapsed()), (SupervisorErrorKind::DrainTimeout, seconds(11)));
    assert_eq!(error.parts().collect::<Vec<_>>(), ["orders"]);
    assert!(health.snapshot().parts.iter().all(|part| part.state == PartState::Aborted));
    assert_eq!((orders.counts().active, orders.counts().locked), (1, 0));
}

/// Rules: J-265.
#[tokio::test(start_paused = true)]
async fn a_receive_loop_ends_at_once_where_it_has_nothing_to_wait_for() {
    let bench = Bench::new();
    let (_requester, replies) = requester(&bench);
    let supervisor = Supervisor::new().replies("replies", replies);
    let health = supervisor.health();
    let (stop, stopped) = oneshot::channel::<()>();
    let run = tokio::spawn(supervisor.run_until(stopped));
    sleep(seconds(60)).await;
    assert!(!run.is_finished(), "calls of the application need it");
    assert_eq!(health.part("replies").unwrap().consumer.unwrap().state, ConsumerState::Running);
    drop(stop);
    within(run).await.unwrap().unwrap();

    // The other parts end before the shutdown, and one fails.
    let (_requester, replies) = requester(&bench);
    let supervisor = Supervisor::new().part("ends", async |_| Ok::<_, BoxError>(())).replies("replies", replies).once(
        "fails",
        async |_| {
            sleep(seconds(10)).await;
            Err::<(), BoxError>("broken".into())
        },
    );
    let (health, started) = (supervisor.health(), Instant::now());
    let error = within(supervisor.run()).await.unwrap_err();
    assert_eq!((error.parts().next(), started.elapsed()), (Some("fails"), seconds(10)));
    assert_eq!(health.part("replies").unwrap().state, PartState::Ended);
}

/// A queue for replies whose receiver takes a while to stop.
struct SlowToStop {
    queue: ReplyQueue<QueueReceiver>,
    takes: Duration,
    stops: Option<Pin<Box<Sleep>>>,
}

impl Receiver for SlowToStop {
    type Lease = QueueLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.queue.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        self.queue.stop();
        self.stops = Some(Box::pin(sleep(self.takes)));
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stops.as_mut().map_or(Poll::Ready(()), |stops| stops.as_mut().poll(cx))
    }
}

impl ReplySource for SlowToStop {
    fn address(&self) -> &str {
        self.queue.address()
    }

    fn session_id(&self) -> Option<&str> {
        self.queue.session_id()
    }

    fn is_exclusive(&self) -> bool {
        self.queue.is_exclusive()
    }
}

/// Rules: J-265.
#[tokio::test(start_paused = true)]
async fn a_receive_loop_has_a_second_after_the_others_also_at_the_drain_timeout() {
    let millis = Duration::from_millis;
    for (takes, ends, state) in [(500, 11_400, PartState::Ended), (3_600_000, 11_900, PartState::Aborted)] {
        let bench = Bench::new();
        let queue = SlowToStop { queue: bench.reply_queue(), takes: millis(takes), stops: None };
        let sender = SendService::new(bench.requests.sender().unwrap());
        let (_requester, replies) = Requester::builder(sender).build(queue).unwrap();
        // It ends shortly before the drain timeout.
        let supervisor =
            Supervisor::new().drain_timeout(seconds(10)).replies("replies", replies).once("late", async move |_| {
                sleep(millis(10_900)).await;
                Ok::<_, BoxError>(())
            });
        let (health, started) = (supervisor.health(), Instant::now());
        let ended = within(supervisor.run_until(sleep(seconds(1)))).await;
        assert_eq!(started.elapsed(), millis(ends), "{ended:?}");
        assert_eq!(health.part("replies").unwrap().state, state);
        assert_eq!(health.part("late").unwrap().state, PartState::Ended);
        let named = ended.err().map(|error| error.parts().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(named, (state == PartState::Aborted).then(|| vec!["replies".to_owned()]));
    }
}
