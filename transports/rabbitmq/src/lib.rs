#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod address;
mod administration;
mod alarm;
mod arguments;
mod blocked;
mod cancels;
mod capabilities;
mod client;
mod connector;
pub mod convert;
mod dead_letters;
mod delays;
mod entities;
mod error;
mod link;
mod log;
mod numbers;
mod options;
mod publisher;
mod queue;
mod rabbitmq;
mod receiver;
mod reply;
mod reply_to;
mod rules;
mod sender;
mod servers;
mod session;
mod settings;
mod settled;
mod stored;
mod topic;
mod transport;
mod wire;

pub use lapin;

pub use self::{
    connector::connector,
    options::Options,
    rabbitmq::RabbitMq,
    receiver::{RabbitMqLease, RabbitMqReceiver, RabbitMqRenew, RabbitMqSettle},
    reply::DirectReplies,
    sender::{RabbitMqSender, RabbitMqSending},
    session::{RabbitMqSession, SessionAcceptor},
    settings::{QueueSettings, TopicSettings},
};
