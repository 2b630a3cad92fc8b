//! What the broker writes into every send that it refuses.

use std::sync::Arc;

use crate::{message::EntityPath, time::Timestamp, transport::SendError};

/// Adds the broker's side to a refused send: its condition, when it was, and at the end of the description
/// `TrackingId:<uuid>_<entity>, SystemTracker:<namespace>:<kind>:<path>, Timestamp:<ISO 8601>`.
///
/// An error is rarely shown and often matched on, so the id is drawn and the text is written when they are read for the
/// first time. From then on they stay.
#[cold]
pub(super) fn rejection(
    error: SendError,
    namespace: &Arc<str>,
    kind: &'static str,
    path: &EntityPath,
    at: Timestamp,
) -> SendError {
    let (namespace, path) = (Arc::clone(namespace), path.clone());
    let error = match error.kind().condition() {
        Some(condition) if error.condition().is_none() => error.with_condition(condition),
        _ => error,
    };
    error.with_timestamp(at).map_detail(move |detail| {
        let id = uuid::Uuid::new_v4();
        // A tracking id ends at a comma or at white space, and a path may have either.
        let entity = path.as_str().replace(|char: char| char == ',' || char.is_whitespace(), "-");
        let detail = detail.unwrap_or("The message was refused");
        format!("{detail}. TrackingId:{id}_{entity}, SystemTracker:{namespace}:{kind}:{path}, Timestamp:{at}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::ErrorKind;

    fn refused(path: &str) -> SendError {
        let path = EntityPath::new(path).unwrap();
        let error = SendError::new(ErrorKind::QuotaExceeded).with_detail("the queue holds at most 1024 bytes");
        rejection(error, &Arc::from("local"), "Queue", &path, Timestamp::from_millis(1_700_000_000_000))
    }

    #[test]
    fn x_04_a_rejection_names_the_entity_and_the_time() {
        let error = refused("orders/eu");
        let id = error.tracking_id().unwrap();
        let (uuid, entity) = id.split_once('_').unwrap();
        uuid::Uuid::try_parse(uuid).unwrap();
        assert_eq!(entity, "orders/eu");
        let text = format!(
            "the queue holds at most 1024 bytes. TrackingId:{id}, SystemTracker:local:Queue:orders/eu, \
             Timestamp:2023-11-14T22:13:20.000Z"
        );
        assert_eq!(error.description(), Some(text.as_str()));
        assert_eq!(error.condition(), Some("amqp:resource-limit-exceeded"));
        assert_eq!(error.timestamp(), Some(Timestamp::from_millis(1_700_000_000_000)));
        assert!(!error.is_retryable());
    }

    #[test]
    fn x_04_tracking_ids_differ_and_are_whole_whatever_the_path() {
        let (one, two) = (refused("a, b\u{3000}c"), refused("a, b\u{3000}c"));
        assert_ne!(one.tracking_id(), two.tracking_id());
        assert_eq!(one.tracking_id(), one.tracking_id());
        assert!(one.tracking_id().unwrap().ends_with("_a--b-c"), "{:?}", one.tracking_id());
    }
}
