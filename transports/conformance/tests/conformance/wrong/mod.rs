//! Transports that are wrong in one way each, and the cases that refuse them.

mod receiving;
mod sending;
mod transactions;
mod transport;

use std::time::Duration;

use consign::{
    message::EntityPath,
    time::{Clock, Timestamp},
    transport::{Capabilities, Capability, DynReceiver, DynTransport, Level, ReceiveError, ReceiveMode, Transport},
};
use consign_conformance::{Backend, Boxed, Outcome, SeparateReceiver, Suite};
use tokio::time::Instant;

use self::transport::Wrong;
use crate::embedded::TokioClock;

/// What a transport does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing: the embedded broker in the same wrappers.
    None,
    /// No task is woken that waits for a message or a session.
    WakesNobody,
    /// The task is woken that polled first.
    WakesTheFirst,
    /// A dead letter whose texts are too long is refused, and the message is gone.
    LosesRefused,
    /// As `LosesRefused`, if its description is too long.
    LosesRefusedDescription,
    /// A release begins when its future is polled.
    ReleasesLate,
    /// A session that is dropped stays locked.
    KeepsDroppedSessions,
    /// The messages of a receiver that is lost are lost too.
    LosesWithReceiver,
    /// Nothing: a time to live, an enqueue time, a deferral and receive-and-delete are unsupported.
    Refuses,
    /// As `Refuses`, and what was refused has had an effect.
    RefusesTooLate,
    /// What differs in case from the path of its entity is another one when it is sent to.
    DistinguishesCase,
    /// It lists no entity.
    ListsNothing,
    /// It lists entities that were deleted.
    ListsDeleted,
    /// It counts no message.
    CountsNothing,
    /// A settlement that would make the properties too large is refused.
    RefusesOutgrown,
    /// The commit of a transaction that has timed out fails as another error.
    NamesNoTimeout,
    /// A transaction that has timed out takes further messages.
    TakesLateSends,
    /// A received message keeps its number when it is sent.
    KeepsNumbers,
    /// A send waits for the answers to earlier ones.
    SendsOneByOne,
    /// A receive of no message receives none.
    ReceivesNone,
    /// A queue takes twice its size.
    TakesTwice,
    /// A sender declares no capability.
    SenderDeclaresNothing,
    /// A receiver declares no capability.
    ReceiverDeclaresNothing,
    /// A settlement that is refused releases its message.
    ReleasesRefused,
    /// A message keeps its dead-letter source when it is sent.
    KeepsSource,
    /// A message keeps its extensions when it is sent.
    KeepsExtensions,
    /// The key of the transfer partition is lost.
    LosesTransactionKey,
    /// The priority is lost.
    LosesPriority,
    /// An enqueue time that has passed is lost.
    LosesPassedTime,
    /// A setting out of its range is at its default.
    TakesAnySettings,
    /// Each entity has the default settings.
    ForgetsSettings,
    /// Deleting an entity that does not exist succeeds.
    DeletesNothing,
    /// A sub-queue can be created.
    CreatesSubQueues,
    /// What an open sender sends to a deleted queue is lost.
    LosesAfterDelete,
    /// A message of a deleted queue can be settled.
    SettlesDeleted,
    /// The dead letter of the last delivery loses a property to its reason.
    CutsDeath,
    /// A locked message is also active.
    CountsLockedTwice,
    /// Locked dead letters are not counted, but other locked messages are.
    MissesLockedDeadLetters,
    /// A delay is accepted, and the message is redelivered at once.
    DelaysNothing,
    /// Locked messages need no settlement.
    NeedsNoSettlement,
    /// Dead letters do not have the mark of one.
    ForgetsDeath,
}

impl Fault {
    /// What a transport with the fault can do, of what the broker can.
    fn left(self, of: Capabilities) -> Capabilities {
        const REFUSED: &[Capability] =
            &[Capability::TimeToLive, Capability::Scheduling, Capability::Deferral, Capability::ReceiveAndDelete];
        match self {
            Self::Refuses | Self::RefusesTooLate => of.with_each(REFUSED, Level::Unsupported),
            // A consumer then keeps a dead letter that fails again.
            Self::DelaysNothing | Self::NeedsNoSettlement | Self::ForgetsDeath => {
                of.with(Capability::Deferral, Level::Unsupported)
            }
            _ => of,
        }
    }
}

/// The backend of a transport with a fault.
struct Faulty {
    transport: DynTransport,
    wrong: Wrong,
    clock: TokioClock,
}

impl Faulty {
    fn new(fault: Fault) -> Self {
        let clock = TokioClock(Instant::now());
        let wrong = Wrong::new(clock, fault);
        Self { transport: wrong.clone().into(), wrong, clock }
    }
}

impl Backend for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn transport(&self) -> &DynTransport {
        &self.transport
    }

    fn now(&self) -> Boxed<'_, Timestamp> {
        Box::pin(async { self.clock.now().utc })
    }

    fn separate_receiver<'a>(&'a self, path: &'a EntityPath) -> Boxed<'a, Result<SeparateReceiver, ReceiveError>> {
        Box::pin(async {
            let receiver = DynReceiver::new(Transport::receiver(&self.wrong, path, ReceiveMode::PeekLock).await?);
            if self.wrong.fault != Fault::LosesWithReceiver {
                return Ok(SeparateReceiver::in_process(receiver));
            }
            Ok(SeparateReceiver::new(receiver, |receiver, held| async {
                drop(receiver);
                for delivery in held {
                    let _ = delivery.complete().await;
                }
                Ok(())
            }))
        })
    }
}

/// Returns the outcome of one case.
async fn outcome(case: &str, fault: Fault) -> Outcome {
    let suite = Suite::new().busy_limit(Duration::from_millis(500));
    let report = suite.named(case).run(&Faulty::new(fault)).await;
    let ran = report.cases.into_iter().find(|ran| ran.name == case);
    ran.unwrap_or_else(|| panic!("there is no case {case}")).outcome
}

/// Checks that each of the cases refuses a transport with the fault, and no transport without it.
async fn refuse(fault: Fault, cases: &[&str]) {
    for case in cases {
        let without = outcome(case, Fault::None).await;
        assert_eq!(without, Outcome::Passed, "{case} without {fault:?}");
        let with = outcome(case, fault).await;
        assert!(!with.is_good() && with.counts(), "{case} with {fault:?}: {with:?}");
    }
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn a_lost_wake_up_is_noticed() {
    let cases = [
        "a_waiting_receiver_is_woken",
        "each_waiting_receiver_gets_one",
        "a_lock_ends_while_a_receiver_waits",
        "a_waiting_receiver_gets_it_when_it_is_due",
        "a_waiting_receiver_gets_what_another_abandons",
        "a_waiting_receiver_gets_what_another_releases",
        "a_waiting_receiver_gets_what_another_drops",
        "a_waiting_receiver_ends_with_its_queue",
        "a_waiting_receiver_ends_when_its_queue_is_disabled",
        "later_messages_go_to_the_holder",
        "a_new_session_ends_the_wait",
        "a_session_that_is_given_up_ends_the_wait",
    ];
    refuse(Fault::WakesNobody, &cases).await;
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn a_waker_that_is_kept_from_an_earlier_poll_is_noticed() {
    let cases = ["the_task_that_polled_last_is_woken", "the_task_that_asked_last_for_a_session_is_woken"];
    refuse(Fault::WakesTheFirst, &cases).await;
}

/// Rules: K-40, K-45.
#[tokio::test(start_paused = true)]
async fn a_lost_message_is_noticed() {
    let refused = ["a_text_that_is_too_long_is_refused_and_the_message_is_redelivered"];
    refuse(Fault::LosesRefused, &refused).await;
    refuse(Fault::LosesRefusedDescription, &refused).await;
    refuse(Fault::ReleasesRefused, &refused).await;
    refuse(Fault::ReceivesNone, &["a_receive_of_no_message_receives_one"]).await;
    let lost = ["a_lost_receiver_s_message_is_redelivered_at_the_latest_when_its_lock_ends"];
    refuse(Fault::LosesWithReceiver, &lost).await;
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn what_a_drop_leaves_undone_is_noticed() {
    refuse(Fault::ReleasesLate, &["a_release_continues_when_its_future_is_dropped"]).await;
    let session = ["a_dropped_session_can_be_accepted_at_once_and_does_not_count"];
    refuse(Fault::KeepsDroppedSessions, &session).await;
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn an_effect_of_a_refused_call_is_noticed() {
    let cases = [
        "a_send_whose_time_to_live_is_refused_stores_nothing",
        "a_schedule_that_is_refused_stores_nothing",
        "a_mode_that_is_refused_removes_nothing",
        "a_message_whose_deferral_is_refused_is_redelivered",
    ];
    for case in cases {
        assert_eq!(outcome(case, Fault::None).await, Outcome::Passed, "{case}");
        assert_eq!(outcome(case, Fault::Refuses).await, Outcome::Refused, "{case}");
        let late = outcome(case, Fault::RefusesTooLate).await;
        assert!(matches!(late, Outcome::SilentlyIgnored(_)), "{case}: {late:?}");
    }
}

/// Rules: K-40, K-42, K-43, K-44.
#[tokio::test(start_paused = true)]
async fn a_wrong_administration_is_noticed() {
    refuse(Fault::DistinguishesCase, &["paths_that_differ_in_case_name_one_queue_everywhere_or_nowhere"]).await;
    let list = ["entities_are_listed_until_they_are_deleted"];
    refuse(Fault::ListsNothing, &list).await;
    refuse(Fault::ListsDeleted, &list).await;
    let counts = ["messages_that_wait_are_counted", "dead_letters_are_counted"];
    refuse(Fault::CountsNothing, &counts).await;
    refuse(Fault::CountsLockedTwice, &counts).await;
    refuse(Fault::MissesLockedDeadLetters, &counts[1..]).await;
    refuse(Fault::TakesTwice, &["a_full_queue_refuses"]).await;
}

/// Rules: K-40, K-46, K-47.
#[tokio::test(start_paused = true)]
async fn a_wrong_entity_is_noticed() {
    refuse(Fault::TakesAnySettings, &["settings_out_of_their_range_are_refused"]).await;
    refuse(Fault::ForgetsSettings, &["the_settings_of_an_entity_are_those_that_it_was_declared_with"]).await;
    refuse(Fault::DeletesNothing, &["an_entity_that_does_not_exist_is_not_deleted"]).await;
    refuse(Fault::CreatesSubQueues, &["a_sub_queue_is_not_created"]).await;
    refuse(Fault::LosesAfterDelete, &["an_open_sender_does_not_lose_messages_when_its_queue_is_deleted"]).await;
    refuse(Fault::SettlesDeleted, &["a_message_of_a_deleted_queue_is_not_settled"]).await;
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn a_capability_that_a_sender_or_a_receiver_does_not_declare_is_noticed() {
    let case = ["a_sender_and_a_receiver_have_the_capabilities_of_their_transport"];
    refuse(Fault::SenderDeclaresNothing, &case).await;
    refuse(Fault::ReceiverDeclaresNothing, &case).await;
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn a_transport_that_redelivers_without_an_end_is_noticed() {
    let cases = ["a_dead_letter_that_cannot_be_decoded_again_stays", "a_dead_letter_whose_handler_fails_again_stays"];
    for fault in [Fault::DelaysNothing, Fault::NeedsNoSettlement, Fault::ForgetsDeath] {
        refuse(fault, &cases).await;
        let without_end = outcome(cases[1], fault).await;
        let why = "it did not end within 500ms of real time: it never waits";
        assert!(matches!(&without_end, Outcome::Failed(failure) if failure.why() == why), "{fault:?}: {without_end:?}");
    }
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn a_settlement_that_is_refused_for_its_size_is_noticed() {
    let cases = [
        "a_dead_letter_whose_changes_are_too_large_has_the_reason_of_the_broker",
        "a_dead_letter_whose_description_is_too_large_has_the_reason_of_the_broker",
        "a_message_whose_changes_are_too_large_is_dead_lettered_when_it_is_abandoned",
        "a_message_of_a_session_whose_changes_are_too_large_is_dead_lettered_when_it_is_abandoned",
        "a_message_whose_changes_are_too_large_is_dead_lettered_when_it_is_deferred",
        "a_dead_letter_whose_changes_are_too_large_stays_as_it_was_when_it_is_abandoned",
    ];
    refuse(Fault::RefusesOutgrown, &cases).await;
    refuse(Fault::CutsDeath, &["a_message_with_full_properties_is_dead_lettered_after_its_last_delivery"]).await;
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn a_transaction_without_an_end_is_noticed() {
    let case = ["a_transaction_ends_after_two_minutes"];
    refuse(Fault::NamesNoTimeout, &case).await;
    refuse(Fault::TakesLateSends, &case).await;
}

/// Rules: K-40.
#[tokio::test(start_paused = true)]
async fn a_wrong_sender_is_noticed() {
    for fault in [Fault::KeepsNumbers, Fault::KeepsSource, Fault::KeepsExtensions] {
        refuse(fault, &["properties_of_a_received_message_are_not_sent_again"]).await;
    }
    refuse(Fault::LosesTransactionKey, &["properties_of_the_sender_are_received"]).await;
    refuse(Fault::LosesPriority, &["pass_through_fields_are_received"]).await;
    refuse(Fault::LosesPassedTime, &["an_enqueue_time_that_has_passed_means_now"]).await;
    refuse(Fault::SendsOneByOne, &["sends_at_the_same_time_are_all_stored"]).await;
}
