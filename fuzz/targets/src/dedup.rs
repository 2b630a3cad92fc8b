use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use consign::{
    middleware::dedup::{Begin, DedupKey, DedupStore, MemoryStore},
    time::{ManualClock, Timestamp},
};

use crate::source::Source;

/// How long an id is known, and a lease lasts.
const WINDOW: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(10);
const IDS: [&str; 4] = ["a", "b", "c", ""];

/// What the store has to know of an id: who holds it until when, or until when it is known as handled.
#[derive(Clone, Copy, Debug)]
enum Known {
    Held(u64, Duration),
    Handled(Duration),
    /// A holder whose reservation had ended has committed it, which may count or not.
    Unclear,
}

/// A script of consumers that begin, renew, commit and forget ids, and of time that passes.
///
/// # Panics
/// The store answers otherwise than a list of what is known.
pub fn dedup(data: &[u8]) {
    let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
    let store = MemoryStore::with_clock(WINDOW, Arc::clone(&clock));
    let (mut known, mut tokens, mut now, mut next) = ([None::<Known>; IDS.len()], Vec::new(), Duration::ZERO, 0_u64);
    let mut source = Source::new(data);
    while !source.is_empty() {
        let id = source.below(IDS.len());
        match source.below(5) {
            0 => {
                let expected = match known[id] {
                    Some(Known::Held(_, until)) if until > now => "busy",
                    Some(Known::Handled(until)) if until > now => "handled",
                    Some(Known::Unclear) => "",
                    _ => "new",
                };
                let begun = answer(store.begin(DedupKey::new("orders", IDS[id].as_bytes()), LEASE))
                    .expect("memory does not fail");
                let found = match begun {
                    Begin::New(token) => {
                        next += 1;
                        known[id] = Some(Known::Held(next, now + LEASE));
                        tokens.push((id, next, token));
                        "new"
                    }
                    Begin::InProgress { .. } => "busy",
                    Begin::Committed => "handled",
                };
                assert!(expected.is_empty() || found == expected, "{id} at {now:?}: {found}, {known:?}");
            }
            1 => {
                let step = Duration::from_millis(u64::from(source.byte()) * 100);
                now += step;
                clock.advance(step);
            }
            choice => {
                if tokens.is_empty() {
                    continue;
                }
                let at = source.below(tokens.len());
                let (id, holder, token) = &tokens[at];
                let held = match known[*id] {
                    Some(Known::Held(by, until)) if by == *holder => Some(until > now),
                    _ => None,
                };
                // After its end a reservation may be forgotten, or go on.
                let has_to = held == Some(true);
                known[*id] = match (choice, held) {
                    (2, Some(_)) => {
                        let renewed = answer(store.renew(token, LEASE)).is_ok();
                        assert!(renewed || !has_to, "{id} is held");
                        renewed.then_some(Known::Held(*holder, now + LEASE))
                    }
                    (3, Some(_)) => {
                        let committed = answer(store.commit(token)).is_ok();
                        assert!(committed || !has_to, "{id} is held");
                        committed.then_some(Known::Handled(now + WINDOW))
                    }
                    (4, Some(_)) => {
                        drop(answer(store.forget(token)));
                        None
                    }
                    // Somebody else holds it.
                    (3, None) => {
                        let committed = answer(store.commit(token)).is_ok();
                        let is_held = matches!(known[*id], Some(Known::Held(_, until)) if until > now);
                        assert!(!committed || !is_held, "{id} is held by another");
                        if is_held { known[*id] } else { Some(Known::Unclear) }
                    }
                    (_, _) => {
                        drop(answer(store.forget(token)));
                        known[*id]
                    }
                };
                if choice > 2 {
                    tokens.swap_remove(at);
                }
            }
        }
    }
}

/// What a store in memory answers at once.
fn answer<T>(called: impl Future<Output = T>) -> T {
    match pin!(called).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a store in memory does not wait"),
    }
}
