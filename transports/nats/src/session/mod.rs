//! Sessions: accepting them, and receiving their messages.

mod accept;
mod acceptor;
mod receiver;
mod take_over;

pub(crate) use self::accept::session_of;
pub use self::{acceptor::SessionAcceptor, receiver::NatsSession};
