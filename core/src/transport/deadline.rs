//! Deadlines of operations that a broker has to answer.

use std::{
    error, fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use super::{ErrorKind, ManageError, ReceiveError, SendError, SettleError};

/// The default deadline of an operation: the operation timeout of the Azure SDKs.
#[doc(hidden)]
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(60);

/// The range of an operation timeout. Zero would fail whatever does not answer at once; more than a year overflows instants.
#[doc(hidden)]
#[must_use]
pub fn clamped(timeout: Duration) -> Duration {
    timeout.clamp(Duration::from_millis(1), Duration::from_secs(365 * 24 * 3_600))
}

/// The time that an operation has, by tokio's time. It begins, and the timer is made, when the operation was pending at its
/// first poll: one that answers at once costs nothing.
#[derive(Debug, Default)]
#[doc(hidden)]
pub struct Countdown(Option<Pin<Box<Sleep>>>);

pin_project! {
    /// An operation with a deadline.
    #[must_use = "an operation does nothing until it is awaited"]
    #[doc(hidden)]
    pub struct Timed<F> {
        #[pin]
        operation: F,
        countdown: Countdown,
        timeout: Duration,
    }
}

/// The error of an operation that was not answered before its deadline. Whether the operation had its effect is unknown.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Unanswered(Duration);

impl Countdown {
    /// Polled after the operation was pending. Ready when the operation is to be given up.
    #[cold]
    #[doc(hidden)]
    pub fn poll(&mut self, timeout: Duration, cx: &mut Context<'_>) -> Poll<Unanswered> {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep(timeout)));
        timer.as_mut().poll(cx).map(|()| Unanswered(timeout))
    }
}

impl<F> Timed<F> {
    #[doc(hidden)]
    pub fn new(operation: F, timeout: Duration) -> Self {
        Self { operation, countdown: Countdown::default(), timeout: clamped(timeout) }
    }
}

impl<F: Future> Future for Timed<F> {
    type Output = Result<F::Output, Unanswered>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.operation.poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Ok(answer)),
            Poll::Pending => this.countdown.poll(*this.timeout, cx).map(Err),
        }
    }
}

impl Unanswered {
    #[doc(hidden)]
    #[must_use]
    pub const fn after(timeout: Duration) -> Self {
        Self(timeout)
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer within {:?}", self.0)
    }
}

impl error::Error for Unanswered {}

macro_rules! unanswered {
    ($($error:ident),*) => {$(
        impl From<Unanswered> for $error {
            #[cold]
            fn from(unanswered: Unanswered) -> Self {
                Self::new(ErrorKind::ServiceTimeout).with_detail(unanswered.to_string())
            }
        }
    )*};
}

unanswered!(SendError, ReceiveError, SettleError, ManageError);

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio_test::task;

    use super::*;

    #[test]
    fn a_timeout_is_a_millisecond_to_a_year() {
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(365 * 86_400));
        for (timeout, expected) in [
            (Duration::ZERO, least),
            (least, least),
            (most, most),
            (Duration::MAX, most),
            (OPERATION_TIMEOUT, OPERATION_TIMEOUT),
        ] {
            assert_eq!(clamped(timeout), expected, "{timeout:?}");
        }
    }

    #[test]
    fn an_operation_that_answers_at_once_has_no_timer() {
        // There is no runtime, so a timer would panic.
        let mut operation = task::spawn(Timed::new(ready(1), OPERATION_TIMEOUT));
        assert!(matches!(operation.poll(), Poll::Ready(Ok(1))));
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_that_is_not_answered_ends_at_its_deadline() {
        let started = tokio::time::Instant::now();
        let unanswered = Timed::new(pending::<()>(), Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        let error = SettleError::from(unanswered);
        assert_eq!((error.kind(), error.description()), (ErrorKind::ServiceTimeout, Some("no answer within 5s")));
        assert!(error.is_outcome_unknown() && error.is_retryable());
    }
}
