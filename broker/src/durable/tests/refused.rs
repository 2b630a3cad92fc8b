//! Dead letters on the disk whose target refuses some.

use std::{sync::Arc, time::Duration};

use consign_core::{
    Message,
    administration::{QueueSettings, Status},
    settlement::{DeadLetter, DeadLetterReason},
    time::{ManualClock, Timestamp},
    transport::{ReceiverExt, Sender},
};
use futures_util::FutureExt;

use crate::durable::{
    OpenOptions,
    disk::SimulatedDisk,
    log::{LogJournal, LogOptions},
    open::restore,
};

/// Rules: D-05.
/// More than are fetched at once are too large for the target.
#[test]
fn dead_letters_behind_refused_ones_leave() {
    const LARGE: usize = 300;
    for opens in [false, true] {
        let (disk, clock) = (SimulatedDisk::new(), Arc::new(ManualClock::new(Timestamp::EPOCH)));
        let restored = || {
            let journal = LogJournal::at(Box::new(disk.clone()), LogOptions::small(0)).unwrap();
            restore(&OpenOptions::new().memory_budget(1).clock(Arc::clone(&clock)), Box::new(journal)).unwrap()
        };
        let (mut broker, mut writer) = restored();
        let target = QueueSettings::default().max_message_size(1_000);
        broker.create_queue("target", target.clone().status(Status::SendDisabled)).unwrap();
        let queue = broker.create_queue("orders", QueueSettings::default().forward_dead_letters_to("target")).unwrap();
        for size in [2_000; LARGE].into_iter().chain([100; 2]) {
            drop(queue.sender().unwrap().send(Message::new(vec![7; size])));
            let delivery = queue.receiver().receive().now_or_never().unwrap().unwrap();
            drop(delivery.dead_letter(DeadLetter::new(DeadLetterReason::Application("x".into()), "y")));
            writer.step(Arc::clone(&broker.shared)).unwrap();
        }
        broker.update_queue("target", target).unwrap();
        writer.step(Arc::clone(&broker.shared)).unwrap();
        if opens {
            drop((queue, broker, writer));
            (broker, writer) = restored();
        }
        let (fetcher, shared) = (broker.shared.recorder().unwrap().fetcher().clone(), Arc::downgrade(&broker.shared));
        let mut read = 0;
        for _ in 0..4 {
            clock.advance(Duration::from_secs(10));
            assert!(broker.queue("orders").unwrap().counts().dead_lettered >= LARGE);
            loop {
                let fetched = fetcher.fetch_requested(&shared).unwrap();
                if fetched == 0 {
                    break;
                }
                read += fetched;
                assert!(read < 6 * LARGE, "{read} are read");
            }
            writer.step(Arc::clone(&broker.shared)).unwrap();
        }
        assert_eq!(broker.queue("target").unwrap().counts().active, 2, "opens: {opens}");
        assert_eq!(broker.queue("orders").unwrap().counts().dead_lettered, LARGE);
    }
}
