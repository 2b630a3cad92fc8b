#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod backend;
mod bench;
mod case;
mod cases;
mod failure;
pub mod faults;
pub mod golden;
pub mod killed;
mod left_out;
pub mod log;
mod process;
mod report;
mod suite;
pub mod table;
mod timing;

pub use self::{
    backend::{Backend, Boxed, SeparateReceiver},
    case::Case,
    failure::{Failure, NoCall, Verdict},
    left_out::left_out,
    process::Process,
    report::{CaseReport, Complaint, Outcome, Report, Tally},
    suite::Suite,
    timing::Timing,
};
