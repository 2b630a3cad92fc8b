//! Many sessions at once, and the messages of each in order.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue, QueueLease, SessionAcceptor, SessionReceiver},
    consumer::{ConsumeError, SessionConsumer},
    transport::{Delivery, ReceiveError, Receiver, ReceiverExt, Sender, Session, SessionSource},
};
use tokio::time::{Instant, sleep};
use tower::service_fn;

use crate::{Gauge, assert_empty, delivery, seconds, until, within};

/// What was handled, as `session:body`, in order.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn note(&self, message: &Message) {
        let body = String::from_utf8(message.payload().unwrap().to_vec()).unwrap();
        self.0.lock().unwrap().push(format!("{}:{body}", message.session_id().unwrap()));
    }

    fn of(&self, session: &str) -> Vec<String> {
        let all = self.0.lock().unwrap();
        all.iter().filter_map(|it| it.strip_prefix(&format!("{session}:"))).map(str::to_owned).collect()
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn sessions() -> Queue {
    let settings = QueueSettings::default().requires_session(true).lock_duration(seconds(10));
    Broker::new().create_queue("orders", settings).unwrap()
}

async fn fill(queue: &Queue, sessions: &[&'static str], messages: usize) {
    for body in 1..=messages {
        for session in sessions {
            let message = Message::builder().session_id(*session).build(body.to_string()).unwrap();
            queue.sender().unwrap().send(message).await.unwrap();
        }
    }
}

/// Rules: N-07, N-05.
#[tokio::test(start_paused = true)]
async fn sessions_run_side_by_side_and_each_in_order() {
    let queue = sessions();
    fill(&queue, &["a", "b", "c"], 5).await;
    let (journal, gauge) = (Journal::default(), Gauge::default());
    let (noted, inside) = (journal.clone(), gauge.clone());
    let alone = [("a", Gauge::default()), ("b", Gauge::default()), ("c", Gauge::default())];
    let each = alone.clone();
    let handler = service_fn(move |message: Message| {
        noted.note(&message);
        let mine = each.iter().find(|(id, _)| Some(*id) == message.session_id()).unwrap().1.enter();
        let entered = inside.enter();
        async move {
            sleep(seconds(1)).await;
            drop((mine, entered));
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler).concurrency(2);
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 15))).await.unwrap();
    assert_eq!((stats.sessions(), gauge.most()), (3, 2));
    for (session, gauge) in alone {
        assert_eq!((journal.of(session), gauge.most()), (["1", "2", "3", "4", "5"].map(String::from).to_vec(), 1));
    }
    assert_empty(&queue);
}

/// Rules: N-07.
#[tokio::test(start_paused = true)]
async fn an_abandoned_message_is_redelivered_before_those_after_it() {
    let queue = sessions();
    fill(&queue, &["a"], 3).await;
    let journal = Journal::default();
    let noted = journal.clone();
    let handler = service_fn(move |message: Message| {
        noted.note(&message);
        let fails = delivery(&message) < 3 && message.payload() == Some(b"2");
        async move { Ok::<_, Infallible>(if fails { Disposition::ABANDON } else { Disposition::Complete }) }
    });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler);
    let stats = consumer.stats();
    within(60, consumer.run_until(until(move || stats.completed() == 3))).await.unwrap();
    assert_eq!(journal.of("a"), ["1", "2", "2", "2", "3"]);
}

/// Sessions of another transport, whose locks never end.
struct Endless<T>(T);

impl SessionSource for Endless<SessionAcceptor> {
    type Session = Endless<SessionReceiver>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::Session, ReceiveError>> {
        self.0.poll_accept(cx).map_ok(Endless)
    }

    fn stop(&mut self) {
        self.0.stop();
    }
}

impl Receiver for Endless<SessionReceiver> {
    type Lease = QueueLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.0.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        self.0.stop();
    }
}

impl Session for Endless<SessionReceiver> {
    type Renew = <SessionReceiver as Session>::Renew;
    type Close = <SessionReceiver as Session>::Close;

    fn session_id(&self) -> &str {
        self.0.session_id()
    }

    fn lock_duration(&self) -> Duration {
        Duration::MAX
    }

    fn renew(&self) -> Self::Renew {
        Session::renew(&self.0)
    }

    fn close(self) -> Self::Close {
        Session::close(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_lock_never_ends_is_no_overflow() {
    let queue = sessions();
    fill(&queue, &["a"], 1).await;
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
    let consumer = SessionConsumer::new(Endless(queue.session_acceptor().unwrap()), handler);
    let stats = consumer.stats();
    within(60, consumer.run_until(until(move || stats.completed() == 1))).await.unwrap();
    assert_empty(&queue);
}

/// Rules: N-04.
#[tokio::test(start_paused = true)]
async fn a_session_that_stays_empty_is_closed_for_the_next() {
    let queue = sessions();
    fill(&queue, &["a", "b"], 2).await;
    let journal = Journal::default();
    let noted = journal.clone();
    let handler = service_fn(move |message: Message| {
        noted.note(&message);
        async { Ok::<_, Infallible>(Disposition::Complete) }
    });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler).concurrency(1);
    let consumer = consumer.idle_timeout(seconds(3));
    let (stats, started) = (consumer.stats(), Instant::now());
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 4))).await.unwrap();
    assert_eq!(journal.all(), ["a:1", "a:2", "b:1", "b:2"]);
    assert_eq!(stats.sessions(), 2);
    assert!(started.elapsed() < seconds(1), "{:?}", started.elapsed());
}

/// Rules: N-220.
/// An idle second for each would take 24: 200 sessions, eight at once.
#[tokio::test(start_paused = true)]
async fn an_empty_session_is_closed_at_once_for_one_that_waits() {
    const SESSIONS: usize = 200;
    let queue = sessions();
    for session in 0..SESSIONS {
        let message = Message::builder().session_id(format!("s-{session}")).build("1").unwrap();
        queue.sender().unwrap().send(message).await.unwrap();
    }
    let gauge = Gauge::default();
    let inside = gauge.clone();
    let handler = service_fn(move |_| {
        let entered = inside.enter();
        async move {
            sleep(Duration::from_millis(1)).await;
            drop(entered);
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler).concurrency(8);
    let (stats, began) = (consumer.stats(), Instant::now());
    let stats = within(60, consumer.run_until(until(move || stats.completed() == SESSIONS as u64))).await.unwrap();
    assert!(began.elapsed() < seconds(2), "{:?}", began.elapsed());
    assert_eq!((stats.sessions(), gauge.most()), (SESSIONS as u64, 8));
    assert_empty(&queue);
}

/// Rules: N-220.
#[tokio::test(start_paused = true)]
async fn an_empty_session_is_kept_while_no_other_waits() {
    let queue = sessions();
    fill(&queue, &["a", "b"], 1).await;
    let journal = Journal::default();
    let noted = journal.clone();
    let handler = service_fn(move |message: Message| {
        noted.note(&message);
        async { Ok::<_, Infallible>(Disposition::Complete) }
    });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler).concurrency(2);
    let stats = consumer.stats();
    let (sent, counted) = (queue.clone(), stats.clone());
    let more = async move {
        until(move || counted.completed() == 2).await;
        // Both slots are taken and nothing else waits.
        for round in 0..3 {
            sleep(Duration::from_millis(800)).await;
            fill(&sent, &["a", "b"], 1).await;
            let counted = stats.clone();
            until(move || counted.completed() == 4 + 2 * round).await;
        }
    };
    let stats = within(60, consumer.run_until(more)).await.unwrap();
    assert_eq!((stats.sessions(), journal.of("a").len(), journal.of("b").len()), (2, 4, 4));
}

/// Rules: N-220.
/// A consumer whose sessions have all something to do accepts no other, and leaves it to others.
#[tokio::test(start_paused = true)]
async fn a_busy_session_is_not_closed_for_one_that_waits() {
    let queue = sessions();
    fill(&queue, &["a", "b"], 20).await;
    let journal = Journal::default();
    let noted = journal.clone();
    let handler = service_fn(move |message: Message| {
        noted.note(&message);
        async {
            sleep(Duration::from_millis(100)).await;
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler).concurrency(1);
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 40))).await.unwrap();
    assert_eq!(stats.sessions(), 2);
    assert!(journal.all()[..20].iter().all(|handled| handled.starts_with("a:")), "{:?}", journal.all());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_while_a_session_is_kept_is_handled_at_once() {
    let queue = sessions();
    fill(&queue, &["a"], 1).await;
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler).idle_timeout(seconds(300));
    let stats = consumer.stats();
    let watched = stats.clone();
    let feed = async {
        // Longer than the lock, which is renewed meanwhile.
        sleep(seconds(60)).await;
        fill(&queue, &["a"], 1).await;
        until(|| watched.completed() == 2).await;
    };
    within(120, consumer.run_until(feed)).await.unwrap();
    assert_eq!((stats.sessions(), stats.completed(), stats.lock_lost()), (1, 2, 0));
}

/// Rules: N-06.
#[tokio::test(start_paused = true)]
async fn the_lock_is_renewed_under_a_long_handler_and_between_short_ones() {
    for (messages, each) in [(1, 35), (12, 4)] {
        let queue = sessions();
        fill(&queue, &["a"], messages).await;
        let handler = service_fn(move |message: Message| async move {
            assert_eq!(delivery(&message), 1);
            sleep(seconds(each)).await;
            Ok::<_, Infallible>(Disposition::Complete)
        });
        let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler);
        let stats = consumer.stats();
        let all = until(move || stats.completed() == messages as u64);
        let stats = within(120, consumer.run_until(all)).await.unwrap();
        assert_eq!((stats.sessions(), stats.handled(), stats.lock_lost()), (1, messages as u64, 0));
        assert_empty(&queue);
    }
}

/// Rules: N-08, S-75.
#[tokio::test(start_paused = true)]
async fn a_handler_of_a_lost_session_is_cancelled_and_the_delivery_counts() {
    let queue = sessions();
    fill(&queue, &["a"], 2).await;
    let journal = Journal::default();
    let noted = journal.clone();
    let handler = service_fn(move |message: Message| {
        noted.note(&message);
        let first = delivery(&message) == 1 && message.payload() == Some(b"1");
        async move {
            sleep(seconds(if first { 1_000 } else { 1 })).await;
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler);
    let stats = consumer.stats();
    let lost = async {
        sleep(seconds(1)).await;
        queue.lose_locks();
        until(|| stats.completed() == 2).await;
    };
    let stats = within(120, consumer.run_until(lost)).await.unwrap();
    assert_eq!((stats.sessions(), stats.cancelled(), stats.completed()), (2, 1, 2));
    assert_eq!(journal.of("a"), ["1", "1", "2"]);
}

/// Rules: N-09.
#[tokio::test(start_paused = true)]
async fn a_shutdown_finishes_handlers_and_closes_the_sessions_without_a_count() {
    let queue = sessions();
    fill(&queue, &["a", "b"], 3).await;
    let handler = service_fn(|_: Message| async {
        sleep(seconds(4)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler);
    let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!((stats.completed(), queue.counts().locked), (2, 0));
    for session in ["a", "b"] {
        let mut session = queue.accept_session(session).unwrap();
        let next = session.receive().await.unwrap();
        assert_eq!((next.message.payload(), delivery(&next.message)), (Some(&b"2"[..]), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_consumer_abandons_what_it_handled_and_closes_its_sessions() {
    let queue = sessions();
    fill(&queue, &["a"], 1).await;
    let handler = service_fn(|_: Message| async {
        sleep(seconds(1_000)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let mut run = Box::pin(SessionConsumer::new(queue.session_acceptor().unwrap(), handler).run());
    tokio::select! {
        _ = &mut run => panic!("it runs"),
        () = sleep(seconds(1)) => {}
    }
    drop(run);
    let mut session = queue.accept_session("a").unwrap();
    assert_eq!(delivery(&session.receive().await.unwrap().message), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_does_not_pass_ends_the_run() {
    let broker = Broker::new();
    let queue = broker.create_queue("orders", QueueSettings::default().requires_session(true)).unwrap();
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler);
    let run = tokio::spawn(consumer.run());
    sleep(seconds(1)).await;
    broker.delete("orders").unwrap();
    let error = within(10, run).await.unwrap().unwrap_err();
    assert!(matches!(error, ConsumeError::Receive(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn without_renewal_a_session_is_closed_at_half_of_its_lock_and_nothing_is_lost() {
    let queue = sessions();
    fill(&queue, &["a"], 4).await;
    let handler = service_fn(|message: Message| async move {
        assert_eq!(delivery(&message), 1);
        sleep(seconds(3)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler).renew_for(seconds(0));
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 4))).await.unwrap();
    assert_eq!((stats.sessions(), stats.renewed(), stats.lock_lost()), (2, 0, 0));
}
