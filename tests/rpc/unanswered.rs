//! A broker, a store of replies, and a session of replies that do not answer.

use std::{
    collections::VecDeque,
    future::{Ready, pending, ready},
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    broker::{QueueLease, QueueReceiver},
    codecs::Codecs,
    message::EntityPath,
    middleware::dedup::{DedupKey, StoreError},
    routing::Body,
    rpc::{CallErrorKind, RecordedReplies, RecordedReply, Reply, ReplySession, ReplyStore, Responder},
    time::Timestamp,
    transport::{
        AcceptSession, BoxFuture, Delivery, ErrorKind, ReceiveError, Receiver, ReceiverExt, SendError, Sender, Session,
        SettleError,
    },
};
use tokio::time::{Instant, sleep};
use tower::{Service, ServiceExt};

use crate::{Bench, request_builder, seconds, within};

/// Is not ready, or does not answer.
#[derive(Clone, Copy)]
enum Silent {
    Readying,
    Sending,
}

impl Service<Message> for Silent {
    type Response = ();
    type Error = SendError;
    type Future = BoxFuture<Result<(), SendError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if matches!(self, Self::Readying) { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn call(&mut self, _: Message) -> Self::Future {
        Box::pin(pending())
    }
}

fn request() -> Message {
    Message::builder().subject("double").message_id("question").reply_to("replies").build("21").unwrap()
}

async fn double(Body(number): Body<u32>) -> Reply<u32> {
    Reply(number * 2)
}

/// Rules: R-230.
#[tokio::test(start_paused = true)]
async fn a_reply_that_is_not_accepted_in_time_abandons_the_request() {
    for silent in [Silent::Readying, Silent::Sending] {
        let responder = Responder::builder(move |_: &EntityPath| Ok(silent))
            .operation_timeout(seconds(5))
            .codecs(Codecs::json())
            .answer("double", double)
            .build()
            .unwrap();
        let (stats, started) = (responder.stats(), Instant::now());
        let answer = within(responder.oneshot(request())).await.unwrap();
        assert_eq!((answer, started.elapsed()), (Disposition::ABANDON, seconds(5)));
        assert_eq!((stats.undelivered(), stats.answered()), (1, 0));
    }
}

/// Keeps nothing, and does not say so.
struct SilentStore;

impl ReplyStore for SilentStore {
    async fn put(&self, _: DedupKey<'_>, _: RecordedReply) -> Result<(), StoreError> {
        pending().await
    }

    async fn find(&self, _: DedupKey<'_>) -> Result<Option<RecordedReply>, StoreError> {
        pending().await
    }
}

/// Rules: R-230.
#[tokio::test(start_paused = true)]
async fn a_reply_that_is_not_recorded_in_time_is_sent_all_the_same() {
    let bench = Bench::new();
    let responder = Responder::builder(bench.senders())
        .operation_timeout(seconds(5))
        .record(RecordedReplies::in_store(SilentStore))
        .codecs(Codecs::json())
        .answer("double", double)
        .build()
        .unwrap();
    let stats = responder.stats();
    let replay = responder.replay();
    assert_eq!(within(responder.oneshot(request())).await.unwrap(), Disposition::Complete);
    assert_eq!((stats.answered(), stats.record_failed()), (1, 1));
    assert_eq!(bench.replies.counts().active, 1);
    // A duplicate of the request comes again, for the store may answer then.
    assert_eq!(within(replay.oneshot(request())).await.unwrap(), Disposition::ABANDON);
    assert_eq!(stats.record_failed(), 2);
}

/// Accepts by a script: `false` for an accept that is not answered.
struct Accepting {
    bench: Arc<Bench>,
    answers: VecDeque<bool>,
    accepted: Arc<Mutex<Vec<Instant>>>,
}

/// A session whose renewal is not answered.
struct SilentSession(QueueReceiver);

impl AcceptSession for Accepting {
    type Session = SilentSession;
    type Accept = BoxFuture<Result<SilentSession, ReceiveError>>;

    fn accept(&mut self, _: &str) -> Self::Accept {
        self.accepted.lock().unwrap().push(Instant::now());
        let receiver = self.bench.replies.receiver();
        match self.answers.pop_front() {
            Some(false) => Box::pin(pending()),
            _ => Box::pin(ready(Ok(SilentSession(receiver)))),
        }
    }
}

impl Receiver for SilentSession {
    type Lease = QueueLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.0.poll_receive(cx, max, out)
    }
}

impl Session for SilentSession {
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;
    type Close = Ready<Result<(), SettleError>>;

    fn session_id(&self) -> &'static str {
        "a"
    }

    fn lock_duration(&self) -> Duration {
        seconds(20)
    }

    fn renew(&self) -> Self::Renew {
        Box::pin(pending())
    }

    fn close(self) -> Self::Close {
        ready(Ok(()))
    }
}

/// Rules: R-231.
#[tokio::test(start_paused = true)]
async fn the_session_of_the_replies_that_is_not_locked_in_time_is_locked_again() {
    let bench = Arc::new(Bench::new());
    let accepted = Arc::new(Mutex::new(Vec::new()));
    let acceptor =
        Accepting { bench: Arc::clone(&bench), answers: [false, true].into(), accepted: Arc::clone(&accepted) };
    let mut replies = ReplySession::new("replies", acceptor).operation_timeout(seconds(5));
    let started = Instant::now();
    let error = within(replies.receive()).await.map(|_| ()).unwrap_err();
    assert_eq!((error.kind(), started.elapsed()), (ErrorKind::ServiceTimeout, seconds(5)));
    assert!(error.is_retryable());
    bench.replies.sender().unwrap().send(Message::new("a reply")).await.unwrap();
    within(replies.receive()).await.unwrap().complete().await.unwrap();
    assert_eq!(accepted.lock().unwrap().len(), 2);
}

/// Rules: R-231.
#[tokio::test(start_paused = true)]
async fn the_session_of_the_replies_is_locked_anew_when_its_renewals_are_not_answered() {
    let bench = Arc::new(Bench::new());
    let accepted = Arc::new(Mutex::new(Vec::new()));
    let acceptor = Accepting { bench, answers: VecDeque::new(), accepted: Arc::clone(&accepted) };
    let mut replies = ReplySession::new("replies", acceptor).operation_timeout(seconds(3));
    let started = Instant::now();
    let waiting = tokio::time::timeout(seconds(30), replies.receive()).await;
    assert!(waiting.is_err(), "no reply has come");
    let accepted: Vec<_> = accepted.lock().unwrap().iter().map(|at| at.duration_since(started).as_secs()).collect();
    assert_eq!(accepted, [0, 20], "when the lock has ended");
}

/// Fails once, and is not answered after that.
struct FailsOnce(bool);

impl AcceptSession for FailsOnce {
    type Session = SilentSession;
    type Accept = BoxFuture<Result<SilentSession, ReceiveError>>;

    fn accept(&mut self, _: &str) -> Self::Accept {
        if std::mem::replace(&mut self.0, true) {
            Box::pin(pending())
        } else {
            Box::pin(ready(Err(ReceiveError::new(ErrorKind::CommunicationProblem))))
        }
    }
}

/// Rules: R-32.
#[tokio::test(start_paused = true)]
async fn no_request_is_sent_while_the_session_of_the_replies_is_not_locked_again() {
    let bench = Bench::new();
    let (requester, replies) = request_builder(&bench).build(ReplySession::new("replies", FailsOnce(false))).unwrap();
    tokio::spawn(replies.run());
    sleep(seconds(1)).await;
    let error = within(requester.oneshot(Message::new("ask"))).await.unwrap_err();
    assert_eq!((error.kind(), bench.requests.counts().active), (CallErrorKind::Disconnected, 0));
}
