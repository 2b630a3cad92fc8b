#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod administration;
mod beside;
mod browse;
mod capabilities;
mod connect;
mod connection;
mod connector;
pub mod convert;
mod copies;
mod dead_letter;
mod deferred;
mod deliver;
mod entities;
mod error;
mod fan_out;
mod fan_outs;
mod fetch;
mod get;
mod held;
mod inbox;
mod jobs;
mod last_delivery;
mod lease;
mod link;
mod log;
mod message_notes;
mod options;
mod pending_requests;
mod read;
mod receiver;
mod refusals;
mod reply;
mod reply_subjects;
mod request_limits;
mod request_times;
mod returned;
mod rules;
mod sender;
mod servers;
mod session;
mod session_lock;
mod settings;
mod settle;
mod source;
mod time;
mod tls;
mod topic;
mod transport;
mod wire;
mod wrapped;

pub use async_nats;

pub use self::{
    connection::Nats,
    connector::connector,
    inbox::InboxReplies,
    lease::NatsLease,
    options::Options,
    receiver::NatsReceiver,
    sender::NatsSender,
    session::{NatsSession, SessionAcceptor},
    settings::{QueueSettings, SubscriptionSettings, TopicSettings},
    wrapped::{NatsSubscription, WrappedConsumer},
};
