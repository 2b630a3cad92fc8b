//! Sessions: a lock beside the entity, and a consumer for as long as it is held.

mod accept;
mod acceptor;
mod hold;
mod receiver;
mod record;

pub(crate) use self::hold::Hold;
pub use self::{acceptor::SessionAcceptor, receiver::NatsSession};
