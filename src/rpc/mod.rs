//! Request and reply over queues.

mod client;
mod correlate;
mod error;
mod fault;
mod id;
mod pending;
mod replies;
mod requester;
mod responder;

pub use self::{
    client::{Client, TypedAnswers},
    correlate::Correlate,
    error::{CallError, CallErrorKind},
    fault::{Fault, FaultCode},
    replies::{Replies, ReplyQueue, ReplySession, ReplySource},
    requester::{Answers, BuildError, CallFuture, Gather, GatherFuture, Requester, RequesterBuilder},
    responder::{
        ACCEPT, AnswerFuture, Answering, HandlersBuilder, IntoAnswer, Refusal, Reply, ReplySenders, Responder,
        ResponderBuilder, ResponderFuture, ResponderStats,
    },
};
