//! A layer that dead-letters a message whose last allowed delivery has failed.
//!
//! It is for a receive loop of your own, around a broker that redelivers a message as often as it is refused. A
//! [`Consumer`](crate::consumer::Consumer) on a transport with `MaxDeliveryCount` does not need it.
//!
//! ```
//! use consign::{
//!     Disposition, Message,
//!     middleware::delivery_limit::{DeliveryLimitLayer, count_delivery},
//! };
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let stack = ServiceBuilder::new()
//!     .layer(DeliveryLimitLayer::new(3))
//!     .service(service_fn(|_: Message| async { Err::<Disposition, _>(BoxError::from("the database is away")) }));
//!
//! // A client that does not count: in place of a `nack`, the loop publishes the counted copy and acknowledges.
//! let mut message = Message::new("an order");
//! for _ in 1..3 {
//!     stack.clone().oneshot(message.clone()).await.unwrap_err();
//!     message = count_delivery(&message);
//! }
//! let Disposition::DeadLetter(letter) = stack.oneshot(message).await? else { panic!("the last delivery") };
//! assert_eq!(
//!     letter.description,
//!     "Message could not be consumed after 3 delivery attempts. The last error: the database is away"
//! );
//! # Ok(())
//! # }
//! ```
//!
//! # The number of deliveries
//!
//! | the message has | the delivery is number |
//! |---|---|
//! | [`Received`](crate::message::Received), which your loop sets from its client | its `delivery_count` |
//! | else the application property [`COUNT`], a whole number | that number plus 1 |
//! | neither | 1 |
//!
//! NATS JetStream counts deliveries, and Amazon SQS has `ApproximateReceiveCount`: pass these in a
//! [`Received`](crate::message::Received), by [`Message::with_received`](crate::Message::with_received). `from_jetstream` of
//! `consign_nats::convert` does that. So does `from_delivery` of `consign_rabbitmq::convert`, with the headers `x-acquired-count` and
//! `x-delivery-count` of a quorum queue. They count every redelivery, also after a lost connection and a `nack` at a shutdown: choose a
//! limit with space for those.
//!
//! A broker counts the deliveries of a published copy from 1 on. Both conversions add [`COUNT`] to its number, so that copies of
//! [`count_delivery`] reach the limit too. If you set a `Received` yourself and publish such copies, add it as they do.
//!
//! A classic queue does not count: publish what [`count_delivery`] returns in place of a `nack`, and acknowledge when the broker
//! has confirmed the copy. Do not do so on an entity with duplicate detection, which drops the copy and confirms it: the
//! message is then lost. A stream of NATS is one, unless `Nats-Msg-Id` of the copy is empty.
//!
//! # Failure
//!
//! On the last delivery, a [`Disposition::Abandon`](crate::Disposition::Abandon) or an error of the inner service becomes a dead letter with the reason
//! `MaxDeliveryCountExceeded` and the error. A delivery after the last one is dead-lettered before the handler is called: the
//! process may have ended in the handler each time. An [`Undecodable`](crate::settlement::Undecodable) and a lost lock are
//! returned unchanged.
//!
//! # Order
//!
//! Inside of [`dead_letter`](super::dead_letter) and outside of all other receiving layers.
//!
//! # Cost
//!
//! It reads one number of each message. Without a `Received` it looks up one property. Nothing is allocated.

mod service;

use tower_layer::Layer;

use self::service::DeliveryLimit;
use crate::{Message, message::PropertyValue};

/// The application property with the number of failed deliveries: that of RabbitMQ's quorum queues.
pub const COUNT: &str = "x-delivery-count";

/// Returns a copy to publish in place of a `nack`, with one more failed delivery in the property [`COUNT`]. It has the same
/// MessageId, so a broker with duplicate detection drops it, and a loop that then acknowledges the original loses the message.
#[must_use]
pub fn count_delivery(message: &Message) -> Message {
    let failed = delivery(message);
    let mut copy = message.clone().without_received();
    copy.properties_mut().application_properties_mut().insert(COUNT, failed);
    copy
}

/// Returns which delivery of the message this is. The first is 1.
fn delivery(message: &Message) -> u64 {
    // A client that does not count has a count of 0.
    if let Some(received) = message.received().filter(|received| received.delivery_count > 0) {
        return received.delivery_count.into();
    }
    let failed = message.application_properties().get(COUNT).and_then(PropertyValue::to_u64);
    failed.unwrap_or(0).saturating_add(1)
}

/// A layer that limits the deliveries of a message; see the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct DeliveryLimitLayer(u32);

impl DeliveryLimitLayer {
    /// The limit of the [`Default`].
    pub const DEFAULT: u32 = 10;

    /// At most so many deliveries, the first one included; 0 counts as 1.
    #[must_use]
    pub const fn new(deliveries: u32) -> Self {
        Self(if deliveries == 0 { 1 } else { deliveries })
    }

    /// Returns the limit.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.0
    }
}

impl Default for DeliveryLimitLayer {
    fn default() -> Self {
        Self::new(Self::DEFAULT)
    }
}

impl<S> Layer<S> for DeliveryLimitLayer {
    type Service = DeliveryLimit<S>;

    fn layer(&self, inner: S) -> DeliveryLimit<S> {
        DeliveryLimit { inner, limit: self.0.into() }
    }
}
