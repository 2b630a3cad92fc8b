//! The transport API between the stack and a broker. It names no broker.
//!
//! A transport implements [`Sender`], [`Receiver`] and [`Lease`]. Sending is also plain tower: any
//! `Service<Message, Response = ()>` can stand at the bottom of a sending stack, so an existing client needs no more
//! than `tower::service_fn`.
//!
//! No broker supports the whole message model. A transport publishes what it supports as [`Capabilities`].
//!
//! Every send has an outcome: its future ends when the broker has accepted or rejected the message. For a send without
//! an outcome there is [`PresettledSender`].

mod batch;
mod capabilities;
mod client;
#[doc(hidden)]
pub mod deadline;
mod dynamic;
mod entity_info;
mod error;
mod escaped;
mod from_async;
mod lease;
mod log_limit;
mod optional;
mod presettled;
mod receiver;
mod reply_source;
mod send_request;
mod sender;
mod session;
mod url;

pub use self::{
    batch::{Batch, BatchFull},
    capabilities::{Capabilities, Capability, Level, Unsupported},
    client::{ReceiveMode, Transport},
    dynamic::{DynLease, DynReceiver, DynSender, DynSession, DynSessionSource, DynTransport, DynTransportBuilder},
    entity_info::EntityInfo,
    error::{ErrorKind, ManageError, ReceiveError, SendError, SessionRequired, SettleError},
    escaped::Escaped,
    from_async::{AsyncReceiver, FromAsync, Stop},
    lease::{Delivery, Lease},
    log_limit::log_limit,
    optional::{PeekMessages, PurgeMessages, ReceiveDeferred, ScheduleMessages, Sessions},
    presettled::{HandOver, PresettledSender, PresettledService},
    receiver::{BoxFuture, Receiver, ReceiverExt},
    reply_source::ReplySource,
    send_request::SendRequest,
    sender::{SendExt, SendService, Sender},
    session::{AcceptSession, Session, SessionSource},
    url::{ConnectError, ConnectErrorKind, Connector, TransportRegistry, TransportUrl},
};
#[doc(hidden)]
pub use self::{
    log_limit::{admit, summaries},
    send_request::{EncodedRequest, Sealed},
};
