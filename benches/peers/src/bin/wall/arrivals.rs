//! What every handler of every peer does: it reads the decoded order and counts it.
//!
//! It is one static, so that no peer pays for the way in which it hands state to a handler.

use std::{
    hint::black_box,
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use serde::Deserialize;
use tokio::{sync::Notify, time::Instant};

/// What a body decodes to. Its decoding is cheap on purpose: what differs between the peers is around it.
#[derive(Debug, Deserialize)]
pub struct Order {
    /// In a run that measures latency, when the message should have been sent: see [`stamp`].
    pub id: u64,
    pub quantity: u32,
    pub note: String,
}

/// The first id, so that all have as many digits.
const FIRST_ID: u64 = 1_000_000_000_000_000;
const PREFIX: &str = r#"{"id":"#;
const DIGITS: usize = 16;

/// Most latencies that one run records.
pub const MAX_TIMES: usize = 2_000_000;

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
static HANDLED: AtomicU64 = AtomicU64::new(0);
/// The count at which whoever waits is woken.
static WAKE_AT: AtomicU64 = AtomicU64::new(0);
static REACHED: Notify = Notify::const_new();
static IS_TIMED: AtomicBool = AtomicBool::new(false);
static TIMES: OnceLock<Box<[AtomicU64]>> = OnceLock::new();

/// A JSON body of exactly so many bytes, at least 64.
pub fn body(size: usize) -> Vec<u8> {
    let before = format!(r#"{PREFIX}{FIRST_ID},"quantity":37,"note":""#);
    let after = r#""}"#;
    format!("{before}{}{after}", "n".repeat(size - before.len() - after.len())).into_bytes()
}

/// Writes an instant, in nanoseconds since the epoch of this process, into a body.
pub fn stamp(body: &mut [u8], nanoseconds: u64) {
    let mut left = FIRST_ID + nanoseconds;
    for digit in body[PREFIX.len()..PREFIX.len() + DIGITS].iter_mut().rev() {
        *digit = b'0' + u8::try_from(left % 10).expect("a digit");
        left /= 10;
    }
}

/// Nanoseconds since the epoch of this process.
pub fn now() -> u64 {
    u64::try_from(EPOCH.elapsed().as_nanos()).expect("a process of a few minutes")
}

/// Begins a run. Nothing of an earlier one is under way.
pub fn reset(is_timed: bool) {
    LazyLock::force(&EPOCH);
    if is_timed {
        TIMES.get_or_init(|| (0..MAX_TIMES).map(|_| AtomicU64::new(0)).collect());
    }
    IS_TIMED.store(is_timed, Ordering::Relaxed);
    WAKE_AT.store(0, Ordering::SeqCst);
    HANDLED.store(0, Ordering::SeqCst);
}

/// The handler.
#[inline]
pub fn handle(order: &Order) {
    black_box((order.quantity, &order.note));
    let count = HANDLED.fetch_add(1, Ordering::SeqCst) + 1;
    if IS_TIMED.load(Ordering::Relaxed) {
        record(order, count);
    }
    if WAKE_AT.load(Ordering::SeqCst) == count {
        REACHED.notify_one();
    }
}

fn record(order: &Order, count: u64) {
    let late = now().saturating_sub(order.id - FIRST_ID);
    let slot = usize::try_from(count - 1).ok().and_then(|at| TIMES.get()?.get(at));
    slot.expect("a run of at most `MAX_TIMES`").store(late, Ordering::Relaxed);
}

pub fn handled() -> u64 {
    HANDLED.load(Ordering::SeqCst)
}

/// Waits until so many have been handled, and says how many they are then.
pub async fn reached(count: u64) -> u64 {
    WAKE_AT.store(count, Ordering::SeqCst);
    loop {
        let handled = handled();
        if handled >= count {
            return handled;
        }
        REACHED.notified().await;
    }
}

/// The latencies of the messages from one to another, in order of size.
pub fn latencies(from: usize, to: usize) -> Vec<u64> {
    let times = TIMES.get().expect("a run that is timed");
    let mut latencies: Vec<u64> = times[from..to].iter().map(|time| time.load(Ordering::Relaxed)).collect();
    latencies.sort_unstable();
    latencies
}
