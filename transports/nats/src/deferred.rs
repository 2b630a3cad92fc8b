//! Deferred messages: locking them by their numbers.

use std::sync::Arc;

use consign_core::{
    message::SequenceNumber,
    transport::{Delivery, ErrorKind, Lease, ReceiveError},
};

use crate::{
    NatsLease,
    entities::consumer_config,
    error::Fault,
    fetch::fetch,
    source::{Place, Source},
    wire,
};

/// Locks deferred messages by their numbers: all of them or none.
pub(crate) async fn receive_deferred(
    source: &Arc<Source>,
    numbers: &[SequenceNumber],
) -> Result<Vec<Delivery<NatsLease>>, ReceiveError> {
    let (source, numbers) = (Arc::clone(source), numbers.to_vec());
    // In a task of its own: dropped half-way it would leave locks. If the caller is gone, the deliveries are dropped there,
    // unseen.
    let locking = tokio::spawn(async move { lock_all(&source, &numbers).await });
    let locked = locking.await.unwrap_or_else(|error| Err(Fault::new(ErrorKind::General, error.to_string()).into()))?;
    Ok(locked.into_iter().map(|Delivery { message, lease }| Delivery { message, lease: lease.handed_out() }).collect())
}

async fn lock_all(source: &Arc<Source>, numbers: &[SequenceNumber]) -> Result<Vec<Delivery<NatsLease>>, ReceiveError> {
    if source.is_dead_letter() {
        return Err(not_found());
    }
    let beside = &source.beside;
    for number in numbers {
        let found = source.inner.last_at(&beside.stream, &beside.deferred(number.get())).await?;
        let Some(found) = found else { return Err(not_found()) };
        if let Some(session_lock) = source.session_lock() {
            let read = wire::decode(Some(&found.headers), found.payload);
            if read.is_ok_and(|message| message.session_id() != Some(session_lock.id())) {
                return Err(not_found());
            }
        }
    }
    let mut locked = Vec::with_capacity(numbers.len());
    for number in numbers {
        match lock(source, number.get()).await {
            Ok(Some(delivery)) => locked.push(delivery),
            other => {
                for delivery in locked {
                    let _ = Lease::release(delivery.lease).await;
                }
                return Err(other.err().map_or_else(not_found, ReceiveError::from));
            }
        }
    }
    Ok(locked)
}

async fn lock(source: &Arc<Source>, number: u64) -> Result<Option<Delivery<NatsLease>>, Fault> {
    let (beside, name) = (&source.beside, format!("d{number}"));
    let config = consumer_config(&name, &beside.deferred(number), &source.settings);
    source.inner.create_consumer(&beside.stream, &name, &config).await?;
    let source = source.at(beside.stream.clone(), name, Place::Deferred(number));
    Ok(fetch(&source, 1).await?.pop())
}

fn not_found() -> ReceiveError {
    ReceiveError::new(ErrorKind::MessageNotFound)
}
