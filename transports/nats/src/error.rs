//! Errors of NATS, as the kinds of the model.

use std::fmt;

use async_nats::{
    RequestError, RequestErrorKind,
    jetstream::{self, ErrorCode},
};
use consign_core::{
    message::InvalidArgument,
    transport::{ErrorKind, ManageError, ReceiveError, SendError, SettleError},
};

/// Why a call of the server failed. It becomes the error of any operation.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: ErrorKind,
    pub(crate) code: Option<ErrorCode>,
    detail: String,
    is_no_responders: bool,
    retryable: Option<bool>,
}

impl Fault {
    pub(crate) fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, code: None, detail: detail.into(), is_no_responders: false, retryable: None }
    }

    /// Returns whether another message of the subject was stored since, or, in a cluster, is being stored.
    pub(crate) fn is_wrong_last_sequence(&self) -> bool {
        matches!(
            self.code,
            Some(ErrorCode::STREAM_WRONG_LAST_SEQUENCE | ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
        )
    }

    /// The subject has no responder: either the entity is missing, or no server leads it yet, as while a cluster elects one. A
    /// caller that cannot distinguish these may retry.
    fn no_responders(detail: String) -> Self {
        Self { is_no_responders: true, ..Self::new(ErrorKind::ServiceBusy, detail) }
    }

    pub(crate) fn is_no_responders(&self) -> bool {
        self.is_no_responders
    }

    /// Returns whether the server reports that there is no message to remove.
    pub(crate) fn has_no_message(&self) -> bool {
        match self.code {
            Some(ErrorCode(NO_SUCH_MESSAGE | NO_SUCH_SEQUENCE)) => true,
            // The code is that of each failure: a server without the stream's leader has it too.
            Some(ErrorCode(NOT_REMOVED)) => NO_MESSAGE.iter().any(|said| self.detail.contains(said)),
            _ => self.is_gone(),
        }
    }

    /// Returns the refusal of a new consumer as a transient one if a cluster lacks servers for it: while some are down.
    pub(crate) fn of_new_consumer(mut self) -> Self {
        if let Some(ErrorCode(NO_SERVER | TOO_FEW_RESOURCES)) = self.code {
            self.kind = ErrorKind::ServiceBusy;
        }
        self
    }

    /// Returns whether the server reports that the entity or message does not exist.
    pub(crate) fn is_gone(&self) -> bool {
        self.kind == ErrorKind::EntityNotFound && self.code.is_some()
    }

    /// Returns the error of an entity that cannot be created because of the stream of another program. A stream with its name is
    /// an entity that exists; one with its subjects only is not.
    pub(crate) fn of_other_stream(self) -> Self {
        if self.code != Some(ErrorCode::STREAM_SUBJECT_OVERLAP) {
            return self;
        }
        Self {
            kind: ErrorKind::InvalidOperation,
            detail: format!("another stream takes subjects of this entity: {}", self.detail),
            ..self
        }
    }

    pub(crate) fn timed_out(what: &str) -> Self {
        Self::new(ErrorKind::ServiceTimeout, format!("{what}: no answer in time"))
    }

    pub(crate) fn broken(error: &dyn std::fmt::Display) -> Self {
        Self::new(ErrorKind::CommunicationProblem, error.to_string())
    }

    /// It is the state of this client, and says nothing about the message or the entity.
    pub(crate) fn closed() -> Self {
        let closed = Self::new(ErrorKind::CommunicationProblem, "the connection was closed by this process");
        Self { retryable: Some(false), ..closed }
    }
}

pub(crate) fn general(error: &dyn fmt::Display) -> Fault {
    Fault::new(ErrorKind::General, error.to_string())
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl From<RequestError> for Fault {
    fn from(error: RequestError) -> Self {
        let kind = match error.kind() {
            RequestErrorKind::NoResponders => return Self::no_responders(error.to_string()),
            RequestErrorKind::TimedOut => ErrorKind::ServiceTimeout,
            RequestErrorKind::InvalidSubject => ErrorKind::InvalidArgument,
            RequestErrorKind::MaxPayloadExceeded => ErrorKind::MessageSizeExceeded,
            RequestErrorKind::Other => ErrorKind::CommunicationProblem,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<jetstream::context::RequestError> for Fault {
    fn from(error: jetstream::context::RequestError) -> Self {
        use jetstream::context::RequestErrorKind as Kind;
        let kind = match error.kind() {
            Kind::NoResponders => return Self::no_responders(error.to_string()),
            Kind::TimedOut => ErrorKind::ServiceTimeout,
            _ => ErrorKind::CommunicationProblem,
        };
        Self::new(kind, error.to_string())
    }
}

/// The code of a refusal for which the client has no name.
const NAME_IN_USE: u64 = 10058;
const NO_SUCH_MESSAGE: u64 = 10037;
const NO_SUCH_SEQUENCE: u64 = 10043;
const NOT_REMOVED: u64 = 10057;
/// What the server says with [`NOT_REMOVED`] of a number without a message.
const NO_MESSAGE: [&str; 3] = ["no message found", "stream store EOF", "deleted message"];
const NO_SERVER: u64 = 10005;
const TOO_FEW_RESOURCES: u64 = 10023;
/// JetStream is not enabled: in the server, and for the account.
const NO_JETSTREAM: [u64; 2] = [10039, 10076];
const NO_RESOURCES: [u64; 5] = [10002, TOO_FEW_RESOURCES, 10026, 10027, 10047];

impl From<jetstream::Error> for Fault {
    fn from(error: jetstream::Error) -> Self {
        let code = error.error_code();
        let kind = match code {
            ErrorCode::STREAM_NOT_FOUND | ErrorCode::CONSUMER_NOT_FOUND => ErrorKind::EntityNotFound,
            ErrorCode(NAME_IN_USE) | ErrorCode::STREAM_SUBJECT_OVERLAP | ErrorCode::CONSUMER_ALREADY_EXISTS => {
                ErrorKind::AlreadyExists
            }
            ErrorCode(NO_SUCH_MESSAGE) => ErrorKind::MessageNotFound,
            ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => {
                ErrorKind::MessageSizeExceeded
            }
            // The store refuses for one of its limits: bytes or messages of the stream, or of the account.
            ErrorCode::STREAM_STORE_FAILED => ErrorKind::QuotaExceeded,
            ErrorCode(code) if NO_RESOURCES.contains(&code) => ErrorKind::QuotaExceeded,
            ErrorCode(code) if NO_JETSTREAM.contains(&code) => ErrorKind::NotSupported,
            _ if error.code() == 404 => ErrorKind::EntityNotFound,
            _ if error.code() == 408 => ErrorKind::ServiceTimeout,
            _ if error.code() == 503 => ErrorKind::ServiceBusy,
            _ if error.code() == 400 => ErrorKind::InvalidArgument,
            _ => ErrorKind::General,
        };
        Self { code: Some(code), ..Self::new(kind, error.to_string()) }
    }
}

impl From<ManageError> for Fault {
    fn from(error: ManageError) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}

impl From<InvalidArgument> for Fault {
    fn from(error: InvalidArgument) -> Self {
        Self::new(ErrorKind::InvalidArgument, error.to_string())
    }
}

macro_rules! into_operation_error {
    ($($error:ident),*) => {$(
        impl From<Fault> for $error {
            #[cold]
            fn from(fault: Fault) -> Self {
                let mut error = Self::new(fault.kind).with_detail(fault.detail);
                if let Some(retryable) = fault.retryable {
                    error = error.with_retryable(retryable);
                }
                match fault.code {
                    Some(ErrorCode(code)) => error.with_condition(format!("nats:{code}")),
                    None => error,
                }
            }
        }
    )*};
}

into_operation_error!(SendError, ReceiveError, SettleError, ManageError);

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16, of_jetstream: u64, description: &str) -> Fault {
        let error = serde_json::json!({ "code": code, "err_code": of_jetstream, "description": description });
        serde_json::from_value::<jetstream::Error>(error).unwrap().into()
    }

    #[test]
    fn a_message_that_could_not_be_removed_is_not_one_that_is_gone() {
        for (code, of_jetstream, description, is_gone) in [
            (500, 10057, "no message found", true),
            (500, 10057, "stream store EOF", true),
            (400, 10043, "sequence 7 not found", true),
            (404, 10037, "no message found", true),
            (404, 10059, "stream not found", true),
            (500, 10057, "no space left on device", false),
            (503, 10008, "JetStream system temporarily unavailable", false),
        ] {
            assert_eq!(refusal(code, of_jetstream, description).has_no_message(), is_gone, "{description}");
        }
    }

    #[test]
    fn a_cluster_without_servers_for_a_consumer_may_have_them_later() {
        for (code, of_jetstream, kind) in [
            (400, 10005, ErrorKind::ServiceBusy),
            (503, 10023, ErrorKind::ServiceBusy),
            (400, 10026, ErrorKind::QuotaExceeded),
        ] {
            assert_eq!(refusal(code, of_jetstream, "").of_new_consumer().kind, kind, "{of_jetstream}");
        }
        assert_eq!(refusal(503, 10023, "").kind, ErrorKind::QuotaExceeded);
    }

    #[test]
    fn a_stream_with_the_subjects_of_an_entity_is_not_the_entity() {
        for (of_jetstream, kind) in [(10065, ErrorKind::InvalidOperation), (10058, ErrorKind::AlreadyExists)] {
            let fault = refusal(400, of_jetstream, "refused");
            assert_eq!(fault.kind, ErrorKind::AlreadyExists, "another process may have created it");
            let fault = fault.of_other_stream();
            assert_eq!((fault.kind, fault.code), (kind, Some(ErrorCode(of_jetstream))));
        }
    }

    #[test]
    fn an_account_without_jetstream_does_not_get_it_by_waiting() {
        for of_jetstream in [10039, 10076] {
            assert_eq!(refusal(503, of_jetstream, "not enabled").kind, ErrorKind::NotSupported, "{of_jetstream}");
        }
        assert_eq!(refusal(503, 10008, "temporarily unavailable").kind, ErrorKind::ServiceBusy);
    }

    /// In a cluster the leader has a code of its own for a message that is not stored yet.
    #[test]
    fn both_codes_of_a_wrong_last_sequence_are_known() {
        for (code, is_wrong) in [(10071, true), (10164, true), (10070, false)] {
            let fault = Fault { code: Some(ErrorCode(code)), ..Fault::new(ErrorKind::General, "") };
            assert_eq!(fault.is_wrong_last_sequence(), is_wrong, "{code}");
        }
    }
}
