//! Receivers that wait while something comes for them.

use consign::transport::{Lease, ReceiverExt};

use crate::{
    explore::{random, random_and_pct},
    support::{Bench, LOCK, MS, count, settings, wait, wait_briefly},
};

/// Waits for a moment only, and gives back what it was given.
fn wait_and_leave(bench: &Bench) {
    if let Some(delivery) = wait_briefly(bench.queue.receiver().receive()) {
        delivery.unwrap().lease.release().wait().unwrap();
    }
}

/// Rules: S-51.
#[test]
fn each_receiver_that_waits_gets_one_of_the_messages_sent() {
    random_and_pct("each_receiver_that_waits_gets_one_of_the_messages_sent", || {
        let bench = Bench::new(settings());
        let receivers = [(); 2].map(|()| {
            bench.spawn(|bench| {
                let delivery = wait(&mut bench.queue.receiver()).unwrap();
                assert_eq!(count(&delivery.message), 1);
                delivery.complete().wait().unwrap();
            })
        });
        let senders = ["a", "b"].map(|body| bench.spawn(move |bench| bench.send(body)));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        receivers.into_iter().for_each(|receiver| receiver.join().unwrap());
        assert_eq!(bench.counts(), [0; 4]);
    });
}

/// Rules: S-29.
#[test]
fn a_receiver_that_leaves_as_it_is_woken_hands_the_wake_up_on() {
    random_and_pct("a_receiver_that_leaves_as_it_is_woken_hands_the_wake_up_on", || {
        let bench = Bench::new(settings());
        let gone = bench.spawn(wait_and_leave);
        let stays = bench.spawn(|bench| wait(&mut bench.queue.receiver()).unwrap());
        bench.send("a");
        gone.join().unwrap();
        assert_eq!(count(&stays.join().unwrap().message), 1);
    });
}

/// Rules: S-28.
#[test]
fn a_receiver_that_waits_gets_what_an_expired_lock_held() {
    random_and_pct("a_receiver_that_waits_gets_what_an_expired_lock_held", || {
        let bench = Bench::new(settings());
        bench.send("a");
        let held = bench.try_receive().unwrap();
        bench.advance(LOCK - MS);
        // One of them makes the timer, and may leave.
        let gone = bench.spawn(wait_and_leave);
        let stays = bench.spawn(|bench| wait(&mut bench.queue.receiver()).unwrap());
        let clock = bench.spawn(|bench| bench.advance(MS));
        assert_eq!(count(&stays.join().unwrap().message), 2);
        gone.join().unwrap();
        clock.join().unwrap();
        drop(held);
    });
}

/// Rules: I-35.
#[test]
fn a_receiver_that_waits_gets_what_was_dropped() {
    random("a_receiver_that_waits_gets_what_was_dropped", || {
        let bench = Bench::new(settings());
        bench.send("a");
        let held = bench.try_receive().unwrap();
        let stays = bench.spawn(|bench| wait(&mut bench.queue.receiver()).unwrap());
        drop(held);
        assert_eq!(count(&stays.join().unwrap().message), 2);
    });
}
