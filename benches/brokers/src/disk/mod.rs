//! What needs no server.

pub(crate) mod durable;
pub(crate) mod fjall;
pub(crate) mod floor;
pub(crate) mod handed;
pub(crate) mod redb;
pub(crate) mod segments;
pub(crate) mod space;
pub(crate) mod sqlite;
