//! Services to put the layers around.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Message,
    message::{Received, SequenceNumber},
    time::Timestamp,
    transport::{Batch, Capabilities, Capability, Level, SendError, Sender},
};
use tokio::sync::oneshot;
use tower::{BoxError, Service};

pub(crate) type Boxed<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// A message with a subject to know it by.
pub(crate) fn message(subject: &'static str) -> Message {
    Message::builder().subject(subject).build("body").unwrap()
}

/// A message as a broker delivers it.
pub(crate) fn received(locked_until: Option<Timestamp>, now: Timestamp) -> Message {
    let mut received = Received::new(SequenceNumber::new(1), now, 1);
    received.locked_until = locked_until;
    message("received").with_received(received)
}

/// Panics when an instance is called that was not made ready. A clone is not ready.
#[derive(Debug)]
pub(crate) struct Probe<T> {
    response: T,
    takes: Duration,
    ready: bool,
}

impl<T> Probe<T> {
    pub(crate) fn new(response: T) -> Self {
        Self { response, takes: Duration::from_millis(10), ready: false }
    }
}

impl<T: Clone> Clone for Probe<T> {
    fn clone(&self) -> Self {
        Self { response: self.response.clone(), takes: self.takes, ready: false }
    }
}

impl<R, T: Clone + Send + 'static> Service<R> for Probe<T> {
    type Response = T;
    type Error = BoxError;
    type Future = Boxed<T, BoxError>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: R) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without readiness");
        let (response, takes) = (self.response.clone(), self.takes);
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            Ok(response)
        })
    }
}

/// A broker that answers when the test says so.
#[derive(Clone, Default)]
pub(crate) struct Broker(Arc<Mutex<Vec<Transfer>>>);

struct Transfer {
    messages: Vec<Message>,
    answer: Option<oneshot::Sender<Result<(), SendError>>>,
}

impl Broker {
    /// How many transfers have arrived.
    pub(crate) fn transfers(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// What the transfer with this number carried.
    pub(crate) fn messages(&self, transfer: usize) -> Vec<Message> {
        self.0.lock().unwrap()[transfer].messages.clone()
    }

    /// Answers one transfer. Nobody may be waiting for the answer any more.
    pub(crate) fn answer(&self, transfer: usize, answer: Result<(), SendError>) {
        let waiting = self.0.lock().unwrap()[transfer].answer.take().expect("answered once");
        let _ = waiting.send(answer);
    }

    fn transfer(&self, messages: Vec<Message>) -> Boxed<(), SendError> {
        let (answer, answered) = oneshot::channel();
        self.0.lock().unwrap().push(Transfer { messages, answer: Some(answer) });
        Box::pin(async move { answered.await.expect("the broker lives") })
    }
}

impl Sender for Broker {
    type Send = Boxed<(), SendError>;

    fn send(&self, message: Message) -> Self::Send {
        self.transfer(vec![message])
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        self.transfer(batch.into_messages())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Capability::Scheduling, Level::Emulated)
    }
}
