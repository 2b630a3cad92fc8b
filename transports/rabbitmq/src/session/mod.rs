//! Sessions by slots: a session's id chooses one of a fixed number of queues, and whoever holds a session reads its queue
//! alone.
//!
//! RabbitMQ has no lock that is finer than a queue, and queues for each session cannot be counted. So the messages of all
//! sessions are spread over slots; in one queue they keep their order. A client that holds a session of a slot has the slot:
//! an exclusive queue beside it, which goes with the connection, is the lock, and a single active consumer the fence behind
//! it. What belongs to sessions of the slot that nobody holds waits here, unacknowledged.
//!
//! What must outlive a holder, states and failed deliveries, is in a second queue beside each slot: a log of records, of
//! which the newest of each session counts.

mod acceptor;
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

pub use self::{acceptor::SessionAcceptor, receiver::RabbitMqSession};
pub(crate) use self::{
    layout::{MOST_SLOTS, bucket, declare, declare_exchange, delete, queue, queue_of},
    lease::SessionLock,
    slots::Slots,
};
