//! A boxed value passes each call with its arguments to the one inside, and returns its answer.

use std::{
    error::Error,
    future::{Ready, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;

use super::StubLease;
use crate::{
    Disposition, Message,
    administration::{Administration, Counts, Entity, EntitySettings, QueueSettings},
    message::{EntityPath, LockToken, Properties, SequenceNumber},
    settlement::Changes,
    time::{Clock, ManualClock, Timestamp},
    transport::{
        AcceptSession, Batch, Capabilities, Capability, Delivery, DirectReceiver, DynLease, DynReceiver, DynSender,
        DynSession, DynSessionSource, DynTransaction, DynTransport, EntityInfo, ErrorKind, Lease, Level, ManageError,
        PeekMessages, PurgeMessages, ReceiveDeferred, ReceiveError, ReceiveMode, Receiver, ReceiverExt,
        ScheduleMessages, SendError, Sender, ServerAddress, Session, SessionSource, Sessions, SettleError, Transaction,
        TransactionError, Transactions, Transport,
    },
};

/// Every trait of a transport. A call that may fail does, by an error whose text is the call; the other answers differ
/// from those of the default methods.
#[derive(Clone, Default)]
struct Inside {
    is_stopped: Arc<AtomicBool>,
    browses: Arc<AtomicBool>,
}

macro_rules! refused {
    ($error:ident, $($call:tt)+) => { $error::new(ErrorKind::General).with_detail(format!($($call)+)) };
}

const CAPABILITIES: Capabilities = Capabilities::none().with(Capability::Peek, Level::Emulated);
const INFO: &str = "inside";
const TOKEN: LockToken = LockToken::from_bytes([7; 16]);

fn text(message: &Message) -> String {
    String::from_utf8_lossy(message.payload().unwrap()).into_owned()
}

fn all(numbers: &[SequenceNumber]) -> Vec<u64> {
    numbers.iter().map(|number| number.get()).collect()
}

impl Lease for Inside {
    type Settle = Ready<Result<(), SettleError>>;
    type Renew = Ready<Result<Timestamp, SettleError>>;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        ready(Err(refused!(SettleError, "settle {disposition:?}")))
    }

    fn completes_in_batches(&self) -> bool {
        true
    }

    fn release(self) -> Self::Settle {
        ready(Err(refused!(SettleError, "release")))
    }

    fn abandon_after(self, changes: Changes, delay: Duration) -> Result<Self::Settle, Self> {
        Ok(ready(Err(refused!(SettleError, "abandon {changes:?} after {delay:?}"))))
    }

    fn release_after(self, delay: Duration) -> Result<Self::Settle, Self> {
        Ok(ready(Err(refused!(SettleError, "release after {delay:?}"))))
    }

    fn renew(&self) -> Self::Renew {
        ready(Err(refused!(SettleError, "renew")))
    }

    fn lock_duration(&self) -> Option<Duration> {
        Some(Duration::from_secs(9))
    }

    fn must_settle(&self) -> bool {
        false
    }

    fn lock_token(&self) -> Option<LockToken> {
        Some(TOKEN)
    }
}

impl Receiver for Inside {
    type Lease = Self;

    fn poll_receive(
        &mut self,
        _: &mut Context<'_>,
        max: usize,
        _: &mut Vec<Delivery<Self>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        Poll::Ready(Err(refused!(ReceiveError, "receive {max}")))
    }

    fn stop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn receive_directly(&mut self, direct: &Arc<dyn DirectReceiver>) {
        direct.receive(Message::new("direct"));
    }

    fn browse_only(&mut self) {
        self.browses.store(true, Ordering::Relaxed);
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn entity_info(&self) -> EntityInfo {
        EntityInfo::new(INFO)
    }
}

impl Session for Inside {
    type Renew = Ready<Result<Timestamp, SettleError>>;
    type Close = Ready<Result<(), SettleError>>;

    fn session_id(&self) -> &'static str {
        "customer-7"
    }

    fn lock_duration(&self) -> Duration {
        Duration::from_secs(7)
    }

    fn renew(&self) -> Self::Renew {
        ready(Err(refused!(SettleError, "renew the session")))
    }

    fn close(self) -> Self::Close {
        ready(Err(refused!(SettleError, "close the session")))
    }

    fn state(&self) -> impl Future<Output = Result<Option<Bytes>, SettleError>> + Send + use<> {
        ready(Err(refused!(SettleError, "state")))
    }

    fn set_state(&self, state: Option<Bytes>) -> impl Future<Output = Result<(), SettleError>> + Send + use<> {
        ready(Err(refused!(SettleError, "set state {state:?}")))
    }

    async fn receive_deferred(&mut self, numbers: &[SequenceNumber]) -> Result<Vec<Delivery<Self>>, ReceiveError> {
        Err(refused!(ReceiveError, "receive deferred {:?}", all(numbers)))
    }

    async fn peek(&mut self, max: usize) -> Result<Vec<Message>, ReceiveError> {
        Err(refused!(ReceiveError, "peek {max}"))
    }
}

impl SessionSource for Inside {
    type Session = Self;

    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<Result<Self, ReceiveError>> {
        Poll::Ready(Err(refused!(ReceiveError, "accept any")))
    }

    fn stop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn entity_info(&self) -> EntityInfo {
        EntityInfo::new(INFO)
    }
}

impl AcceptSession for Inside {
    type Session = Self;
    type Accept = Ready<Result<Self, ReceiveError>>;

    fn accept(&mut self, id: &str) -> Self::Accept {
        ready(Err(refused!(ReceiveError, "accept {id}")))
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }
}

impl Sender for Inside {
    type Send = Ready<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        ready(Err(refused!(SendError, "send {}", text(&message))))
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        ready(Err(refused!(SendError, "send {} messages", batch.len())))
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(Arc::new(ManualClock::new(Timestamp::from_millis(7))))
    }
}

impl Transaction for Inside {
    type Lease = Self;

    async fn send(&mut self, to: &EntityPath, message: Message) -> Result<(), SendError> {
        Err(refused!(SendError, "send {} to {to}", text(&message)))
    }

    async fn schedule(&mut self, to: &EntityPath, message: Message, at: Timestamp) -> Result<(), SendError> {
        Err(refused!(SendError, "schedule {} to {to} at {}", text(&message), at.as_millis()))
    }

    async fn settle(&mut self, lease: Self, disposition: Disposition) -> Result<(), TransactionError<Self>> {
        Err(TransactionError::from(refused!(SettleError, "settle {disposition:?}")).with_leases([lease]))
    }

    async fn commit(self) -> Result<Vec<SequenceNumber>, TransactionError<Self>> {
        Err(TransactionError::from(refused!(SettleError, "commit")).with_leases([self.clone(), self]))
    }

    fn rollback(self) -> Vec<Self> {
        vec![self.clone(), self.clone(), self]
    }
}

impl Transport for Inside {
    type Sender = Self;
    type Lease = Self;
    type Receiver = Self;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn server(&self) -> Option<ServerAddress> {
        Some(ServerAddress::new(INFO))
    }

    async fn sender(&self, path: &EntityPath) -> Result<Self, SendError> {
        Err(refused!(SendError, "sender of {path}"))
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<Self, ReceiveError> {
        Err(refused!(ReceiveError, "{mode:?} from {path}"))
    }

    async fn ping(&self) -> Result<(), ManageError> {
        Err(refused!(ManageError, "ping"))
    }

    async fn close(&self) -> Result<(), ManageError> {
        Err(refused!(ManageError, "close"))
    }
}

impl PeekMessages for Inside {
    async fn peek(&self, path: &EntityPath, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        Err(refused!(ReceiveError, "peek {path} from {} {max}", from.get()))
    }
}

impl ScheduleMessages for Inside {
    async fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        Err(refused!(SendError, "schedule {} to {path} at {}", messages.len(), at.as_millis()))
    }

    async fn cancel_scheduled(&self, path: &EntityPath, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        Err(refused!(SendError, "cancel {:?} of {path}", all(numbers)))
    }
}

impl ReceiveDeferred for Inside {
    async fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<Self>>, ReceiveError> {
        Err(refused!(ReceiveError, "receive deferred {:?} of {path}", all(numbers)))
    }
}

impl PurgeMessages for Inside {
    async fn purge(&self, path: &EntityPath, max: usize, before: Option<Timestamp>) -> Result<usize, ManageError> {
        Err(refused!(ManageError, "purge {path} {max} {before:?}"))
    }
}

impl Sessions for Inside {
    type Session = Self;
    type SessionSource = Self;

    async fn sessions(&self, path: &EntityPath) -> Result<Self, ReceiveError> {
        Err(refused!(ReceiveError, "sessions of {path}"))
    }
}

impl Transactions for Inside {
    type Transaction = Self;

    async fn begin(&self) -> Result<Self, TransactionError<Self>> {
        Err(refused!(SettleError, "begin").into())
    }
}

fn lock_duration(settings: &EntitySettings) -> Duration {
    let EntitySettings::Queue(settings) = settings else { panic!("the settings of a queue") };
    settings.lock_duration
}

impl Administration for Inside {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        Err(refused!(ManageError, "create {path} {:?}", lock_duration(settings)))
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        Err(refused!(ManageError, "declare {path} {:?}", lock_duration(settings)))
    }

    async fn update(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        Err(refused!(ManageError, "update {path} {:?}", lock_duration(settings)))
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        Err(refused!(ManageError, "delete {path}"))
    }

    async fn settings(&self, path: &EntityPath) -> Result<EntitySettings, ManageError> {
        Err(refused!(ManageError, "settings of {path}"))
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        Err(refused!(ManageError, "list"))
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ManageError> {
        Err(refused!(ManageError, "counts of {path}"))
    }
}

fn orders() -> EntityPath {
    EntityPath::new("orders").unwrap()
}

const NUMBERS: [SequenceNumber; 2] = [SequenceNumber::new(4), SequenceNumber::new(5)];
const AT: Timestamp = Timestamp::from_millis(3);

fn cause(error: &TransactionError<DynLease>) -> String {
    error.source().unwrap().downcast_ref::<SettleError>().unwrap().description().unwrap().to_owned()
}

/// Compares the text of each error with its call.
macro_rules! assert_passed {
    ($($answer:expr => $call:expr,)*) => {$(
        let Err(error) = $answer else { panic!("{} is answered", $call) };
        assert_eq!(error.description(), Some($call));
    )*};
}

#[tokio::test]
async fn a_lease_passes_its_calls_on() {
    let lease = || DynLease::new(Inside::default());
    let seconds = Duration::from_secs;
    assert_passed! {
        lease().settle(Disposition::Complete).await => "settle Complete",
        lease().release().await => "release",
        lease().abandon_after(Changes::NONE, seconds(3)).ok().unwrap().await => "abandon Changes(None) after 3s",
        lease().release_after(seconds(4)).ok().unwrap().await => "release after 4s",
        Lease::renew(&lease()).await => "renew",
    }
    assert!(lease().completes_in_batches() && !lease().must_settle());
    assert_eq!(lease().lock_token(), Some(TOKEN));
}

/// A transport that delays no message returns the lease, and so does its boxed twin.
#[test]
fn a_lease_that_cannot_be_delayed_comes_back() {
    for lease in [
        DynLease::new(StubLease(None)).abandon_after(Changes::NONE, Duration::ZERO).err().unwrap(),
        DynLease::new(StubLease(None)).release_after(Duration::ZERO).err().unwrap(),
    ] {
        let lease = lease.downcast::<Inside>().err().expect("it is of another type");
        assert!(lease.must_settle() == lease.lock_duration().is_some());
        assert_eq!(lease.downcast::<StubLease>().ok().unwrap().0, None);
    }
}

/// Each transport completes its own leases, and the failures have the places of their leases in the whole batch.
#[tokio::test]
async fn leases_of_several_transports_are_completed_together() {
    let [stub, inside] = [|| DynLease::new(StubLease(None)), || DynLease::new(Inside::default())];
    let mut batch = vec![inside(), stub(), stub(), inside(), inside(), stub()];
    let error = DynLease::complete_all(&mut batch).await.unwrap_err();
    assert!(batch.is_empty());
    assert_eq!(error.failures().map(|(index, _)| index).collect::<Vec<_>>(), [0, 3, 4]);
    DynLease::complete_all(&mut vec![stub(), stub()]).await.unwrap();
}

/// Keeps what it is passed.
#[derive(Default)]
struct Direct(Mutex<Vec<String>>);

impl DirectReceiver for Direct {
    fn expects(&self, _: &Properties) -> bool {
        true
    }

    fn receive(&self, message: Message) {
        self.0.lock().unwrap().push(text(&message));
    }
}

#[tokio::test]
async fn a_receiver_passes_its_calls_on() {
    let inside = Inside::default();
    let mut receiver = DynReceiver::new(inside.clone());
    assert_passed! { receiver.receive_batch(5).await => "receive 5", }
    assert_eq!((receiver.capabilities(), receiver.entity_info()), (CAPABILITIES, EntityInfo::new(INFO)));
    inside.is_stopped.store(false, Ordering::Relaxed);
    receiver.stop();
    assert!(inside.is_stopped.load(Ordering::Relaxed));
    let direct = Arc::new(Direct::default());
    receiver.browse_only();
    assert!(inside.browses.load(Ordering::Relaxed));
    receiver.receive_directly(&(direct.clone() as Arc<dyn DirectReceiver>));
    assert_eq!(*direct.0.lock().unwrap(), ["direct"]);
}

#[tokio::test]
async fn a_session_passes_its_calls_on() {
    let inside = Inside::default();
    let mut session = DynSession::new(inside.clone());
    assert_passed! {
        session.receive_batch(5).await => "receive 5",
        session.renew().await => "renew the session",
        session.state().await => "state",
        session.set_state(Some("s".into())).await => "set state Some(b\"s\")",
        session.receive_deferred(&NUMBERS).await => "receive deferred [4, 5]",
        session.peek(6).await => "peek 6",
    }
    assert_eq!((session.capabilities(), session.entity_info()), (CAPABILITIES, EntityInfo::new(INFO)));
    inside.is_stopped.store(false, Ordering::Relaxed);
    session.stop();
    assert!(inside.is_stopped.load(Ordering::Relaxed));
    assert_passed! { session.close().await => "close the session", }
}

#[tokio::test]
async fn a_source_of_sessions_passes_its_calls_on() {
    let inside = Inside::default();
    let mut source = DynSessionSource::new(inside.clone());
    let any = std::future::poll_fn(|cx| source.poll_accept(cx)).await;
    assert_passed! {
        any => "accept any",
        source.accept("customer-7").await => "accept customer-7",
    }
    assert_eq!((source.capabilities(), source.entity_info()), (CAPABILITIES, EntityInfo::new(INFO)));
    source.stop();
    assert!(inside.is_stopped.load(Ordering::Relaxed));
}

#[tokio::test]
async fn a_sender_passes_its_calls_on() {
    let sender = DynSender::new(Inside::default());
    assert_passed! {
        sender.send(Message::new("one")).await => "send one",
        sender.send_batch(vec![Message::new("one"); 3].into()).await => "send 3 messages",
    }
    assert_eq!(sender.capabilities(), CAPABILITIES);
    assert_eq!(sender.clock().unwrap().now().utc, Timestamp::from_millis(7));
}

#[tokio::test]
async fn a_transaction_passes_its_calls_on() {
    let mut transaction = DynTransaction::new(Inside::default());
    assert_passed! {
        transaction.send(&orders(), Message::new("one")).await => "send one to orders",
        transaction.schedule(&orders(), Message::new("one"), AT).await => "schedule one to orders at 3",
    }
    let error = transaction.settle(DynLease::new(Inside::default()), Disposition::Complete).await.unwrap_err();
    assert_eq!((&*cause(&error), error.into_leases().len()), ("settle Complete", 1));
    let error = transaction.settle(DynLease::new(StubLease(None)), Disposition::Complete).await.unwrap_err();
    assert_eq!(cause(&error), "the lease of another transport");
    assert!(error.into_leases().pop().unwrap().downcast::<StubLease>().is_ok());
    let error = transaction.commit().await.unwrap_err();
    assert_eq!((&*cause(&error), error.into_leases().len()), ("commit", 2));
    assert_eq!(DynTransaction::new(Inside::default()).rollback().len(), 3);
}

#[tokio::test]
async fn a_transport_passes_its_calls_on() {
    let transport = DynTransport::builder(Inside::default()).peek().schedule().receive_deferred().purge();
    let transport = transport.sessions().transactions().administration().extension(7_u8).build();
    let settings = QueueSettings::default().lock_duration(Duration::from_secs(8)).into();
    let path = orders();
    assert_passed! {
        transport.sender(&path).await => "sender of orders",
        transport.receiver(&path, ReceiveMode::ReceiveAndDelete).await => "ReceiveAndDelete from orders",
        transport.ping().await => "ping",
        transport.close().await => "close",
        transport.peek(&path, NUMBERS[0], 6).await => "peek orders from 4 6",
        transport.schedule(&path, vec![Message::new("one"); 2], AT).await => "schedule 2 to orders at 3",
        transport.cancel_scheduled(&path, &NUMBERS).await => "cancel [4, 5] of orders",
        transport.receive_deferred(&path, &NUMBERS).await => "receive deferred [4, 5] of orders",
        transport.purge(&path, 9, Some(AT)).await => "purge orders 9 Some(3 ms)",
        transport.sessions(&path).await => "sessions of orders",
        transport.create(&path, &settings).await => "create orders 8s",
        transport.declare(&path, &settings).await => "declare orders 8s",
        transport.update(&path, &settings).await => "update orders 8s",
        transport.delete(&path).await => "delete orders",
        transport.settings(&path).await => "settings of orders",
        transport.list().await => "list",
        transport.counts(&path).await => "counts of orders",
    }
    let error = transport.begin().await.unwrap_err();
    assert_eq!(cause(&error), "begin");
    assert_eq!((transport.capabilities(), transport.server()), (CAPABILITIES, Some(ServerAddress::new(INFO))));
    assert_eq!((transport.extension::<u8>(), transport.extension::<u16>()), (Some(&7), None));
}
