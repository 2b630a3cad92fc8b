#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cancel;
mod hosts;
#[cfg(feature = "deadpool")]
mod pool;
mod state;

#[cfg(feature = "deadpool")]
pub use self::pool::manager;
pub use self::{cancel::Canceller, hosts::connect_first, state::ends_connection};
