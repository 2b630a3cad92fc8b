//! Sessions: accepting them, and receiving their messages.

mod accept;
mod acceptor;
mod receiver;

pub use self::{acceptor::SessionAcceptor, receiver::NatsSession};
