//! The seam between the stack and a broker. No broker is named here.
//!
//! A transport implements [`Sender`], [`Receiver`] and [`Lease`]. Sending is also plain tower: any
//! `Service<Message, Response = ()>` can stand at the bottom of a sending stack, so a client that is already there needs
//! no more than `tower::service_fn`.
//!
//! No broker can do everything that the message model has. What a transport can do it publishes as [`Capabilities`].
//!
//! Every send has an outcome: its future ends when the broker has accepted or rejected the message. Who can do without one
//! says so: [`PresettledSender`].

mod capabilities;
mod error;
mod lease;
mod presettled;
mod receiver;
mod sender;
mod session;

pub use self::{
    capabilities::{Capabilities, Capability, Level, Unsupported},
    error::{ErrorKind, ManageError, ReceiveError, SendError, SettleError},
    lease::{Delivery, Lease},
    presettled::{HandOver, PresettledSender, PresettledService},
    receiver::{AsyncReceiver, BoxFuture, FromAsync, Receiver, ReceiverExt},
    sender::{Batch, Outbound, SendExt, SendService, Sender},
    session::{AcceptSession, Session, SessionSource},
};
