//! What the suite cannot see from outside: who is woken, what a refused operation leaves behind, and the connector.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::{
    sync::Arc,
    task::{Context, Wake, Waker},
    time::Duration,
};

use consign_core::{
    Disposition, Message,
    administration::{Administration, EntitySettings, QueueSettings, TopicSettings},
    message::{ApplicationProperties, EntityPath},
    settlement::{DeadLetter, DeadLetterReason},
    transport::{
        Batch, Capability, ConnectErrorKind, DynTransport, ErrorKind, Lease, ReceiveMode, Receiver, ReceiverExt,
        Sender, Transport, TransportRegistry, Unsupported,
    },
};
use consign_example_transport::{ChannelReceiver, ChannelSender, Channels};
use tokio_test::{assert_pending, assert_ready, task};

fn path() -> EntityPath {
    EntityPath::new("orders").unwrap()
}

async fn orders(settings: QueueSettings) -> (Channels, ChannelSender, ChannelReceiver) {
    let channels = Channels::new();
    channels.create(&path(), &settings.into()).await.unwrap();
    let sender = channels.sender(&path()).await.unwrap();
    let receiver = channels.receiver(&path(), ReceiveMode::PeekLock).await.unwrap();
    (channels, sender, receiver)
}

async fn body(receiver: &mut ChannelReceiver) -> Vec<u8> {
    let delivery = receiver.receive().await.unwrap();
    let body = delivery.message.payload().unwrap_or_default().to_vec();
    delivery.complete().await.unwrap();
    body
}

#[tokio::test]
async fn a_receiver_that_is_dropped_or_stopped_passes_its_wake_up_on() {
    for is_dropped in [true, false] {
        let (channels, sender, mut first) = orders(QueueSettings::default()).await;
        let mut second = channels.receiver(&path(), ReceiveMode::PeekLock).await.unwrap();
        let mut out = Vec::new();
        let mut waiting = task::spawn(());
        assert!(waiting.enter(|cx, _| first.poll_receive(cx, 1, &mut out)).is_pending());
        let mut other = task::spawn(second.receive());
        assert_pending!(other.poll());
        sender.send(Message::new("a")).await.unwrap();
        assert!(waiting.is_woken() && !other.is_woken(), "one message wakes one receiver");
        if is_dropped {
            drop(first);
        } else {
            first.stop();
        }
        assert!(other.is_woken(), "{is_dropped}");
        let delivery = assert_ready!(other.poll()).unwrap();
        assert_eq!(delivery.message.received().unwrap().delivery_count, 1);
    }
}

#[tokio::test]
async fn each_message_wakes_a_receiver() {
    let (channels, sender, mut first) = orders(QueueSettings::default()).await;
    let mut second = channels.receiver(&path(), ReceiveMode::PeekLock).await.unwrap();
    let (mut one, mut two) = (task::spawn(first.receive()), task::spawn(second.receive()));
    assert_pending!(one.poll());
    assert_pending!(two.poll());
    sender.send_batch(Batch::from(vec![Message::new("a"), Message::new("b")])).await.unwrap();
    assert!(one.is_woken() && two.is_woken());
    let first = assert_ready!(one.poll()).unwrap();
    let _second = assert_ready!(two.poll()).unwrap();
    // A message that returns wakes one too.
    drop(two);
    let mut three = task::spawn(async { channels.receiver(&path(), ReceiveMode::PeekLock).await?.receive().await });
    assert_pending!(three.poll());
    first.lease.release().await.unwrap();
    assert!(three.is_woken());
    assert_eq!(assert_ready!(three.poll()).unwrap().message.payload(), Some(&b"a"[..]));
}

#[tokio::test]
async fn a_receive_that_is_dropped_takes_nothing_and_loses_its_place() {
    let (channels, sender, mut first) = orders(QueueSettings::default()).await;
    let mut second = channels.receiver(&path(), ReceiveMode::PeekLock).await.unwrap();
    assert_pending!(task::spawn(first.receive()).poll());
    let mut waiting = task::spawn(second.receive());
    assert_pending!(waiting.poll());
    sender.send(Message::new("a")).await.unwrap();
    assert!(waiting.is_woken(), "the receive that was dropped is not in line");
    drop(waiting);
    assert_eq!(body(&mut first).await, b"a");
}

#[tokio::test]
async fn a_lock_has_no_duration_and_is_not_renewed() {
    let (_, sender, mut receiver) = orders(QueueSettings::default()).await;
    sender.send(Message::new("a")).await.unwrap();
    let delivery = receiver.receive().await.unwrap();
    assert_eq!((delivery.lease.lock_duration(), delivery.lease.must_settle()), (None, true));
    assert_eq!(delivery.lease.renew().await.unwrap_err().kind(), ErrorKind::NotSupported);
    let info = receiver.entity_info();
    assert_eq!((info.name.as_deref(), info.max_delivery_count), (Some("orders"), Some(10)));
}

/// Its lease is used up, so it is abandoned, and a loop of refused settlements ends after the last delivery.
#[tokio::test]
async fn a_refused_settlement_abandons() {
    let (channels, sender, mut receiver) = orders(QueueSettings::default().max_delivery_count(2)).await;
    sender.send(Message::new("a")).await.unwrap();
    for _ in 0..2 {
        let refused = receiver.receive().await.unwrap().defer().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotSupported);
    }
    let mut dead = channels.receiver(&path().dead_letter(), ReceiveMode::PeekLock).await.unwrap();
    let delivery = dead.receive().await.unwrap();
    assert_eq!(delivery.message.dead_letter_reason(), Some("MaxDeliveryCountExceeded"));
    assert!(delivery.message.received().unwrap().dead_lettered);
}

#[tokio::test]
async fn counts_and_size_follow_the_messages() {
    let (channels, sender, mut receiver) = orders(QueueSettings::default().max_size(2_000)).await;
    for _ in 0..3 {
        sender.send(Message::new("a")).await.unwrap();
    }
    let full = sender.send(Message::new(vec![0; 2_000])).await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::QuotaExceeded);
    let [one, two, three] = receiver.receive_batch(3).await.unwrap().try_into().unwrap();
    one.complete().await.unwrap();
    two.abandon().await.unwrap();
    let counts = channels.counts(&path()).await.unwrap();
    assert_eq!((counts.active, counts.locked, counts.dead_lettered), (1, 1, 0));
    let size = counts.size;
    three.complete().await.unwrap();
    assert_eq!(body(&mut receiver).await, b"a");
    let counts = channels.counts(&path()).await.unwrap();
    assert!(size > 0);
    assert_eq!((counts.active, counts.locked, counts.size), (0, 0, 0));
}

/// Rules: T-86.
#[tokio::test]
async fn what_a_settlement_adds_counts_against_the_size() {
    let (channels, sender, mut receiver) = orders(QueueSettings::default()).await;
    sender.send(Message::new("a")).await.unwrap();
    let sent = channels.counts(&path()).await.unwrap().size;
    let changes: ApplicationProperties = [("note", "x".repeat(100))].into_iter().collect();
    receiver.receive().await.unwrap().settle(Disposition::Abandon(changes.into())).await.unwrap();
    let abandoned = channels.counts(&path()).await.unwrap().size;
    assert!(abandoned >= sent + 100, "{sent}, then {abandoned}");
    let dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "y".repeat(100));
    receiver.receive().await.unwrap().dead_letter(dead_letter).await.unwrap();
    let dead = channels.counts(&path()).await.unwrap().size;
    assert!(dead >= abandoned + 100, "{abandoned}, then {dead}");
    let mut dead_letters = channels.receiver(&path().dead_letter(), ReceiveMode::PeekLock).await.unwrap();
    dead_letters.receive().await.unwrap().complete().await.unwrap();
    assert_eq!(channels.counts(&path()).await.unwrap().size, 0);
}

/// A waker whose drop calls the transport, as that of a task that owns a receiver may.
struct Calling(Channels);

impl Wake for Calling {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Calling {
    fn drop(&mut self) {
        assert_ready!(task::spawn(self.0.counts(&path())).poll()).unwrap();
    }
}

/// Otherwise it waits for itself.
#[tokio::test]
async fn a_waker_is_dropped_while_nothing_is_locked() {
    let (channels, sender, mut receiver) = orders(QueueSettings::default()).await;
    let mut out = Vec::new();
    let mut poll = |receiver: &mut ChannelReceiver| {
        let waker = Waker::from(Arc::new(Calling(channels.clone())));
        receiver.poll_receive(&mut Context::from_waker(&waker), 0, &mut out).is_ready()
    };
    // Another waker replaces the first one, and a delivery removes it. A receive of none is one of one.
    assert!(!poll(&mut receiver) && !poll(&mut receiver));
    sender.send(Message::new("a")).await.unwrap();
    assert!(poll(&mut receiver) && !poll(&mut receiver));
    receiver.stop();
    assert_eq!(out.len(), 1);
}

#[tokio::test]
async fn a_deleted_queue_ends_receives_and_settlements() {
    let (channels, sender, mut receiver) = orders(QueueSettings::default()).await;
    sender.send(Message::new("a")).await.unwrap();
    let held = receiver.receive().await.unwrap();
    let mut waiting = task::spawn(receiver.receive());
    assert_pending!(waiting.poll());
    channels.delete(&path()).await.unwrap();
    assert!(waiting.is_woken());
    assert_eq!(assert_ready!(waiting.poll()).unwrap_err().kind(), ErrorKind::EntityNotFound);
    assert!(held.complete().await.unwrap_err().is_lock_lost());
    assert_eq!(sender.send(Message::new("b")).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    channels.create(&path(), &QueueSettings::default().into()).await.unwrap();
    assert_eq!(channels.counts(&path()).await.unwrap().active, 0);
}

#[tokio::test]
async fn a_declaration_is_compared_with_the_queue() {
    let (channels, ..) = orders(QueueSettings::default().max_delivery_count(3)).await;
    let same = EntitySettings::from(QueueSettings::default().max_delivery_count(3));
    channels.declare(&EntityPath::new("Orders").unwrap(), &same).await.unwrap();
    let other = QueueSettings::default().into();
    let refused = channels.declare(&path(), &other).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert!(refused.to_string().contains("max_delivery_count"), "{refused}");
    assert_eq!(channels.create(&path(), &same).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(channels.settings(&path()).await.unwrap(), same);
    assert_eq!(channels.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_setting_that_is_missing_is_refused_by_name() {
    let channels = Channels::new();
    let lock = QueueSettings::default().lock_duration(Duration::from_secs(5));
    let refused = channels.create(&path(), &lock.into()).await.unwrap_err();
    assert!(refused.kind() == ErrorKind::NotSupported && refused.to_string().contains("lock_duration"), "{refused}");
    let status = QueueSettings::default().partitioned(true);
    let refused = channels.create(&path(), &status.into()).await.unwrap_err();
    assert!(refused.kind() == ErrorKind::NotSupported && refused.to_string().contains("partitioned"), "{refused}");
    let topic = channels.create(&path(), &TopicSettings::default().into()).await.unwrap_err();
    let source = std::error::Error::source(&topic).and_then(|source| source.downcast_ref::<Unsupported>());
    assert_eq!(source.map(Unsupported::capability), Some(Capability::Topics));
    assert_eq!(channels.list().await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_url_leads_to_the_transport() {
    let transports = TransportRegistry::new().with(consign_example_transport::connector());
    let transport: DynTransport = transports.connect("channel:").await.unwrap();
    assert!(transport.extension::<Channels>().is_some());
    for (url, kind) in
        [("channel:orders", ConnectErrorKind::InvalidUrl), ("channel:?size=3", ConnectErrorKind::UnknownParameter)]
    {
        assert_eq!(transports.connect(url).await.unwrap_err().kind(), kind);
    }
}
