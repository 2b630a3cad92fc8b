//! The queues of an entity with sessions.

use consign_core::message::EntityPath;
use futures_util::future::try_join_all;
use lapin::{
    ExchangeKind,
    options::{
        ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable, ShortString},
};

use crate::{
    QueueSettings,
    arguments::{arguments, quorum},
    client::Shared,
    error::Failure,
    link::Leased,
    settings::MOST_SLOTS,
    wire::names,
};

/// The bucket of a session, the same in every process: FNV-1a of its id.
pub(crate) fn bucket(id: &str) -> u16 {
    let hash = id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    // The last bits of short texts differ less than those that they are mixed into.
    u16::try_from((hash >> 32 ^ hash) % u64::from(MOST_SLOTS)).unwrap_or_default()
}

pub(super) fn slot_of(id: &str, slots: u16) -> u16 {
    bucket(id) % slots
}

/// Returns the queue of a slot. The number of slots is a part of its name: a client with another number finds no queue, and
/// never the wrong one.
pub(crate) fn queue(path: &EntityPath, slot: u16, slots: u16) -> String {
    format!("{path}/$slot-{slot:02}-{slots:02}")
}

/// Returns the queue of a session.
pub(crate) fn queue_of(path: &EntityPath, id: &str, slots: u16) -> String {
    queue(path, slot_of(id, slots), slots)
}

/// Returns the queue for the records of a slot's sessions.
pub(super) fn notes(path: &EntityPath, slot: u16, slots: u16) -> String {
    format!("{path}/$note-{slot:02}-{slots:02}")
}

/// Returns the exclusive queue that is the lock of a slot.
pub(super) fn lock(path: &EntityPath, slot: u16, slots: u16) -> String {
    format!("{path}/$lock-{slot:02}-{slots:02}")
}

/// Declares the queues of all slots.
pub(crate) async fn declare(shared: &Shared, path: &EntityPath, settings: &QueueSettings) -> Result<(), Failure> {
    let slots = settings.session_slots;
    let mut share = settings.clone();
    share.max_length_bytes = settings.max_length_bytes.map(|bytes| (bytes / u64::from(slots)).max(1));
    let mut messages = arguments(&share, &path.dead_letter());
    messages.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    let declaring = async |leased: &Leased| {
        // One after the other: each elects a leader.
        for slot in 0..slots {
            let both = [(queue(path, slot, slots), messages.clone()), (notes(path, slot, slots), quorum())];
            try_join_all(both.into_iter().map(|(name, arguments)| {
                leased.channel.queue_declare(name.into(), QueueDeclareOptions::durable(), arguments.into())
            }))
            .await?;
        }
        Ok(())
    };
    shared.manage("queue.declare", declaring).await
}

pub(crate) async fn delete(shared: &Shared, path: &EntityPath, settings: &QueueSettings) -> Result<(), Failure> {
    let slots = settings.session_slots;
    let is_subscription = path.subscription().is_some();
    let deleting = async |leased: &Leased| {
        let channel = &leased.channel;
        if is_subscription {
            let none = ExchangeDeleteOptions::default();
            channel.exchange_delete(path.as_str().into(), none).await?;
            channel.exchange_delete(path.dead_letter().as_str().into(), none).await?;
        }
        for slot in 0..slots {
            for name in [queue(path, slot, slots), notes(path, slot, slots)] {
                channel.queue_delete(name.into(), QueueDeleteOptions::default()).await?;
            }
        }
        Ok(())
    };
    shared.manage("queue.delete", deleting).await?;
    for slot in 0..slots {
        shared.forget_delays(&queue(path, slot, slots));
    }
    Ok(())
}

/// Declares the exchange that spreads the messages of a subscription over its slots, and that its rules are bound to. A message
/// without a session id is dead-lettered.
pub(crate) async fn declare_exchange(shared: &Shared, path: &EntityPath, slots: u16) -> Result<(), Failure> {
    let declaring = async |leased: &Leased| {
        let channel = &leased.channel;
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let dead = path.dead_letter();
        let (this, dead) = (ShortString::from(path.as_str()), ShortString::from(dead.as_str()));
        let none = FieldTable::default;
        channel.exchange_declare(dead.clone(), ExchangeKind::Fanout, durable, none()).await?;
        channel.queue_bind(dead.clone(), dead.clone(), "".into(), QueueBindOptions::default(), none()).await?;
        let mut alternate = FieldTable::default();
        alternate.insert("alternate-exchange".into(), AMQPValue::LongString(dead.as_str().into()));
        channel.exchange_declare(this.clone(), ExchangeKind::Headers, durable, alternate).await?;
        try_join_all((0..MOST_SLOTS).map(|bucket| {
            let mut headers = FieldTable::default();
            headers.insert("x-match".into(), AMQPValue::LongString("all".into()));
            headers.insert(names::SESSION_BUCKET.into(), AMQPValue::LongLongInt(bucket.into()));
            let to = queue(path, bucket % slots, slots).into();
            channel.queue_bind(to, this.clone(), "".into(), QueueBindOptions::default(), headers)
        }))
        .await
        .map(drop)
    };
    shared.manage("the exchange of a subscription with sessions", declaring).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: N-05, K-220.
    /// Other processes, older versions and other clients must compute the same: `README.md` specifies it, and has the same
    /// vectors.
    #[test]
    fn a_session_has_the_same_slot_everywhere() {
        #[derive(serde::Deserialize)]
        struct Vector {
            path: String,
            id: String,
            slots: u16,
            bucket: u16,
            queue: String,
        }
        let vectors: Vec<Vector> = serde_json::from_str(include_str!("../../tests/session_slots.json")).unwrap();
        assert!(vectors.len() > 10);
        for Vector { path, id, slots, bucket: expected, queue } in vectors {
            assert_eq!(bucket(&id), expected, "{id:?}");
            assert_eq!(queue_of(&EntityPath::new(&path).unwrap(), &id, slots), queue, "{id:?}");
        }
    }

    #[test]
    fn sessions_are_spread_over_all_slots() {
        for slots in [1, 3, 16, MOST_SLOTS] {
            let mut count = vec![0_u32; slots.into()];
            for id in 0..u32::from(slots) * 1_000 {
                count[usize::from(slot_of(&format!("session-{id}"), slots))] += 1;
            }
            assert!(count.iter().all(|count| (500..2_000).contains(count)), "{count:?}");
        }
    }

    #[test]
    fn no_name_is_longer_than_that_of_the_dead_letter_queue() {
        let path = EntityPath::new("orders").unwrap();
        for name in [queue(&path, 63, 64), notes(&path, 63, 64), lock(&path, 63, 64)] {
            assert!(name.len() <= path.dead_letter().as_str().len(), "{name}");
        }
    }
}
