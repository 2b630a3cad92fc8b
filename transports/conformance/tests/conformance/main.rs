//! The suite on the embedded broker, in virtual time, and the suite itself.

mod embedded;
mod poor;
mod wrong;

use std::{collections::BTreeSet, fs, path::Path};

use consign::transport::Capability;
use consign_conformance::{Outcome, Suite, table};

use crate::embedded::{Embedded, OnDisk};

/// A test for each capability, so that a failure says at once what it is about.
macro_rules! capabilities {
    ($($name:ident: $capability:ident,)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                let report = Suite::new().only(Capability::$capability).run(&Embedded::new()).await;
                assert!(report.is_passed(), "{report}");
            }
        )*

        #[test]
        fn every_capability_is_tested() {
            assert_eq!([$(Capability::$capability),*], Capability::ALL);
        }
    };
}

capabilities! {
    acceptance: Acceptance,
    rejection: Rejection,
    receive_and_delete: ReceiveAndDelete,
    peek_lock: PeekLock,
    lock_duration: LockDuration,
    lock_renewal: LockRenewal,
    lock_fencing: LockFencing,
    settle_elsewhere: SettleElsewhere,
    delivery_count: DeliveryCount,
    max_delivery_count: MaxDeliveryCount,
    dead_letter_reason: DeadLetterReason,
    dead_letter_intact: DeadLetterIntact,
    time_to_live: TimeToLive,
    dead_letter_on_expiration: DeadLetterOnExpiration,
    scheduling: Scheduling,
    cancel_scheduled: CancelScheduled,
    sequence_numbers: SequenceNumbers,
    enqueued_time: EnqueuedTime,
    peek: Peek,
    deferral: Deferral,
    abandon_in_place: AbandonInPlace,
    release: Release,
    delayed_retry: DelayedRetry,
    duplicate_detection: DuplicateDetection,
    sessions: Sessions,
    session_state: SessionState,
    next_session: NextSession,
    topics: Topics,
    correlation_filters: CorrelationFilters,
    sql_rules: SqlRules,
    auto_forward: AutoForward,
    transactions: Transactions,
    request_reply: RequestReply,
    prefetch: Prefetch,
    large_messages: LargeMessages,
    purge: Purge,
    release_on_disconnect: ReleaseOnDisconnect,
}

#[tokio::test(start_paused = true)]
async fn the_table_is_up_to_date() {
    let report = Suite::new().run(&Embedded::new()).await;
    table::keep(&report, concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_table_is_up_to_date_on_a_disk() {
    let report = OnDisk::new().run(&Suite::new()).await;
    table::keep(&report, concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md")).unwrap();
}

/// Rules: K-41.
/// In real time, by which a thread writes to the disk.
#[tokio::test]
async fn a_broker_on_a_disk_is_opened_by_its_url() {
    let folder = tempfile::tempdir().unwrap();
    let backend = Embedded::by_url(format!("file:{}", folder.path().join("store").display()));
    let report = Suite::new().named("url").run(&backend).await;
    assert!(report.is_passed(), "{report}");
    assert_eq!((report.tally(None).good, report.tally(None).not_run), (2, 0), "{report}");
}

/// Rules: K-260.
/// The receiver and its deliveries are dropped, and nothing is released.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_dropped_with_its_deliveries_counts_them() {
    let suite = Suite::new().only(Capability::ReleaseOnDisconnect);
    for report in [suite.run(&Embedded::new()).await, OnDisk::new().run(&suite).await] {
        assert!(!report.cases.is_empty(), "{report}");
        for case in report.cases {
            let Outcome::Absent(failure) = case.outcome else { panic!("{}: {:?}", case.name, case.outcome) };
            assert!(failure.to_string().contains("delivery count"), "{}: {failure}", case.name);
        }
    }
}

/// Rules: K-40.
/// A refusal has to be an answer of the transport. The two that are not looked at are transports of their own.
#[test]
fn no_backend_refuses_for_its_transport() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..")];
    let mut backends = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let is_own = ["poor.rs", "toy.rs", "main.rs"].into_iter().any(|own| path.ends_with(own));
            if is_own || path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let source = fs::read_to_string(&path).unwrap();
            let Some(backend) = source.lines().find_map(|line| line.strip_prefix("impl Backend for ")) else {
                continue;
            };
            assert!(!source.contains("Unsupported::new(") && !source.contains("NotSupported"), "{}", path.display());
            backends.insert(backend.trim_end_matches(" {").to_owned());
        }
    }
    for known in ["Embedded", "InPostgres", "JetStream", "Rabbit"] {
        assert!(backends.contains(known), "{backends:?}");
    }
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
fn cases_have_unique_names_and_rules() {
    let suite = Suite::new();
    let names: BTreeSet<_> = suite.cases().iter().map(|case| (case.capability(), case.name())).collect();
    assert_eq!(names.len(), suite.cases().len());
    let semantics = include_str!("../../../../docs/semantics.md");
    for case in suite.cases() {
        for rule in case.rules() {
            assert!(semantics.contains(&format!("\n| {rule} | ")), "{case:?} names {rule}, which is not a rule");
        }
        assert!(!case.rules().is_empty(), "{case:?} names no rule");
        assert!(!case.needs().contains(&case.capability()), "{case:?} needs itself");
    }
}
