//! How long a message takes from when it should have been sent until its handler has it decoded.
//!
//! The producer is a thread of its own that sends at a fixed rate whatever becomes of the messages, and spins between them:
//! a timer of tokio is a thousand times as coarse as what is measured. A message that is sent late, because the one before
//! took long, counts from when it was due. The consumer is a runtime of one thread on another.

use std::{hint::spin_loop, sync::mpsc, thread};

use futures_util::FutureExt;
use tokio::{runtime::Builder, sync::oneshot, time::Instant};

use crate::{
    arrivals::{self, MAX_TIMES},
    peer::{Peer, Sender},
    throughput::{IN_FLIGHT, rate},
};

const SIZE: usize = 256;
const NANOSECONDS: u64 = 1_000_000_000;

pub struct Latency {
    /// What this peer can do with these two threads, if it was measured.
    pub capacity: Option<u64>,
    pub offered: u64,
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
}

/// Latencies at a rate, or at half of what the peer can do.
pub fn measure<P: Peer + Sync>(peer: &P, messages: usize, offered: Option<u64>) -> Latency {
    let messages = messages.min(MAX_TIMES);
    let capacity = offered.is_none().then(|| capacity(peer, messages));
    let offered = offered.or(capacity.map(|capacity| capacity / 2)).unwrap_or(1).max(1);
    arrivals::reset(true);
    with_consumer(peer, |sender| send_at(sender, offered, messages));
    // The first tenth warms up.
    let latencies = arrivals::latencies(messages / 10, messages);
    let percentile = |per_mille: usize| latencies[latencies.len() * per_mille / 1_000];
    Latency { capacity, offered, p50: percentile(500), p99: percentile(990), p999: percentile(999) }
}

fn capacity(peer: &(impl Peer + Sync), messages: usize) -> u64 {
    arrivals::reset(false);
    with_consumer(peer, |sender| {
        let body = arrivals::body(SIZE);
        let begun = Instant::now();
        let mut handled = 0;
        for sent in 0..messages {
            while sent - handled >= IN_FLIGHT {
                handled = arrivals::handled();
                spin_loop();
            }
            send(sender, &body);
        }
        wait_for(messages);
        rate(messages, begun.elapsed())
    })
}

fn send_at(sender: &mut impl Sender, offered: u64, messages: usize) {
    let mut body = arrivals::body(SIZE);
    let begun = arrivals::now();
    for number in 0..messages {
        let due = begun + number as u64 * NANOSECONDS / offered;
        while arrivals::now() < due {
            spin_loop();
        }
        arrivals::stamp(&mut body, due);
        send(sender, &body);
    }
    wait_for(messages);
}

/// No peer makes a sender wait here: a queue that has a capacity has one for the whole run.
fn send(sender: &mut impl Sender, body: &[u8]) {
    sender.send(body).now_or_never().expect("a send in memory that need not wait");
}

fn wait_for(messages: usize) {
    while arrivals::handled() < messages {
        thread::yield_now();
    }
}

/// Has a consumer run on a thread of its own while `produce` runs on this one.
fn with_consumer<P: Peer + Sync, T>(peer: &P, produce: impl FnOnce(&mut P::Sender) -> T) -> T {
    let (hand_over, sender) = mpsc::sync_channel(1);
    let (stop, stopped) = oneshot::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let (sender, running) = peer.start(MAX_TIMES).await;
                hand_over.send(sender).expect("a producer");
                let _ = stopped.await;
                drop(running);
            });
        });
        let mut sender = sender.recv().expect("a consumer");
        let produced = produce(&mut sender);
        stop.send(()).expect("a consumer that runs");
        produced
    })
}
