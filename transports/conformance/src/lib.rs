#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod backend;
mod bench;
mod case;
mod cases;
mod client;
mod failure;
pub mod faults;
pub mod golden;
pub mod killed;
mod left_out;
pub mod log;
mod process;
mod report;
mod session;
pub mod settings;
mod spec;
mod suite;
pub mod table;
mod timing;
mod transaction;

/// Names for the code that [`client_methods`] writes.
#[doc(hidden)]
pub mod names {
    pub use std::time::Duration;

    pub use bytes::Bytes;
    pub use consign::{
        Message,
        message::{EntityPath, SequenceNumber},
        time::Timestamp,
        transport::{Delivery, ManageError, ReceiveError, SendError, SettleError},
    };
}

pub use self::{
    backend::Backend,
    case::Case,
    failure::{Failure, NoCall, Verdict},
    left_out::left_out,
    process::Process,
    report::{CaseReport, Complaint, Outcome, Report, Tally},
    session::NoSession,
    spec::{Correlation, Counts, Filter, Mode, QueueSpec, RuleSpec, Status, SubscriptionSpec, TopicSpec},
    suite::Suite,
    timing::Timing,
    transaction::{NoTransaction, Transaction},
};
