//! Sessions: accepting them, and receiving their messages.

mod accept;
mod acceptor;
mod receiver;

pub(crate) use self::accept::session_of;
pub use self::{acceptor::SessionAcceptor, receiver::NatsSession};
