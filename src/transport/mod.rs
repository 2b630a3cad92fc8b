//! The seam between the stack and a broker. No broker is named here.
//!
//! A transport implements [`Sender`], [`Receiver`] and [`Lease`]. Sending is also plain tower: any
//! `Service<Message, Response = ()>` can stand at the bottom of a sending stack, so a client that is already there needs
//! no more than `tower::service_fn`.
//!
//! No broker can do everything that the message model has. What a transport can do it publishes as [`Capabilities`].

mod capabilities;
mod error;
mod lease;
mod receiver;
mod sender;
mod session;

pub use self::{
    capabilities::{Capabilities, Capability, Level, Unsupported},
    error::{ErrorKind, ManageError, ReceiveError, SendError, SettleError},
    lease::{Delivery, Lease},
    receiver::{AsyncReceiver, BoxFuture, FromAsync, Receiver, ReceiverExt},
    sender::{Batch, Outbound, SendExt, SendService, Sender},
    session::{Session, SessionSource},
};
