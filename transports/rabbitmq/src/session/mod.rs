//! Sessions by slots: a session's id chooses one of a fixed number of queues, and only the holder of a session reads its queue.
//!
//! RabbitMQ has no lock that is finer than a queue, and queues for each session would have no bound. So the messages of all
//! sessions are spread over slots; in one queue they keep their order. A client that holds a session of a slot has the slot. An
//! exclusive queue beside it, which is deleted with the connection, is the lock, and a single active consumer is the fence
//! behind it. Messages of sessions of the slot without a holder wait here, unacknowledged.
//!
//! States and failed deliveries must outlive a holder. They are in a second queue beside each slot: a log of records, of which
//! the newest of each session counts.

mod acceptor;
mod counts;
mod error;
mod hold;
mod job;
mod layout;
mod lease;
mod ledger;
mod receiver;
mod request;
mod slot;
mod slots;
mod task;
mod work;

pub use self::{acceptor::SessionAcceptor, receiver::RabbitMqSession};
pub(crate) use self::{
    layout::{bucket, declare, declare_exchange, delete, queue, queue_of},
    lease::SessionLock,
    slots::Slots,
};
