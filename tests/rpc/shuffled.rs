//! Many calls at once, whose replies come in any order, twice, late, or not at all.

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    rpc::{CallErrorKind, ReplyQueue, ReplySession, Requester},
    transport::{ReceiverExt, SendService, Sender},
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::sleep;
use tower::ServiceExt;

use crate::{QueueRequester, answer, seconds, text, within};

const INSTANCES: usize = 3;
const SEEDS: [u64; 5] = [1, 2, 0x00C0_FFEE, 0x5EED, 0xDEAD];

fn seeds() -> Vec<u64> {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    seed.map_or(SEEDS.to_vec(), |seed| vec![seed])
}

fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

/// How the replies of the instances are kept apart.
#[derive(Clone, Copy, Debug)]
enum Style {
    QueueEach,
    SharedBySession,
    SuppliedByTheUser,
}

/// A run that fails says how to repeat it.
struct Replay(u64, Style);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(seed, style) = self;
            eprintln!(
                "{style:?}; replay: SEED={seed} cargo test --features full --test rpc shuffled_repeated_and_late_replies_find_their_calls"
            );
        }
    }
}

fn requesters(broker: &Broker, requests: &Queue, style: Style) -> Vec<QueueRequester> {
    let builder =
        || Requester::builder(SendService::new(requests.sender().unwrap())).timeout(seconds(60)).max_in_flight(100_000);
    let shared = broker.create_queue("shared", QueueSettings::default().requires_session(true)).unwrap();
    (0..INSTANCES)
        .map(|instance| {
            let path = format!("replies.{instance}");
            let own = || broker.create_queue(&path, QueueSettings::default()).unwrap();
            match style {
                Style::QueueEach => run(builder().build(ReplyQueue::new(&*path, own().receiver()))),
                Style::SuppliedByTheUser => {
                    run(builder().build(ReplyQueue::new(&*path, own().receive_and_delete()).shared(false)))
                }
                Style::SharedBySession => {
                    run(builder().build(ReplySession::new("shared", shared.session_acceptor().unwrap())))
                }
            }
        })
        .collect()
}

fn run<R: consign::transport::ReplySource>(
    built: Result<(QueueRequester, consign::rpc::Replies<R>), consign::BuildError>,
) -> QueueRequester {
    let (requester, replies) = built.unwrap();
    tokio::spawn(replies.run());
    requester
}

/// Answers in any order: some twice, some after half a minute, and every fiftieth never.
async fn answer_in_any_order(broker: Broker, requests: Queue, mut rng: fastrand::Rng) {
    let mut receiver = requests.receiver();
    loop {
        let mut batch = receiver.receive_batch(500).await.unwrap();
        rng.shuffle(&mut batch);
        for request in batch {
            let body = request.message.payload().unwrap().to_vec();
            let mut reply = answer(&request.message, body);
            if let Some(session) = request.message.reply_to_session_id() {
                reply.properties_mut().set_session_id(session.to_owned()).unwrap();
            }
            let path = consign::message::EntityPath::new(request.message.reply_to().unwrap()).unwrap();
            request.complete().await.unwrap();
            let sender = broker.sender(&path).unwrap();
            match rng.u32(..50) {
                0 => continue,
                1..10 => {
                    let late = Duration::from_millis(rng.u64(..30_000));
                    let (sender, reply) = (sender.clone(), reply.clone());
                    tokio::spawn(async move {
                        sleep(late).await;
                        sender.send(reply).await.unwrap();
                    });
                }
                _ => sender.send(reply.clone()).await.unwrap(),
            }
            if rng.u32(..5) == 0 {
                sender.send(reply).await.unwrap();
            }
        }
        tokio::task::yield_now().await;
    }
}

async fn calls(seed: u64, style: Style, calls: usize) {
    let _replay = Replay(seed, style);
    let broker = Broker::new();
    let requests = broker.create_queue("requests", QueueSettings::default()).unwrap();
    let requesters = requesters(&broker, &requests, style);
    let answering = tokio::spawn(answer_in_any_order(broker.clone(), requests.clone(), fastrand::Rng::with_seed(seed)));

    let mut running: FuturesUnordered<_> = (0..calls)
        .map(|number| {
            let requester = requesters[number % INSTANCES].clone();
            let call = requester.oneshot(Message::new(number.to_string()));
            async move { (number, call.await) }
        })
        .collect();
    let (mut answered, mut timed_out) = (0, 0);
    while let Some((number, reply)) = within(running.next()).await {
        match reply {
            Ok(reply) => {
                assert_eq!(text(&reply), number.to_string(), "a reply of another call");
                answered += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), CallErrorKind::Timeout);
                timed_out += 1;
            }
        }
    }
    assert_eq!(answered + timed_out, calls);
    assert!(timed_out < calls / 20 && answered > calls / 2, "{timed_out} timed out");
    sleep(seconds(60)).await;
    for requester in &requesters {
        assert_eq!(requester.pending(), 0);
    }
    let taken: u64 = requesters.iter().map(QueueRequester::answered).sum();
    assert_eq!(usize::try_from(taken).unwrap(), answered);
    for queue in broker.entities() {
        let counts = broker.queue(queue.path.as_str()).unwrap().counts();
        assert_eq!((counts.active, counts.locked, counts.dead_lettered), (0, 0, 0), "{}", queue.path);
    }
    answering.abort();
}

/// Rules: I-29.
/// Attacks: 64.
#[tokio::test(start_paused = true)]
async fn shuffled_repeated_and_late_replies_find_their_calls() {
    for (at, seed) in seeds().into_iter().enumerate() {
        let each = number("CONSIGN_CALLS", if at == 0 { 10_000 } else { 1_000 });
        for style in [Style::QueueEach, Style::SharedBySession, Style::SuppliedByTheUser] {
            calls(seed, style, each).await;
        }
    }
}

/// Rules: I-29.
#[tokio::test(start_paused = true)]
async fn random_cancellation_leaves_nothing_behind() {
    let broker = Broker::new();
    let requests = broker.create_queue("requests", QueueSettings::default()).unwrap();
    let requesters = requesters(&broker, &requests, Style::QueueEach);
    for seed in seeds() {
        let _replay = Replay(seed, Style::QueueEach);
        let mut rng = fastrand::Rng::with_seed(seed);
        let answering = tokio::spawn(answer_in_any_order(broker.clone(), requests.clone(), rng.fork()));
        let mut running = Vec::new();
        for number in 0..number("CONSIGN_CALLS", 2_000) {
            let requester = requesters[number % INSTANCES].clone();
            running.push(tokio::spawn(requester.oneshot(Message::new(number.to_string()))));
            if rng.u32(..3) == 0 {
                running.swap_remove(rng.usize(..running.len())).abort();
            }
            if rng.u32(..100) == 0 {
                tokio::task::yield_now().await;
            }
        }
        for call in running.iter().filter(|_| rng.bool()) {
            call.abort();
        }
        for call in running {
            let _cancelled_or_not = within(call).await;
        }
        sleep(seconds(60)).await;
        answering.abort();
        assert!(requesters.iter().all(|requester| requester.pending() == 0));
    }
    let orphans: u64 = requesters.iter().map(QueueRequester::orphans).sum();
    assert!(orphans > 0, "no reply came too late, so nothing was tried");
}
