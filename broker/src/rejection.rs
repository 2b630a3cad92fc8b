//! The fields that the broker adds to every send that it refuses.

use consign_core::{message::EntityPath, time::Timestamp, transport::SendError};

/// Adds the broker's part to a refused send: its condition, its time, and the entity at the end of the description.
///
/// An error is rarely shown and often matched on, so its first reader formats the text.
#[cold]
pub(super) fn rejection(error: SendError, kind: &'static str, path: &EntityPath, at: Timestamp) -> SendError {
    let path = path.clone();
    let error = match error.kind().condition() {
        Some(condition) if error.condition().is_none() => error.with_condition(condition),
        _ => error,
    };
    error.with_timestamp(at).map_detail(move |detail| match detail {
        Some(detail) => format!("{detail}; {kind} `{path}`"),
        None => format!("{kind} `{path}`"),
    })
}

#[cfg(test)]
mod tests {
    use consign_core::transport::ErrorKind;

    use super::*;

    /// Rules: X-04.
    #[test]
    fn a_rejection_names_the_entity_and_has_the_time() {
        let path = EntityPath::new("orders/eu").unwrap();
        let error = SendError::new(ErrorKind::QuotaExceeded).with_detail("the queue holds at most 1024 bytes");
        let error = rejection(error, "queue", &path, Timestamp::from_millis(1_700_000_000_000));
        let text = "send: the entity is full (the queue holds at most 1024 bytes; queue `orders/eu`)";
        assert_eq!(error.to_string(), text);
        assert_eq!((error.tracking_id(), error.condition()), (None, Some("amqp:resource-limit-exceeded")));
        assert_eq!(error.timestamp(), Some(Timestamp::from_millis(1_700_000_000_000)));
        assert!(!error.is_retryable());
        let bare = rejection(SendError::new(ErrorKind::EntityDisabled), "topic", &path, Timestamp::EPOCH);
        assert_eq!(bare.description(), Some("topic `orders/eu`"));
    }
}
