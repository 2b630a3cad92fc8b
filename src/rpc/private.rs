//! The types that a responder is made of. Public because they are in signatures; not part of the API.

pub use super::responder::answering::{AnswerFuture, Answering};
