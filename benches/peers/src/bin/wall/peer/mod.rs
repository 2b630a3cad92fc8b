//! One queue and one consumer of each peer, as its documentation says.
//!
//! What they have in common: each send takes a copy of the body into whatever the peer keeps, and each message is decoded
//! from its own bytes by `serde_json` into an [`Order`](crate::arrivals::Order) that owns its text, in the handler or
//! before it, and is settled if the peer settles. A handler handles one message.

mod apalis;
mod consign;
mod mpsc;
mod omniqueue;
mod ruststream;

use std::any::Any;

use crate::arrivals::Order;

pub use self::{
    apalis::Apalis,
    consign::{Consign, ConsignSetup},
    mpsc::Mpsc,
    omniqueue::Omniqueue,
    ruststream::RustStreamPeer,
};

/// Something that carries messages from a sender to a handler inside this process.
pub trait Peer {
    type Sender: Sender;

    /// Starts the consumer on the current runtime. A queue that needs a capacity takes at least so many messages. What
    /// comes beside the sender keeps the consumer running.
    async fn start(&self, capacity: usize) -> (Self::Sender, Box<dyn Any>);
}

/// Sends; what cannot be sent is a fault of the setup.
pub trait Sender: Send + 'static {
    fn send(&mut self, body: &[u8]) -> impl Future<Output = ()> + Send;

    /// Encodes a value and sends it, as the documentation says.
    fn send_value(&mut self, order: &Order) -> impl Future<Output = ()> + Send;
}
