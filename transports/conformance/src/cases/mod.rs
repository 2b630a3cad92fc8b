//! The cases, in modules by capability.

mod acceptance;
mod calls;
mod contents;
mod dead_letters;
mod deferral;
mod delays;
mod delivery_count;
mod duplicates;
mod expiry;
mod forwarding;
mod locks;
mod next_session;
mod peek;
mod prefetch;
mod purge;
mod receiving;
mod rejection;
mod request_reply;
mod returning;
mod rules;
mod scheduling;
mod sequence;
mod session_state;
mod sessions;
mod topics;
mod transactions;

use crate::{Backend, Case};

/// Returns every case, in the order of the modules.
pub(crate) fn all<B: Backend>() -> Vec<Case<B>> {
    let mut cases = Vec::new();
    for add in [
        acceptance::add,
        contents::add,
        rejection::add,
        receiving::add,
        locks::add,
        delivery_count::add,
        dead_letters::add,
        expiry::add,
        scheduling::add,
        sequence::add,
        peek::add,
        deferral::add,
        returning::add,
        delays::add,
        duplicates::add,
        sessions::add,
        next_session::add,
        session_state::add,
        topics::add,
        rules::add,
        forwarding::add,
        transactions::add,
        request_reply::add,
        calls::add,
        prefetch::add,
        purge::add,
    ] {
        add(&mut cases);
    }
    cases
}

/// Imports of nearly every module.
mod prelude {
    pub(super) use std::time::Duration;

    pub(super) use consign::{
        Disposition, Message,
        message::{ApplicationProperties, EntityPath, MessageState, PropertyValue, SequenceNumber},
        settlement::{Changes, DeadLetter, DeadLetterReason},
        transport::{Batch, Delivery, ErrorKind, Lease, ReceiverExt, Sender},
    };

    pub(super) use crate::{
        Backend, Failure, Mode, QueueSpec, Verdict,
        bench::{Bench, facts, number, numbers, text, texts, why},
        case::cases,
        failure::{detail, ensure, ensure_eq, refused},
    };
}
