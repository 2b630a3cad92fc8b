#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod broker;
mod capabilities;
mod connect;
mod connector;
mod core;
mod dialer;
mod error;
mod log;
mod numbers;
mod options;
mod receiver;
mod replies;
mod sender;
mod servers;
mod slot;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod wire;

pub use self::{
    broker::Product,
    connector::connector,
    options::{DeadLetters, Options, Sasl},
    receiver::{Amqp10Lease, Amqp10Receiver},
    replies::Amqp10Replies,
    sender::Amqp10Sender,
    transport::Amqp10,
};
