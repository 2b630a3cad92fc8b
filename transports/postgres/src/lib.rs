#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod capabilities;
mod chores;
mod codec;
mod completions;
mod connector;
mod copies;
mod database;
mod dead_letter;
mod entity;
mod failure;
mod fetch;
mod forward;
mod hub;
mod idle;
mod inner;
mod inspect;
mod lease;
mod leaving;
mod listener;
mod log;
mod manage;
mod options;
mod peek;
mod pending;
mod plain;
mod postgres;
mod prepared;
mod pump;
mod quota;
mod receiver;
mod row;
mod rules;
mod schema;
mod sender;
mod session;
mod settings;
mod settle;
mod sweeper;
mod tls;
mod together;
mod transaction;
mod transport;
mod update;

pub use deadpool_postgres;
pub use tokio_postgres;

pub(crate) use crate::inner::Inner;
pub use crate::{
    codec::Unwritable,
    connector::connector,
    failure::TooLate,
    lease::PostgresLease,
    options::Options,
    postgres::Postgres,
    receiver::PostgresReceiver,
    sender::PostgresSender,
    session::{PostgresSession, PostgresSessions},
    transaction::{Committed, Transaction, TransactionError},
};
