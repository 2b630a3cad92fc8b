//! The traits of a transport as its users call them, its capabilities and its errors.
//!
//! [`Transport`] creates a [`Sender`] and a [`Receiver`]; a [`Receiver`] returns a [`Delivery`], which is settled by its
//! [`Lease`]. Operations that only some brokers support are traits of their own, such as [`PeekMessages`] and [`Sessions`].
//! [`Capabilities`] list what a transport supports. [`DynTransport`] is a transport whose type is not known at compile time,
//! and [`TransportRegistry`] creates one from a URL.
//!
//! For sending, any `Service<Message, Response = ()>` can be the innermost service of a stack, so `tower::service_fn` is
//! enough for an existing client. The future of a send ends when the broker has accepted or rejected the message.
//! [`PresettledSender`] sends without an acknowledgement.
//!
//! What only the author of a transport uses is in the crate `consign-core`: `consign_core::transport`.

// Authors of transports find the rest in `consign-core`, where it is documented.
#[doc(hidden)]
pub use consign_core::transport::*;
#[doc(inline)]
pub use consign_core::transport::{
    AcceptSession, AsyncReceiver, Batch, BatchFull, BoxFuture, Capabilities, Capability, ConnectError,
    ConnectErrorKind, Delivery, DynLease, DynReceiver, DynSender, DynSession, DynTransport, DynTransportBuilder,
    ErrorKind, FromAsync, Lease, Level, ManageError, PeekMessages, PresettledSender, PurgeMessages, ReceiveDeferred,
    ReceiveError, ReceiveMode, Receiver, ReceiverExt, ScheduleMessages, SendError, SendExt, SendService, Sender,
    Session, SessionSource, Sessions, SettleError, Transaction, TransactionError, Transactions, Transport,
    TransportRegistry,
};
