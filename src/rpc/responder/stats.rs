use crate::counters::counters;

counters! {
    /// The counts of a responder. Clones show the same counts.
    ResponderStats;

    /// Replies that the broker accepted.
    answered, count_answered;
    /// Faults that the broker accepted.
    faults, count_fault;
    /// Replies and faults that the broker accepted a second time, for a duplicate. They are not counted above.
    replayed, count_replayed;
    /// Duplicates of requests whose reply was not recorded, or not any more.
    unrecorded, count_unrecorded;
    /// Calls of the store of replies that failed. The reply was sent all the same; a duplicate was abandoned.
    record_failed, count_record_failed;
    /// Values for requests without an address for a reply.
    unwanted, count_unwanted;
    /// Requests that were completed and not handled, because their requester did not wait any more.
    expired, count_expired;
    /// Requests whose reply address is not allowed. Many of them may mean that a client probes for reachable entities.
    not_allowed, count_not_allowed;
    /// Replies and faults that the broker refused.
    undelivered, count_undelivered;
}

impl ResponderStats {
    /// Counts what the broker accepted.
    pub(super) fn count(&self, is_fault: bool) {
        if is_fault { self.count_fault() } else { self.count_answered() }
    }
}
