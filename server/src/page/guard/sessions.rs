//! Sessions of browsers, and the tokens of their forms.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::http::{HeaderMap, header};
use consign_core::time::Clock;
use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use sha2::Sha256;
use uuid::Uuid;

use crate::page::hex;

pub(super) const COOKIE: &str = "consign_page";

/// How long a session lasts.
const LIFETIME: Duration = Duration::from_secs(12 * 3_600);
/// Most sessions. One more ends the oldest.
const MAX_SESSIONS: usize = 1_000;
/// Most wrong keys within a minute.
const MAX_FAILURES: u32 = 20;
const MINUTE: Duration = Duration::from_secs(60);

pub(super) struct Sessions {
    secret: [[u8; 16]; 2],
    clock: Arc<dyn Clock>,
    begun: Mutex<HashMap<String, Duration>>,
    /// When the minute of the failures began, and how many there are.
    failures: Mutex<(Duration, u32)>,
}

impl Sessions {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let secret = [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()];
        Self { secret, clock, begun: Mutex::default(), failures: Mutex::default() }
    }

    /// The time of the clock that is never set.
    fn now(&self) -> Duration {
        self.clock.now().elapsed
    }

    /// Begins a session that has presented the key.
    pub(super) fn begin(&self) -> String {
        let (id, now) = (new_id(), self.now());
        let mut begun = self.begun.lock();
        begun.retain(|_, since| now.saturating_sub(*since) < LIFETIME);
        if begun.len() >= MAX_SESSIONS {
            let oldest = begun.iter().min_by_key(|(_, since)| **since).map(|(id, _)| id.clone());
            oldest.and_then(|oldest| begun.remove(&oldest));
        }
        begun.insert(id.clone(), now);
        id
    }

    pub(super) fn is_begun(&self, id: &str) -> bool {
        let now = self.now();
        self.begun.lock().get(id).is_some_and(|since| now.saturating_sub(*since) < LIFETIME)
    }

    pub(super) fn end(&self, id: &str) {
        self.begun.lock().remove(id);
    }

    /// Whether another key may be tried in this minute.
    pub(super) fn may_try(&self) -> bool {
        let (since, count) = *self.failures.lock();
        count < MAX_FAILURES || self.now().saturating_sub(since) >= MINUTE
    }

    pub(super) fn count_failure(&self) {
        let now = self.now();
        let mut failures = self.failures.lock();
        let (since, count) = *failures;
        *failures = if count == 0 || now.saturating_sub(since) >= MINUTE { (now, 1) } else { (since, count + 1) };
    }

    /// The token of the forms of a session, in hexadecimal digits.
    pub(super) fn token(&self, id: &str) -> String {
        hex::digits(&self.mac(id).finalize().into_bytes())
    }

    /// Compares in constant time.
    pub(super) fn is_token(&self, id: &str, token: &[u8]) -> bool {
        let digits: Option<Vec<u8>> = std::str::from_utf8(token).ok().and_then(|token| {
            let pairs = token.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
            pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
        });
        digits.is_some_and(|digits| self.mac(id).verify_slice(&digits).is_ok())
    }

    fn mac(&self, id: &str) -> Hmac<Sha256> {
        // A key of HMAC may have any length.
        #[expect(clippy::unwrap_used, reason = "it does not fail")]
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.as_flattened()).unwrap();
        mac.update(id.as_bytes());
        mac
    }
}

pub(super) fn new_id() -> String {
    Uuid::new_v4().simple().to_string()
}

/// The session that a browser names, if it has the form of one.
pub(super) fn id_of(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let named = |cookie: &'_ str| cookie.trim().strip_prefix(COOKIE).is_some_and(|rest| rest.starts_with('='));
    let mut ids = cookies.flat_map(|cookies| cookies.split(';')).filter(|cookie| named(cookie));
    let (_, id) = ids.next()?.split_once('=')?;
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some(id)
}

#[cfg(test)]
mod tests {
    use consign_core::time::{ManualClock, Timestamp};

    use super::*;

    #[test]
    fn a_session_ends_and_its_token_is_its_own() {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
        let sessions = Sessions::new(clock.clone());
        let (one, other) = (sessions.begin(), sessions.begin());
        let token = sessions.token(&one);
        assert!(sessions.is_token(&one, token.as_bytes()) && !sessions.is_token(&other, token.as_bytes()));
        for wrong in ["", "0", "zz", &token[2..], "\u{e9}"] {
            assert!(!sessions.is_token(&one, wrong.as_bytes()), "{wrong}");
        }
        sessions.end(&other);
        assert!(sessions.is_begun(&one) && !sessions.is_begun(&other));
        clock.advance(LIFETIME);
        assert!(!sessions.is_begun(&one));
    }

    #[test]
    fn keys_cannot_be_guessed_quickly() {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
        let sessions = Sessions::new(clock.clone());
        for _ in 0..MAX_FAILURES {
            assert!(sessions.may_try());
            sessions.count_failure();
        }
        assert!(!sessions.may_try());
        clock.advance(MINUTE);
        assert!(sessions.may_try());
    }

    /// Rules: HT-41.
    #[test]
    fn a_clock_that_is_set_changes_no_time() {
        let began = Timestamp::from_millis(1_800_000_000_000);
        let clock = Arc::new(ManualClock::new(began));
        let sessions = Sessions::new(clock.clone());
        clock.advance(MINUTE / 2);
        let id = sessions.begin();
        (0..MAX_FAILURES).for_each(|_| sessions.count_failure());
        clock.set_utc(Timestamp::from_millis(1_700_000_000_000));
        clock.advance(MINUTE.saturating_sub(Duration::from_millis(1)));
        assert!(!sessions.may_try());
        clock.advance(Duration::from_millis(1));
        assert!(sessions.may_try());
        clock.advance(LIFETIME.saturating_sub(MINUTE));
        assert!(!sessions.is_begun(&id));

        let id = sessions.begin();
        clock.set_utc(began);
        assert!(sessions.is_begun(&id));
    }
}
