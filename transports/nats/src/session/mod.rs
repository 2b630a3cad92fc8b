//! Sessions: a lock beside the entity, and a consumer for as long as it is held.

mod accept;
mod acceptor;
mod lock;
mod receiver;
mod record;

pub(crate) use self::lock::SessionLock;
pub use self::{acceptor::SessionAcceptor, receiver::NatsSession};
