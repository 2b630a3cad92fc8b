#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod address;
mod administration;
mod cancels;
mod capabilities;
mod client;
mod connector;
mod delays;
mod error;
mod link;
mod log;
mod numbers;
mod options;
mod publisher;
mod queue;
mod receiver;
mod reply;
mod rules;
mod sender;
mod session;
mod settings;
mod stored;
mod topic;
mod transport;
mod wire;

pub use lapin;

pub use self::{
    client::RabbitMq,
    connector::connector,
    options::Options,
    receiver::{RabbitMqLease, RabbitMqReceiver, RabbitMqRenew, RabbitMqSettle},
    reply::DirectReplies,
    sender::{RabbitMqSender, RabbitMqSending},
    session::{RabbitMqSession, SessionAcceptor},
    settings::QueueSettings,
    topic::TopicSettings,
};
