use std::time::Duration;

use tokio::time::Instant;

/// How often the driver looks at the clock while it hands a batch out.
///
/// A handler may hold the thread until the locks of the rest are old, so the driver looks before each message. After
/// handlers that were quick it looks before every sixteenth: reading the clock may take as long as they do.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Messages that are handed out before the next look.
    left: u32,
    stride: u32,
    looked: Option<Instant>,
}

impl Pace {
    const LONGEST: u32 = 16;
    /// A message that takes less is handled quickly.
    const QUICK: Duration = Duration::from_millis(1);

    /// Whether it is time to look, before one more message.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }

    /// Whether what handlers have ended may wait for the next ones.
    #[inline]
    pub(super) fn is_quick(&self) -> bool {
        self.stride > 1
    }

    /// The driver has looked, and it is `now`.
    pub(super) fn looked(&mut self, now: Instant) {
        let since = self.looked.replace(now).map(|looked| now.saturating_duration_since(looked));
        let is_quick = since.is_some_and(|since| since < Self::QUICK * self.stride.max(1));
        self.stride = if is_quick { (2 * self.stride).clamp(1, Self::LONGEST) } else { 1 };
        self.left = self.stride - 1;
    }

    /// A handler was so slow that the locks of the others are old.
    #[cold]
    pub(super) fn is_slow(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before which of `count` messages the driver looks, if each takes `each`.
    fn looks(pace: &mut Pace, now: &mut Instant, count: u32, each: Duration) -> Vec<u32> {
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
    fn quick_handlers_are_looked_at_less_and_less() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        let quick = looks(&mut pace, &mut now, 40, Duration::from_micros(10));
        assert_eq!(quick, [0, 1, 3, 7, 15, 31]);
    }

    #[test]
    fn a_slow_handler_is_looked_at_each_time() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        assert_eq!(looks(&mut pace, &mut now, 4, Duration::from_millis(2)), [0, 1, 2, 3]);
        looks(&mut pace, &mut now, 100, Duration::ZERO);
        let slow = looks(&mut pace, &mut now, 20, Duration::from_millis(9));
        assert!(slow.len() > 12 && slow.windows(2).skip(1).all(|two| two[1] - two[0] == 1), "{slow:?}");
    }
}
