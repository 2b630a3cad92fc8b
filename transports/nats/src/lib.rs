#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod administration;
mod browse;
mod capabilities;
mod connection;
mod connector;
mod copies;
mod deferred;
mod deliver;
mod entities;
mod error;
mod feed;
mod fetch;
mod keeper;
mod lease;
mod log;
mod marks;
mod options;
mod order;
mod park;
mod receiver;
mod reply;
mod rules;
mod sender;
mod servers;
mod session;
mod settings;
mod settle;
mod source;
mod time;
mod topic;
mod transport;
mod wire;
mod wrapped;

pub use async_nats;

pub use self::{
    capabilities::CAPABILITIES,
    connection::Nats,
    connector::connector,
    lease::NatsLease,
    options::Options,
    receiver::NatsReceiver,
    sender::NatsSender,
    session::{NatsSession, SessionAcceptor},
    settings::{QueueSettings, SubscriptionSettings, TopicSettings},
    wrapped::{NatsSubscription, WrappedConsumer},
};
