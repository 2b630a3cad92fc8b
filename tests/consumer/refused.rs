//! Messages whose dead-lettering or deferral the broker refuses, and which it delivers again.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, QueueLease, SessionAcceptor, SessionReceiver},
    consumer::{Consumer, SessionConsumer},
    message::{Received, SequenceNumber},
    settlement::DeadLetterReason,
    time::Timestamp,
    transport::{
        BoxFuture, Capabilities, Capability, Delivery, EntityInfo, ErrorKind, Lease, Level, ReceiveError, Receiver,
        Sender, Session, SessionSource, SettleError,
    },
};
use tokio::time::{Sleep, sleep};
use tower::service_fn;

use crate::{seconds, within};

/// A queue of one message, which is there again a millisecond after it was not settled.
#[derive(Clone)]
struct Again(Arc<Mutex<State>>);

struct State {
    is_locked: bool,
    settled: Vec<Disposition>,
    deliveries: u32,
    refuses: Option<ErrorKind>,
    max: u32,
    capabilities: Capabilities,
}

impl Again {
    fn new(refuses: Option<ErrorKind>, max: u32, capabilities: Capabilities) -> Self {
        let settled = Vec::new();
        Self(Arc::new(Mutex::new(State { is_locked: false, settled, deliveries: 0, refuses, max, capabilities })))
    }

    fn receiver(&self) -> AgainReceiver {
        AgainReceiver { queue: self.clone(), arrives: None }
    }

    fn deliveries(&self) -> u32 {
        self.0.lock().unwrap().deliveries
    }

    /// How the message was settled in the end.
    fn settled(&self) -> Vec<Disposition> {
        self.0.lock().unwrap().settled.clone()
    }
}

struct AgainReceiver {
    queue: Again,
    arrives: Option<Pin<Box<Sleep>>>,
}

impl Receiver for AgainReceiver {
    type Lease = AgainLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        _: usize,
        out: &mut Vec<Delivery<AgainLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        loop {
            let arrives = self.arrives.get_or_insert_with(|| Box::pin(sleep(Duration::from_millis(1))));
            std::task::ready!(arrives.as_mut().poll(cx));
            self.arrives = None;
            let mut state = self.queue.0.lock().unwrap();
            if state.is_locked || !state.settled.is_empty() {
                continue;
            }
            state.deliveries += 1;
            state.is_locked = true;
            let received = Received::new(SequenceNumber::new(1), Timestamp::EPOCH, state.deliveries);
            let message = Message::new("an order").with_received(received);
            out.push(Delivery { message, lease: AgainLease(self.queue.clone()) });
            return Poll::Ready(Ok(1));
        }
    }

    fn stop(&mut self) {
        self.arrives = None;
    }

    fn capabilities(&self) -> Capabilities {
        self.queue.0.lock().unwrap().capabilities
    }

    fn entity_info(&self) -> EntityInfo {
        EntityInfo::new("orders").max_delivery_count(self.queue.0.lock().unwrap().max)
    }
}

struct AgainLease(Again);

impl Lease for AgainLease {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        let mut state = self.0.0.lock().unwrap();
        state.is_locked = false;
        let is_deferral = matches!(disposition, Disposition::Defer(_));
        let defers = state.capabilities.supports(Capability::Deferral);
        let answer = match (&disposition, state.refuses) {
            (Disposition::Abandon(_), _) => Ok(()),
            (_, Some(kind)) => Err(SettleError::new(kind)),
            (_, None) if is_deferral && !defers => Err(SettleError::new(ErrorKind::NotSupported)),
            (_, None) => {
                state.settled.push(disposition);
                Ok(())
            }
        };
        Box::pin(async { answer })
    }

    fn release(self) -> Self::Settle {
        self.0.0.lock().unwrap().is_locked = false;
        Box::pin(async { Ok(()) })
    }

    fn renew(&self) -> Self::Renew {
        Box::pin(async { Ok(Timestamp::MAX) })
    }

    fn lock_duration(&self) -> Option<Duration> {
        Some(seconds(60))
    }
}

/// Rules: J-235.
#[tokio::test(start_paused = true)]
async fn a_message_whose_dead_lettering_is_refused_is_not_received_without_a_pause() {
    for disposition in [Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "no stock"), Disposition::DEFER] {
        let queue = Again::new(Some(ErrorKind::EntityNotFound), u32::MAX, Capabilities::none());
        let handler = service_fn(move |_: Message| {
            let disposition = disposition.clone();
            async move { Ok::<_, Infallible>(disposition) }
        });
        let consumer = Consumer::new(queue.receiver(), handler);
        let stats = within(3_600, consumer.run_until(sleep(seconds(60)))).await.unwrap();
        let deliveries = queue.deliveries();
        assert!((5..100).contains(&deliveries), "{deliveries}");
        assert_eq!(stats.settle_failed(), u64::from(deliveries));
    }
}

/// Rules: J-235.
#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_deferred_is_dead_lettered_after_its_last_delivery() {
    let capabilities = Capabilities::none().with(Capability::PeekLock, Level::Native);
    let queue = Again::new(None, 3, capabilities);
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::DEFER) });
    let consumer = Consumer::new(queue.receiver(), handler);
    let stats = within(3_600, consumer.run_until(sleep(seconds(60)))).await.unwrap();
    assert_eq!((queue.deliveries(), stats.abandoned(), stats.dead_lettered()), (3, 2, 1));
    let [Disposition::DeadLetter(dead_letter)] = &queue.settled()[..] else { panic!("{:?}", queue.settled()) };
    assert!(dead_letter.description.contains("the transport cannot defer a message"), "{dead_letter:?}");
}

/// Sessions of a transport that cannot defer.
struct NoDeferral<T>(T);

impl SessionSource for NoDeferral<SessionAcceptor> {
    type Session = NoDeferral<SessionReceiver>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::Session, ReceiveError>> {
        self.0.poll_accept(cx).map_ok(NoDeferral)
    }

    fn stop(&mut self) {
        self.0.stop();
    }
}

impl Receiver for NoDeferral<SessionReceiver> {
    type Lease = QueueLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.0.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        self.0.stop();
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Capability::PeekLock, Level::Native)
    }

    fn entity_info(&self) -> EntityInfo {
        self.0.entity_info()
    }
}

impl Session for NoDeferral<SessionReceiver> {
    type Renew = <SessionReceiver as Session>::Renew;
    type Close = <SessionReceiver as Session>::Close;

    fn session_id(&self) -> &str {
        self.0.session_id()
    }

    fn lock_duration(&self) -> Duration {
        Session::lock_duration(&self.0)
    }

    fn renew(&self) -> Self::Renew {
        Session::renew(&self.0)
    }

    fn close(self) -> Self::Close {
        Session::close(self.0)
    }
}

/// Rules: J-235.
#[tokio::test(start_paused = true)]
async fn a_message_of_a_session_that_cannot_be_deferred_is_dead_lettered_after_its_last_delivery() {
    let settings = QueueSettings::default().requires_session(true).max_delivery_count(3);
    let queue = Broker::new().create_queue("orders", settings).unwrap();
    let message = Message::builder().session_id("s").build("a").unwrap();
    queue.sender().unwrap().send(message).await.unwrap();
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::DEFER) });
    let consumer = SessionConsumer::new(NoDeferral(queue.session_acceptor().unwrap()), handler);
    let stats = within(3_600, consumer.run_until(sleep(seconds(60)))).await.unwrap();
    assert_eq!((stats.abandoned(), stats.dead_lettered(), stats.deferred()), (2, 1, 0));
    assert_eq!(queue.counts().dead_lettered, 1);
}
