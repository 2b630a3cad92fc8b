//! Completing several deliveries at once.

use std::{
    error, fmt,
    future::Future,
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::{StreamExt, future::join, stream::FuturesUnordered};

use super::{BoxFuture, SettleError};

/// The future of [`Lease::complete_all`](super::Lease::complete_all): it ends when the broker has answered for each message.
///
/// `S` is the future of one settlement. A transport builds it from what it has: failures that it found within the call,
/// answers to one message or to several, or a future of its own.
///
/// # Examples
///
/// ```
/// use std::future::{Ready, ready};
///
/// use consign::transport::{CompleteAll, ErrorKind, SettleError};
///
/// # tokio_test::block_on(async {
/// // The first of three had lost its lock, and one answer came for the others.
/// let mut completing = CompleteAll::<Ready<Result<(), SettleError>>>::done();
/// completing.fail(0, SettleError::new(ErrorKind::MessageLockLost));
/// completing.wait_for(1..3, ready(Ok(())));
/// let error = completing.await.unwrap_err();
/// assert_eq!(error.failures().map(|(index, _)| index).collect::<Vec<_>>(), [0]);
/// # });
/// ```
#[must_use = "whether messages are completed is known when the future has ended"]
pub struct CompleteAll<S>(
    /// `None` if every message was completed within the call, which is nearly always so on an embedded broker.
    Option<Box<Open<S>>>,
);

/// What is known and what is missing.
struct Open<S> {
    failures: Vec<(usize, SettleError)>,
    waiting: Waiting<S>,
}

enum Waiting<S> {
    Nothing,
    One(Pin<Box<S>>, Range<usize>),
    Several(FuturesUnordered<Answer<S>>),
    Own(BoxFuture<Vec<(usize, SettleError)>>),
}

/// The answer to the messages of a range.
struct Answer<S> {
    answer: Pin<Box<S>>,
    messages: Range<usize>,
}

impl<S> CompleteAll<S> {
    /// Every message is completed, unless more is said.
    #[inline]
    pub const fn done() -> Self {
        Self(None)
    }

    /// A future of the transport, which returns the failures by the index of their messages.
    pub fn from_future(failures: impl Future<Output = Vec<(usize, SettleError)>> + Send + 'static) -> Self {
        Self(Some(Box::new(Open { failures: Vec::new(), waiting: Waiting::Own(Box::pin(failures)) })))
    }

    /// The message of this index was not completed.
    #[cold]
    pub fn fail(&mut self, index: usize, error: SettleError) {
        self.open().failures.push((index, error));
    }

    /// Returns how many failures are known so far, and `None` while an answer is missing.
    #[must_use]
    #[inline]
    pub fn failures(&self) -> Option<usize> {
        match &self.0 {
            None => Some(0),
            Some(open) => matches!(open.waiting, Waiting::Nothing).then_some(open.failures.len()),
        }
    }

    fn open(&mut self) -> &mut Open<S> {
        self.0.get_or_insert_with(|| Box::new(Open { failures: Vec::new(), waiting: Waiting::Nothing }))
    }
}

impl<S> CompleteAll<S>
where
    S: Future<Output = Result<(), SettleError>> + Send + 'static,
{
    /// The broker gives one answer to the messages of a range, except those that have failed already.
    pub fn wait_for(&mut self, messages: Range<usize>, answer: S) {
        let answer = Box::pin(answer);
        let open = self.open();
        match &mut open.waiting {
            Waiting::Nothing => open.waiting = Waiting::One(answer, messages),
            Waiting::Several(several) => several.push(Answer { answer, messages }),
            waiting => match std::mem::replace(waiting, Waiting::Nothing) {
                Waiting::One(first, first_messages) => {
                    let several = FuturesUnordered::new();
                    several.push(Answer { answer: first, messages: first_messages });
                    several.push(Answer { answer, messages });
                    *waiting = Waiting::Several(several);
                }
                Waiting::Own(own) => {
                    *waiting = Waiting::Own(Box::pin(async move {
                        let one = Open { failures: Vec::new(), waiting: Waiting::One(answer, messages) };
                        let (mut failures, answered) = join(own, Self(Some(Box::new(one)))).await;
                        failures.extend(answered.err().into_iter().flat_map(CompleteAllError::into_failures));
                        failures
                    }));
                }
                Waiting::Nothing | Waiting::Several(_) => {}
            },
        }
    }

    /// Waits for one answer to each message, in their order.
    pub fn each(answers: impl IntoIterator<Item = S>) -> Self {
        let mut all = Self::done();
        for (index, answer) in answers.into_iter().enumerate() {
            all.wait_for(index..index + 1, answer);
        }
        all
    }
}

impl<S> Open<S>
where
    S: Future<Output = Result<(), SettleError>> + Send + 'static,
{
    /// The answer to the messages of a range. An error is that of each one that has not failed already.
    fn answered(&mut self, messages: Range<usize>, answer: Result<(), SettleError>) {
        let Err(error) = answer else { return };
        let open: Vec<_> = messages.filter(|index| self.failures.iter().all(|(failed, _)| failed != index)).collect();
        if let [index] = open[..] {
            self.failures.push((index, error));
            return;
        }
        let error = Arc::new(error);
        self.failures.extend(open.into_iter().map(|index| (index, again(&error))));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CompleteAllError>> {
        loop {
            match &mut self.waiting {
                Waiting::Nothing => break,
                Waiting::One(answer, messages) => {
                    let answer = ready!(answer.as_mut().poll(cx));
                    let messages = messages.clone();
                    self.waiting = Waiting::Nothing;
                    self.answered(messages, answer);
                }
                Waiting::Several(several) => match ready!(several.poll_next_unpin(cx)) {
                    Some((messages, answer)) => self.answered(messages, answer),
                    None => self.waiting = Waiting::Nothing,
                },
                Waiting::Own(own) => {
                    let failures = ready!(own.as_mut().poll(cx));
                    self.waiting = Waiting::Nothing;
                    self.failures.extend(failures);
                }
            }
        }
        let mut failures = std::mem::take(&mut self.failures);
        failures.sort_by_key(|(index, _)| *index);
        Poll::Ready(if failures.is_empty() { Ok(()) } else { Err(CompleteAllError { failures }) })
    }
}

/// An error for one more message that it concerns.
fn again(error: &Arc<SettleError>) -> SettleError {
    let mut copy = SettleError::new(error.kind()).with_retryable(error.is_retryable()).with_source(Arc::clone(error));
    if let Some(description) = error.description() {
        copy = copy.with_detail(description.to_owned());
    }
    if let Some(condition) = error.condition() {
        copy = copy.with_condition(condition.to_owned());
    }
    copy
}

/// The futures are in boxes.
impl<S> Unpin for CompleteAll<S> {}

impl<S> Future for CompleteAll<S>
where
    S: Future<Output = Result<(), SettleError>> + Send + 'static,
{
    type Output = Result<(), CompleteAllError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().map_or(Poll::Ready(Ok(())), |open| open.poll(cx))
    }
}

impl<S: Future> Future for Answer<S> {
    type Output = (Range<usize>, S::Output);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(self.answer.as_mut().poll(cx));
        Poll::Ready((self.messages.clone(), answer))
    }
}

impl<S> fmt::Debug for CompleteAll<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompleteAll")
            .field("failures", &self.0.as_ref().map(|open| &open.failures))
            .finish_non_exhaustive()
    }
}

/// Some of several messages were not completed, or of some that is unknown. Those that it does not name are completed.
#[derive(Debug)]
pub struct CompleteAllError {
    /// By index.
    failures: Vec<(usize, SettleError)>,
}

impl CompleteAllError {
    /// Returns the failures, each with the index of its message in the batch, in ascending order.
    #[must_use]
    pub fn failures(&self) -> impl ExactSizeIterator<Item = (usize, &SettleError)> {
        self.failures.iter().map(|(index, error)| (*index, error))
    }

    /// Returns the failures by value, as [`failures`](Self::failures).
    #[must_use]
    pub fn into_failures(self) -> Vec<(usize, SettleError)> {
        self.failures
    }
}

impl fmt::Display for CompleteAllError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failures[..] {
            [(_, only)] => write!(f, "one message was not completed: {only}"),
            all => {
                write!(f, "{} messages were not completed", all.len())?;
                all.first().map_or(Ok(()), |(_, first)| write!(f, ", the first: {first}"))
            }
        }
    }
}

impl error::Error for CompleteAllError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.failures.first().map(|(_, first)| first as _)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};

    use tokio_test::{assert_pending, task};

    use super::*;
    use crate::transport::ErrorKind;

    type Settle = Ready<Result<(), SettleError>>;

    fn lost() -> SettleError {
        SettleError::new(ErrorKind::MessageLockLost)
    }

    fn indexes(error: &CompleteAllError) -> Vec<usize> {
        error.failures().map(|(index, _)| index).collect()
    }

    #[tokio::test]
    async fn an_error_concerns_all_messages_of_its_answer_that_have_not_failed() {
        let mut all = CompleteAll::<Settle>::done();
        all.fail(3, lost());
        let broken = SettleError::new(ErrorKind::CommunicationProblem).with_detail("cut").with_retryable(false);
        all.wait_for(2..5, ready(Err(broken)));
        all.wait_for(0..2, ready(Ok(())));
        assert_eq!(all.failures(), None);
        let error = all.await.unwrap_err();
        assert_eq!(indexes(&error), [2, 3, 4]);
        let kinds: Vec<_> = error.failures().map(|(_, error)| error.kind()).collect();
        let broken = ErrorKind::CommunicationProblem;
        assert_eq!(kinds, [broken, ErrorKind::MessageLockLost, broken]);
        let (_, last) = error.into_failures().pop().unwrap();
        assert_eq!((last.description(), last.is_retryable()), (Some("cut"), false));
    }

    #[tokio::test]
    async fn each_message_has_its_answer() {
        let all = CompleteAll::each([ready(Ok(())), ready(Err(lost())), ready(Ok(()))]);
        let error = all.await.unwrap_err();
        assert_eq!(indexes(&error), [1]);
        assert_eq!(error.to_string(), "one message was not completed: settle: the lock of the message is lost");
        CompleteAll::<Settle>::each([]).await.unwrap();
    }

    #[test]
    fn it_waits_for_its_own_future_and_for_answers() {
        let (own, done) = tokio::sync::oneshot::channel::<()>();
        let mut all = CompleteAll::<Settle>::from_future(async move {
            let _ = done.await;
            vec![(0, lost())]
        });
        all.wait_for(1..2, ready(Err(lost())));
        let mut all = task::spawn(all);
        assert_pending!(all.poll());
        own.send(()).unwrap();
        let Poll::Ready(Err(error)) = all.poll() else { panic!("it has ended") };
        assert_eq!(indexes(&error), [0, 1]);
    }
}
