//! What every handler of every peer does: it reads the decoded order and counts it.
//!
//! It is one static, so that no peer pays for the way in which it hands state to a handler.

use std::{
    hint::black_box,
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use ruststream::prelude::Outgoing;
use serde::{Deserialize, Serialize};
use tokio::{sync::Notify, time::Instant};

/// What a body decodes to. A body of [`body`] has only the first three, so that its decoding is cheap: what differs between
/// the peers is around it. Those that are sent as values have all.
#[derive(Debug, Deserialize, Outgoing, Serialize)]
pub struct Order {
    /// In a run that measures latency, when the message should have been sent: see [`stamp`].
    pub id: u64,
    pub quantity: u32,
    pub note: String,
    pub sku: Option<String>,
    pub customer: Option<String>,
    pub currency: Option<String>,
    pub unit_price: Option<u64>,
    pub express: Option<bool>,
    pub placed_at: Option<String>,
    pub warehouse: Option<String>,
}

impl Order {
    /// One that is 256 bytes of JSON.
    pub fn whole() -> Self {
        let text = |text: &str| Some(text.to_owned());
        Self {
            id: FIRST_ID,
            quantity: 37,
            note: "leave it at the back door, and ring it twice, please".into(),
            sku: text("sku-7731-blue"),
            customer: text("c-44109827"),
            currency: text("EUR"),
            unit_price: Some(1_299),
            express: Some(false),
            placed_at: text("2026-01-05T10:22:31.250Z"),
            warehouse: text("ams-2b"),
        }
    }
}

/// The first id, so that all have as many digits.
const FIRST_ID: u64 = 1_000_000_000_000_000;
const PREFIX: &str = r#"{"id":"#;
const DIGITS: usize = 16;

/// Most latencies that one run records.
pub const MAX_TIMES: usize = 2_000_000;

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
static HANDLED: AtomicUsize = AtomicUsize::new(0);
/// The count at which the waiting task is woken.
static WAKE_AT: AtomicUsize = AtomicUsize::new(0);
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

fn record(order: &Order, count: usize) {
    let late = now().saturating_sub(order.id - FIRST_ID);
    let slot = TIMES.get().and_then(|times| times.get(count - 1));
    slot.expect("a run of at most `MAX_TIMES`").store(late, Ordering::Relaxed);
}

pub fn handled() -> usize {
    HANDLED.load(Ordering::SeqCst)
}

/// Waits until so many have been handled, and says how many they are then.
pub async fn reached(count: usize) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_size_that_they_say() {
        for size in [64, 256, 1_024] {
            let mut body = body(size);
            stamp(&mut body, 123_456_789);
            assert_eq!(body.len(), size);
            assert_eq!(serde_json::from_slice::<Order>(&body).unwrap().id, FIRST_ID + 123_456_789);
        }
        assert_eq!(serde_json::to_vec(&Order::whole()).unwrap().len(), 256);
    }
}
