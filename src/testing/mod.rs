//! Test tools for applications: a broker whose time the test advances, a connection with delays and failures, and a
//! record of what was sent and settled. Nothing here waits on a real clock.
//!
//! | type | purpose |
//! |---|---|
//! | [`TestBroker`] | an embedded broker on virtual time, with calls that do not wait |
//! | [`Recorder`] | a record of what a sender sent or a receiver received, with assertions that print it when they fail |
//! | [`Link`] | latency, pipelining, slow stores and broken connections around any sender or receiver |
//! | [`Faults`] | the faults of a link: by number, or at random from a seed |
//!
//! # A handler, tested
//!
//! The handler charges an order and sends a receipt. The three tests are: it succeeds, an order can never be charged, and
//! the lock is lost while it works. In a test file each test has the attribute `#[tokio::test(start_paused = true)]`, which
//! needs tokio's feature `test-util`.
//!
//! ```
//! # #[cfg(feature = "json")] {
//! use std::time::Duration;
//! use consign::{
//!     Message,
//!     codecs::Codecs,
//!     consumer::Consumer,
//!     routing::{Body, Router},
//!     settlement::{DeadLetterReason, Permanent},
//!     testing::{DeliveryFault, Faults, Link, LinkSettings, Recorder, TestBroker},
//!     transport::{ErrorKind, Sender},
//! };
//! use tower::{BoxError, Service};
//!
//! // What is tested.
//!
//! #[derive(serde::Deserialize)]
//! struct Order {
//!     id: u64,
//!     cents: i64,
//! }
//!
//! async fn charge(order: Order, receipts: impl Sender) -> Result<(), Permanent> {
//!     if order.cents < 0 {
//!         return Err(Permanent::new("a negative price"));
//!     }
//!     tokio::time::sleep(Duration::from_secs(2)).await;
//!     let receipt = Message::builder().subject("order.charged").build(format!("{}", order.id)).map_err(Permanent::new)?;
//!     receipts.send(receipt).await.map_err(Permanent::new)
//! }
//!
//! fn stack(
//!     receipts: impl Sender + Clone,
//! ) -> impl Service<Message, Response = consign::Disposition, Error = impl Into<BoxError>> + Clone {
//!     let charged = move |Body(order): Body<Order>| charge(order, receipts.clone());
//!     Router::new(Codecs::json()).route("order.created", charged).build().unwrap()
//! }
//!
//! fn order(body: &'static str) -> Message {
//!     Message::builder().subject("order.created").build(body).unwrap()
//! }
//!
//! // The tests.
//!
//! async fn an_order_is_charged_once_and_has_a_receipt() {
//!     let (queue, receipts) = (TestBroker::new().queue("orders"), Recorder::new());
//!     queue.send_message(order(r#"{"id":1,"cents":995}"#));
//!
//!     let stats = queue.run(stack(receipts.accepting())).await;
//!
//!     assert_eq!(stats.completed(), 1);
//!     queue.assert_empty();
//!     receipts.assert_sent_count(1);
//!     receipts.assert_sent(|message| message.payload() == Some(b"1"));
//! }
//!
//! async fn what_can_never_be_charged_is_a_dead_letter() {
//!     let (queue, receipts) = (TestBroker::new().queue("orders"), Recorder::new());
//!     queue.send_message(order(r#"{"id":2,"cents":-1}"#));
//!     queue.send_message(order(r#"{"id":3,"#));
//!
//!     queue.run(stack(receipts.accepting())).await;
//!
//!     let dead = queue.assert_dead_lettered(&DeadLetterReason::HandlerPermanent);
//!     assert_eq!(dead.dead_letter_description(), Some("a negative price"));
//!     queue.assert_dead_lettered(&DeadLetterReason::DeserializationFailed);
//!     receipts.assert_nothing_sent();
//! }
//!
//! async fn an_order_whose_lock_is_lost_comes_again() {
//!     let (queue, receipts, deliveries) = (TestBroker::new().queue("orders"), Recorder::new(), Recorder::new());
//!     queue.send_message(order(r#"{"id":4,"cents":995}"#));
//!     let faults = Faults::none().on_delivery(1, DeliveryFault::LoseLock);
//!     let link = Link::new(LinkSettings::default().faults(faults));
//!
//!     let receiver = deliveries.receiver(link.receiver(queue.receiver()));
//!     let minute = tokio::time::sleep(Duration::from_secs(60));
//!     let stats = Consumer::new(receiver, stack(receipts.accepting())).run_until(minute).await.unwrap();
//!
//!     assert_eq!((stats.lock_lost(), stats.completed()), (1, 1));
//!     deliveries.assert_settle_failed(ErrorKind::MessageLockLost);
//!     // The handler ran twice. If that must not be seen, it has to recognise the message.
//!     receipts.assert_sent_count(2);
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn run() {
//! #     an_order_is_charged_once_and_has_a_receipt().await;
//! #     what_can_never_be_charged_is_a_dead_letter().await;
//! #     an_order_whose_lock_is_lost_comes_again().await;
//! # }
//! # run();
//! # }
//! ```
//!
//! # Bounds
//!
//! A link has at most [`Link::MAX_TRANSFERS`] unanswered sends, a record has the latest [`Recorder::MOST`] entries, and a
//! queue its own quota.
#![allow(clippy::missing_panics_doc, reason = "an assertion panics, and its page says when")]

mod broker;
mod clock;
mod faults;
mod idle;
mod link;
mod recorder;
mod sender;
mod show;

pub use self::{
    broker::{TestBroker, TestQueue},
    faults::{DeliveryFault, Faults, SendFault},
    link::{Link, LinkLease, LinkReceiver, LinkSender, LinkSettings, Store},
    recorder::{
        Accepting, RecordedLease, RecordedReceiver, RecordedSender, Recorder, SendOutcome, Sent, Settled, Settlement,
    },
    sender::TestSender,
};
