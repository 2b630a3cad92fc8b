//! The cases, in modules by capability.

mod acceptance;
mod administration;
mod by_url;
mod calls;
mod consumer;
mod contents;
mod dead_letter_tool;
mod dead_letters;
mod declarations;
mod dedup_layer;
mod deferral;
mod delays;
mod delivery_count;
mod duplicates;
mod expiry;
mod forwarding;
mod locks;
mod next_session;
mod oversized;
mod peek;
mod prefetch;
mod purge;
mod receiving;
mod rejection;
mod request_reply;
mod retry_consumer;
mod returning;
mod rules;
mod scheduling;
mod sequence;
mod session_consumer;
mod session_state;
mod sessions;
mod topics;
mod transactions;
mod waiting;

use crate::Case;

/// Returns every case, in the order of the modules.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for add in [
        acceptance::add,
        administration::add,
        contents::add,
        rejection::add,
        declarations::add,
        by_url::add,
        receiving::add,
        waiting::add,
        locks::add,
        delivery_count::add,
        consumer::add,
        dead_letters::add,
        oversized::add,
        dead_letter_tool::add,
        expiry::add,
        scheduling::add,
        sequence::add,
        peek::add,
        deferral::add,
        returning::add,
        delays::add,
        retry_consumer::add,
        duplicates::add,
        dedup_layer::add,
        sessions::add,
        next_session::add,
        session_consumer::add,
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
        administration::{Administration, QueueSettings, Status, SubscriptionSettings, TopicSettings},
        message::{ApplicationProperties, EntityPath, MessageState, PropertyValue, SequenceNumber},
        settlement::{Changes, DeadLetter, DeadLetterReason},
        transport::{
            Batch, Capability, Delivery, DynLease, DynReceiver, DynSender, DynSession, DynTransaction, ErrorKind,
            Lease, PeekMessages, PurgeMessages, ReceiveDeferred, ReceiveMode, ReceiverExt, ScheduleMessages, Sender,
            Session, Transaction, Transport,
        },
    };

    pub(super) use crate::{
        Failure, Verdict,
        bench::{Bench, facts, number, numbers, text, texts, why},
        case::cases,
        failure::{detail, ensure, ensure_eq, refused, unexpected},
    };
}
