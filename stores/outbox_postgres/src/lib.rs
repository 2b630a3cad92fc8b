#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod destinations;
mod encoding;
mod error;
mod log;
mod outbox;
mod relay;
mod table;

pub use tokio_postgres;

#[cfg(feature = "postgres")]
#[doc(hidden)]
pub use self::relay::SameDatabase;
#[doc(hidden)]
pub use self::relay::{RelayMode, Senders};
pub use self::{
    destinations::{Destinations, Layered, To},
    error::{OutboxError, OutboxErrorKind},
    outbox::{Failing, Outbox, OutboxRow, Refused},
    relay::{Relay, Relayed},
    table::{InvalidTable, Table},
};

#[cfg(doctest)]
#[doc = include_str!("../../../docs/outbox.md")]
struct Page;
