use consign_core::{Disposition, Message, time::Timestamp};

use super::*;

/// A burst of messages that are received, deferred or scheduled, and of their ids.
#[test]
fn the_memory_of_a_burst_is_given_back() {
    const BURST: usize = 10 * KEPT;
    let at = |ticks| Now { ticks, utc: Timestamp::EPOCH };
    let settings = QueueSettings::default().duplicate_detection(std::time::Duration::from_secs(20));
    let mut fx = Effects::default();
    let mut store = Store::new(StoreId { serial: 1, index: 0 }, settings, at(0), Quirks::default());
    for id in 0..BURST {
        let message = Message::builder().message_id(id.to_string()).build("").unwrap();
        let arrival = Arrival::new(Stored::new(message));
        let Some(Seen::New(id)) = store.look_for_duplicate(at(0), arrival.message.properties()) else { panic!("new") };
        store.record_id(at(0), id);
        let number = store.number(at(0), &arrival.message);
        store.insert(at(0), arrival, number, &mut fx);
    }
    let main = Source::Part(Part::Main);
    let mut held = Vec::new();
    store.receive(at(0), main, BURST, &mut fx, |locked| held.push(locked));
    for Locked { key, lock, .. } in held {
        store.settle(at(0), key, lock, &Disposition::DEFER, &mut fx).unwrap();
    }
    let numbers: Vec<_> = (1..=BURST as u64).map(SequenceNumber::new).collect();
    for Locked { key, lock, .. } in store.receive_deferred(at(0), main, &numbers, u64::MAX, &mut fx).unwrap() {
        store.settle(at(0), key, lock, &Disposition::Complete, &mut fx).unwrap();
    }
    assert_eq!(store.space_for_ids(at(NEVER - 1)), Some(store.settings.max_duplicate_ids));
    let lane = &store.lanes[Part::Main.lane() as usize];
    let duplicates = store.duplicates.as_ref().unwrap();
    for kept in [store.entries.capacity(), lane.ready.kept(), lane.deferred.kept(), duplicates.kept()] {
        assert!(kept <= KEPT, "{kept}");
    }
}
