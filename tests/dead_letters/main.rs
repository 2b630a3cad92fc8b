//! What is done with dead letters: looking at them, resubmitting and purging them.
#![cfg(feature = "full")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod duplicates;
mod ends;
mod faults;
mod locked;
mod order;
mod peek;
mod resubmit;
mod resubmit_to;
mod slow;
mod support;
mod transcode;
mod unanswered;
mod under_locks;
