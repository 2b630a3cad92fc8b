//! The traits that a transport implements, its capabilities and its errors.
//!
//! A transport implements [`Sender`], [`Receiver`] and [`Lease`]. For sending, any `Service<Message, Response = ()>` can be
//! the innermost service of a stack, so `tower::service_fn` is enough for an existing client.
//!
//! No broker supports the whole message model. A transport publishes what it supports as [`Capabilities`].
//!
//! The future of a send ends when the broker has accepted or rejected the message. [`PresettledSender`] sends without an
//! acknowledgement.

mod batch;
mod capabilities;
mod client;
mod complete_all;
#[doc(hidden)]
pub mod deadline;
mod direct;
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
mod server_address;
mod session;
mod transaction;
mod url;

pub use self::{
    batch::{Batch, BatchFull},
    capabilities::{Capabilities, Capability, Level, Unsupported},
    client::{ReceiveMode, Transport},
    complete_all::{CompleteAll, CompleteAllError},
    dynamic::{
        DynLease, DynReceiver, DynSender, DynSession, DynSessionSource, DynTransaction, DynTransport,
        DynTransportBuilder,
    },
    entity_info::EntityInfo,
    error::{ErrorKind, ManageError, ReceiveError, SendError, SettleError},
    escaped::Escaped,
    from_async::{AsyncReceiver, FromAsync, Stop},
    lease::{Delivery, Lease},
    log_limit::{log_limit, log_limit_info},
    optional::{PeekMessages, PurgeMessages, ReceiveDeferred, ScheduleMessages, Sessions},
    presettled::{HandOver, PresettledSender, PresettledService},
    receiver::{BoxFuture, Receiver, ReceiverExt},
    reply_source::ReplySource,
    send_request::SendRequest,
    sender::{SendExt, SendService, Sender},
    server_address::ServerAddress,
    session::{AcceptSession, Session, SessionSource},
    transaction::{Transaction, TransactionError, Transactions},
    url::{ConnectError, ConnectErrorKind, Connector, TransportRegistry, TransportUrl},
};
#[doc(hidden)]
pub use self::{
    direct::DirectReceiver,
    escaped::EscapedWhole,
    log_limit::{Summarise, admit, summaries},
    receiver::appended,
    send_request::{EncodedRequest, Sealed},
};
