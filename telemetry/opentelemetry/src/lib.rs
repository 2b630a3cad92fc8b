#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod attributes;
mod call;
mod context;
mod decode;
mod destination;
mod metrics;
mod names;
mod operation;
mod process;
mod receive;
mod send;
mod sender;
mod series;
mod sessions;
mod span_names;
mod spans;
mod telemetry;

pub use crate::{
    call::{Call, CallFuture, CallLayer},
    decode::DecodeObserver,
    names::Conventions,
    process::{Process, ProcessFuture, ProcessLayer},
    receive::{ObservedLease, ObservedReceiver, SettleFuture},
    send::{Send, SendFuture, SendLayer},
    sender::ObservedSender,
    sessions::{AcceptFuture, ObservedSessions},
    telemetry::{Parent, Telemetry, TelemetryBuilder},
};
