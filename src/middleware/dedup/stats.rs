use crate::counters::counters;

counters! {
    /// The counts of a layer of duplicate detection. Clones show the same counts.
    DedupStats;

    /// Messages that were passed on under a reservation.
    handled, count_handled;
    /// Messages that were passed on because they have no key.
    without_key, count_without_key;
    /// Messages that were completed because their id was committed.
    duplicates, count_duplicates;
    /// Messages whose id was already reserved. What became of them is counted too.
    in_progress, count_in_progress;
    /// Messages that were abandoned because their id was still reserved when they had waited long enough.
    given_up, count_given_up;
    /// Ids that were committed.
    committed, count_committed;
    /// Ids that were forgotten because their message was not completed.
    forgotten, count_forgotten;
    /// Calls of the store that failed, but for commits.
    store_failed, count_store_failed;
    /// Commits that failed. Their messages are completed.
    commit_failed, count_commit_failed;
}
