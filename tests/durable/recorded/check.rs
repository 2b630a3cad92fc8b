//! Whether a store has what was promised, by the public API.

use std::{collections::BTreeSet, path::Path};

use consign::{
    broker::{Broker, StorageErrorKind},
    message::SequenceNumber,
    transport::Sender,
};

use super::{
    child::{COPY, QUEUE, STORE, id, message, queue},
    told::{Backup, Promise},
};

/// A message that was not sent before.
const MORE: u64 = 9_999;

/// What is wrong with what is in this folder.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn check(root: &Path, promise: &Promise) -> Result<(), String> {
    store(&root.join(STORE), &promise.must, &promise.may).await?;
    let copy = root.join(COPY);
    match &promise.backup {
        Backup::Done(ids) => store(&copy, ids, &BTreeSet::new()).await,
        Backup::Begun(ids) if copy.exists() => match Broker::open(&copy) {
            Ok(broker) => {
                broker.close().await.map_err(|error| error.to_string())?;
                store(&copy, ids, &BTreeSet::new()).await
            }
            Err(error) => {
                let is_named = error.detail().contains("unfinished backup");
                let is_refused = error.kind() == StorageErrorKind::NotAStore && is_named;
                if is_refused { Ok(()) } else { Err(format!("the backup: {error}")) }
            }
        },
        Backup::Begun(_) | Backup::None => Ok(()),
    }
}

/// Whether the store has what it must have, and goes on.
async fn store(path: &Path, must: &BTreeSet<u64>, may: &BTreeSet<u64>) -> Result<(), String> {
    let failed = |error: &dyn std::error::Error| format!("{error} ({error:?})");
    let broker = Broker::open(path).map_err(|error| failed(&error))?;
    let mut found = found(&broker)?;
    let missing: Vec<&u64> = must.difference(&found).collect();
    let unexpected: Vec<&u64> = found.difference(must).filter(|id| !may.contains(id)).collect();
    if !(missing.is_empty() && unexpected.is_empty()) {
        return Err(format!("{missing:?} are lost, {unexpected:?} are unexpected"));
    }
    let sender = queue(&broker).sender().map_err(|error| failed(&error))?;
    sender.send(message(MORE)).await.map_err(|error| failed(&error))?;
    broker.close().await.map_err(|error| failed(&error))?;
    found.insert(MORE);
    let broker = Broker::open(path).map_err(|error| failed(&error))?;
    let again = self::found(&broker)?;
    broker.close().await.map_err(|error| failed(&error))?;
    if again == found { Ok(()) } else { Err(format!("{found:?} became {again:?}")) }
}

/// The ids of all messages.
fn found(broker: &Broker) -> Result<BTreeSet<u64>, String> {
    let Ok(queue) = broker.queue(QUEUE) else { return Ok(BTreeSet::new()) };
    let mut ids = BTreeSet::new();
    for message in queue.peek(SequenceNumber::new(1), usize::MAX) {
        let id = id(&message).ok_or_else(|| format!("{:?} has other bytes", message.message_id()))?;
        if !ids.insert(id) {
            return Err(format!("{id} is there twice"));
        }
    }
    Ok(ids)
}
