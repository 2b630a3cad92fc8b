//! UTC that steps back while no broker runs.

use std::{path::Path, sync::Arc, time::Duration};

use consign_core::{
    Message,
    administration::QueueSettings,
    time::{Clock, ManualClock, Timestamp},
    transport::{Delivery, ReceiverExt, Sender},
};
use futures_util::FutureExt;

use super::{
    OpenOptions,
    disk::SimulatedDisk,
    log::{LogJournal, LogOptions},
    open::restore,
};
use crate::{Broker, Queue, QueueLease};

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const MINUTE: Duration = Duration::from_secs(60);
const MILLISECOND: Duration = Duration::from_millis(1);
/// A millisecond less than a minute, and than ten.
const ALMOST_ONE: Duration = Duration::from_millis(59_999);
const ALMOST_TEN: Duration = Duration::from_millis(599_999);

fn open(path: &Path, utc: Timestamp) -> (Broker, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(utc));
    (OpenOptions::new().clock(Arc::clone(&clock)).hold_locks(true).open(path).unwrap(), clock)
}

fn after(minutes: u32) -> Timestamp {
    START.saturating_add(MINUTE * minutes)
}

async fn send(queue: &Queue, id: &'static str) {
    queue.sender().unwrap().send(Message::builder().message_id(id).build("one").unwrap()).await.unwrap();
}

fn receive(queue: &Queue) -> Option<Delivery<QueueLease>> {
    queue.receiver().receive().now_or_never().map(Result::unwrap)
}

/// Rules: D-244.
#[tokio::test(start_paused = true)]
async fn waiting_events_are_due_as_if_utc_had_not_stepped_back() {
    let folder = tempfile::tempdir().unwrap();
    let (broker, clock) = open(folder.path(), START);
    let create = |name: &str, settings| broker.create_queue(name, settings).unwrap();
    let scheduled = create("scheduled", QueueSettings::default());
    let expiring = create("expiring", QueueSettings::default().default_time_to_live(MINUTE * 120));
    let once = create("once", QueueSettings::default().duplicate_detection(MINUTE * 120));
    let locked = create("locked", QueueSettings::default().lock_duration(MINUTE));
    scheduled.schedule(vec![Message::new("due")], after(120)).await.unwrap();
    send(&expiring, "a").await;
    send(&once, "a").await;
    send(&locked, "a").await;
    // Nothing is written for a long time.
    clock.advance(MINUTE * 119);
    std::mem::forget(receive(&locked).unwrap());
    broker.flush().await.unwrap();
    broker.close().await.unwrap();
    drop(broker);

    let (broker, clock) = open(folder.path(), after(59));
    let [scheduled, expiring, once, locked] =
        ["scheduled", "expiring", "once", "locked"].map(|name| broker.queue(name).unwrap());
    clock.advance(ALMOST_ONE);
    send(&once, "a").await;
    assert_eq!((scheduled.counts().scheduled, scheduled.counts().active), (1, 0), "no earlier");
    assert_eq!((expiring.counts().active, once.counts().active, locked.counts().locked), (1, 1, 1), "no earlier");
    clock.advance(MILLISECOND);
    send(&once, "a").await;
    assert_eq!((scheduled.counts().scheduled, scheduled.counts().active), (0, 1), "no later");
    assert_eq!((expiring.counts().active, once.counts().active, locked.counts().locked), (0, 2, 0), "no later");
    assert!(receive(&locked).is_some());

    // What is scheduled now is due when the clock that users see shows its instant.
    let at = clock.now().utc.saturating_add(MINUTE * 10);
    broker.create_queue("next", QueueSettings::default()).unwrap().schedule(vec![Message::new("")], at).await.unwrap();
    clock.advance(ALMOST_TEN);
    let next = broker.queue("next").unwrap();
    assert_eq!((next.counts().scheduled, next.counts().active), (1, 0), "no earlier");
    clock.advance(MILLISECOND);
    assert_eq!((next.counts().scheduled, next.counts().active), (0, 1), "no later");
}

/// Rules: D-244.
#[tokio::test(start_paused = true)]
async fn restarts_under_a_clock_that_is_behind_add_no_delay() {
    let folder = tempfile::tempdir().unwrap();
    let (broker, _) = open(folder.path(), after(60));
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    queue.schedule(vec![Message::new("due")], after(90)).await.unwrap();
    broker.close().await.unwrap();
    for run in 0..3 {
        let (broker, clock) = open(folder.path(), after(run * 10));
        let queue = broker.queue("orders").unwrap();
        clock.advance(ALMOST_TEN);
        assert_eq!(queue.counts().active, 0, "run {run}");
        clock.advance(MILLISECOND);
        assert_eq!(queue.counts().active, usize::from(run == 2), "run {run}");
        broker.close().await.unwrap();
    }
}

/// Rules: D-244.
#[tokio::test(start_paused = true)]
async fn after_a_kill_it_is_due_a_minute_later_at_most() {
    let disk = SimulatedDisk::new();
    let restored = |disk: &SimulatedDisk, utc| {
        let clock = Arc::new(ManualClock::new(utc));
        let journal = LogJournal::at(Box::new(disk.clone()), LogOptions::small(disk.reserve())).unwrap();
        let (broker, writer) = restore(&OpenOptions::new().clock(Arc::clone(&clock)), Box::new(journal)).unwrap();
        (broker, writer, clock)
    };
    let (broker, mut writer, clock) = restored(&disk, START);
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    drop(queue.schedule(vec![Message::new("due")], after(120)));
    for _ in 0..119 {
        writer.step(Arc::clone(&broker.shared)).unwrap();
        clock.advance(MINUTE);
    }
    let (broker, _writer, clock) = restored(&disk.copy(), after(59));
    let queue = broker.queue("orders").unwrap();
    clock.advance(ALMOST_ONE);
    assert_eq!(queue.counts().active, 0, "no earlier");
    clock.advance(MINUTE + MILLISECOND);
    assert_eq!(queue.counts().active, 1, "no later");
}
