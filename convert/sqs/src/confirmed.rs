use aws_sdk_sqs::{
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
    operation::send_message::{SendMessageError, SendMessageOutput},
};
use consign_core::transport::{ErrorKind, SendError};

/// Returns the result of a send from the answer of `SendMessage`: `Ok` if SQS has stored the message.
///
/// # Errors
///
/// | kind | errors of SQS |
/// |---|---|
/// | [`EntityNotFound`](ErrorKind::EntityNotFound) | `QueueDoesNotExist`, `InvalidAddress` |
/// | [`InvalidArgument`](ErrorKind::InvalidArgument) | `InvalidMessageContents`, `InvalidParameterValue`, `MissingParameter` |
/// | [`Unauthorized`](ErrorKind::Unauthorized) | `InvalidSecurity`, `AccessDenied`, errors of the KMS key |
/// | [`NotSupported`](ErrorKind::NotSupported) | `UnsupportedOperation` |
/// | [`ServiceBusy`](ErrorKind::ServiceBusy) | `RequestThrottled`, `KmsThrottled` |
/// | [`ServiceTimeout`](ErrorKind::ServiceTimeout) | no answer within the timeout of the client |
/// | [`CommunicationProblem`](ErrorKind::CommunicationProblem) | the connection failed |
/// | [`InvalidOperation`](ErrorKind::InvalidOperation) | the client could not build the request, for example without a region |
/// | [`General`](ErrorKind::General) | any other one |
///
/// The error of the client is the source. After `ServiceTimeout`, `CommunicationProblem` and `General` the message may have been
/// stored.
pub fn confirmed<R>(sent: Result<SendMessageOutput, SdkError<SendMessageError, R>>) -> Result<(), SendError>
where
    R: std::fmt::Debug + Send + Sync + 'static,
{
    sent.map(drop).map_err(|error| {
        let detail = match (error.code(), error.message()) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            _ => DisplayErrorContext(&error).to_string(),
        };
        SendError::new(kind(&error)).with_detail(detail).with_source(error)
    })
}

fn kind<R>(error: &SdkError<SendMessageError, R>) -> ErrorKind {
    let service = match error {
        SdkError::ServiceError(service) => service.err(),
        SdkError::TimeoutError(_) => return ErrorKind::ServiceTimeout,
        SdkError::DispatchFailure(failure) if failure.is_timeout() => return ErrorKind::ServiceTimeout,
        SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => return ErrorKind::CommunicationProblem,
        SdkError::ConstructionFailure(_) => return ErrorKind::InvalidOperation,
        _ => return ErrorKind::General,
    };
    match service {
        SendMessageError::QueueDoesNotExist(_) | SendMessageError::InvalidAddress(_) => ErrorKind::EntityNotFound,
        SendMessageError::InvalidMessageContents(_) => ErrorKind::InvalidArgument,
        SendMessageError::InvalidSecurity(_)
        | SendMessageError::KmsAccessDenied(_)
        | SendMessageError::KmsDisabled(_)
        | SendMessageError::KmsInvalidKeyUsage(_)
        | SendMessageError::KmsInvalidState(_)
        | SendMessageError::KmsNotFound(_)
        | SendMessageError::KmsOptInRequired(_) => ErrorKind::Unauthorized,
        SendMessageError::UnsupportedOperation(_) => ErrorKind::NotSupported,
        SendMessageError::RequestThrottled(_) | SendMessageError::KmsThrottled(_) => ErrorKind::ServiceBusy,
        other => match other.code().unwrap_or_default() {
            "InvalidParameterValue" | "InvalidAttributeValue" | "InvalidParameterCombination" | "MissingParameter" => {
                ErrorKind::InvalidArgument
            }
            "AccessDenied" | "AccessDeniedException" | "InvalidClientTokenId" | "SignatureDoesNotMatch" => {
                ErrorKind::Unauthorized
            }
            "AWS.SimpleQueueService.NonExistentQueue" => ErrorKind::EntityNotFound,
            "ThrottlingException" | "RequestThrottled" | "ServiceUnavailable" => ErrorKind::ServiceBusy,
            _ => ErrorKind::General,
        },
    }
}
