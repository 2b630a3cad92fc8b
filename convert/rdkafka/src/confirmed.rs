use consign_core::transport::{ErrorKind, SendError};
use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode as Code},
    message::OwnedMessage,
    producer::future_producer::Delivery,
};

/// Returns the result of a send from what `FutureProducer::send` returned: `Ok` if the brokers have stored the record, as often
/// as `acks` of the producer says.
///
/// ```no_run
/// use std::time::Duration;
///
/// use consign::{Message, transport::SendError};
/// use consign_convert_rdkafka::{
///     confirmed,
///     rdkafka::{producer::FutureProducer, util::AsyncRuntime},
///     to_rdkafka,
/// };
///
/// async fn produce<R: AsyncRuntime>(
///     producer: &FutureProducer<rdkafka::client::DefaultClientContext, R>,
///     message: &Message,
/// ) -> Result<(), SendError> {
///     let record = to_rdkafka(message)?;
///     confirmed(producer.send(record.to("orders"), Duration::ZERO).await)
/// }
/// ```
///
/// # Errors
///
/// | kind | errors of librdkafka |
/// |---|---|
/// | [`EntityNotFound`](ErrorKind::EntityNotFound) | the topic or the partition is unknown |
/// | [`MessageSizeExceeded`](ErrorKind::MessageSizeExceeded) | the record is larger than the producer or the broker takes |
/// | [`Unauthorized`](ErrorKind::Unauthorized) | authentication or authorization failed |
/// | [`Throttled`](ErrorKind::Throttled) | the queue of the producer is full |
/// | [`ServiceBusy`](ErrorKind::ServiceBusy) | a quota is exceeded, or too few replicas are in sync |
/// | [`InvalidArgument`](ErrorKind::InvalidArgument) | the broker refuses the record |
/// | [`InvalidOperation`](ErrorKind::InvalidOperation) | the producer had a fatal error, and has to be made again |
/// | [`ServiceTimeout`](ErrorKind::ServiceTimeout) | no answer within `message.timeout.ms` |
/// | [`CommunicationProblem`](ErrorKind::CommunicationProblem) | the connection failed, or the producer was dropped |
/// | [`General`](ErrorKind::General) | any other one |
///
/// The error of rdkafka is the source. After `ServiceTimeout`, `CommunicationProblem` and `General` the record may have been stored.
pub fn confirmed(sent: Result<Delivery, (KafkaError, OwnedMessage)>) -> Result<(), SendError> {
    match sent {
        Ok(_) => Ok(()),
        Err((error, _)) => Err(SendError::new(kind(&error)).with_detail(error.to_string()).with_source(error)),
    }
}

fn kind(error: &KafkaError) -> ErrorKind {
    if matches!(error, KafkaError::Canceled) {
        return ErrorKind::CommunicationProblem;
    }
    let Some(code) = error.rdkafka_error_code() else { return ErrorKind::General };
    match code {
        Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicOrPartition => ErrorKind::EntityNotFound,
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge => ErrorKind::MessageSizeExceeded,
        Code::Authentication
        | Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::SaslAuthenticationFailed => ErrorKind::Unauthorized,
        Code::QueueFull => ErrorKind::Throttled,
        Code::ThrottlingQuotaExceeded | Code::NotEnoughReplicas => ErrorKind::ServiceBusy,
        Code::InvalidArgument
        | Code::InvalidMessage
        | Code::InvalidMessageSize
        | Code::InvalidRecord
        | Code::InvalidTimestamp
        | Code::InvalidTopic
        | Code::PolicyViolation => ErrorKind::InvalidArgument,
        // Each later send fails likewise.
        Code::Fatal => ErrorKind::InvalidOperation,
        Code::MessageTimedOut | Code::OperationTimedOut | Code::RequestTimedOut | Code::TimedOutQueue => {
            ErrorKind::ServiceTimeout
        }
        Code::AllBrokersDown
        | Code::BrokerTransportFailure
        | Code::LeaderNotAvailable
        | Code::NetworkException
        | Code::NotEnoughReplicasAfterAppend
        | Code::NotLeaderForPartition
        | Code::Resolve => ErrorKind::CommunicationProblem,
        _ => ErrorKind::General,
    }
}
