//! Calls leave nothing behind, however they end.

use std::{future::Future, pin::Pin, time::Duration};

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue, QueueReceiver, QueueSender},
    message::EntityPath,
    rpc::{CallErrorKind, ReplyQueue, Requester},
    transport::{ReceiverExt, SendService, Sender},
};
use futures_util::FutureExt;
use tokio::{task::yield_now, time::sleep};
use tower::Service;

use super::LIVE;

/// What the tables may differ by between two moments with nothing in them.
const SLACK: isize = 4 << 10;
const AT_ONCE: usize = 64;

type Calls = Requester<SendService<QueueSender>>;
type Call = Pin<Box<<Calls as Service<Message>>::Future>>;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.replace('_', "").parse().ok()
}

/// A run that fails says how to repeat it.
struct Replay(u64, usize);

impl Drop for Replay {
    fn drop(&mut self) {
        let Self(seed, calls) = self;
        let test = "random_cancellation_and_late_replies_leave_no_bytes";
        println!("replay: SEED={seed} CONSIGN_CALLS={calls} cargo test --features full --test allocations {test}");
    }
}

struct World {
    rng: fastrand::Rng,
    requester: Calls,
    broker: Broker,
    requests: QueueReceiver,
    queues: [Queue; 2],
    /// Replies that are sent after their calls have gone.
    late: Vec<Message>,
    cancelled: u64,
    timed_out: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let broker = Broker::new();
        let queue = |path| broker.create_queue(path, QueueSettings::default()).expect("a new queue");
        let queues = [queue("requests"), queue("replies")];
        let sender = SendService::new(queues[0].sender().expect("a queue takes messages"));
        let source = ReplyQueue::new("replies", queues[1].receiver());
        let (requester, replies) = Requester::builder(sender).build(source).expect("a queue of its own");
        tokio::spawn(replies.run());
        let (rng, requests) = (fastrand::Rng::with_seed(seed), queues[0].receiver());
        Self { rng, requester, broker, requests, queues, late: Vec::new(), cancelled: 0, timed_out: 0 }
    }

    /// Gives the tables a size that no later round exceeds: more calls, and more late replies.
    async fn warm_up(&mut self) {
        let late = || Message::builder().correlation_id("of no call").build("a reply").expect("a valid message");
        self.late = (0..4 * AT_ONCE).map(|_| late()).collect();
        self.round(4 * AT_ONCE).await;
    }

    async fn run(&mut self, calls: usize) {
        for _ in 0..calls.div_ceil(AT_ONCE) {
            self.round(AT_ONCE).await;
        }
    }

    /// Some calls that are answered, answered twice, late, or not at all, and of which some are given up.
    async fn round(&mut self, at_once: usize) {
        let mut calls: Vec<_> = (0..at_once).map(|_| self.call()).collect();
        self.cancel(&mut calls, 8);
        let mut left = self.queues[0].counts().active;
        while left > 0 {
            let requests = self.requests.receive_batch(32).await.expect("the queue is there");
            left -= requests.len();
            for request in requests {
                let reply = answer(&request.message);
                request.complete().await.expect("locked");
                self.answer(reply);
            }
            self.cancel(&mut calls, 16);
            yield_now().await;
        }
        sleep(Duration::from_secs(1)).await;
        for call in calls {
            match call.now_or_never() {
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    assert_eq!(error.kind(), CallErrorKind::Timeout);
                    self.timed_out += 1;
                }
                None => panic!("a call outlives its deadline"),
            }
        }
        for reply in std::mem::take(&mut self.late) {
            self.send(reply);
        }
        while self.queues[1].counts().active + self.queues[1].counts().locked > 0 {
            yield_now().await;
        }
    }

    fn call(&mut self) -> Call {
        let wait = Duration::from_millis(self.rng.u64(1..500));
        let request = Message::builder().subject("ask").time_to_live(wait).build("a request").expect("a valid message");
        let mut call = Box::pin(self.requester.call(request));
        // One that is never polled has sent its request all the same.
        if self.rng.u32(..8) > 0 {
            assert!(call.as_mut().now_or_never().is_none());
        }
        call
    }

    fn cancel(&mut self, calls: &mut Vec<Call>, one_in: u32) {
        let before = calls.len();
        calls.retain(|_| self.rng.u32(..one_in) > 0);
        self.cancelled += (before - calls.len()) as u64;
    }

    fn answer(&mut self, reply: Message) {
        match self.rng.u32(..16) {
            0 => {}
            1..4 => self.late.push(reply),
            4 => {
                self.send(reply.clone());
                self.send(reply);
            }
            _ => self.send(reply),
        }
    }

    fn send(&self, reply: Message) {
        let path = EntityPath::new("replies").expect("a path");
        let sender = self.broker.sender(&path).expect("a queue");
        sender.send(reply).wait().expect("accepted");
    }
}

fn answer(request: &Message) -> Message {
    let id = request.message_id().expect("an id").to_owned();
    Message::builder().correlation_id(id).build("a reply").expect("a valid message")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(future)
}

/// Rules: R-23.
/// Attacks: 65.
#[test]
fn random_cancellation_and_late_replies_leave_no_bytes() {
    let calls = usize::try_from(number("CONSIGN_CALLS").unwrap_or(20_000)).expect("a number of calls");
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    let _replay = Replay(seed, calls);
    block_on(async {
        let mut world = World::new(seed);
        world.warm_up().await;
        world.run(calls).await;
        let before = LIVE.get();
        world.run(calls).await;
        let more = LIVE.get() - before;
        let World { requester, cancelled, timed_out, .. } = &world;
        let (answered, orphans) = (requester.answered(), requester.orphans());
        println!("{answered} answered, {orphans} late, {cancelled} given up, {timed_out} timed out: {more} bytes more");
        assert_eq!(requester.pending(), 0);
        assert!([answered, orphans, *cancelled, *timed_out].iter().all(|&count| count > calls as u64 / 100));
        assert!(more <= SLACK, "{more} bytes more than before");
    });
}
