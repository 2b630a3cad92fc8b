#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(feature = "administration")]
mod administration;
mod attempts;
mod authorization;
mod capabilities;
mod claim;
mod connect;
mod connection_string;
mod connector;
mod core;
mod credential;
mod endpoint;
#[cfg(feature = "azure-core")]
mod entra;
mod error;
mod log;
mod manage;
mod management;
mod options;
mod proxy;
mod receiver;
mod reconnect;
mod requests;
mod retry;
mod rules;
mod sas;
mod sender;
mod session;
#[cfg(feature = "tls")]
mod tls;
mod transaction;
mod transport;
mod wire;

#[cfg(feature = "azure-core")]
pub use self::entra::EntraCredential;
pub use self::{
    connection_string::{ConnectionString, ConnectionStringError},
    connector::connector,
    credential::{AccessToken, CredentialError, SharedAccessKey, SharedAccessSignature, TokenCredential, TokenType},
    options::Options,
    receiver::{ServiceBusLease, ServiceBusReceiver},
    sender::ServiceBusSender,
    session::{ServiceBusSession, ServiceBusSessions},
    transaction::ServiceBusTransaction,
    transport::ServiceBus,
};
