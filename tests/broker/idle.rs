//! Entities that nobody uses.

use std::time::Duration;

use consign::{
    Message,
    broker::{Queue, SubscriptionSettings, Topic, TopicSettings},
    message::SequenceNumber,
    transport::{Delivery, ErrorKind, Lease, ReceiverExt},
};
use tokio_test::task;

use crate::{
    namespace::{Namespace, almost, counts, publish, receive, send, try_send, try_take, with_id},
    support::{Ended, MS, START, settings},
    topics::{sql, subscribe_with},
};

/// The shortest time after which an entity is deleted, and how long a lock may last.
const IDLE: Duration = Duration::from_secs(300);

fn exists(namespace: &Namespace, path: &str) -> bool {
    let found = namespace.broker.entities().iter().any(|entity| entity.path.as_str() == path);
    assert_eq!(namespace.broker.entity_kind(path).is_some(), found);
    found
}
