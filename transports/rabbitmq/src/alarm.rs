//! A timer that is set often, and seldom goes off.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::time::{Instant, Sleep, sleep_until};

/// When a task is next due. It may be early: an alarm is not set to a later time, because that is seldom needed.
pub(crate) struct Alarm {
    at: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Self { at: None, sleep: Box::pin(sleep_until(Instant::now())) }
    }

    /// Returns when it goes off.
    pub(crate) fn set(&mut self, at: Option<Instant>) -> Option<Instant> {
        if let Some(at) = at.filter(|at| self.at.is_none_or(|set| *at < set)) {
            self.at = Some(at);
            self.sleep.as_mut().reset(at);
        }
        self.at
    }

    /// Waits until it goes off. It is not set then.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.at.is_none() {
            return Poll::Pending;
        }
        ready!(self.sleep.as_mut().poll(cx));
        self.at = None;
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_alarm_goes_off_at_the_first_of_its_times() {
        let now = Instant::now();
        let after = |seconds| Some(now + Duration::from_secs(seconds));
        let mut alarm = Alarm::new();
        assert_eq!(alarm.set(None), None);
        assert_eq!([alarm.set(after(5)), alarm.set(after(9)), alarm.set(after(2))], [after(5), after(5), after(2)]);
        poll_fn(|cx| alarm.poll(cx)).await;
        assert_eq!(Some(Instant::now()), after(2));
        assert_eq!(alarm.set(after(9)), after(9));
    }
}
