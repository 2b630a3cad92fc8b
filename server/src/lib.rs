#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod auth;
#[cfg(feature = "config")]
#[cfg_attr(docsrs, doc(cfg(feature = "config")))]
pub mod config;
mod connection;
mod entities;
mod errors;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod http;
mod limits;
mod links;
mod listen;
mod locks;
mod log;
mod messages;
mod nodes;
mod server;
mod transactions;

pub use self::{
    limits::{Limits, Timeouts},
    server::{Builder, Server},
};
