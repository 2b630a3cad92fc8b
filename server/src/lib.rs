#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod auth;
mod connection;
mod limits;
mod server;

pub use self::{
    limits::{Limits, Timeouts},
    server::{Builder, Server},
};
