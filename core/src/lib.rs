#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod administration;
pub mod message;
#[cfg(sabotage)]
#[doc(hidden)]
pub mod sabotage;
pub mod settlement;
pub mod time;
pub mod transport;
pub mod wire;

pub use mime;

pub use crate::{message::Message, settlement::Disposition};
