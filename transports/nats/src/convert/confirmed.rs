use async_nats::jetstream::{
    self, ErrorCode,
    context::{PublishAckFuture, PublishError, PublishErrorKind},
};
use consign_core::transport::{ErrorKind, SendError};

use crate::error::Fault;

/// Waits for the acknowledgement of what `publish` or `publish_with_headers` of JetStream returned: `Ok` if a stream has stored the
/// message, or has dropped it as a duplicate.
///
/// ```no_run
/// use consign::{Message, transport::SendError};
/// use consign_nats::{async_nats::jetstream::Context, convert};
///
/// async fn publish(jetstream: &Context, message: &Message) -> Result<(), SendError> {
///     let (headers, payload) = convert::to_nats(message)?;
///     convert::confirmed(jetstream.publish_with_headers("orders", headers, payload).await).await
/// }
/// ```
///
/// # Errors
///
/// | kind | errors of JetStream |
/// |---|---|
/// | [`EntityNotFound`](ErrorKind::EntityNotFound) | no stream has the subject, or, in a cluster, no server leads the stream yet |
/// | [`MessageSizeExceeded`](ErrorKind::MessageSizeExceeded) | the message is larger than the server or the stream takes |
/// | [`ServiceBusy`](ErrorKind::ServiceBusy) | the stream is full, or JetStream is temporarily unavailable |
/// | [`Throttled`](ErrorKind::Throttled) | too many publications of this `Context` are without their acknowledgement |
/// | [`InvalidOperation`](ErrorKind::InvalidOperation) | the last message of the stream is not the one that the headers expect |
/// | [`ServiceTimeout`](ErrorKind::ServiceTimeout) | no answer within the timeout of the `Context` |
/// | [`CommunicationProblem`](ErrorKind::CommunicationProblem) | the connection failed |
///
/// Any other refusal has the kind that a sender of the transport has for it. The error of async-nats is the source. After
/// `ServiceTimeout` and `CommunicationProblem` the message may have been stored.
pub async fn confirmed(published: Result<PublishAckFuture, PublishError>) -> Result<(), SendError> {
    let acknowledged = match published {
        Ok(future) => future.await,
        Err(error) => Err(error),
    };
    acknowledged.map(drop).map_err(|error| SendError::from(fault(&error)).with_source(error))
}

fn fault(error: &PublishError) -> Fault {
    let kind = match error.kind() {
        PublishErrorKind::StreamNotFound => ErrorKind::EntityNotFound,
        PublishErrorKind::MaxPayloadExceeded => ErrorKind::MessageSizeExceeded,
        PublishErrorKind::MaxAckPending => ErrorKind::Throttled,
        PublishErrorKind::WrongLastMessageId | PublishErrorKind::WrongLastSequence => ErrorKind::InvalidOperation,
        PublishErrorKind::TimedOut => ErrorKind::ServiceTimeout,
        PublishErrorKind::BrokenPipe => ErrorKind::CommunicationProblem,
        PublishErrorKind::Other => return refusal(error),
    };
    Fault::new(kind, error.to_string())
}

fn refusal(error: &PublishError) -> Fault {
    let refused = std::error::Error::source(error).and_then(|source| source.downcast_ref::<jetstream::Error>());
    let Some(refused) = refused else { return Fault::broken(error) };
    let mut fault = Fault::from(refused.clone());
    // A limit of the stream, which has space again when messages are removed.
    if fault.code == Some(ErrorCode::STREAM_STORE_FAILED) {
        fault.kind = ErrorKind::ServiceBusy;
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_refusal_is_the_result_of_a_send() {
        let refused = |code: u16, of_jetstream: u64| {
            let error = serde_json::json!({ "code": code, "err_code": of_jetstream, "description": "refused" });
            let error: jetstream::Error = serde_json::from_value(error).unwrap();
            PublishError::with_source(PublishErrorKind::Other, error)
        };
        for (error, kind, is_retryable) in [
            (PublishError::new(PublishErrorKind::StreamNotFound), ErrorKind::EntityNotFound, false),
            (PublishError::new(PublishErrorKind::MaxPayloadExceeded), ErrorKind::MessageSizeExceeded, false),
            (PublishError::new(PublishErrorKind::TimedOut), ErrorKind::ServiceTimeout, true),
            (PublishError::new(PublishErrorKind::BrokenPipe), ErrorKind::CommunicationProblem, true),
            (PublishError::new(PublishErrorKind::MaxAckPending), ErrorKind::Throttled, true),
            (PublishError::new(PublishErrorKind::WrongLastSequence), ErrorKind::InvalidOperation, false),
            (PublishError::new(PublishErrorKind::Other), ErrorKind::CommunicationProblem, true),
            (refused(400, 10054), ErrorKind::MessageSizeExceeded, false),
            (refused(503, 10077), ErrorKind::ServiceBusy, true),
            (refused(503, 10008), ErrorKind::ServiceBusy, true),
        ] {
            let said = error.to_string();
            let error = confirmed(Err(error)).await.unwrap_err();
            assert_eq!((error.kind(), error.is_retryable()), (kind, is_retryable), "{said}");
            assert!(std::error::Error::source(&error).is_some());
        }
    }
}
