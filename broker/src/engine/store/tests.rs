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

/// A message that waits is in memory with these.
#[test]
#[cfg(target_pointer_width = "64")]
fn an_entry_is_small() {
    assert_eq!(size_of::<Entry>(), 72);
}

#[test]
fn what_few_messages_have_is_that_of_the_message_in_the_place() {
    let at = |ticks| Now { ticks, utc: Timestamp::EPOCH };
    let mut fx = Effects::default();
    let mut store = Store::new(StoreId { serial: 1, index: 0 }, QueueSettings::default(), at(0), Quirks::default());
    let insert = |store: &mut Store, ttl: Option<u64>, origin: Option<u64>, fx: &mut Effects| {
        let mut message = Message::new("");
        if let Some(ttl) = ttl {
            message.properties_mut().set_time_to_live(std::time::Duration::from_millis(ttl)).unwrap();
        }
        let arrival =
            Arrival { origin: origin.map(SequenceNumber::new), hops: 1, ..Arrival::new(Stored::new(message)) };
        let number = store.number(at(0), &arrival.message);
        store.insert(at(0), arrival, number, fx);
    };
    let receive = |store: &mut Store, fx: &mut Effects| {
        let mut received = None;
        store.receive_and_delete(at(0), Source::Part(Part::Main), 1, fx, |message| {
            received = message.received().copied();
        });
        let received = received.unwrap();
        (received.expires_at.as_millis(), received.enqueued_sequence_number.get())
    };
    let never = Timestamp::MAX.as_millis();
    insert(&mut store, Some(5), Some(70), &mut fx);
    insert(&mut store, None, None, &mut fx);
    assert_eq!(receive(&mut store, &mut fx), (5, 70));
    // In the place of the first.
    insert(&mut store, None, None, &mut fx);
    assert_eq!((receive(&mut store, &mut fx), receive(&mut store, &mut fx)), ((never, 2), (never, 3)));
    insert(&mut store, Some(6), None, &mut fx);
    insert(&mut store, None, Some(90), &mut fx);
    assert_eq!((receive(&mut store, &mut fx), receive(&mut store, &mut fx)), ((6, 4), (never, 90)));
    assert_eq!((store.expiries.len(), store.entries.len()), (0, 0));
}
