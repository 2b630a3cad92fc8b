//! The suite on the embedded broker, in virtual time, and the suite itself.

mod embedded;
mod poor;

use std::collections::BTreeSet;

use consign::transport::Capability;
use consign_conformance::{Suite, table};

use crate::embedded::{Embedded, OnDisk};

/// A test for each capability, so that a failure says at once what it is about.
macro_rules! capabilities {
    ($($name:ident: $capability:ident,)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                let report = Suite::new().only(Capability::$capability).run(&Embedded::new()).await;
                assert!(report.is_passed() && !report.cases.is_empty(), "{report}");
            }
        )*

        #[test]
        fn every_capability_is_tested() {
            assert_eq!([$(Capability::$capability),*], Capability::ALL);
        }
    };
}

capabilities! {
    k_01_acceptance: Acceptance,
    k_02_rejection: Rejection,
    k_03_receive_and_delete: ReceiveAndDelete,
    k_04_peek_lock: PeekLock,
    k_05_lock_duration: LockDuration,
    k_06_lock_renewal: LockRenewal,
    k_07_lock_fencing: LockFencing,
    k_08_settle_elsewhere: SettleElsewhere,
    k_09_delivery_count: DeliveryCount,
    k_10_max_delivery_count: MaxDeliveryCount,
    k_11_dead_letter_reason: DeadLetterReason,
    k_12_dead_letter_intact: DeadLetterIntact,
    k_13_time_to_live: TimeToLive,
    k_14_dead_letter_on_expiration: DeadLetterOnExpiration,
    k_15_scheduling: Scheduling,
    k_16_cancel_scheduled: CancelScheduled,
    k_17_sequence_numbers: SequenceNumbers,
    k_18_enqueued_time: EnqueuedTime,
    k_19_peek: Peek,
    k_20_deferral: Deferral,
    k_21_abandon_in_place: AbandonInPlace,
    k_22_release: Release,
    k_23_delayed_retry: DelayedRetry,
    k_24_duplicate_detection: DuplicateDetection,
    k_25_sessions: Sessions,
    k_26_session_state: SessionState,
    k_27_next_session: NextSession,
    k_28_topics: Topics,
    k_29_correlation_filters: CorrelationFilters,
    k_30_sql_rules: SqlRules,
    k_31_auto_forward: AutoForward,
    k_32_transactions: Transactions,
    k_33_request_reply: RequestReply,
    k_34_prefetch: Prefetch,
    k_35_large_messages: LargeMessages,
    k_36_purge: Purge,
    k_37_release_on_disconnect: ReleaseOnDisconnect,
}

#[tokio::test(start_paused = true)]
async fn the_table_is_up_to_date() {
    let report = Suite::new().run(&Embedded::new()).await;
    table::keep(&report, concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_table_is_up_to_date_on_a_disk() {
    let report = OnDisk::new().run(&Suite::new()).await;
    assert!(report.is_passed(), "{report}");
    table::keep(&report, concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md")).unwrap();
}

/// No case leans on another: they pass in any order and all at the same time.
#[tokio::test(start_paused = true)]
async fn random_order_changes_nothing() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("replay: SEED={seed} cargo test --package consign-conformance random_order");
    for at_once in [1, 16] {
        let report = Suite::new().shuffled(seed).at_once(at_once).run(&Embedded::new()).await;
        assert!(report.is_passed(), "{report}");
    }
}

#[test]
fn cases_have_names_of_their_own_and_rows() {
    let suite = Suite::<Embedded>::new();
    let names: BTreeSet<_> = suite.cases().iter().map(|case| (case.capability(), case.name())).collect();
    assert_eq!(names.len(), suite.cases().len());
    for case in suite.cases() {
        assert!(!case.rows().is_empty(), "{case:?} restates no row");
        assert!(!case.needs().contains(&case.capability()), "{case:?} needs itself");
    }
}
