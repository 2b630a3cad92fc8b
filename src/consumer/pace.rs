use std::time::Duration;

use tokio::time::Instant;

/// How often the driver looks at the clock while it hands a batch out.
///
/// A handler may hold the thread until the locks of the rest are old, so the driver looks between two messages. While
/// handlers are quick it looks every sixteen messages: reading the clock may take as long as they do.
#[derive(Debug)]
pub(super) struct Pace {
    /// Messages from one look to the next.
    stride: u32,
    /// Messages to dispatch before the next look.
    left: u32,
    /// Messages dispatched since the last look.
    handed: u32,
    looked: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { stride: 1, left: 0, handed: 0, looked: None }
    }
}

impl Pace {
    const LONGEST: u32 = 16;
    /// A message that takes less is handled quickly.
    const QUICK: Duration = Duration::from_millis(1);

    /// Whether to look before one more message is dispatched.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        if self.left == 0 {
            return true;
        }
        self.left -= 1;
        self.handed += 1;
        false
    }

    /// Whether handlers are so quick that what they have done may wait for what the next ones do.
    #[inline]
    pub(super) fn is_quick(&self) -> bool {
        self.stride > 1
    }

    /// A batch was received.
    pub(super) fn received(&mut self, now: Instant) {
        self.judge(now);
        (self.left, self.handed) = (self.stride, 0);
    }

    /// The driver has looked, and hands a message out.
    pub(super) fn looked(&mut self, now: Instant) {
        self.judge(now);
        (self.left, self.handed) = (self.stride - 1, 1);
    }

    /// A handler was so slow that the locks of the others are old.
    #[cold]
    pub(super) fn is_slow(&mut self) {
        *self = Self::default();
    }

    fn judge(&mut self, now: Instant) {
        let since = self.looked.replace(now).map(|looked| now.saturating_duration_since(looked));
        if self.handed > 0 {
            let is_quick = since.is_some_and(|since| since < Self::QUICK * self.handed);
            self.stride = if is_quick { (2 * self.stride).min(Self::LONGEST) } else { 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before which of `count` messages of a batch the driver looks, if each takes `each`.
    fn looks(pace: &mut Pace, now: &mut Instant, count: u32, each: Duration) -> Vec<u32> {
        pace.received(*now);
        let mut looks = Vec::new();
        for message in 0..count {
            if pace.is_due() {
                pace.looked(*now);
                looks.push(message);
            }
            *now += each;
        }
        looks
    }

    #[test]
    fn while_handlers_are_quick_it_looks_less_and_less() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        assert_eq!(looks(&mut pace, &mut now, 50, Duration::from_micros(10)), [1, 3, 7, 15, 31, 47]);
        assert!(looks(&mut pace, &mut now, 16, Duration::from_micros(10)).is_empty());
        assert!(pace.is_quick());
    }

    #[test]
    fn while_handlers_are_slow_it_looks_between_all() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        assert_eq!(looks(&mut pace, &mut now, 4, Duration::from_millis(2)), [1, 2, 3]);
        looks(&mut pace, &mut now, 100, Duration::ZERO);
        assert_eq!(looks(&mut pace, &mut now, 20, Duration::from_millis(2)), [16, 17, 18, 19]);
        assert_eq!(looks(&mut pace, &mut now, 2, Duration::from_millis(2)), [1]);
        assert!(!pace.is_quick());
    }

    /// What is given back at once says nothing of the handlers.
    #[test]
    fn a_look_after_no_message_decides_nothing() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..3 {
            pace.received(now);
        }
        assert_eq!(looks(&mut pace, &mut now, 3, Duration::from_secs(1)), [1, 2]);
    }
}
