//! Receivers that wait: who is woken, and what a receiver that goes away leaves behind.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use consign::{
    Message,
    broker::{Broker, Queue, QueueLease, QueueReceiver},
    message::MessageBody,
    time::{Clock, SystemClock},
    transport::{Delivery, ErrorKind, Receiver, ReceiverExt, Sender},
};
use tokio::{
    runtime,
    task::yield_now,
    time::{Instant, sleep, timeout},
};
use tokio_test::task;

use crate::support::{Bench, Ended, LOCK, facts, settings, take, text};

/// A queue on tokio's clock.
fn queue() -> Queue {
    Broker::new().create_queue("orders", settings()).unwrap()
}

fn send(queue: &Queue, body: impl Into<MessageBody>) {
    queue.sender().unwrap().send(Message::new(body)).wait().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_a_message_arrives() {
    let queue = queue();
    let mut receiver = queue.receiver();
    let mut waiting = task::spawn(receiver.receive());
    assert!(waiting.poll().is_pending());
    send(&queue, "a");
    assert!(waiting.is_woken());
    let Poll::Ready(delivery) = waiting.poll() else { panic!("woken in vain") };
    assert_eq!(text(&delivery.unwrap().message), "a");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_limited_ends_in_a_timeout() {
    let (queue, began) = (queue(), Instant::now());
    let mut receiver = queue.receiver();
    let error = receiver.receive_within(LOCK).await.unwrap_err();
    assert_eq!((error.kind(), began.elapsed()), (ErrorKind::ServiceTimeout, LOCK));
    send(&queue, "a");
    assert_eq!(text(&receiver.receive_within(Duration::ZERO).await.unwrap().message), "a");
}

#[tokio::test(start_paused = true)]
async fn one_message_wakes_one_receiver() {
    let queue = queue();
    let (mut first, mut second) = (queue.receiver(), queue.receiver());
    let (mut first, mut second) = (task::spawn(first.receive()), task::spawn(second.receive()));
    assert!(first.poll().is_pending() && second.poll().is_pending());
    send(&queue, "a");
    assert!(first.is_woken() && !second.is_woken());
    send(&queue, "b");
    assert!(second.is_woken());
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_for_a_receiver_that_goes_away_reaches_another() {
    let queue = queue();
    let (mut first, mut second) = (queue.receiver(), queue.receiver());
    let mut gone = task::spawn(first.receive());
    let mut stays = task::spawn(second.receive());
    assert!(gone.poll().is_pending() && stays.poll().is_pending());
    send(&queue, "a");
    assert!(gone.is_woken() && !stays.is_woken());
    drop(gone);
    assert!(stays.is_woken());
    assert!(stays.poll().is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_dropped_while_it_waits_leaves_the_line() {
    let queue = queue();
    let (mut first, mut second) = (queue.receiver(), queue.receiver());
    let (mut gone, mut stays) = (task::spawn(first.receive()), task::spawn(second.receive()));
    assert!(gone.poll().is_pending() && stays.poll().is_pending());
    drop(gone);
    send(&queue, "a");
    assert!(stays.is_woken());
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_was_woken_in_vain_keeps_its_place() {
    let queue = queue();
    let mut receivers = [queue.receiver(), queue.receiver(), queue.receiver()];
    let mut waiting = receivers.each_mut().map(|receiver| task::spawn(receiver.receive()));
    assert!(waiting.iter_mut().all(|receive| receive.poll().is_pending()));
    // Someone else takes the message that woke the first.
    send(&queue, "a");
    assert!(waiting[0].is_woken());
    let delivery = queue.receive_and_delete().receive().await.unwrap();
    assert!(waiting[0].poll().is_pending());
    send(&queue, "b");
    assert_eq!(waiting.each_ref().map(task::Spawn::is_woken), [true, false, false]);
    drop(delivery);
}

/// Rules: S-28.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_waits_gets_a_message_when_its_lock_ends() {
    let queue = queue();
    send(&queue, "a");
    let held = queue.receiver().receive().await.unwrap();
    let began = Instant::now();
    let delivery = queue.receiver().receive().await.unwrap();
    assert_eq!((began.elapsed(), facts(&delivery.message).delivery_count), (LOCK, 2));
    drop(held);
}

/// Rules: S-28.
#[tokio::test(start_paused = true)]
async fn a_lock_taken_while_others_wait_has_a_timer() {
    let queue = queue();
    let mut receiver = queue.receiver();
    let mut waiting = task::spawn(receiver.receive());
    assert!(waiting.poll().is_pending());
    send(&queue, "a");
    let held = queue.receiver().receive().await.unwrap();
    assert!(waiting.poll().is_pending());
    let began = Instant::now();
    assert_eq!(text(&waiting.await.unwrap().message), "a");
    assert_eq!(began.elapsed(), LOCK);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn the_timer_of_a_receiver_that_goes_away_passes_to_another() {
    let queue = queue();
    send(&queue, "a");
    let held = queue.receiver().receive().await.unwrap();
    let (mut first, mut second) = (queue.receiver(), queue.receiver());
    let mut gone = task::spawn(first.receive());
    assert!(gone.poll().is_pending());
    let stays = tokio::spawn(async move { second.receive().await.map(|delivery| text(&delivery.message).to_owned()) });
    yield_now().await;
    drop(gone);
    assert_eq!(timeout(2 * LOCK, stays).await.unwrap().unwrap().unwrap(), "a");
    drop(held);
}

/// Rules: Q-21, S-28.
/// Such as a receive that is pinned in a task, which waits for something else.
#[tokio::test(start_paused = true)]
async fn receivers_that_are_not_polled_delay_no_other() {
    let broker = Broker::new();
    let [idle, queue] = ["idle", "orders"].map(|path| broker.create_queue(path, settings()).unwrap());
    let mut receivers = [(); 3].map(|()| idle.receiver());
    let mut waiting = receivers.each_mut().map(|receiver| task::spawn(receiver.receive()));
    assert!(waiting.iter_mut().all(|waiting| waiting.poll().is_pending()));
    send(&queue, "a");
    let held = queue.receiver().receive().await.unwrap();
    // They are woken to make the timer, and one does.
    assert!(waiting.iter().all(task::Spawn::is_woken));
    assert!(waiting[0].poll().is_pending());
    let mut held = vec![held];
    for round in 2..5 {
        let began = Instant::now();
        let again = timeout(2 * LOCK, queue.receiver().receive()).await.expect("the lock has ended").unwrap();
        assert_eq!((began.elapsed(), facts(&again.message).delivery_count), (LOCK, round));
        held.push(again);
    }
    assert!(!waiting[0].is_woken(), "the receiver that made the timer is not woken");
}

/// Rules: S-28.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_woken_and_not_polled_delays_no_other() {
    let broker = Broker::new();
    let [idle, queue] = ["idle", "orders"].map(|path| broker.create_queue(path, settings()).unwrap());
    send(&queue, "a");
    let held = queue.receiver().receive().await.unwrap();
    let mut first = idle.receiver();
    let mut first = task::spawn(first.receive());
    assert!(first.poll().is_pending());
    let mut second = queue.receiver();
    let second = tokio::spawn(async move { second.receive().await.map(|delivery| text(&delivery.message).to_owned()) });
    yield_now().await;
    send(&idle, "b");
    assert!(first.is_woken());
    assert_eq!(timeout(2 * LOCK, second).await.expect("the lock has ended").unwrap().unwrap(), "a");
    drop(held);
}

/// Rules: S-28.
#[test]
fn a_timer_ends_with_its_runtime_and_another_is_made() {
    let runtime = || runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (other, own) = (runtime(), runtime());
    let queue = own.block_on(async { queue() });
    let held = own.block_on(async {
        send(&queue, "a");
        queue.receiver().receive().await.unwrap()
    });
    let mut first = queue.receiver();
    let mut first = task::spawn(first.receive());
    // The first timer that is needed is made in the other runtime.
    other.block_on(async { assert!(first.poll().is_pending()) });
    let mut receiver = queue.receiver();
    let second = own.spawn(async move { receiver.receive().await.map(|delivery| text(&delivery.message).to_owned()) });
    own.block_on(yield_now());
    drop((other, first));
    let received = own.block_on(async { timeout(2 * LOCK, second).await });
    assert_eq!(received.expect("the lock has ended").unwrap().unwrap(), "a");
    drop(held);
}

/// It would be woken to make another timer, without an end.
#[test]
fn a_receiver_in_a_runtime_that_was_shut_down_panics_as_a_timer_of_it_does() {
    let runtime = || runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (own, closed) = (runtime(), runtime());
    let queue = own.block_on(async { queue() });
    let held = own.block_on(async {
        send(&queue, "a");
        queue.receiver().receive().await.unwrap()
    });
    let handle = closed.handle().clone();
    closed.shutdown_background();
    let mut receiver = queue.receiver();
    let received = catch_unwind(AssertUnwindSafe(|| handle.block_on(receiver.receive()).is_ok()));
    assert!(received.is_err());
    drop(held);
}

/// Rules: S-28.
#[test]
fn a_timer_in_a_runtime_whose_virtual_time_is_ahead_is_replaced() {
    let runtime = || runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (ahead, own) = (runtime(), runtime());
    let queue = own.block_on(async { queue() });
    let held = own.block_on(async {
        send(&queue, "a");
        queue.receiver().receive().await.unwrap()
    });
    let mut first = queue.receiver();
    let delivery = ahead.block_on(async { timeout(2 * LOCK, first.receive()).await.unwrap().unwrap() });
    drop(held);
    ahead.block_on(async {
        delivery.complete().await.unwrap();
        sleep(2 * LOCK).await;
    });
    let mut receiver = queue.receiver();
    let second = own.spawn(async move { receiver.receive().await.map(|delivery| text(&delivery.message).to_owned()) });
    own.block_on(async {
        yield_now().await;
        send(&queue, "b");
        let held = queue.receiver().receive().await.unwrap();
        assert_eq!(timeout(2 * LOCK, second).await.expect("the lock has ended").unwrap().unwrap(), "b");
        drop(held);
    });
}

/// Rules: Q-21.
/// Those that are woken to make it have gone, or have a message.
#[tokio::test(start_paused = true)]
async fn a_timer_that_was_not_made_is_made_by_a_later_receiver() {
    const DELAY: Duration = Duration::from_secs(1);
    let clock = Arc::new(SystemClock::new());
    let queue = Broker::with_clock(Arc::clone(&clock)).create_queue("orders", settings()).unwrap();
    let schedule = || {
        let at = clock.now().utc.saturating_add(DELAY);
        queue.schedule(vec![Message::new("later")], at).wait().unwrap();
    };
    let mut receiver = queue.receiver();
    let mut gone = task::spawn(receiver.receive());
    assert!(gone.poll().is_pending());
    schedule();
    drop(gone);
    sleep(2 * DELAY).await;
    assert_eq!(text(&queue.receive_and_delete().receive().await.unwrap().message), "later");
    let mut receiver = queue.receiver();
    let waiting =
        tokio::spawn(async move { receiver.receive().await.map(|delivery| text(&delivery.message).to_owned()) });
    yield_now().await;
    schedule();
    assert_eq!(timeout(2 * DELAY, waiting).await.expect("it is due").unwrap().unwrap(), "later");
}

/// Rules: T-08.
#[tokio::test(start_paused = true)]
async fn a_thread_outside_the_runtime_sets_the_timer() {
    let settings = settings().dead_letter_on_expiration(true).default_time_to_live(LOCK / 4);
    let broker = Broker::new();
    let [queue, locked] = ["orders", "locked"].map(|path| broker.create_queue(path, settings.clone()).unwrap());
    send(&locked, "held");
    let held = locked.receiver().receive().await.unwrap();
    let mut receiver = queue.dead_letter().receiver();
    let waiting =
        tokio::spawn(async move { receiver.receive().await.map(|delivery| text(&delivery.message).to_owned()) });
    yield_now().await;
    std::thread::spawn(move || send(&queue, "a")).join().unwrap();
    assert_eq!(timeout(LOCK / 2, waiting).await.expect("it has expired").unwrap().unwrap(), "a");
    drop(held);
}

/// Rules: S-28.
/// A receiver whose timer has fired in vain, or was called off, covers later deadlines as well.
#[tokio::test(start_paused = true)]
async fn a_timer_that_fired_in_vain_covers_nothing() {
    let queue = queue();
    let receive = |queue: &Queue| {
        let mut receiver = queue.receiver();
        tokio::spawn(async move { receiver.receive().await.unwrap() })
    };
    let mut first = receive(&queue);
    yield_now().await;
    let mut second = receive(&queue);
    yield_now().await;

    // The lock is taken without a wake-up for the two, and one of them sets a timer for its end.
    send(&queue, "a");
    let held = queue.receiver().receive().await.unwrap();
    sleep(LOCK / 2).await;
    held.complete().ok();
    sleep(LOCK).await;

    // One of the two takes the message and keeps it; the other gets it when the lock ends.
    send(&queue, "b");
    let (waiting, held) = tokio::select! {
        held = &mut first => (second, held.unwrap()),
        held = &mut second => (first, held.unwrap()),
    };
    let delivery = timeout(2 * LOCK, waiting).await.expect("woken when the lock ended").unwrap();
    assert_eq!(facts(&delivery.message).delivery_count, 2);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_of_dead_letters_is_woken_when_a_message_expires() {
    let settings = settings().dead_letter_on_expiration(true).default_time_to_live(Duration::from_secs(3));
    let queue = Broker::new().create_queue("orders", settings).unwrap();
    let mut receiver = queue.dead_letter().receiver();
    let waiting = tokio::spawn(async move { receiver.receive().await.unwrap() });
    yield_now().await;
    let began = Instant::now();
    send(&queue, "a");
    let delivery = waiting.await.unwrap();
    assert_eq!((text(&delivery.message), began.elapsed()), ("a", Duration::from_secs(3)));
}

/// Polls a receive `polls` times, with a message arriving before poll `arrival`, and drops it. How many messages came.
fn poll_and_drop(bench: &Bench, receiver: &mut QueueReceiver, polls: usize, arrival: usize, max: usize) -> usize {
    let mut receive = task::spawn(receiver.receive_batch(max));
    for poll in 0..=polls {
        if poll == arrival {
            bench.send(["m"]);
        }
        if poll == polls {
            break;
        }
        if let Poll::Ready(received) = receive.poll() {
            let received = received.unwrap();
            assert!(received.iter().all(|delivery| facts(&delivery.message).delivery_count == 1));
            let taken = received.len();
            for delivery in received {
                delivery.complete().ok();
            }
            return taken;
        }
    }
    0
}

/// Rules: S-29, S-73.
#[tokio::test(start_paused = true)]
async fn a_receive_dropped_at_any_poll_leaves_no_lock_and_counts_nothing() {
    for max in [1, 3] {
        for polls in 0..6 {
            for arrival in 0..=polls {
                let bench = Bench::new(settings());
                let mut receiver = bench.queue.receiver();
                let mut taken = 0;
                for _ in 0..4 {
                    taken += poll_and_drop(&bench, &mut receiver, polls, arrival, max);
                    assert_eq!(bench.counts()[1], 0, "{polls} polls, message before {arrival}");
                }
                let rest = take(&mut receiver, usize::MAX);
                bench.send(["last"]);
                let last = facts(&bench.receive().message).sequence_number.get();
                assert_eq!(taken + rest.len() + 1, usize::try_from(last).unwrap(), "{polls}, {arrival}");
                assert!(rest.iter().all(|delivery| facts(&delivery.message).delivery_count == 1));
            }
        }
    }
}

/// Rules: S-29.
/// Several receives race and the losers are dropped: 1,000 times, in an order by the seed.
#[tokio::test(start_paused = true)]
async fn random_selects_lose_nothing() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    println!("replay: SEED={seed} cargo test --features full --test broker random_selects_lose_nothing");
    let mut rng = fastrand::Rng::with_seed(seed);
    let queue = queue();
    let mut receivers = [queue.receiver(), queue.receiver(), queue.receiver()];
    let (mut sent, mut received) = (0, BTreeMap::new());
    let mut note = |delivery: Delivery<QueueLease>| {
        assert_eq!(facts(&delivery.message).delivery_count, 1);
        *received.entry(text(&delivery.message).to_owned()).or_insert(0) += 1;
        delivery.complete().ok();
    };
    for round in 0..1_000 {
        let sends = rng.usize(0..4);
        sent += sends;
        let sender = tokio::spawn({
            let (queue, pauses) = (queue.clone(), [(); 3].map(|()| rng.u64(0..4)));
            async move {
                for (at, pause) in pauses.into_iter().enumerate().take(sends) {
                    sleep(Duration::from_millis(pause)).await;
                    send(&queue, format!("{round}/{at}"));
                }
            }
        });
        for _ in 0..sends {
            rng.shuffle(&mut receivers);
            let [first, second, third] = &mut receivers;
            tokio::select! {
                biased;
                delivery = first.receive() => note(delivery.unwrap()),
                deliveries = second.receive_batch(2) => deliveries.unwrap().into_iter().for_each(&mut note),
                delivery = third.receive() => note(delivery.unwrap()),
                () = sleep(Duration::from_millis(rng.u64(0..6))) => {}
            }
        }
        sender.await.unwrap();
        assert_eq!(queue.counts().locked, 0);
    }
    take(&mut receivers[0], usize::MAX).into_iter().for_each(&mut note);
    assert!(received.values().all(|&times| times == 1));
    assert_eq!(received.len(), sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn receivers_on_several_threads_get_each_message_once() {
    const EACH: usize = 1_000;
    let queue = queue();
    let senders: Vec<_> = (0..4).map(|sender| tokio::spawn(send_many(queue.clone(), sender, EACH))).collect();
    let receivers: Vec<_> = (0..4).map(|_| tokio::spawn(receive_many(queue.receiver()))).collect();
    for sender in senders {
        sender.await.unwrap();
    }
    (0..4).for_each(|_| send(&queue, "end"));
    let mut received = Vec::new();
    for receiver in receivers {
        received.extend(receiver.await.unwrap());
    }
    received.sort_unstable();
    received.dedup();
    assert_eq!(received.len(), 4 * EACH);
    assert_eq!(queue.counts().size, 0);
}

async fn send_many(queue: Queue, sender: usize, messages: usize) {
    for message in 0..messages {
        send(&queue, format!("{sender}/{message}"));
        if message % 16 == 0 {
            yield_now().await;
        }
    }
}

/// Receives until the message `end`, dropping a receive now and then.
async fn receive_many(mut receiver: QueueReceiver) -> Vec<String> {
    let mut received = Vec::new();
    loop {
        let delivery = tokio::select! {
            delivery = receiver.receive() => delivery.unwrap(),
            () = yield_now() => continue,
        };
        let body = text(&delivery.message).to_owned();
        assert_eq!(facts(&delivery.message).delivery_count, 1);
        delivery.complete().ok();
        if body == "end" {
            return received;
        }
        received.push(body);
    }
}

/// Rules: I-35.
#[test]
fn a_delivery_dropped_outside_a_runtime_is_back_at_once() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    let delivery = bench.receive();
    std::thread::spawn(move || drop(delivery)).join().unwrap();
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
    assert_eq!(facts(&bench.receive().message).delivery_count, 2);
}

/// Rules: I-35.
#[tokio::test(start_paused = true)]
async fn a_dropped_delivery_wakes_a_receiver_that_waits() {
    let queue = queue();
    send(&queue, "a");
    let delivery = queue.receiver().receive().await.unwrap();
    let mut receiver = queue.receiver();
    let mut waiting = task::spawn(receiver.receive());
    assert!(waiting.poll().is_pending());
    drop(delivery);
    assert!(waiting.is_woken());
    assert!(waiting.poll().is_ready());
}

/// Keeps a delivery until it is dropped, as the task behind a waker may.
struct Keeper {
    _delivery: Delivery<QueueLease>,
}

impl Wake for Keeper {
    fn wake(self: Arc<Self>) {}
}

#[tokio::test(start_paused = true)]
async fn a_queue_drops_wakers_that_own_a_delivery() {
    let queue = queue();
    for stops in [false, true] {
        send(&queue, "kept");
        let delivery = queue.receiver().receive().await.unwrap();
        let mut receiver = queue.receiver();
        let waker = Waker::from(Arc::new(Keeper { _delivery: delivery }));
        let mut poll = |waker: &Waker| receiver.poll_receive(&mut Context::from_waker(waker), 1, &mut Vec::new());
        assert!(poll(&waker).is_pending());
        // The queue keeps the only clone now, until the receiver comes with another waker or leaves.
        drop(waker);
        if stops {
            receiver.stop();
        } else {
            let _ = poll(Waker::noop());
        }
        assert_eq!(queue.counts().locked, 0);
        let _removed = queue.receive_and_delete().receive().await.unwrap();
    }
}
