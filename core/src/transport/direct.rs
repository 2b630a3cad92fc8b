//! Messages that a transport passes to a receiver in this process as it accepts them.

use crate::{Message, message::Properties};

/// Takes messages of one entity as they are accepted: each is delivered and completed in one step.
pub trait DirectReceiver: Send + Sync + 'static {
    /// Returns whether it takes a message with these properties. It is called under a lock of the transport, so it runs no
    /// code of a user and calls no transport.
    fn expects(&self, properties: &Properties) -> bool;

    /// Takes a message that it expected. No lock is held.
    fn receive(&self, message: Message);
}
