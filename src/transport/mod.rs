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
pub(crate) mod deadline;
mod entity_info;
mod error;
mod from_async;
mod lease;
mod log_limit;
mod presettled;
mod receiver;
mod sender;
mod session;

pub(crate) use self::log_limit::{admit, summaries};
pub use self::{
    capabilities::{Capabilities, Capability, Level, Unsupported},
    entity_info::EntityInfo,
    error::{ErrorKind, ManageError, ReceiveError, SendError, SessionRequired, SettleError},
    from_async::{AsyncReceiver, FromAsync, Stop},
    lease::{Delivery, Lease},
    log_limit::log_limit,
    presettled::{HandOver, PresettledSender, PresettledService},
    receiver::{BoxFuture, Receiver, ReceiverExt},
    sender::{Batch, Outbound, SendExt, SendService, Sender},
    session::{AcceptSession, Session, SessionSource},
};
