//! What a layer makes of a message, on its way out and on its way in.

use std::{task::Poll, time::Duration};

use consign::{
    Disposition, Message,
    settlement::DeadLetter,
    transport::{ErrorKind, SendError, SendService},
};
use tokio_test::{assert_pending, assert_ready_err, assert_ready_ok, block_on, task};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn, util::BoxService};
use tower_test::mock;

use super::support::Broker;

/// What the broker gets.
pub(crate) fn sent<L>(layer: &L, message: Message) -> Message
where
    L: Layer<SendService<Broker>, Service: Service<Message, Response = (), Error = SendError>>,
{
    let broker = Broker::default();
    let mut stack = layer.layer(SendService::new(broker.clone()));
    assert_pending!(task::spawn(stack.call(message)).poll());
    broker.messages(0).remove(0)
}

/// Why nothing gets there.
pub(crate) fn not_sent<L>(layer: &L, message: Message) -> SendError
where
    L: Layer<SendService<Broker>, Service: Service<Message, Response = (), Error = SendError>>,
{
    let broker = Broker::default();
    let mut stack = layer.layer(SendService::new(broker.clone()));
    let error = assert_ready_err!(task::spawn(stack.call(message)).poll());
    assert_eq!(broker.transfers(), 0);
    error
}

/// What the handler gets, or the dead letter that comes instead.
pub(crate) fn received<L>(layer: &L, message: Message) -> Result<Message, DeadLetter>
where
    L: Layer<mock::Mock<Message, Disposition>, Service: Service<Message, Response = Disposition, Error = BoxError>>,
{
    let (service, mut handle) = mock::pair::<Message, Disposition>();
    let mut stack = layer.layer(service);
    assert_ready_ok!(task::spawn(std::future::poll_fn(|cx| stack.poll_ready(cx))).poll());
    let mut call = task::spawn(stack.call(message));
    match call.poll() {
        Poll::Ready(answer) => {
            assert!(handle.poll_request().is_pending());
            let Disposition::DeadLetter(letter) = answer.unwrap() else { panic!("a dead letter") };
            Err(*letter)
        }
        Poll::Pending => {
            let (seen, answer) = block_on(handle.next_request()).unwrap();
            answer.send_response(Disposition::Complete);
            assert_eq!(assert_ready_ok!(call.poll()), Disposition::Complete);
            Ok(seen)
        }
    }
}

/// Of a handler that takes its time and then fails.
pub(crate) type Slow = BoxService<Message, Disposition, BoxError>;
/// Of a broker that is busy.
pub(crate) type Busy = BoxService<Message, (), SendError>;

/// What is refused is answered at once; what is handled takes as long as the handler; errors from inside are passed on.
/// Time is paused.
pub(crate) async fn no_time_of_its_own<I, O>(
    receiving: &I,
    refused: Message,
    taken: Message,
    sending: &O,
    sent: Message,
) where
    I: Layer<Slow, Service: Service<Message, Response = Disposition, Error = BoxError>>,
    O: Layer<Busy, Service: Service<Message, Response = (), Error = SendError>>,
{
    let start = tokio::time::Instant::now();
    let slow = || {
        let handler = service_fn(|_: Message| async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            Err::<Disposition, BoxError>("later".into())
        });
        receiving.layer(BoxService::new(handler))
    };
    slow().oneshot(refused).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    let error = slow().oneshot(taken).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), start.elapsed()), ("later", Duration::from_secs(3)));

    let busy = service_fn(|_: Message| async { Err(SendError::new(ErrorKind::ServiceBusy)) });
    let error = sending.layer(BoxService::new(busy)).oneshot(sent).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServiceBusy);
}
