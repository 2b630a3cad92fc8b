#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(feature = "administration")]
#[cfg_attr(docsrs, doc(cfg(feature = "administration")))]
pub mod administration;
mod message;

pub use self::message::{
    BATCH_CONTENT_TYPE, EXACT_PROPERTIES, MessageError, MessageErrorKind, from_batch, from_request, from_response,
    lock_token, to_batch, to_request, to_response,
};
