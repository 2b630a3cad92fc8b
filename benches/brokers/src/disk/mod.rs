//! What needs no server.

pub(crate) mod durable;
pub(crate) mod floor;
pub(crate) mod redb;
pub(crate) mod segments;
pub(crate) mod sqlite;
