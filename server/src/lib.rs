#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(any(feature = "operations", feature = "page"))]
mod access;
pub mod auth;
#[cfg(any(feature = "http", feature = "page"))]
mod body;
#[cfg(any(feature = "http", feature = "operations", feature = "page"))]
mod browser;
#[cfg(feature = "config")]
#[cfg_attr(docsrs, doc(cfg(feature = "config")))]
pub mod config;
mod connection;
mod coordinator;
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
#[cfg(feature = "operations")]
#[cfg_attr(docsrs, doc(cfg(feature = "operations")))]
pub mod operations;
#[cfg(feature = "page")]
#[cfg_attr(docsrs, doc(cfg(feature = "page")))]
pub mod page;
mod places;
mod server;
mod shared;
mod stop;
mod transactions;

#[cfg(any(feature = "operations", feature = "page"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "operations", feature = "page"))))]
pub use self::access::{AccessKey, ShortKey};
pub use self::{
    limits::{Limits, Timeouts},
    server::{Builder, Server},
};
