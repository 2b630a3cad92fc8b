//! Every order of the loads and stores of a driver and of what wakes it, by loom, with up to three preemptions.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use loom::{future::block_on, thread};

use super::WokenSet;

fn explore(name: &str, property: impl Fn() + Send + Sync + 'static) {
    let orders = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&orders);
    let mut model = loom::model::Builder::new();
    // Without a bound three threads have too many orders.
    model.preemption_bound = Some(3);
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        property();
    });
    println!("shuttle: {name} bounded {} schedules 0 violations", orders.load(Ordering::Relaxed));
}

/// Waits as the driver of a consumer does until these slots of the first word were woken.
fn wait_for(set: &WokenSet, expected: u64) {
    let mut woken = 0;
    block_on(poll_fn(|cx| {
        loop {
            woken |= set.take(0);
            if woken == expected {
                return Poll::Ready(());
            }
            set.register(cx.waker());
            if set.is_empty() {
                return Poll::Pending;
            }
        }
    }));
}

/// A wake-up that is lost is a deadlock.
#[test]
fn no_wake_up_of_a_slot_is_lost() {
    explore("no_wake_up_of_a_slot_is_lost", || {
        let set = WokenSet::new(2);
        let threads = [0, 1].map(|slot| {
            let waker = set.waker(slot);
            thread::spawn(move || waker.wake())
        });
        wait_for(&set, 0b11);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn what_was_written_before_a_wake_up_is_seen() {
    explore("what_was_written_before_a_wake_up_is_seen", || {
        let (set, value) = (WokenSet::new(1), Arc::new(loom::sync::atomic::AtomicUsize::new(0)));
        let (waker, written) = (set.waker(0), Arc::clone(&value));
        let thread = thread::spawn(move || {
            written.store(1, Ordering::Relaxed);
            waker.wake();
        });
        wait_for(&set, 1);
        assert_eq!(value.load(Ordering::Relaxed), 1);
        thread.join().unwrap();
    });
}

#[test]
fn no_change_of_a_control_is_lost() {
    explore("no_change_of_a_control_is_lost", || {
        let set = WokenSet::new(1);
        let changed = Arc::clone(&set);
        let thread = thread::spawn(move || changed.change());
        block_on(poll_fn(|cx| {
            if set.take_changed() {
                return Poll::Ready(());
            }
            set.register(cx.waker());
            if set.is_changed() && set.take_changed() { Poll::Ready(()) } else { Poll::Pending }
        }));
        thread.join().unwrap();
    });
}
